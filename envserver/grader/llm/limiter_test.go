package llm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/grader"
)

// Whoever has the least time left goes first, whenever they came.
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
				l.release(round, served)
			}()
			synctest.Wait()
		}
		l.release(round, served)
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{10, 20, 30, 0}, []time.Duration{<-order, <-order, <-order, <-order}); diff != "" {
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
		if _, err := l.acquire(t.Context()); causeOf(err) != grader.CauseUnavailable {
			t.Errorf("a full queue: %v", err)
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter that gave up: %v", err)
		}
		if _, waiting, _ := l.load(); waiting != 0 {
			t.Errorf("%d wait", waiting)
		}
		l.release(round, neutral)
		if _, err := l.acquire(t.Context()); err != nil {
			t.Errorf("a free limiter: %v", err)
		}
	})
}

// A burst of refusals is one sign of overload, not many; success raises the bound by one for each round of requests.
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
	release := func(rounds []int, f feedback) {
		for _, round := range rounds {
			l.release(round, f)
		}
	}
	release(acquire(64), throttled)
	if limit() != 32 {
		t.Errorf("after a burst of refusals: %d, want 32", limit())
	}
	release(acquire(1), neutral)
	release(acquire(1), throttled)
	if limit() != 16 {
		t.Errorf("after another one: %d, want 16", limit())
	}
	for range 17 {
		release(acquire(16), served)
	}
	if got := limit(); got < 28 || got > 33 {
		t.Errorf("after 17 good rounds: %d, want about 30", got)
	}
	for range 20 {
		release(acquire(1), throttled)
	}
	if limit() != 1 {
		t.Errorf("at the worst: %d, want 1", limit())
	}
	for range 5000 {
		release(acquire(1), served)
	}
	if limit() != 64 {
		t.Errorf("at the best: %d, want 64", limit())
	}
}

// Turns are neither lost nor made, whoever gives up when.
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
					l.release(round, feedback(i%3))
				}()
			}
			<-time.After(time.Hour)
			if inFlight, waiting, _ := l.load(); inFlight != 0 || waiting != 0 {
				t.Errorf("%d in flight and %d waiting at the end", inFlight, waiting)
			}
		})
	})
}

// With half of 20 requests failed the endpoint is left alone for 15 seconds, and then tried with one.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		calls := 0
		var transport roundTripper = func(c call) (int, string) {
			calls++
			if broken {
				return 503, `{"error": {"message": "down"}}`
			}
			return 200, completion(gullible(c))
		}
		j := directJudge(t, transport, func(c *Config) { c.CacheMode = CacheOff })
		c := goodCase(t)
		for range 5 {
			if v, err := j.Judge(t.Context(), c); err == nil || v.Cause != grader.CauseUnavailable {
				t.Fatalf("%+v, %v", v, err)
			}
		}
		if calls != 20 {
			t.Errorf("%d calls before the breaker opened, want 20", calls)
		}
		v, err := j.Judge(t.Context(), c)
		if err == nil || v.Cause != grader.CauseUnavailable || v.Usage.Calls != 0 || !strings.Contains(err.Error(), "failed too often") {
			t.Errorf("open: %+v, %v", v, err)
		}
		<-time.After(breakerPause + time.Second)
		broken = false
		if v, err := j.Judge(t.Context(), c); err != nil || v.PostGate != 500 {
			t.Errorf("half open: %+v, %v", v, err)
		}
		if v, err := j.Judge(t.Context(), c); err != nil || v.PostGate != 500 {
			t.Errorf("closed again: %+v, %v", v, err)
		}
	})
}

// What a single request holds doesn't open the breaker: an agent could keep all others from being judged.
func TestRejectionsDontOpenTheBreaker(t *testing.T) {
	for _, status := range []int{400, 403, 404, 413, 422} {
		var transport roundTripper = func(c call) (int, string) {
			if strings.Contains(c.reply, "forbidden words") {
				return status, `{"error": {"message": "content policy"}}`
			}
			return 200, completion(gullible(c))
		}
		j := directJudge(t, transport, func(c *Config) { c.CacheMode = CacheOff })
		good, bad := goodCase(t), goodCase(t)
		bad.Reply += " These are forbidden words."
		for range 40 {
			if v, err := j.Judge(t.Context(), bad); err == nil || v.Cause != grader.CauseFailed {
				t.Fatalf("%d: %+v, %v", status, v, err)
			}
		}
		if v, err := j.Judge(t.Context(), good); err != nil || v.PostGate != 500 {
			t.Errorf("%d: %+v, %v", status, v, err)
		}
	}
}

// A judgement ends at its deadline, wherever it waits.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hanging hangingTripper
		j := directJudge(t, hanging, func(c *Config) { c.MaxConcurrency = 1 })
		first, second := goodCase(t), goodCase(t)
		second.Reply += " Bye."
		began := time.Now()
		ended := make(chan error, 2)
		for _, c := range []grader.Case{first, second} {
			go func() {
				v, err := j.Judge(t.Context(), c)
				if v.Cause != grader.CauseTimeout || v.Scored() {
					t.Errorf("%+v, %v", v, err)
				}
				ended <- err
			}()
		}
		for range 2 {
			if err := <-ended; err == nil {
				t.Error("no error")
			}
		}
		if took := time.Since(began); took < 25*time.Second || took > DefaultTimeout {
			t.Errorf("took %v", took)
		}
		synctest.Wait()
		if inFlight, waiting, _ := j.client.limiter.load(); inFlight != 0 || waiting != 0 {
			t.Errorf("%d in flight, %d waiting", inFlight, waiting)
		}
	})
}
