package rollout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/internal/testkit"
	"github.com/csenv/csenv/internal/testkit/dialect"
	scripted "github.com/csenv/csenv/internal/testkit/model"
)

// agentAt returns an agent behind an endpoint. It doesn't wait between requests.
func agentAt(t *testing.T, endpoint http.Handler, concurrency int, mode policy.Mode) policy.Factory {
	t.Helper()
	server := httptest.NewServer(endpoint)
	t.Cleanup(server.Close)
	factory, err := policy.New(policy.Config{Type: policy.TypeOpenAI, OpenAI: &policy.OpenAIConfig{
		BaseURL: server.URL + "/v1", Model: "m", Mode: mode, MaxTokens: 500}}, policy.Options{Environment: "ticket",
		Concurrency: concurrency, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	if err != nil {
		t.Fatal(err)
	}
	return factory
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
			call, err := scripted.Call(asked.Tools, "call-1", json.RawMessage(action))
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
				cfg := config(t, p, policy.Null, pod)
				cfg.EpisodeAttempts, cfg.Concurrency = 1, 1
				cfg.Plan.Run = fmt.Sprintf("run-%d-%s", i, strings.ToLower(string(mode)))
				cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
				cfg.Policy = agentAt(t, d.Wrap(simple(t)), 1, mode)
				ledger, summary := run(t, cfg)
				if ledger.Scored+ledger.Failed != 2 || ledger.Tasks[0].Sum != 2*420_000 {
					t.Errorf("%d scored, %d failed, %+v, errored %+v", ledger.Scored, ledger.Failed, ledger.Tasks,
						summary.Errored)
				}
			})
		}
	}
}

// faults are answers that are none of the model's.
func faults() []func(w http.ResponseWriter, plain []byte) {
	say := func(status int, body string, header ...string) func(http.ResponseWriter, []byte) {
		return func(w http.ResponseWriter, _ []byte) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	swap := func(old, new string) func(http.ResponseWriter, []byte) {
		return func(w http.ResponseWriter, plain []byte) {
			fmt.Fprint(w, strings.Replace(string(plain), old, new, 1))
		}
	}
	return []func(http.ResponseWriter, []byte){
		say(429, `{"error": {"message": "slow down"}}`, "Retry-After", "15.5"),
		say(429, `{"error": {"message": "Rate limit reached. Please try again in 7.66s."}}`, "X-RateLimit-Reset-Tokens", "6m0s"),
		say(500, `{"error": {"message": "The server had an error processing your request", "type": "server_error"}}`),
		say(502, "<html>bad gateway</html>"), say(503, ""), say(529, `{"type":"error","error":{"type":"overloaded_error"}}`),
		say(408, ""), say(424, `{"error": "Request failed during generation", "error_type": "generation"}`), say(499, ""),
		say(400, `{"error": {"message": "The upstream is temporarily unavailable"}}`),
		say(200, `{"error": {"code": 429, "message": "Rate limited"}}`),
		say(200, `{"error": {"code": 502, "message": "Provider returned error", "metadata": {"raw": "upstream"}}}`),
		say(200, `{"error": "overloaded"}`), say(200, `{"object": "error", "message": "engine is dead", "code": 50001}`),
		say(200, ""), say(200, "{}"), say(200, "<html>maintenance</html>"), say(200, `{"choices": []}`),
		say(200, `{"choices": null}`), say(200, `{"choices": [{"finish_reason": "stop"}]}`), say(200, `"hello"`),
		say(200, `{"choices": [{"message": {"role": "assistant", "content": null}, "finish_reason": "stop"}]}`),
		say(200, `{"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "load"}]}`),
		say(200, `{"choices": [{"message": {"content": "", "tool_calls": 7}, "finish_reason": "stop"}]}`),
		say(200, `{"choices": [{"message": {"content": "I"}, "finish_reason": "error", "error": {"code": 502}}]}`),
		say(200, `{"choices": [{"message": {"content": ""}, "finish_reason": "insufficient_system_resource"}]}`),
		say(200, `{"choices": [{"message": {"content": ""}, "finish_reason": "tool_calls"}], "usage": {"completion_tokens": 9}}`),
		say(200, "data: {\"choices\": [{\"delta\": {\"content\": \"I\"}}]}\n\n", "Content-Type", "text/event-stream"),
		say(200, "data: {\"error\": {\"code\": 503, \"message\": \"lost\"}}\n\n", "Content-Type", "text/event-stream"),
		swap(`"stop"`, `"error"`), swap(`"stop"`, `"abort"`), swap(`"choices"`, `"error":{"message":"lost"},"choices"`),
		func(w http.ResponseWriter, plain []byte) { _, _ = w.Write(plain[:len(plain)/2]) },
		func(w http.ResponseWriter, plain []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(plain)))
			_, _ = w.Write(plain[:len(plain)/2])
			panic(http.ErrAbortHandler)
		},
	}
}

// injector answers a fifth of the requests with one of the faults. Which, follows from the request
// and from how often it was sent.
type injector struct {
	plain http.Handler

	mu       sync.Mutex
	sent     map[string]int
	injected map[int]int
}

func (f *injector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.sent[string(body)]++
	sum := sha256.Sum256(fmt.Appendf(body, "%d", f.sent[string(body)]))
	faulty, which := sum[0] < 51, int(sum[1])%len(faults()) // 51 of 256
	if faulty {
		f.injected[which]++
	}
	f.mu.Unlock()
	recorded := httptest.NewRecorder()
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.plain.ServeHTTP(recorded, r)
	if !faulty {
		_, _ = w.Write(recorded.Body.Bytes())
		return
	}
	faults()[which](w, recorded.Body.Bytes())
}

// Where a fifth of the answers is a failure of the endpoint, the scores are those of the model alone.
func TestFaultsCostNoScore(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := only(t, kind, "ticket-resolve", 40, 2)
	var sums []int64
	for _, faulty := range []bool{false, true} {
		endpoint, err := scripted.New(policy.Heuristic, testkit.Catalog(t))
		if err != nil {
			t.Fatal(err)
		}
		endpoint.Fault = func(err error) { t.Error(err) }
		f := &injector{plain: endpoint, sent: map[string]int{}, injected: map[int]int{}}
		cfg := config(t, p, policy.Null, pod)
		cfg.Plan.Run = fmt.Sprint("run-faulty-", faulty)
		if cfg.Policy = agentAt(t, endpoint, 4, policy.ModeTools); faulty {
			cfg.Policy = agentAt(t, f, 4, policy.ModeTools)
		}
		ledger, summary := run(t, cfg)
		sums = append(sums, ledger.Tasks[0].Sum)
		if ledger.Scored+ledger.Failed != p.Episodes() || len(summary.Errored) > 0 {
			t.Errorf("%d scored, %d failed of %d, errored %+v", ledger.Scored, ledger.Failed, p.Episodes(), summary.Errored)
		}
		if faulty && len(f.injected) < len(faults())*3/4 {
			t.Errorf("%d of %d faults were injected", len(f.injected), len(faults()))
		}
	}
	if sums[0] != sums[1] || sums[0] == 0 {
		t.Errorf("the sum is %s, and %s with faults", score.Decimal(sums[0]), score.Decimal(sums[1]))
	}
}
