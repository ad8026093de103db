package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// middling returns a config whose random numbers are all one half.
func middling() Config {
	return Config{
		MaxConcurrency: 4, MaxQueue: 10, Attempts: 4, FirstBackoff: time.Second, MaxBackoff: 3 * time.Second,
		Random: func() float64 { return 0.5 },
	}
}

// script fails each attempt with the next of its errors, and records the times.
type script struct {
	began time.Time
	errs  []error
	times []time.Duration
}

func (s *script) send(context.Context) error {
	s.times = append(s.times, time.Since(s.began).Round(time.Millisecond))
	return s.errs[min(len(s.times), len(s.errs))-1]
}

func TestDo(t *testing.T) {
	throttled := func(after time.Duration) error { return &Error{Class: Throttled, Status: 429, After: after} }
	other := errors.New("something else")
	tests := map[string]struct {
		change func(*Config)
		limit  time.Duration
		errs   []error
		times  []time.Duration
		want   string
	}{
		"at once": {errs: []error{nil}, times: []time.Duration{0}},
		"backs off": {errs: []error{&Error{Class: Broken}, &Error{Class: ServerError},
			&Error{Class: TimedOut}, nil}, times: []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond,
			3 * time.Second}},
		"gives up": {errs: []error{&Error{Class: ServerError, Status: 503}},
			times: []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second},
			want:  "4 attempts: the endpoint answered 503 Service Unavailable"},
		"waits as asked": {errs: []error{throttled(9 * time.Second), nil},
			times: []time.Duration{0, 9 * time.Second}},
		"no patience": {change: func(c *Config) { c.MaxRetryAfter = 5 * time.Second },
			errs: []error{throttled(9 * time.Second), nil}, times: []time.Duration{0},
			want: "no time for another attempt, which is due in 9s: the endpoint answered 429 Too Many Requests"},
		"no time": {limit: 5 * time.Second, errs: []error{throttled(9 * time.Second), nil},
			times: []time.Duration{0}, want: "no time for another attempt"},
		"of no use": {errs: []error{&Error{Class: Rejected, Status: 404}}, times: []time.Duration{0},
			want: "the endpoint answered 404 Not Found"},
		"another error": {errs: []error{other}, times: []time.Duration{0}, want: "something else"},
		"another one at once": {errs: []error{&Error{Class: Rejected, Anew: true}, &Error{Class: Rejected, Anew: true},
			&Error{Class: Rejected, Anew: true}, &Error{Class: Rejected, Anew: true}, nil},
			times: []time.Duration{0, 0, 0, 0, 0}},
		"keeps the pace": {change: func(c *Config) { c.PerMinute = 6 }, errs: []error{&Error{Class: Broken}, nil},
			times: []time.Duration{0, 10 * time.Second}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middling()
				if tc.change != nil {
					tc.change(&c)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if tc.limit > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), tc.limit)
				}
				defer cancel()
				s := script{began: time.Now(), errs: tc.errs}
				told := 0
				caller := NewCaller(c)
				err := caller.Do(ctx, s.send, func(*Error) { told++ })
				if tc.want == "" && err != nil || tc.want != "" &&
					(err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
					t.Errorf("Do() error = %v, want %q", err, tc.want)
				}
				if diff := cmp.Diff(tc.times, s.times); diff != "" || told != len(tc.times)-1 {
					t.Errorf("told of %d attempts (-want +got)\n%s", told, diff)
				}
				if inFlight, waiting, _ := caller.Load(); inFlight+waiting != 0 {
					t.Errorf("%d in flight and %d waiting at the end", inFlight, waiting)
				}
			})
		})
	}
}

