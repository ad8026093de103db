// Package polling sends requests to servers in the background, so that no worker of a reconciler
// waits for servers that don't answer.
package polling

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Poller runs polls in the background, each with an answer of type T, and then requests another
// pass over the object that asked. Polls of one namespace's pools use at most a quarter of the
// slots. A free slot goes to the namespace with the fewest polls, then to its pool with the fewest,
// then to the longest waiting poll. Without a Source, and if it is nil, a poller runs each poll
// synchronously.
type Poller[T any] struct {
	most, mostOfNamespace int

	mu      sync.Mutex
	ctx     context.Context // of the Source; polls outlive the pass that began them
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	asked   map[types.NamespacedName]*answer[T]
	waiting []task
	running int
	ofSpace map[string]int
	ofPool  map[types.NamespacedName]int
}

// Question identifies the object for which servers are polled, and their pool.
type Question struct {
	Object types.NamespacedName
	// Version is the object's version. An answer for another version is dropped.
	Version string
	Pool    types.NamespacedName
}

type answer[T any] struct {
	version string
	known   bool
	value   T
}

type task struct {
	pool types.NamespacedName
	run  func(context.Context)
}

// New returns a poller that runs at most that many polls at a time.
func New[T any](most int) *Poller[T] {
	return &Poller[T]{most: most, mostOfNamespace: max(1, most/4), asked: map[types.NamespacedName]*answer[T]{},
		ofSpace: map[string]int{}, ofPool: map[types.NamespacedName]int{}}
}

// Source requests passes after polls have ended. From its start on, polls run in the background.
func (p *Poller[T]) Source() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ctx, p.queue = ctx, queue
		return nil
	})
}

// Ask returns the answer to a question, once. If there is no answer, it begins the poll, and the
// object is reconciled again after the poll.
func (p *Poller[T]) Ask(ctx context.Context, q Question, poll func(context.Context) T) (value T, known bool) {
	if p.atOnce() {
		return poll(ctx), true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.asked[q.Object]; a != nil {
		if !a.known {
			return value, false
		}
		delete(p.asked, q.Object)
		if a.version == q.Version {
			return a.value, true
		}
	}
	a := &answer[T]{version: q.Version}
	p.asked[q.Object] = a
	p.enqueue(task{q.Pool, func(ctx context.Context) {
		got := poll(ctx)
		p.mu.Lock()
		a.value, a.known = got, true
		p.mu.Unlock()
		p.queue.Add(reconcile.Request{NamespacedName: q.Object})
	}})
	return value, false
}

// Do sends requests to a pool's servers in the background, without an answer.
func (p *Poller[T]) Do(ctx context.Context, pool types.NamespacedName, requests func(context.Context)) {
	if p.atOnce() {
		requests(ctx)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enqueue(task{pool, requests})
}

// Forget drops the answer for a deleted object.
func (p *Poller[T]) Forget(object types.NamespacedName) {
	if p.atOnce() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, object)
}

func (p *Poller[T]) atOnce() bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue == nil
}

func (p *Poller[T]) enqueue(t task) {
	p.waiting = append(p.waiting, t)
	p.dispatch()
}

// dispatch starts waiting tasks while there are free slots.
func (p *Poller[T]) dispatch() {
	for p.running < p.most {
		next := p.next()
		if next < 0 {
			return
		}
		t := p.waiting[next]
		p.waiting = slices.Delete(p.waiting, next, next+1)
		p.count(t, 1)
		go func() {
			t.run(p.ctx)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.count(t, -1)
			p.dispatch()
		}()
	}
}

// next returns the index of the task that gets a free slot, or -1.
func (p *Poller[T]) next() int {
	best := -1
	for i, t := range p.waiting {
		space, pool := p.ofSpace[t.pool.Namespace], p.ofPool[t.pool]
		if space >= p.mostOfNamespace {
			continue
		}
		if best >= 0 {
			than := p.waiting[best].pool
			if s := p.ofSpace[than.Namespace]; space > s || space == s && pool >= p.ofPool[than] {
				continue
			}
		}
		if best = i; space == 0 {
			break
		}
	}
	return best
}

func (p *Poller[T]) count(t task, by int) {
	p.running += by
	if p.ofSpace[t.pool.Namespace] += by; p.ofSpace[t.pool.Namespace] == 0 {
		delete(p.ofSpace, t.pool.Namespace)
	}
	if p.ofPool[t.pool] += by; p.ofPool[t.pool] == 0 {
		delete(p.ofPool, t.pool)
	}
}
