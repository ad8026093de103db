package environment

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/rules"
)

// memory is the state of a pool between passes. It is lost when the operator restarts. Passes of a
// pool don't overlap, so only deleted needs a lock.
type memory struct {
	uid     types.UID
	decided rules.Memory  // what the next decision needs
	written time.Time     // when the status was last written
	scaled  string        // the last announced change of the number of servers
	deleted []*corev1.Pod // since the last pass
	// accepted identifies objects that admission changed when they were last applied
	// (children.IdentifyState).
	accepted map[children.ID]string
	// token is when the Secret of the token for metrics was last found as intended, and tokenKey
	// the public key of that time.
	token    time.Time
	tokenKey string
	// keyChecked is when the Secret of the ledger key was last looked at.
	keyChecked time.Time
	pair       *keyPair // a ledger key that may or may not be in the status
}

// maxDeleted bounds the deleted pods that are kept for the next pass.
const maxDeleted = 2000

// memories holds the memories of all pools.
type memories struct {
	mu    sync.Mutex
	pools map[types.NamespacedName]*memory
}

// memoryOf returns a pool's memory, an empty one for a new pool of a known name.
func (m *memories) memoryOf(env *v1alpha1.CustomerSupportEnv) *memory {
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

func (m *memories) forgetPool(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pools, key)
}

// recordDeleted keeps a deleted pod until its pool's next pass.
func (m *memories) recordDeleted(key types.NamespacedName, pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.pools[key]; known != nil && len(known.deleted) < maxDeleted {
		known.deleted = append(known.deleted, pod)
	}
}

// takeDeleted returns the pods that were deleted since the last pass.
func (m *memories) takeDeleted(key types.NamespacedName) []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.pools[key]
	if known == nil {
		return nil
	}
	deleted := known.deleted
	known.deleted = nil
	return deleted
}
