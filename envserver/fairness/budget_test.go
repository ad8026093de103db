package fairness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A client that takes as much as it can leaves half of the budget to others, who don't wait for it.
func TestBudgetIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(4, 2)
		take := func(name string) func() {
			t.Helper()
			release, err := b.Take(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return release
		}
		first, second := take("greedy"), take("greedy")
		waiting, cancel := context.WithCancel(t.Context())
		refused := make(chan error, 8)
		for range cap(refused) {
			go func() {
				_, err := b.Take(waiting, "greedy")
				refused <- err
			}()
		}
		synctest.Wait()
		third, fourth := take("other"), take("a third one")
		cancel()
		for range cap(refused) {
			if err := <-refused; !errors.Is(err, context.Canceled) {
				t.Errorf("above its share the client got %v", err)
			}
		}
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if _, err := b.Take(short, "late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("above the whole budget: %v", err)
		}
		for _, release := range []func(){first, second, third, fourth} {
			release()
			release() // counts once
		}
		if b.Users() != 0 || !b.whole.TryAcquire(4) {
			t.Errorf("not everything was returned: %d users", b.Users())
		}
	})
}

const testPatience = 100 * time.Millisecond

// sender sends a number of bytes, and then nothing until it is closed.
type sender struct {
	rest   int
	closed chan struct{}
}

func newSender(bytes int) *sender { return &sender{bytes, make(chan struct{})} }

func (s *sender) Read(to []byte) (int, error) {
	if s.rest == 0 {
		<-s.closed
		return 0, io.ErrClosedPipe
	}
	n := min(len(to), s.rest)
	s.rest -= n
	return n, nil
}

// stall lets a client begin reads that send some bytes and stall, and returns the number of those
// that were interrupted.
func stall(t *testing.T, b *Budget, client string, reads, sent int) (interrupted func() int) {
	ended := make(chan error, reads)
	for range reads {
		s := newSender(sent)
		go func() {
			release, err := b.Read(t.Context(), client, new(bytes.Buffer), s, sent+1, time.Hour,
				sync.OnceFunc(func() { close(s.closed) }))
			release()
			ended <- err
		}()
	}
	synctest.Wait()
	return func() int {
		synctest.Wait()
		n := len(ended)
		for range n {
			if err := <-ended; !errors.Is(err, ErrInterrupted) {
				t.Errorf("a stalled read: %v", err)
			}
		}
		return n
	}
}

// readAll reads a text that arrives at once, and returns how long it took.
func readAll(t *testing.T, b *Budget, client string, size int) time.Duration {
	t.Helper()
	began := time.Now()
	var into bytes.Buffer
	release, err := b.Read(t.Context(), client, &into, strings.NewReader(strings.Repeat("x", size)), size, time.Minute,
		func() { t.Error("a fast read was interrupted") })
	defer release()
	if err != nil || into.Len() != size {
		t.Errorf("%s read %d of %d bytes: %v", client, into.Len(), size, err)
	}
	return time.Since(began)
}

// A read that stalls occupies what it has received: any number of clients that send little don't
// delay others.
func TestSlowReadsOccupyWhatTheySent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewMemory(64, 1000, testPatience)
		interrupted := []func() int{stall(t, b, "one", 12, 500), stall(t, b, "two", 12, 500)}
		<-time.After(time.Minute)
		if took := readAll(t, b, "another", 16_000); took > 0 || interrupted[0]()+interrupted[1]() > 0 {
			t.Errorf("another client waited %v", took)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.clients {
			for r := range c.reading {
				r.interrupt()
			}
		}
	})
}

// A read that waits lets the slow ones end: those of the client that occupies most, and its own
// client's if that has its share.
func TestSlowReadsAreInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewMemory(64, 1000, testPatience)
		hostile := []func() int{stall(t, b, "one", 2, 15_500), stall(t, b, "two", 2, 15_500)}
		if took := readAll(t, b, "another", 1000); took > 2*testPatience {
			t.Errorf("another client waited %v", took)
		}
		if n := hostile[0]() + hostile[1](); n != 1 {
			t.Errorf("%d slow reads were interrupted, want 1", n)
		}
		refilled := stall(t, b, "one", 1, 15_500)
		<-time.After(testPatience)
		if took := readAll(t, b, "two", 30_000); took > 2*testPatience {
			t.Errorf("a client with its share waited %v for its own slow reads", took)
		}
		if n := hostile[1]() + hostile[0]() + refilled(); n > 3 {
			t.Errorf("%d slow reads were interrupted", n)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.clients {
			for r := range c.reading {
				r.interrupt()
			}
		}
	})
}

// Reads that all wait for each other end: a client with few parts gets one of the client with most.
func TestReadsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewMemory(64, 1000, testPatience)
		ended := make(chan error, 3*40)
		for i := range cap(ended) { // each wants half of the budget
			go func() {
				var into bytes.Buffer
				text := strings.NewReader(strings.Repeat("x", 30_000))
				release, err := b.Read(t.Context(), fmt.Sprint("hostile", i%3), &into, text, 30_000, time.Hour, func() {})
				if err == nil {
					<-time.After(time.Millisecond) // it is decoded
				}
				release()
				ended <- err
			}()
		}
		synctest.Wait()
		if took := readAll(t, b, "another", 2000); took > 2*testPatience {
			t.Errorf("another client waited %v", took)
		}
		whole := 0
		for range cap(ended) {
			if err := <-ended; err == nil {
				whole++
			} else if !errors.Is(err, ErrInterrupted) {
				t.Error(err)
			}
		}
		if whole == 0 || b.Users() != 0 || !b.whole.TryAcquire(64) {
			t.Errorf("%d reads ended, and %d clients hold parts", whole, b.Users())
		}
	})
}

// A client that sends more at once than its share is served in turn, and nothing of it is
// interrupted.
func TestFastReadsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewMemory(64, 1000, testPatience)
		var reading sync.WaitGroup
		for range 100 {
			reading.Go(func() {
				var into bytes.Buffer
				release, err := b.Read(t.Context(), "trainer", &into, strings.NewReader(strings.Repeat("x", 900)), 1000,
					time.Minute, func() { t.Error("a fast read was interrupted") })
				if err != nil || into.Len() != 900 {
					t.Errorf("read %d bytes: %v", into.Len(), err)
				}
				<-time.After(10 * time.Millisecond) // it is decoded
				release()
			})
		}
		reading.Wait()
		if b.Users() != 0 {
			t.Error("parts were not returned")
		}
	})
}
