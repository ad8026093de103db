// Package slots counts the session slots of a server, those that wait for one, and reservations.
package slots

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// The reasons for which a session gets no slot.
var (
	ErrFull     = errors.New("every session slot is taken")
	ErrDraining = errors.New("the server is draining")
)

// maxWaiting bounds the clients that wait for a slot at a time. Each of them holds a connection.
const maxWaiting = 4096

// Slots are the session slots of a server. They are safe for concurrent use.
type Slots struct {
	Capacity int
	// wait is how long a session may wait for a slot.
	wait    time.Duration
	slots   *semaphore.Weighted
	waiting *semaphore.Weighted
	// open ends when the server drains.
	open  context.Context
	drain context.CancelFunc
}

// New makes free slots. A session waits for one as long as given.
func New(capacity int, wait time.Duration) *Slots {
	s := &Slots{Capacity: capacity, wait: wait, slots: semaphore.NewWeighted(int64(capacity)),
		waiting: semaphore.NewWeighted(maxWaiting)}
	s.open, s.drain = context.WithCancel(context.Background())
	return s
}

// Take takes the slot that was reserved in the context, or a free one, in the order of the calls.
// The error is ErrFull or ErrDraining.
func (s *Slots) Take(ctx context.Context) error {
	if FromContext(ctx).claim() || s.slots.TryAcquire(1) {
		return nil
	}
	if s.wait <= 0 || !s.waiting.TryAcquire(1) {
		return s.Refusal()
	}
	defer s.waiting.Release(1)
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	defer context.AfterFunc(s.open, cancel)()
	if s.slots.Acquire(ctx, 1) != nil {
		return s.Refusal()
	}
	return nil
}

// Release frees a slot.
func (s *Slots) Release() { s.slots.Release(1) }

// Refusal is the reason for which there is no slot now.
func (s *Slots) Refusal() error {
	if s.Draining() {
		return ErrDraining
	}
	return ErrFull
}

// Drain ends the waiting for slots and lets none be reserved.
func (s *Slots) Drain() { s.drain() }

// Draining reports whether Drain was called.
func (s *Slots) Draining() bool { return s.open.Err() != nil }

// Reservation is a slot that was taken for a request before its session exists, so that no other
// request can take it in between. A nil Reservation holds no slot.
type Reservation struct {
	slots *semaphore.Weighted
	// gone is true once the slot belongs to a session or to another reservation.
	gone atomic.Bool
}

// Reserve takes a slot, or returns nil if there is none.
func (s *Slots) Reserve() *Reservation {
	if s.Draining() || !s.slots.TryAcquire(1) {
		return nil
	}
	return &Reservation{slots: s.slots}
}

type contextKey struct{}

// NewContext carries the reservation to where the session is opened.
func (r *Reservation) NewContext(ctx context.Context) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, r)
}

// FromContext returns the reservation of a request, nil if it has none.
func FromContext(ctx context.Context) *Reservation {
	r, _ := ctx.Value(contextKey{}).(*Reservation)
	return r
}

// claim takes the slot over. It reports false if there is none any more.
func (r *Reservation) claim() bool { return r != nil && r.gone.CompareAndSwap(false, true) }

// Move returns a new reservation with the slot of this one, nil if it has none any more.
func (r *Reservation) Move() *Reservation {
	if !r.claim() {
		return nil
	}
	return &Reservation{slots: r.slots}
}

// Release frees the slot unless it was claimed.
func (r *Reservation) Release() {
	if r.claim() {
		r.slots.Release(1)
	}
}
