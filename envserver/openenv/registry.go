package openenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

var (
	errFull     = errors.New("every session slot is taken")
	errDraining = errors.New("the server is draining")
)

// maxWaiting bounds the clients that wait for a slot at a time. Each of them holds a connection.
const maxWaiting = 4096

// registry holds the sessions that have a slot, by their ids, whichever transport made them:
// sockets, POST /mcp and MCP clients share the slots.
type registry struct {
	capacity int
	// wait is how long a session may wait for a slot.
	wait time.Duration
	// perClient is how many sessions one client may have, 0 for any number.
	perClient int
	slots     *semaphore.Weighted
	waiting   *semaphore.Weighted
	// open ends when the registry drains, and with it the waiting for slots.
	open     context.Context
	closeOff context.CancelFunc

	mu       sync.Mutex
	byID     map[string]*session
	byClient map[string]int
	draining bool
	// atDrain is how many sessions there were when the registry began to drain, and drainedAt when
	// that was.
	atDrain   int
	drainedAt time.Time
	// empty is closed once the registry drains and the last session has gone.
	empty chan struct{}
}

func newRegistry(capacity int, wait time.Duration, perClient int) *registry {
	r := &registry{
		capacity: capacity, wait: wait, perClient: perClient,
		slots: semaphore.NewWeighted(int64(capacity)), waiting: semaphore.NewWeighted(maxWaiting),
		byID: map[string]*session{}, byClient: map[string]int{}, empty: make(chan struct{}),
	}
	r.open, r.closeOff = context.WithCancel(context.Background())
	return r
}

// newID makes an id that nobody can guess. Ids are opaque to clients; the prefix says to peers
// where the session lives.
func newID(prefix string) string { return prefix + rand.Text() }

// clientFullError refuses a client that has as many sessions as one client may have.
type clientFullError int

func (e clientFullError) Error() string {
	return fmt.Sprintf("this client has %d sessions, the most that one client may have here", int(e))
}

// admit gives the session a slot, in the order of asking, or says why there is none.
func (r *registry) admit(ctx context.Context, s *session) error {
	if err := r.takeSlot(ctx); err != nil {
		return err
	}
	if err := r.add(s); err != nil {
		r.slots.Release(1)
		return err
	}
	return nil
}

// takeSlot waits for a slot, as long as a session may.
func (r *registry) takeSlot(ctx context.Context) error {
	if seatOf(ctx).claim() || r.slots.TryAcquire(1) {
		return nil
	}
	if r.wait <= 0 || !r.waiting.TryAcquire(1) {
		return r.refusal()
	}
	defer r.waiting.Release(1)
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	defer context.AfterFunc(r.open, cancel)()
	if r.slots.Acquire(ctx, 1) != nil {
		return r.refusal()
	}
	return nil
}

func (r *registry) refusal() error {
	if r.isDraining() {
		return errDraining
	}
	return errFull
}

func (r *registry) add(s *session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return errDraining
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
	r.slots.Release(1)
	if r.draining && len(r.byID) == 0 {
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

// drain refuses sessions from now on. The channel is closed when the last one has gone.
func (r *registry) drain() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining && len(r.byID) == 0 {
		close(r.empty)
	}
	if !r.draining {
		r.draining, r.atDrain, r.drainedAt = true, len(r.byID), time.Now()
	}
	r.closeOff()
	return r.empty
}

// drainBegan says when the drain began, the zero time if it hasn't, and how many sessions there
// were.
func (r *registry) drainBegan() (at time.Time, sessions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drainedAt, r.atDrain
}

func (r *registry) active() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

func (r *registry) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// all lists the sessions of this moment.
func (r *registry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.byID))
}
