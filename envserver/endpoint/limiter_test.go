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
				l.release(round, Completed)
			}()
			synctest.Wait()
		}
		l.release(round, Completed)
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
		l.release(round, ServerError)
		if _, err := l.acquire(t.Context()); err != nil {
			t.Errorf("a free limiter: %v", err)
		}
	})
}

// A burst of refusals counts as one sign of overload. Success raises the bound by one for each
// round of requests.
func TestLimiterFollowsTheEndpoint(t *testing.T) {
	l := newLimiter(64, 1)
	acquire := func(n int) (rounds []int) {
		for range n {
			round, err := l.acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			rounds = append(rounds, round)
		}
		return rounds
	}
	limit := func() int { _, _, limit := l.load(); return limit }
	release := func(rounds []int, c Class) {
		for _, round := range rounds {
			l.release(round, c)
		}
	}
	release(acquire(64), Throttled)
	if limit() != 32 {
		t.Errorf("after a burst of refusals: %d, want 32", limit())
	}
	release(acquire(1), ServerError)
	release(acquire(1), Throttled)
	if limit() != 16 {
		t.Errorf("after another one: %d, want 16", limit())
	}
	for range 17 {
		release(acquire(16), Completed)
	}
	if got := limit(); got < 28 || got > 33 {
		t.Errorf("after 17 good rounds: %d, want about 30", got)
	}
	for range 20 {
		release(acquire(1), Throttled)
	}
	if limit() != 1 {
		t.Errorf("at the worst: %d, want 1", limit())
	}
	for range 5000 {
		release(acquire(1), Completed)
	}
	if limit() != 64 {
		t.Errorf("at the best: %d, want 64", limit())
	}
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
					l.release(round, Class(i%3))
				}()
			}
			<-time.After(time.Hour)
			if inFlight, waiting, _ := l.load(); inFlight != 0 || waiting != 0 {
				t.Errorf("%d in flight and %d waiting at the end", inFlight, waiting)
			}
		})
	})
}
