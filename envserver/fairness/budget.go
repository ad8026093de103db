package fairness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Budget is a number of parts that clients take and return, each of them at most its share.
type Budget struct {
	whole    *semaphore.Weighted
	share    int64 // of one client
	size     int   // of a part that Read takes, in bytes
	patience time.Duration

	mu      sync.Mutex
	clients map[string]*client
}

// client is a client that holds parts or waits for one.
type client struct {
	parts *semaphore.Weighted
	users int
	// reading are its unfinished reads.
	reading map[*read]struct{}
}

// NewBudget makes a budget of parts. One client gets at most its share of them, which is the only
// bound of Take.
func NewBudget(parts, share int64) *Budget {
	return &Budget{whole: semaphore.NewWeighted(parts), share: max(share, 1), size: math.MaxInt,
		clients: map[string]*client{}}
}

// NewMemory makes a budget of memory in parts of a size in bytes. One client gets at most
// half. While another read waits, one that has taken longer than the patience may be interrupted.
func NewMemory(parts int64, size int, patience time.Duration) *Budget {
	b := NewBudget(parts, parts/2)
	b.size, b.patience = size, patience
	return b
}

// Take waits for a part. A client that holds its share doesn't delay the others. The error is the
// context's.
//
// It lets others have the processor: a part that is returned wakes the next waiter on the same
// processor, so that a client with many waiters would keep it from part to part.
func (b *Budget) Take(ctx context.Context, name string) (release func(), err error) {
	c := b.enter(name)
	if err := b.acquire(ctx, c); err != nil {
		b.leave(name, c)
		return nil, err
	}
	runtime.Gosched()
	return b.releaseOf(name, c), nil
}

// TryTake takes a part if one is free within the client's share.
func (b *Budget) TryTake(name string) (release func(), ok bool) {
	c := b.enter(name)
	if !b.tryAcquire(c) {
		b.leave(name, c)
		return nil, false
	}
	return b.releaseOf(name, c), true
}

// releaseOf returns the function that returns a part, once.
func (b *Budget) releaseOf(name string, c *client) func() {
	return sync.OnceFunc(func() {
		b.giveBack(c, 1)
		b.leave(name, c)
	})
}

func (b *Budget) tryAcquire(c *client) bool {
	if !c.parts.TryAcquire(1) {
		return false
	}
	if !b.whole.TryAcquire(1) {
		c.parts.Release(1)
		return false
	}
	return true
}

func (b *Budget) acquire(ctx context.Context, c *client) error {
	if err := c.parts.Acquire(ctx, 1); err != nil {
		return err
	}
	if err := b.whole.Acquire(ctx, 1); err != nil {
		c.parts.Release(1)
		return err
	}
	return nil
}

func (b *Budget) giveBack(c *client, parts int64) {
	b.whole.Release(parts)
	c.parts.Release(parts)
}

var (
	// ErrInterrupted is the error of a read that was slow while others waited.
	ErrInterrupted = errors.New("it arrived too slowly while others waited")
	// ErrNoPart is the error of a read for which no part was free within its wait or context.
	ErrNoPart = errors.New("no memory is free")
)

// read is something that is being read, and may be interrupted meanwhile.
type read struct {
	began     time.Time // later by the time of its waiting
	waits     time.Time // since when it waits for a part, zero if it doesn't
	parts     int64
	interrupt func()
}

// Read reads up to a number of bytes into a buffer, and takes the parts that they occupy as they
// arrive, so that a slow sender occupies no more than it has sent. It waits for a part as long as
// wait, while which it interrupts slow reads. Interrupt must let r fail.
//
// The caller releases the parts when the buffer is no longer used, also after an error, which is
// ErrInterrupted, ErrNoPart or r's.
func (b *Budget) Read(ctx context.Context, name string, into *bytes.Buffer, r io.Reader, limit int,
	wait time.Duration, interrupt func()) (release func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := b.enter(name)
	this := &read{began: time.Now(), interrupt: func() { cancel(); interrupt() }}
	b.change(func() { c.reading[this] = struct{}{} })
	for n := int64(b.size); limit > 0 && n == int64(b.size) && err == nil; limit -= int(n) {
		if err = b.grow(ctx, c, this, wait); err != nil {
			break
		}
		b.change(func() { this.parts++ })
		n, err = into.ReadFrom(io.LimitReader(r, int64(min(limit, b.size))))
	}
	b.change(func() {
		if _, still := c.reading[this]; !still {
			err = ErrInterrupted
		}
		delete(c.reading, this)
	})
	return sync.OnceFunc(func() {
		b.giveBack(c, this.parts)
		b.leave(name, c)
	}), err
}

func (b *Budget) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// grow waits for another part of a read.
func (b *Budget) grow(ctx context.Context, c *client, r *read, wait time.Duration) error {
	if b.tryAcquire(c) {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	b.change(func() { r.waits = time.Now() })
	defer b.change(func() { r.waits, r.began = time.Time{}, r.began.Add(time.Since(r.waits)) })
	go b.interruptOthers(waiting, c, r)
	if err := b.acquire(waiting, c); err != nil {
		return fmt.Errorf("%w: %w", ErrNoPart, err)
	}
	return nil
}

// interruptOthers interrupts one read after the other while one waits.
func (b *Budget) interruptOthers(waiting context.Context, c *client, r *read) {
	for waiting.Err() == nil {
		if victim := b.takeVictim(c, r); victim != nil {
			victim.interrupt()
		}
		select {
		case <-time.After(b.patience / 4):
		case <-waiting.Done():
		}
	}
}

// takeVictim chooses a read to interrupt for the one that waits, nil for none: of the client whose
// reads have most parts, and of its own client if that has its share.
func (b *Budget) takeVictim(waiting *client, r *read) *read {
	own := !waiting.parts.TryAcquire(1)
	if !own {
		waiting.parts.Release(1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var victim *read
	var of *client
	for _, c := range b.clients {
		if own && c != waiting || of != nil && c.held() <= of.held() {
			continue
		}
		if found := c.victim(r, b.patience, own || c.held() > waiting.held()); found != nil {
			victim, of = found, c
		}
	}
	if victim != nil {
		delete(of.reading, victim)
	}
	return victim
}

// held is the number of parts of the client's reads.
func (c *client) held() (parts int64) {
	for r := range c.reading {
		parts += r.parts
	}
	return parts
}

// victim chooses among the client's other reads: the one that has taken longest, if it has taken as
// long as the patience. If all have waited as long for parts, and greedy says that they may be
// interrupted, so that not all wait for each other, it is the one that began last.
func (c *client) victim(except *read, patience time.Duration, greedy bool) (victim *read) {
	var last *read
	for r := range c.reading {
		switch {
		case r == except:
		case r.waits.IsZero():
			greedy = false
			if time.Since(r.began) >= patience && (victim == nil || r.began.Before(victim.began)) {
				victim = r
			}
		case r.parts > 0 && time.Since(r.waits) >= patience && (last == nil || r.began.After(last.began)):
			last = r
		}
	}
	if victim == nil && greedy {
		return last
	}
	return victim
}

func (b *Budget) enter(name string) *client {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.clients[name]
	if c == nil {
		c = &client{parts: semaphore.NewWeighted(b.share), reading: map[*read]struct{}{}}
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
