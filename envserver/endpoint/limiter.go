package endpoint

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"
)

// ErrQueueFull means that as many requests wait already as may.
var ErrQueueFull = errors.New("too many requests wait for the endpoint already")

// limiter bounds the requests in flight to the endpoint, for all sessions of a process. The bound
// rises by one for each round of requests that went well, up to most, and is halved when the
// endpoint says that there are too many. Who has the least time left goes first.
type limiter struct {
	most, maxQueue int

	mu       sync.Mutex
	limit    float64
	inFlight int
	queue    waiters
	// round is the number of the last cut. Requests that began before it tell nothing new.
	round int
}

func newLimiter(most, maxQueue int) *limiter {
	return &limiter{most: most, maxQueue: maxQueue, limit: float64(most)}
}

// waiter is a request that waits for its turn.
type waiter struct {
	deadline time.Time
	index    int
	// turn receives the round in which the request begins.
	turn chan int
}

// acquire waits for a turn. It returns the round for release, and an error when the queue is full
// or the context ends.
func (l *limiter) acquire(ctx context.Context) (int, error) {
	l.mu.Lock()
	if len(l.queue) == 0 && l.free() {
		l.inFlight++
		defer l.mu.Unlock()
		return l.round, nil
	}
	if len(l.queue) >= l.maxQueue {
		defer l.mu.Unlock()
		return 0, ErrQueueFull
	}
	w := &waiter{turn: make(chan int, 1)}
	w.deadline, _ = ctx.Deadline()
	heap.Push(&l.queue, w)
	l.mu.Unlock()
	select {
	case round := <-w.turn:
		return round, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.turn:
		l.inFlight--
		l.admit()
	default:
		heap.Remove(&l.queue, w.index)
	}
	return 0, ctx.Err()
}

func (l *limiter) free() bool { return l.inFlight < max(int(l.limit), 1) }

// admit lets waiters in while there is room.
func (l *limiter) admit() {
	for len(l.queue) > 0 && l.free() {
		l.inFlight++
		w, _ := heap.Pop(&l.queue).(*waiter)
		w.turn <- l.round
	}
}

// release ends a request that began in the round and ended with the class.
func (l *limiter) release(round int, c Class) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	switch {
	case c == Throttled && round == l.round:
		l.limit = max(l.limit/2, 1)
		l.round++
	case c == Completed || c == Unparsable:
		l.limit = min(l.limit+1/l.limit, float64(l.most))
	}
	l.admit()
}

// load are the requests in flight, those that wait, and the bound.
func (l *limiter) load() (inFlight, waiting, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight, len(l.queue), max(int(l.limit), 1)
}

// waiters is a heap by deadline; those without one come last.
type waiters []*waiter

func (q waiters) Len() int { return len(q) }

func (q waiters) Less(i, k int) bool {
	a, b := q[i].deadline, q[k].deadline
	return !a.IsZero() && (b.IsZero() || a.Before(b))
}

func (q waiters) Swap(i, k int) {
	q[i], q[k] = q[k], q[i]
	q[i].index, q[k].index = i, k
}

// Push implements heap.Interface.
func (q *waiters) Push(x any) {
	w, _ := x.(*waiter)
	w.index = len(*q)
	*q = append(*q, w)
}

// Pop implements heap.Interface.
func (q *waiters) Pop() any {
	old := *q
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return w
}
