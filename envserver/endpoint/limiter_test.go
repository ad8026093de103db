package endpoint

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The request with the earliest deadline is first, in any order of arrival.
func TestEarliestDeadlineFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, 10)
		round, err := l.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan time.Duration, 4)
		for _, left := range []time.Duration{0, 30, 10, 20} {
			go func() {
				ctx := t.Context()
				if left > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, left*time.Second)
					defer cancel()
				}
				round, err := l.acquire(ctx)
				if err != nil {
					t.Error(err)
				}
				order <- left
				l.release(round, answered)
			}()
			synctest.Wait()
		}
		l.release(round, answered)
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{10, 20, 30, 0}, []time.Duration{<-order, <-order, <-order,
			<-order}); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestLimiterBoundsItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, 1)
		round, _ := l.acquire(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { _, err := l.acquire(ctx); gone <- err }()
		synctest.Wait()
		if _, err := l.acquire(t.Context()); !errors.Is(err, ErrQueueFull) {
			t.Errorf("a full queue: %v", err)
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter that gave up: %v", err)
		}
		if _, waiting, _ := l.load(); waiting != 0 {
			t.Errorf("%d wait", waiting)
		}
		l.release(round, unsent)
		if _, err := l.acquire(t.Context()); err != nil {
			t.Errorf("a free limiter: %v", err)
		}
	})
}

// bounded is a limiter whose bound can be watched.
type bounded struct {
	*limiter
	t *testing.T
}

func (b bounded) acquire(n int) (rounds []int) {
	b.t.Helper()
	for range n {
		round, err := b.limiter.acquire(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		rounds = append(rounds, round)
	}
	return rounds
}

func (b bounded) end(rounds []int, how ending) {
	for _, round := range rounds {
		b.release(round, how)
	}
}

func (b bounded) want(what string, low, high int) {
	b.t.Helper()
	if got := b.bound(); got < low || got > high {
		b.t.Errorf("%s: %d, want %d to %d", what, got, low, high)
	}
}

// The bound starts low and doubles with each round. A burst of requests that come too late or are
// refused counts as one sign of overload. Success then raises the bound by one for each round.
func TestLimiterFollowsTheEndpoint(t *testing.T) {
	l := bounded{newLimiter(64, 1), t}
	l.want("at first", startLimit, startLimit)
	for l.bound() < 64 {
		l.end(l.acquire(l.bound()), answered)
	}
	l.end(l.acquire(64), overloaded)
	l.want("after a burst of refusals", 32, 32)
	l.end(l.acquire(1), unsent)
	l.end(l.acquire(1), answered)
	l.end(l.acquire(1), overloaded)
	l.want("after another one", 16, 16)
	for range 17 {
		l.end(l.acquire(16), answered)
	}
	l.want("after 17 good rounds", 28, 33)
	for range 20 {
		l.end(l.acquire(1), overloaded)
	}
	l.want("at the worst", 1, 1)
	l.end(l.acquire(1), answered)
	l.end(l.acquire(2), answered)
	l.want("soon after an outage", 4, 4)
	for range 40 {
		l.end(l.acquire(1), answered)
	}
	l.want("at its threshold", 14, 17)
	for range 5000 {
		l.end(l.acquire(1), answered)
	}
	l.want("at the best", 64, 64)
}

// No turn is lost or created, in any order of cancellations.
func TestLimiterLosesNoTurn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(rt, "most")
		lives := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 30).Draw(rt, "lives")
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(most, 100)
			for i, life := range lives {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(life)*time.Second)
					defer cancel()
					round, err := l.acquire(ctx)
					if err != nil {
						return
					}
					if inFlight, _, _ := l.load(); inFlight > most {
						t.Errorf("%d in flight, at most %d wanted", inFlight, most)
					}
					<-time.After(time.Duration(i%7) * time.Second)
					l.release(round, ending(i%3))
				}()
			}
			<-time.After(time.Hour)
			if inFlight, waiting, _ := l.load(); inFlight != 0 || waiting != 0 {
				t.Errorf("%d in flight and %d waiting at the end", inFlight, waiting)
			}
		})
	})
}
