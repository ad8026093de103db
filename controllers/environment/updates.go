package environment

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/controllers/environment/snapshot"
)

// updates bounds the pools whose servers are replaced at the same time because of another release
// of the operator. A nil one has no bound.
type updates struct {
	most    int
	mu      sync.Mutex
	updated map[types.NamespacedName]bool
}

func newUpdates(most int) *updates {
	return &updates{most: most, updated: map[types.NamespacedName]bool{}}
}

// claimPlace reports whether the pool's servers may be replaced because of another release of the
// operator. A pool keeps its place until its servers are replaced, or are found not to start.
func (u *updates) claimPlace(s snapshot.Snapshot) bool {
	deployment, pool := s.Deployment(), client.ObjectKeyFromObject(s.Env)
	if u == nil || deployment == nil {
		return true
	}
	if s.HasNewestTemplate() && (snapshot.IsRolledOut(deployment) || snapshot.IsStuck(s)) {
		u.freePlace(pool)
	}
	if !s.NeedsRelease() {
		return true
	}
	if s.UpdatingErr != nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	busy := map[types.NamespacedName]bool{}
	maps.Copy(busy, s.Updating)
	maps.Copy(busy, u.updated) // the cache may not show them yet
	if !busy[pool] && len(busy) >= u.most {
		return false
	}
	u.updated[pool] = true
	return true
}

// freePlace frees the place of a pool.
func (u *updates) freePlace(pool types.NamespacedName) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.updated, pool)
}
