package llm

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/grader"
)

// If half of 20 requests fail, the client sends none for 15 seconds, and then a single one.
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
		// Each reply is followed by a question about a harmless one, which passes the breaker.
		if calls != 20+5 {
			t.Errorf("%d calls before the breaker opened, want 25", calls)
		}
		v, err := j.Judge(t.Context(), c)
		if err == nil || v.Cause != grader.CauseUnavailable || v.Usage.Calls != 0 ||
			!strings.Contains(err.Error(), "failed too often") {
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

// Requests that fail because of their content don't open the breaker, so an agent can't block the
// judging of others.
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
		if took := time.Since(began); took < 25*time.Second || took > 2*DefaultTimeout {
			t.Errorf("took %v", took)
		}
		synctest.Wait()
		if inFlight, waiting, _ := j.client.caller.Load(); inFlight != 0 || waiting != 0 {
			t.Errorf("%d in flight, %d waiting", inFlight, waiting)
		}
	})
}
