package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/grader/llm"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/dialect"
	scripted "github.com/csenv/csenv/envserver/testkit/model"
)

// agentAt returns an agent behind an endpoint. It doesn't wait between requests.
func agentAt(t *testing.T, endpoint http.Handler, concurrency int, mode policy.Mode) policy.Factory {
	t.Helper()
	server := httptest.NewServer(endpoint)
	t.Cleanup(server.Close)
	agent, err := policy.New(policy.Config{Type: policy.TypeOpenAI, OpenAI: &policy.OpenAIConfig{
		BaseURL: server.URL + "/v1", Model: "m", Mode: mode, MaxTokens: 500}}, policy.Options{Environment: "ticket",
		Concurrency: concurrency, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	if err != nil {
		t.Fatal(err)
	}
	return agent.Play
}

// simple classifies each ticket as billing of medium priority, and closes it with one sentence.
func simple(t *testing.T) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct{ Role string }
			Tools    []scripted.Tool
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		action := `{"action_type": "classify", "category": "billing", "priority": "medium"}`
		if slices.ContainsFunc(asked.Messages, func(m struct{ Role string }) bool { return m.Role == "assistant" }) {
			action = `{"action_type": "resolve", "message": "Thank you for your message, we will look into it."}`
		}
		message := map[string]any{"role": "assistant", "content": action}
		if asked.Tools != nil {
			call, err := scripted.MakeCall(asked.Tools, "call-1", json.RawMessage(action))
			if err != nil {
				t.Error(err)
			}
			message["content"], message["tool_calls"] = "I see.", []any{call}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "x", "object": "chat.completion", "model": "m",
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": "stop"}},
			"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}})
	})
}

// The same agent has the same score behind every endpoint, with tools and without.
func TestDialects(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := only(t, kind, "ticket-resolve", 2, 1)
	dialects := slices.Concat([]dialect.Dialect{{Name: "plain", Source: "-"}}, dialect.Servers(), dialect.Providers())
	if len(dialects) < 26 {
		t.Errorf("%d dialects", len(dialects))
	}
	for i, d := range dialects {
		for _, mode := range []policy.Mode{policy.ModeTools, policy.ModeJSON} {
			t.Run(fmt.Sprintf("%s by %s", d.Name, mode), func(t *testing.T) {
				if d.Source == "" {
					t.Error("nothing says that it answers so")
				}
				cfg := config(t, p, policy.Noop, pod)
				cfg.EpisodeAttempts, cfg.Concurrency = 1, 1
				cfg.Plan.Run = fmt.Sprintf("run-%d-%s", i, strings.ToLower(string(mode)))
				cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
				cfg.Policy = agentAt(t, d.Wrap(simple(t)), 1, mode)
				ledger, summary := run(t, cfg)
				if ledger.Scored+ledger.Failed != 2 || ledger.Tasks[0].Sum != 2*400_000 {
					t.Errorf("%d scored, %d failed, %+v, errored %+v", ledger.Scored, ledger.Failed, ledger.Tasks,
						summary.Errored)
				}
			})
		}
	}
}

