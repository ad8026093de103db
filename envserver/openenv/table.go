package openenv

import (
	"errors"
	"maps"
	"slices"
	"sync"
)

var (
	errFull     = errors.New("every session slot is taken")
	errDraining = errors.New("the server is draining")
)

// table holds the sessions that have a slot.
type table struct {
	capacity int

	mu       sync.Mutex
	live     map[*session]struct{}
	draining bool
	// empty is closed once the table drains and the last session has gone.
	empty chan struct{}
}

func newTable(capacity int) *table {
	return &table{capacity: capacity, live: map[*session]struct{}{}, empty: make(chan struct{})}
}

// admit gives the session a slot, or says why there is none.
func (t *table) admit(s *session) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.draining:
		return errDraining
	case len(t.live) >= t.capacity:
		return errFull
	}
	t.live[s] = struct{}{}
	return nil
}

// release takes the session's slot back. It reports false when the session had none any more, so that each session ends once.
func (t *table) release(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.live[s]; !ok {
		return false
	}
	delete(t.live, s)
	if t.draining && len(t.live) == 0 {
		close(t.empty)
	}
	return true
}

// drain refuses sessions from now on. The channel is closed when the last one has gone.
func (t *table) drain() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.draining && len(t.live) == 0 {
		close(t.empty)
	}
	t.draining = true
	return t.empty
}

func (t *table) active() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.live)
}

func (t *table) isDraining() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.draining
}

// all lists the sessions of this moment.
func (t *table) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.live))
}
