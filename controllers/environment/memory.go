package environment

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
)

// memory is what is remembered of a pool from one pass to the next, and forgotten when the operator
// restarts: what that costs is a delay that starts again, and what the metrics count meanwhile. The
// passes of one pool come one after the other, so all but the pods that ended needs no lock.
type memory struct {
	uid     types.UID
	history history
	// counted is when the status was last written: counts alone wait.
	counted time.Time
	// scaled is the version of the Deployment over which the number of servers was last changed,
	// and the number.
	scaled string
	// held is since when a scale-down waits for a server that is full to be ready again, the zero
	// time while none does.
	held time.Time
	// looked says that the servers were looked at before, and servers holds what was seen.
	looked  bool
	servers map[types.UID]serverMemory
	// ended are pods that went since the last pass.
	ended []*corev1.Pod
}

// serverMemory is what is remembered of a server.
type serverMemory struct {
	wasReady  bool
	missed    bool      // it was gone at the last look
	idleSince time.Time // the zero time while it isn't known to be idle
	active    int64     // open sessions when it last answered
	unjudged  int64     // replies that it could not judge when it last answered
}

// mostEnded bounds the pods that wait to be counted: no pool has more.
const mostEnded = 2000

// memories are those of all pools.
type memories struct {
	mu    sync.Mutex
	pools map[types.NamespacedName]*memory
}

// of returns a pool's memory. Nothing is remembered of an earlier pool of the name.
func (m *memories) of(env *v1alpha1.CustomerSupportEnv) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: env.Namespace, Name: env.Name}
	if known := m.pools[key]; known != nil && known.uid == env.UID {
		return known
	}
	if m.pools == nil {
		m.pools = map[types.NamespacedName]*memory{}
	}
	m.pools[key] = &memory{uid: env.UID}
	return m.pools[key]
}

func (m *memories) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pools, key)
}

// recordDeleted keeps a pod that is gone until its pool's next pass. Pools that nobody has looked at have
// nothing to compare it with.
func (m *memories) recordDeleted(key types.NamespacedName, pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.pools[key]; known != nil && len(known.ended) < mostEnded {
		known.ended = append(known.ended, pod)
	}
}

// takeEnded returns the pods that went since the last pass.
func (m *memories) takeEnded(key types.NamespacedName) []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.pools[key]
	if known == nil {
		return nil
	}
	ended := known.ended
	known.ended = nil
	return ended
}
