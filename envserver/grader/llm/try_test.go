package llm

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/env/episode"
)

func TestTry(t *testing.T) {
	unparsable := answers(func(call) string { return "I think so." })
	tests := map[string]struct {
		handlers []func(http.ResponseWriter, call)
		// want is a part of the error, "" for success.
		want      string
		permanent bool
		calls     int64
	}{
		"judges":       {[]func(http.ResponseWriter, call){answers(gullible)}, "", false, 1},
		"learns":       {[]func(http.ResponseWriter, call){unparsable, answers(gullible)}, "", false, 2},
		"refuses part": {[]func(http.ResponseWriter, call){refuse(400, "no seed"), refuse(400, "no seed"), answers(gullible)}, "", false, 3},
		"bad key": {[]func(http.ResponseWriter, call){refuse(401, "Incorrect API key "+testKey)},
			"/v1/chat/completions answered 401 Unauthorized for model m: Incorrect API key [key]", true, 4},
		"no such model": {[]func(http.ResponseWriter, call){refuse(404, "no model m")},
			"404 Not Found for model m: no model m", true, 4},
		"down":       {[]func(http.ResponseWriter, call){refuse(500, "down")}, "500 Internal Server Error", false, 4},
		"not ready":  {[]func(http.ResponseWriter, call){throttle("2"), refuse(503, "Loading model"), answers(gullible)}, "", false, 3},
		"no verdict": {[]func(http.ResponseWriter, call){unparsable}, "answers, but with no verdict", false, 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := serve(t, tc.handlers...)
			err := e.judge(t, nil).Try(t.Context())
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
			failed, ok := errors.AsType[*endpoint.Error](err)
			if (ok && failed.Permanent()) != tc.permanent || e.calls.Load() != tc.calls {
				t.Errorf("%d calls, permanent %v: %v", e.calls.Load(), ok && failed.Permanent(), err)
			}
		})
	}
}

func TestTryOfADeadAddress(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	e := scripted{url: server.URL}
	err := e.judge(t, nil).Try(t.Context())
	if err == nil || !strings.Contains(err.Error(), server.URL) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error = %v", err)
	}
}

// A frozen cache needs no model.
func TestTryAsksNoModelOfAFrozenCache(t *testing.T) {
	e := serve(t, refuse(401, "no"))
	j := e.judge(t, func(c *Config) { c.CacheMode = CacheFrozen })
	if err := j.Try(t.Context()); err != nil || e.calls.Load() != 0 {
		t.Errorf("%d calls: %v", e.calls.Load(), err)
	}
}

// What operators read of a failure names status and address and nothing of the answer. Agents read
// its cause alone.
func TestPublicPartOfAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down roundTripper = func(call) (int, string) { return 503, `{"error": {"message": "secret words"}}` }
		j := directJudge(t, down, func(c *Config) { c.CacheMode = CacheOff })
		for n := range 2 {
			v, err := j.Judge(t.Context(), goodCase(t))
			unjudged := &episode.JudgeError{Cause: string(v.Cause), Err: err}
			detail := unjudged.Detail()
			if text := unjudged.Error(); !strings.Contains(text, "judge_unavailable: the judge can't be reached") ||
				strings.Contains(text, "model") {
				t.Errorf("%d: agents read %q", n, text)
			}
			const want = "http://model.test/v1/chat/completions answered 503 Service Unavailable for model m"
			if !strings.Contains(detail, want) ||
				strings.Contains(detail, "secret") || !strings.HasPrefix(detail, "no verdict within 45s") {
				t.Errorf("%d: %q of %v", n, detail, err)
			}
		}
	})
}
