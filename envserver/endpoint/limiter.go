package endpoint

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"time"
)

// ErrQueueFull means that the maximum number of requests is waiting.
var ErrQueueFull = errors.New("too many requests are waiting for the endpoint")

// limiter bounds the requests in flight to the endpoint, for all sessions of a process. As in TCP,
// the bound starts low and rises by one for each request that succeeds, up to a threshold, and from
// there by one for each bound's worth of requests, up to most. It is halved, and is the next
// threshold, when the endpoint reports too many requests or answers one too late. Repeated halvings
// without success in between leave the threshold, so that the end of an outage is noticed soon. The
// request with the earliest deadline goes first.
type limiter struct {
	most, maxQueue int

	mu               sync.Mutex
	limit, threshold float64
	inFlight         int
	queue            []*waiter // by deadline
	// cuts counts how often the bound was halved. A request that began before the last cut is no
	// reason for another one. Failing means that nothing has succeeded since.
	cuts    int
	failing bool
}

// startLimit is the number of requests that are sent before the first is answered.
const startLimit = 4

func newLimiter(most, maxQueue int) *limiter {
	return &limiter{most: most, maxQueue: maxQueue, limit: float64(min(most, startLimit)), threshold: float64(most)}
}

// ending is how a request ended, as far as it matters to the bound.
type ending uint8

const (
	unsent ending = iota // or ended in another way
	answered
	overloaded
)

// waiter is a request that waits for its turn.
type waiter struct {
	deadline time.Time
	// turn receives the number of cuts when the request begins.
	turn chan int
}

// acquire waits for a turn. It returns the number of cuts for release, and an error when the queue
// is full or the context ends.
func (l *limiter) acquire(ctx context.Context) (int, error) {
	l.mu.Lock()
	if len(l.queue) == 0 && l.hasCapacity() {
		l.inFlight++
		defer l.mu.Unlock()
		return l.cuts, nil
	}
	if len(l.queue) >= l.maxQueue {
		defer l.mu.Unlock()
		return 0, ErrQueueFull
	}
	w := &waiter{turn: make(chan int, 1)}
	w.deadline, _ = ctx.Deadline()
	at := sort.Search(len(l.queue), func(i int) bool { return isEarlier(w.deadline, l.queue[i].deadline) })
	l.queue = slices.Insert(l.queue, at, w)
	l.mu.Unlock()
	select {
	case cuts := <-w.turn:
		return cuts, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, w); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	} else { // its turn came at the same time
		l.inFlight--
		l.admitWaiting()
	}
	return 0, ctx.Err()
}

// isEarlier reports whether deadline a is the earlier one. The zero time means no deadline.
func isEarlier(a, b time.Time) bool { return !a.IsZero() && (b.IsZero() || a.Before(b)) }

func (l *limiter) hasCapacity() bool { return l.inFlight < l.bound() }

// admitWaiting begins waiting requests while the bound allows it.
func (l *limiter) admitWaiting() {
	for len(l.queue) > 0 && l.hasCapacity() {
		l.inFlight++
		l.queue[0].turn <- l.cuts
		l.queue = slices.Delete(l.queue, 0, 1)
	}
}

// release ends a request. The number of cuts is what acquire returned.
func (l *limiter) release(cuts int, how ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	switch {
	case how == overloaded && cuts == l.cuts:
		l.limit = max(l.limit/2, 1)
		if !l.failing {
			l.threshold = l.limit
		}
		l.cuts++
		l.failing = true
	case how == answered && l.limit < l.threshold:
		l.failing = false
		l.limit = min(l.limit+1, float64(l.most))
	case how == answered:
		l.failing = false
		l.limit = min(l.limit+1/l.limit, float64(l.most))
	}
	l.admitWaiting()
}

// bound is the number of requests that may be in flight.
func (l *limiter) bound() int { return max(int(l.limit), 1) }

// load returns the requests in flight, those that wait, and the bound.
func (l *limiter) load() (inFlight, waiting, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight, len(l.queue), l.bound()
}
