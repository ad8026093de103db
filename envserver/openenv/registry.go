package openenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/openenv/slots"
)

// registry holds the sessions that have a slot, of all transports.
type registry struct {
	slots *slots.Slots
	// perClient is how many sessions one client may have, 0 for any number.
	perClient int

	mu       sync.Mutex
	byID     map[string]*session
	byClient map[string]int
	// drained is when the drain began, zero before, and atDrain the number of sessions then.
	drained time.Time
	atDrain int
	// empty is closed once the last session of a draining registry has ended.
	empty chan struct{}
}

func newRegistry(slots *slots.Slots, perClient int) *registry {
	return &registry{slots: slots, perClient: perClient, byID: map[string]*session{}, byClient: map[string]int{},
		empty: make(chan struct{})}
}

// newID makes an id that can't be guessed. The prefix names the session's server.
func newID(prefix string) string { return prefix + rand.Text() }

// clientFullError is the error of a client that has its maximum number of sessions.
type clientFullError int

func (e clientFullError) Error() string {
	return fmt.Sprintf("this client has %d sessions, the maximum of one client", int(e))
}

// admit gives the session a slot, in the order of the calls. The error is slots.ErrFull,
// slots.ErrDraining or a clientFullError.
func (r *registry) admit(ctx context.Context, s *session) error {
	if err := r.slots.Take(ctx); err != nil {
		return err
	}
	if err := r.add(s); err != nil {
		r.slots.Release()
		return err
	}
	return nil
}

func (r *registry) add(s *session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots.Draining() {
		return slots.ErrDraining
	}
	if r.perClient > 0 {
		if r.byClient[s.client] >= r.perClient {
			return clientFullError(r.perClient)
		}
		r.byClient[s.client]++
	}
	r.byID[s.id] = s
	return nil
}

// release frees the session's slot. It reports false if it was freed before, so that each session
// ends once.
func (r *registry) release(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[s.id] != s {
		return false
	}
	delete(r.byID, s.id)
	if r.perClient > 0 {
		if r.byClient[s.client]--; r.byClient[s.client] == 0 {
			delete(r.byClient, s.client)
		}
	}
	r.slots.Release()
	if r.slots.Draining() && len(r.byID) == 0 {
		close(r.empty)
	}
	return true
}

// find returns the session of the id, nil for none.
func (r *registry) find(id string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// drain refuses new sessions. The channel is closed when the last session has ended.
func (r *registry) drain() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.slots.Draining() {
		r.drained, r.atDrain = time.Now(), len(r.byID)
		if len(r.byID) == 0 {
			close(r.empty)
		}
		r.slots.Drain()
	}
	return r.empty
}

// drainBegan returns when the drain began, zero before, and the number of sessions then.
func (r *registry) drainBegan() (at time.Time, sessions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drained, r.atDrain
}

func (r *registry) active() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

// free is the number of slots without a session.
func (r *registry) free() int { return r.slots.Capacity - r.active() }

// all returns the current sessions.
func (r *registry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.byID))
}
