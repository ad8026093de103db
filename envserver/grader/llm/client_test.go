package llm

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/grader"
)

// An outage is waited out by the judgements of a step, which is repeated; while it lasts, few
// requests are sent.
func TestOutageIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), 0
		var transport roundTripper = func(c call) (int, string) {
			calls++
			if time.Since(began) < 2*time.Minute {
				return 503, `{"error": {"message": "down"}}`
			}
			return 200, completion(gullible(c))
		}
		j := directJudge(t, transport, func(c *Config) { c.CacheMode = CacheOff })
		c := goodCase(t)
		for n := 1; ; n++ {
			step := time.Now()
			v, err := j.Judge(t.Context(), c)
			if took := time.Since(step); took > DefaultTimeout {
				t.Errorf("a step took %v", took)
			}
			if err == nil {
				if v.PostGate != 500 || n > 3 {
					t.Errorf("judged at last: %+v, the step was sent %d times", v, n)
				}
				break
			}
			if v.Cause != grader.CauseUnavailable || v.Scored() || !strings.Contains(err.Error(), "no verdict within 45s") {
				t.Fatalf("%+v, %v", v, err)
			}
		}
		if calls > 250 {
			t.Errorf("%d requests in two minutes", calls)
		}
	})
}

// Requests that fail because of their content don't hold up the judging of others.
func TestRejectionsBlockNobody(t *testing.T) {
	for _, status := range []int{400, 413, 422} {
		var transport roundTripper = func(c call) (int, string) {
			if strings.Contains(c.reply, "forbidden words") {
				return status, `{"error": {"message": "content policy"}}`
			}
			return 200, completion(gullible(c))
		}
		j := directJudge(t, transport, func(c *Config) {
			c.CacheMode, c.Wait = CacheOff, func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
		})
		good, bad := goodCase(t), goodCase(t)
		bad.Reply += " These are forbidden words."
		for range 40 {
			if v, err := j.Judge(t.Context(), bad); err != nil || v.Status != grader.StatusFallback || v.Cause != grader.CauseFailed {
				t.Fatalf("%d: %+v, %v", status, v, err)
			}
		}
		if v, err := j.Judge(t.Context(), good); err != nil || v.PostGate != 500 {
			t.Errorf("%d: %+v, %v", status, v, err)
		}
	}
}

// A judgement and the question about a harmless reply end at their deadlines, at every place where
// they wait.
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
		if inFlight, waiting, _ := j.asker.Load(); inFlight != 0 || waiting != 0 {
			t.Errorf("%d in flight, %d waiting", inFlight, waiting)
		}
	})
}
