// Package memory bounds what the requests of all clients occupy together: messages and bodies wait
// for a part of a budget before they are read, and one client gets at most half of it.
package memory

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// Small is the size, in bytes, up to which a message or a body isn't budgeted. Nearly every
	// action fits.
	Small = 16 << 10
	// Medium is the size, in bytes, up to which a message or a body takes a part of the medium
	// budget. Larger messages take a part of the large budget in addition.
	Medium = 1 << 20
	// mediumParts and largeParts are the numbers of such messages at a time. One that is decoded
	// occupies up to four times its size, and a processor for milliseconds.
	mediumParts = 8
	largeParts  = 2
)

// Budget is a number of parts that clients take and return.
type Budget struct {
	whole *semaphore.Weighted
	share int64 // of one client

	mu      sync.Mutex
	clients map[string]*client
}

// client is a client that holds parts or waits for one.
type client struct {
	parts *semaphore.Weighted
	users int
}

// NewMedium makes the budget of messages and bodies above Small.
func NewMedium() *Budget { return newBudget(mediumParts) }

// NewLarge makes the budget of messages above Medium.
func NewLarge() *Budget { return newBudget(largeParts) }

func newBudget(parts int64) *Budget {
	return &Budget{whole: semaphore.NewWeighted(parts), share: parts / 2, clients: map[string]*client{}}
}

// Take waits for a part. A client that holds its share doesn't delay the others. The error is the
// context's.
func (b *Budget) Take(ctx context.Context, name string) (release func(), err error) {
	c := b.enter(name)
	if err := c.parts.Acquire(ctx, 1); err != nil {
		b.leave(name, c)
		return nil, err
	}
	if err := b.whole.Acquire(ctx, 1); err != nil {
		c.parts.Release(1)
		b.leave(name, c)
		return nil, err
	}
	return sync.OnceFunc(func() {
		b.whole.Release(1)
		c.parts.Release(1)
		b.leave(name, c)
	}), nil
}

func (b *Budget) enter(name string) *client {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.clients[name]
	if c == nil {
		c = &client{parts: semaphore.NewWeighted(b.share)}
		b.clients[name] = c
	}
	c.users++
	return c
}

func (b *Budget) leave(name string, c *client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.users--; c.users == 0 {
		delete(b.clients, name)
	}
}

// Users returns the number of clients that hold parts or wait for one.
func (b *Budget) Users() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.clients)
}
