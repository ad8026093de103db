package endpoint

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// oneSlot is a server that answers one request at a time and doesn't notice clients that have left.
type oneSlot struct {
	mu   sync.Mutex
	free time.Time
}

// ask takes a place in the server's queue and waits for the answer, at most for the timeout.
func (s *oneSlot) ask(work, timeout time.Duration) error {
	s.mu.Lock()
	now := time.Now()
	if s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(work)
	left := s.free.Sub(now)
	s.mu.Unlock()
	if left > timeout {
		<-time.After(timeout)
		return &Error{Class: TimedOut}
	}
	<-time.After(left)
	return nil
}

// A server that answers one request at a time is asked for no more than it answers in time: every
// request of sixteen episodes at a time is answered within its attempts, and the bound says so.
func TestServerWithOneSlot(t *testing.T) {
	for name, work := range map[string]time.Duration{"slow": 24 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := NewCaller(Config{MaxConcurrency: 16, MaxQueue: 100, Attempts: 5, FirstBackoff: time.Second,
				MaxBackoff: 20 * time.Second, Random: func() float64 { return 0.5 }})
			server, failed := &oneSlot{}, 0
			began := time.Now()
			var episodes sync.WaitGroup
			var mu sync.Mutex
			for range 16 {
				episodes.Go(func() {
					for range 5 {
						err := c.Do(t.Context(), func(context.Context) error { return server.ask(work, 120*time.Second) }, nil)
						mu.Lock()
						if err != nil {
							failed++
						}
						mu.Unlock()
					}
				})
			}
			episodes.Wait()
			if failed > 8 || c.Lowered() == 0 {
				t.Errorf("%s: %d of 80 requests failed in %v, %d at a time", name, failed, time.Since(began), c.Lowered())
			}
			if lost := time.Since(began) - 80*work; lost > 80*work {
				t.Errorf("%s: took %v longer than the server's work", name, lost)
			}
		})
	}
}

// What a URL lacks is said in words, and nothing of it is quoted.
func TestCheckBase(t *testing.T) {
	for text, want := range map[string]string{
		"https://api.openai.com/v1": "", "http://localhost:11434/v1/": "",
		"https://x.azure.com/openai/deployments/gpt?api-version=2024-10-21": "",
		"localhost:11434/v1":   "it has no scheme: begin it with http:// or https://",
		" http://host/v1":      "it has a blank: remove that",
		"http://host/v1?key=k": "it has a query: leave that out; only Azure's ?api-version= may stay",
		"http://me:pw@host/v1": "it has a user or a password: leave them out, the key is set apart from it",
		"http:///v1":           "it has no host: write it like " + exampleBase,
		"http://host/v1#chat":  "it has a fragment: leave # and what follows out",
		"ftp://host":           "it has no scheme: begin it with http:// or https://",
		"":                     "it is empty: give the URL of the endpoint up to its version, such as " + exampleBase,
	} {
		got := ""
		if err := CheckBase(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// One that isn't ready is waited for two minutes, and one that fails is tried so often as wanted.
func TestAwaitStart(t *testing.T) {
	loading := &Error{Class: ServerError, Status: 503, Words: "Loading model"}
	for name, tc := range map[string]struct {
		errs  []error
		fails bool
		tries int
		most  time.Duration
	}{
		"ready":    {[]error{nil}, false, 1, 0},
		"loads":    {[]error{loading, loading, loading, loading, nil}, false, 5, 15 * time.Second},
		"never":    {[]error{loading}, true, 15, 2 * time.Minute},
		"down":     {[]error{&Error{Class: ServerError, Status: 502}}, true, 3, 3 * time.Second},
		"refuses":  {[]error{&Error{Class: Unauthorised, Status: 401}}, true, 1, 0},
		"recovers": {[]error{&Error{Class: Unclear}, &Error{Class: Throttled, After: 5 * time.Second}, nil}, false, 3, 6 * time.Second},
	} {
		n, waited := 0, time.Duration(0)
		err := AwaitStart(t.Context(), 3, func(_ context.Context, d time.Duration) error { waited += d; return nil },
			func() error { n++; return tc.errs[min(n, len(tc.errs))-1] })
		if (err != nil) != tc.fails || n != tc.tries || waited > tc.most || waited < tc.most-10*time.Second {
			t.Errorf("%s: %v after %d tries in %v", name, err, n, waited)
		}
	}
}
