package offline

import "sync"

// maxMemo is how many entries a generation of a memo holds.
const maxMemo = 2048

// memo keeps what was computed of keys, for as long as they stay in use: an entry is dropped when a
// whole generation of others came since it was last asked for. It is safe for concurrent use.
type memo[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V
}

func newMemo[K comparable, V any]() *memo[K, V] {
	return &memo[K, V]{young: map[K]V{}}
}

// get returns what the function makes of the key. Two callers may compute it at once; both get the
// same.
func (m *memo[K, V]) get(key K, compute func(K) V) V {
	if v, ok := m.find(key); ok {
		return v
	}
	v := compute(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, v)
	return v
}

func (m *memo[K, V]) find(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.young[key]; ok {
		return v, true
	}
	v, ok := m.old[key]
	if ok {
		m.put(key, v)
	}
	return v, ok
}

func (m *memo[K, V]) put(key K, v V) {
	if len(m.young) >= maxMemo {
		m.young, m.old = make(map[K]V, maxMemo), m.young
	}
	m.young[key] = v
}