// An endpoint that has answered is waited for as long as the patience, whatever its outage looks
// like; one that never has, or refuses, is not.
func TestPatience(t *testing.T) {
	for name, tc := range map[string]struct {
		class    Class
		answered bool
		outage   time.Duration
		fails    bool
		least    time.Duration
	}{
		"down":           {ServerError, true, 119 * time.Second, false, 119 * time.Second},
		"full":           {Throttled, true, 119 * time.Second, false, 119 * time.Second},
		"gone":           {Broken, true, 119 * time.Second, false, 119 * time.Second},
		"empty":          {Unclear, true, 119 * time.Second, false, 119 * time.Second},
		"for longer":     {ServerError, true, time.Hour, true, Patience},
		"never answered": {ServerError, false, 119 * time.Second, true, 3 * time.Second},
		"refuses":        {Rejected, true, time.Second, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middling()
				c.Patience = Patience
				caller := NewCaller(c)
				if tc.answered {
					if err := caller.Do(t.Context(), func(context.Context) error { return nil }, nil); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				err := caller.Do(t.Context(), func(context.Context) error {
					if time.Since(began) < tc.outage {
						return &Error{Class: tc.class}
					}
					return nil
				}, nil)
				if took := time.Since(began); (err != nil) != tc.fails || took < tc.least || took > tc.least+2*time.Second {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}

// If an endpoint asks one request to wait, all requests of the process wait, including later ones.
// The wait ends with the context.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middling()
		c.PauseAll, c.MaxRetryAfter = true, time.Minute
		caller := NewCaller(c)
		first := script{began: time.Now(), errs: []error{&Error{Class: Throttled, After: 20 * time.Second}, nil}}
		second := script{began: time.Now(), errs: []error{nil}}
		done := make(chan error, 2)
		go func() { done <- caller.Do(t.Context(), first.send, nil) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := caller.Do(ctx, func(context.Context) error {
			t.Error(
				"sent while the endpoint wants to be left alone")
			return nil
		}, nil); !errors.Is(
			err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
		go func() { done <- caller.Do(t.Context(), second.send, nil) }()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]time.Duration{20 * time.Second}, second.times); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// If the context ends while a request waits for its turn, the turn is returned.
func TestPaceIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middling()
		c.PerMinute = 1
		caller := NewCaller(c)
		s := script{began: time.Now(), errs: []error{nil}}
		if err := caller.Do(t.Context(), s.send, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := caller.Do(ctx, s.send, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
		if err := caller.Do(t.Context(), s.send, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]time.Duration{0, time.Minute}, s.times); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestNewError(t *testing.T) {
	now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	other := errors.New("x")
	tests := map[string]struct {
		ctx context.Context
		err error
		// status is 0 without a response.
		status int
		header string
		class  Class
		after  time.Duration
	}{
		"given up":      {ended, other, 200, "", Abandoned, 0},
		"seconds":       {t.Context(), other, 429, "7", Throttled, 7 * time.Second},
		"a date":        {t.Context(), other, 503, "Sat, 14 Mar 2026 09:00:30 GMT", ServerError, 30 * time.Second},
		"a past date":   {t.Context(), other, 429, "Sat, 14 Mar 2026 08:00:30 GMT", Throttled, 0},
		"negative":      {t.Context(), other, 429, "-5", Throttled, 0},
		"nonsense":      {t.Context(), other, 429, "soon", Throttled, 0},
		"far too large": {t.Context(), other, 429, "99999999999999", Throttled, 0},
		"conflict":      {t.Context(), other, 409, "", ServerError, 0},
		"unauthorised":  {t.Context(), other, 401, "", Unauthorised, 0},
		"forbidden":     {t.Context(), other, 403, "", Rejected, 0},
		"redirected":    {t.Context(), other, 302, "", Rejected, 0},
		"too late":      {t.Context(), context.DeadlineExceeded, 0, "", TimedOut, 0},
		"no connection": {t.Context(), other, 0, "", Broken, 0},
		"cut off":       {t.Context(), &url.Error{Op: "reading", Err: io.ErrUnexpectedEOF}, 200, "", Broken, 0},
		"other":         {t.Context(), other, 200, "", Unparsable, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var response *http.Response
			if tc.status != 0 {
				response = &http.Response{StatusCode: tc.status, Header: http.Header{"Retry-After": {tc.header}},
					Body: http.NoBody}
				defer response.Body.Close()
			}
			e := NewError(tc.ctx, tc.err, response, now)
			if e.Class != tc.class || e.After != tc.after || ClassOf(e) != tc.class {
				t.Errorf("NewError() = %v after %v, want %v after %v", e.Class, e.After, tc.class, tc.after)
			}
		})
	}
	secret := &url.Error{Op: "Post", URL: "http://host/?key=secret", Err: errors.New("connection refused")}
	if e := NewError(t.Context(), secret, nil, now); strings.Contains(e.Error(), "secret") ||
		!strings.Contains(e.Error(), "connection refused") {
		t.Errorf("error = %v", e)
	}
}

func TestBound(t *testing.T) {
	for _, most := range []int{5, 4} {
		data, err := io.ReadAll(LimitBody(io.NopCloser(strings.NewReader("12345")), most))
		if (most == 5) != (err == nil && string(data) == "12345") {
			t.Errorf("at most %d: %q, %v", most, data, err)
		}
	}
}