// Where a quarter of the answers is a failure of the endpoint, the scores are those of the model
// alone.
func TestFaultsCostNoScore(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := only(t, kind, "ticket-resolve", 40, 1)
	endpoint, err := scripted.New(policy.Heuristic, testkit.Catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	endpoint.Fault = func(err error) { t.Error(err) }
	sum := func(name string, endpoint http.Handler) int64 {
		cfg := config(t, p, policy.Noop, pod)
		cfg.Plan.Run, cfg.Policy, cfg.EpisodeAttempts = name, agentAt(t, endpoint, 4, policy.ModeTools), 10
		ledger, summary := run(t, cfg)
		if ledger.Scored+ledger.Failed != p.Episodes() || len(summary.Errored) > 0 {
			t.Errorf("%s: %d scored, %d failed of %d, errored %+v", name, ledger.Scored, ledger.Failed, p.Episodes(),
				summary.Errored)
		}
		return ledger.Tasks[0].Sum
	}
	clean, injected := sum("run-clean", endpoint), map[int]bool{}
	for seed := range 3 * seeds() {
		f := dialect.NewFaulty(endpoint, seed)
		if got := sum(fmt.Sprint("run-", seed), f); got != clean || clean == 0 {
			t.Errorf("the sum is %s, and %s with faults of seed %d: %v", score.FormatDecimal(clean), score.FormatDecimal(got),
				seed, f.Kinds())
		}
		for _, which := range f.Kinds() {
			injected[which] = true
		}
	}
	if len(injected) < dialect.Faults*3/4 {
		t.Errorf("%d of %d faults were injected", len(injected), dialect.Faults)
	}
}

// judgedBy is a judge at an endpoint, which doesn't wait.
func judgedBy(t *testing.T, endpoint http.Handler) *llm.Judge {
	t.Helper()
	server := httptest.NewServer(endpoint)
	t.Cleanup(server.Close)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	judge, err := llm.New(llm.Config{BaseURL: "http://judge.test/v1", Model: "m", Votes: 1, CacheMode: llm.CacheOff,
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial}}, Random: func() float64 { return 0 },
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return judge
}

// seeds is the number of mixed outages of a judge that are played; go test without -short plays
// twenty.
func seeds() int {
	if testing.Short() {
		return 2
	}
	return 20
}

// Where a quarter of the judge's answers fails, in every way, the scores are those of the judge
// alone.
func TestJudgeFaultsCostNoScore(t *testing.T) {
	sum := func(name string, endpoint http.Handler) int64 {
		kind := ticketKind(t, judgedBy(t, endpoint))
		_, pod := serve(t, kind, 0)
		p := only(t, kind, "ticket-resolve", 40, 1)
		cfg := config(t, p, policy.Oracle, pod)
		cfg.Plan.Run = name
		ledger, summary := run(t, cfg)
		if ledger.Scored != p.Episodes() || len(summary.Errored) > 0 || summary.Counts.Unread > 0 {
			t.Errorf("%s: %d scored of %d, errored %+v, counts %+v", name, ledger.Scored, p.Episodes(), summary.Errored,
				summary.Counts)
		}
		return ledger.Tasks[0].Sum
	}
	clean := sum("run-clean", dialect.NewJudge())
	for seed := range seeds() {
		f := dialect.NewFaulty(dialect.NewJudge(), seed)
		if got := sum(fmt.Sprint("run-", seed), f); got != clean || clean == 0 {
			t.Errorf("the sum is %s, and %s with faults of seed %d", score.FormatDecimal(clean), score.FormatDecimal(got), seed)
		}
		if len(f.Kinds()) < 5 {
			t.Errorf("seed %d: kinds of faults: %v", seed, f.Kinds())
		}
	}
}

// A judge that refuses every request, for a reason that no reply can be, errors every episode; a
// reply that alone makes its judgement fail is scored, and counted.
func TestUnjudgedReplies(t *testing.T) {
	for name, tc := range map[string]struct {
		status  int
		body    string
		provoke bool
	}{
		"404":                    {404, `{"error": {"message": "no such model"}}`, true},
		"a filter of everything": {400, `{"error": {"code": "content_filter", "message": "filtered"}}`, false},
		"a filter of replies":    {400, `{"error": {"code": "content_filter", "message": "filtered"}}`, true},
	} {
		plain := dialect.NewJudge()
		kind := ticketKind(t, judgedBy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			if tc.provoke && strings.Contains(string(data), "Thank^you^for^your^message.") {
				r.Body = io.NopCloser(bytes.NewReader(data))
				plain.ServeHTTP(w, r)
				return
			}
			http.Error(w, tc.body, tc.status)
		})))
		_, pod := serve(t, kind, 0)
		p := only(t, kind, "ticket-resolve", 2, 1)
		cfg := config(t, p, policy.Oracle, pod)
		cfg.EpisodeAttempts = 1
		ledger, summary := run(t, cfg)
		if want := name == "a filter of replies"; want != (ledger.Scored == 2 && summary.Counts.Unread == 2) ||
			want == (summary.ErroredEpisodes() == 2) {
			t.Errorf("%s: %d scored, errored %+v, counts %+v", name, ledger.Scored, summary.Errored, summary.Counts)
		}
	}
}
