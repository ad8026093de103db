package rollout

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	scripted "github.com/csenv/csenv/envserver/testkit/model"
)

// stall never answers.
func stall(_ http.ResponseWriter, r *http.Request, _ scripted.Request) bool {
	<-r.Context().Done()
	return true
}

// status answers with an error of the endpoint.
func status(code int, body string) func(http.ResponseWriter, *http.Request, scripted.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request, _ scripted.Request) bool {
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "3")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
		return true
	}
}

// sometimes causes trouble on every nth request.
func sometimes(n, remainder int64, trouble func(http.ResponseWriter, *http.Request, scripted.Request) bool) func(
	http.ResponseWriter, *http.Request, scripted.Request) bool {
	return func(w http.ResponseWriter, r *http.Request, a scripted.Request) bool {
		return a.N%n == remainder && trouble(w, r, a)
	}
}

// within causes trouble on the requests from first to last.
func within(first, last int64, trouble func(http.ResponseWriter, *http.Request, scripted.Request) bool) func(
	http.ResponseWriter, *http.Request, scripted.Request) bool {
	return func(w http.ResponseWriter, r *http.Request, a scripted.Request) bool {
		return first <= a.N && a.N <= last && trouble(w, r, a)
	}
}

// An endpoint that is often full, fails, hangs and breaks off, and twice for so long that attempts
// fail, costs time but no points.
func TestTroubleCostsNoScore(t *testing.T) {
	throughTasks(t, func(t *testing.T, kind episode.Kind, task string, n int) {
		_, pod := serve(t, kind, 0)
		p := only(t, kind, task, n, 1)
		endpoint := newModel(t, p, policy.Oracle)
		troubles := []func(http.ResponseWriter, *http.Request, scripted.Request) bool{
			sometimes(5, 1, status(429, `{"error": {"message": "slow down"}}`)),
			sometimes(7, 2, status(500, "<html>oops</html>")),
			sometimes(11, 3, func(http.ResponseWriter, *http.Request,
				scripted.Request) bool {
				panic(http.ErrAbortHandler)
			}),
			sometimes(13, 5, status(503, "")),
			within(3, 3, status(200, `{"choices": [`)),
		}
		// One of the concurrent episodes fails five times in a row, for longer than an endpoint is
		// waited for.
		workers := int64(min(n, 4))
		long := []func(http.ResponseWriter, *http.Request, scripted.Request) bool{
			within(6, 5+5*workers, func(w http.ResponseWriter, _ *http.Request, _ scripted.Request) bool {
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			}), within(9+5*workers, 8+6*workers, stall)}
		endpoint.Trouble = func(w http.ResponseWriter, r *http.Request, a scripted.Request) bool {
			for _, trouble := range slices.Concat(long, troubles) {
				if trouble(w, r, a) {
					return true
				}
			}
			return false
		}
		cfg := config(t, p, policy.Noop, pod)
		cfg.Environment = kind.Name()
		cfg.EpisodeAttempts = 10
		cfg.Policy = endpoint.agent(t, kind.Name(), 4, func(c *policy.OpenAIConfig) { c.TimeoutSeconds = 1 })
		ledger, summary := run(t, cfg)
		if summary.RetriedBy[score.ClassAgentRateLimited] == 0 {
			t.Errorf("retried %v, want some by the long trouble", summary.RetriedBy)
		}
		if ledger.Scored != p.Episodes() || len(summary.Errored) > 0 {
			t.Errorf("%d of %d scored, errored %v", ledger.Scored, p.Episodes(), summary.Errored)
		}
		if mean := ledger.Tasks[0].Sum / ledger.Tasks[0].Episodes; mean < 990_000 {
			t.Errorf("the mean is %s", score.FormatDecimal(mean))
		}
		if want := int64(100 * len(endpoint.Episodes)); summary.Tokens.Prompt < want ||
			summary.Tokens.Prompt%100 != 0 || summary.Tokens.Completion != summary.Tokens.Prompt/100*7 {
			t.Errorf("%+v tokens, want at least %d read and 7 written for each 100", summary.Tokens, want)
		}
		if _, err := summary.Encode(); err != nil {
			t.Error(err)
		}
		if !slices.Contains(endpoint.waits, 3*time.Second) {
			t.Error("no request waited the three seconds of the endpoint's Retry-After")
		}
	})
}

// An endpoint that keeps failing gives an error of its class and no score. Keys in its messages are
// not revealed.
func TestDeadEndpointsAreNoScore(t *testing.T) {
	kind := ticketKind(t, offline.New())
	tests := map[string]struct {
		trouble func(http.ResponseWriter, *http.Request, scripted.Request) bool
		want    string
	}{
		"full":        {status(429, ""), score.ClassAgentRateLimited},
		"down":        {status(502, ""), score.ClassAgentUnavailable},
		"hanging":     {stall, score.ClassAgentTimeout},
		"wrong key":   {status(401, `{"error": {"message": "no such key: `+agentKey+`"}}`), score.ClassAgentError},
		"wrong model": {status(404, `{"error": {"message": "no such model"}}`), score.ClassAgentError},
		"complaining": {status(400, `{"error": {"message": "temperature of `+agentKey+` is not supported"}}`),
			score.ClassAgentError},
		"moved":       {status(307, `{"choices": []}`), score.ClassAgentError},
		"no protocol": {status(200, `"hello"`), score.ClassAgentError},
		"no choices":  {status(200, `{"choices": []}`), score.ClassAgentError},
		"cut off":     {status(200, `{"choices": [{"message": {"content": "`), score.ClassAgentError},
		"far too long": {status(200, `{"choices": [{"message": {"content": "`+strings.Repeat("a", 9<<20)+`"}}]}`),
			score.ClassAgentError},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pod := serve(t, kind, 0)
			p := only(t, kind, "ticket-resolve", 1, 1)
			endpoint := newModel(t, p, policy.Oracle)
			endpoint.Trouble = tc.trouble
			var logs strings.Builder
			var kept []record.Episode
			cfg := config(t, p, policy.Noop, pod)
			cfg.EpisodeAttempts = 2
			cfg.Concurrency = 1
			cfg.Log = slog.New(slog.NewTextHandler(&logs, nil))
			cfg.Record = func(e record.Episode) { kept = append(kept, e) }
			cfg.Policy = endpoint.agent(t, kind.Name(), 1, func(c *policy.OpenAIConfig) { c.TimeoutSeconds = 1 })
			if name == "hanging" {
				cfg.EpisodeAttempts = 1
			}
			ledger, summary := run(t, cfg)
			if want := int64(cfg.EpisodeAttempts - 1); summary.Retried != want ||
				summary.RetriedBy[tc.want] != want {
				t.Errorf("retried %d, %v; want %d", summary.Retried, summary.RetriedBy, want)
			}
			if ledger.Scored+ledger.Failed != 0 || len(summary.Errored) != 1 ||
				summary.Errored[0].Class != tc.want {
				t.Errorf("%d scored, %d failed, errored %v; want %s", ledger.Scored, ledger.Failed, summary.Errored,
					tc.want)
			}
			if len(kept) != 1 || kept[0].Score != nil || kept[0].Class != tc.want {
				t.Errorf("recorded %+v", kept)
			}
			record, _ := json.Marshal(kept)
			if told := logs.String() + string(record); strings.Contains(told, agentKey) ||
				!strings.Contains(told, tc.want) {
				t.Errorf("told: %s", told)
			}
		})
	}
}
