// Package slots counts a server's session slots, waiting sessions and reservations.
package slots

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// The reasons why a session gets no slot.
var (
	ErrFull     = errors.New("every session slot is taken")
	ErrDraining = errors.New("the server is draining")
)

// maxWaiting bounds the clients that wait for a slot. Each of them holds a connection.
const maxWaiting = 4096

// Slots are the session slots of a server. They are safe for concurrent use.
type Slots struct {
	Capacity int
	wait     time.Duration // how long a session may wait
	slots    *semaphore.Weighted
	waiting  *semaphore.Weighted
	// open ends when the server drains.
	open  context.Context
	drain context.CancelFunc
	// blocked is why no session may begin for now, nil if sessions may.
	blocked atomic.Pointer[error]
}

// New makes free slots. A session waits up to the given time for one.
func New(capacity int, wait time.Duration) *Slots {
	s := &Slots{Capacity: capacity, wait: wait, slots: semaphore.NewWeighted(int64(capacity)),
		waiting: semaphore.NewWeighted(maxWaiting)}
	s.open, s.drain = context.WithCancel(context.Background())
	return s
}

// Take takes the slot that the context reserves, or a free one, in the order of the calls. If none
// is free it calls makeRoom before it waits, which reports whether the slot of another session is
// handed over. The error is Refusal's.
func (s *Slots) Take(ctx context.Context, makeRoom func() bool) error {
	if err := s.Closed(); err != nil {
		return err
	}
	if FromContext(ctx).claim() || s.slots.TryAcquire(1) {
		return nil
	}
	if makeRoom() {
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

// Refusal is why no slot is to be had: the reason of Closed, or ErrFull.
func (s *Slots) Refusal() error { return cmp.Or(s.Closed(), ErrFull) }

// Block refuses new sessions with the error, until it is nil.
func (s *Slots) Block(err error) {
	if err == nil {
		s.blocked.Store(nil)
	} else {
		s.blocked.Store(&err)
	}
}

// Closed returns why no session may begin, however many slots are free: ErrDraining or the error of
// Block. It is nil if sessions may begin.
func (s *Slots) Closed() error {
	if s.Draining() {
		return ErrDraining
	}
	if err := s.blocked.Load(); err != nil {
		return *err
	}
	return nil
}

// Drain refuses waiting sessions and reservations.
func (s *Slots) Drain() { s.drain() }

// Draining reports whether Drain was called.
func (s *Slots) Draining() bool { return s.open.Err() != nil }

// Reservation is a slot that was taken for a request before its session exists. A nil Reservation
// holds no slot.
type Reservation struct {
	slots   *semaphore.Weighted
	claimed atomic.Bool // by a session or another reservation
}

// Reserve takes a slot. It returns nil if no slot is free.
func (s *Slots) Reserve() *Reservation {
	if s.Closed() != nil || !s.slots.TryAcquire(1) {
		return nil
	}
	return &Reservation{slots: s.slots}
}

type contextKey struct{}

// NewContext returns a context with the reservation.
func (r *Reservation) NewContext(ctx context.Context) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, r)
}

// FromContext returns the reservation of a context, nil for none.
func FromContext(ctx context.Context) *Reservation {
	r, _ := ctx.Value(contextKey{}).(*Reservation)
	return r
}

// claim takes the slot over. It reports false if it was claimed before.
func (r *Reservation) claim() bool { return r != nil && r.claimed.CompareAndSwap(false, true) }

// Move returns a new reservation of the slot, nil if it was claimed before.
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
