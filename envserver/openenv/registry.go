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

// registry holds the sessions that have a slot, by their ids, whichever transport made them:
// sockets, POST /mcp and MCP clients share the slots.
type registry struct {
	slots *slots.Slots
	// perClient is how many sessions one client may have, 0 for any number.
	perClient int

	mu       sync.Mutex
	byID     map[string]*session
	byClient map[string]int
	// drained is when the registry began to drain, zero if it hasn't, and atDrain how many sessions
	// there were.
	drained time.Time
	atDrain int
	// empty is closed once the registry drains and the last session has ended.
	empty chan struct{}
}

func newRegistry(slots *slots.Slots, perClient int) *registry {
	return &registry{slots: slots, perClient: perClient, byID: map[string]*session{}, byClient: map[string]int{},
		empty: make(chan struct{})}
}

// newID makes an id that can't be guessed. The prefix names the session's server to its peers.
func newID(prefix string) string { return prefix + rand.Text() }

// clientFullError refuses a client that has as many sessions as one client may have.
type clientFullError int

func (e clientFullError) Error() string {
	return fmt.Sprintf("this client has %d sessions, the most that one client may have here", int(e))
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

// release takes the session's slot back. It reports false when the session had none any more, so
// that each session ends once.
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

// drain refuses sessions from now on. The channel is closed when the last one has ended.
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

// drainBegan returns when the drain began, the zero time if it hasn't, and how many sessions there
// were.
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

// all lists the sessions of this moment.
func (r *registry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.byID))
}
