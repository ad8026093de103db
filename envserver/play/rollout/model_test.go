package rollout

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/stats"
	"github.com/csenv/csenv/envserver/testkit"
	scripted "github.com/csenv/csenv/envserver/testkit/model"
)

// model is a scripted endpoint, with a record of its use.
type model struct {
	*scripted.Endpoint
	url string

	mu    sync.Mutex
	waits []time.Duration
	keys  map[string]int
}

const agentKey = "sk-secret-of-the-agent"

func newModel(t *testing.T, p score.Plan, name string) *model {
	t.Helper()
	endpoint, err := scripted.New(name, testkit.Catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	endpoint.Episodes, endpoint.Fault = map[int64]score.PlannedEpisode{}, func(err error) { t.Error(err) }
	m := &model{Endpoint: endpoint, keys: map[string]int{}}
	for shard := range p.Shards {
		for e := range p.Shard(shard) {
			m.Episodes[scripted.SeedOf("", e)] = e
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.keys[r.Header.Get("Authorization")]++
		m.mu.Unlock()
		m.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// agent returns an agent that uses the endpoint.
func (m *model) agent(t *testing.T, environment string, concurrency int,
	change func(*policy.OpenAIConfig)) policy.Factory {
	t.Helper()
	c := policy.OpenAIConfig{BaseURL: m.url + "/v1", Model: "scripted"}
	if change != nil {
		change(&c)
	}
	agent, err := policy.New(policy.Config{Type: policy.TypeOpenAI, OpenAI: &c}, policy.Options{
		Environment: environment, Key: agentKey, Concurrency: concurrency,
		Wait: func(ctx context.Context, d time.Duration) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.waits = append(m.waits, d)
			return ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return agent.Play
}

func workflowKind(tb testing.TB) episode.Kind {
	tb.Helper()
	kind, err := workflow.New(testkit.Catalog(tb), offline.New())
	if err != nil {
		tb.Fatal(err)
	}
	return kind
}

// only returns a plan with a single task.
func only(t *testing.T, kind episode.Kind, task string, n, trials int) score.Plan {
	t.Helper()
	p := plan(t, kind, n, trials, 1)
	for _, planned := range p.Tasks {
		if planned.Name == task {
			p.Tasks = []score.PlanTask{planned}
		}
	}
	p, err := score.NewPlan(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// throughTasks runs the test for each task that models play.
func throughTasks(t *testing.T, test func(t *testing.T, kind episode.Kind, task string, n int)) {
	tickets, workflows := ticketKind(t, offline.New()), workflowKind(t)
	for task, tc := range map[string]struct {
		kind episode.Kind
		n    int
	}{"ticket-resolve": {tickets, 4}, "queue-management": {tickets, 1}, "payment-exception": {workflows, 4}} {
		t.Run(task, func(t *testing.T) {
			t.Parallel()
			test(t, tc.kind, task, tc.n)
		})
	}
}

// run plays the plan's only shard and returns its ledger.
func run(t *testing.T, cfg Config) (*score.Ledger, score.Summary) {
	t.Helper()
	summary, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	return ledgerOf(t, summary), summary
}

// A model that has only its conversation gets the score of the same policy with all observations:
// no information is lost, with or without tools.
func TestModelsReceiveEverything(t *testing.T) {
	throughTasks(t, func(t *testing.T, kind episode.Kind, task string, n int) {
		_, pod := serve(t, kind, 0)
		for _, name := range []string{policy.Heuristic, policy.Oracle} {
			p := only(t, kind, task, n, 2)
			p.Run = "run-" + name
			cfg := config(t, p, policy.Noop, pod)
			cfg.Environment = kind.Name()
			var err error
			if cfg.Policy, err = policy.NewBuiltin(name, kind.Name(), testkit.Catalog(t)); err != nil {
				t.Fatal(err)
			}
			direct, _ := run(t, cfg)
			for _, mode := range []policy.Mode{policy.ModeTools, policy.ModeJSON} {
				endpoint := newModel(t, p, name)
				cfg.Policy = endpoint.agent(t, kind.Name(), 4, func(c *policy.OpenAIConfig) { c.Mode = mode })
				cfg.Plan.Run = "run-" + name + string(mode)
				asked, summary := run(t, cfg)
				if diff := cmp.Diff(direct.Tasks, asked.Tasks, cmp.AllowUnexported(stats.Durations{})); diff != "" ||
					len(summary.Errored) > 0 {
					t.Errorf("%s by %s, errored %v (-direct +asked)\n%s", name, mode, summary.Errored, diff)
				}
				if len(endpoint.keys) != 1 || endpoint.keys["Bearer "+agentKey] == 0 {
					t.Errorf("the key was not sent: %v", len(endpoint.keys))
				}
			}
		}
	})
}

// An invalid answer of a model is played and refused, so it counts against the model: the episode
// ends and is scored.
func TestInvalidAnswersFailTheEpisode(t *testing.T) {
	kind := ticketKind(t, offline.New())
	say := func(text string) func(scripted.Request, map[string]any) {
		return func(_ scripted.Request, answer map[string]any) { answer["content"], answer["tool_calls"] = text, nil }
	}
	calls := func(name, arguments string) func(scripted.Request, map[string]any) {
		return func(_ scripted.Request, answer map[string]any) {
			answer["tool_calls"] = []any{map[string]any{"id": "", "type": "function",
				"function": map[string]any{"name": name, "arguments": arguments}}}
		}
	}
	tests := map[string]struct {
		shape   func(scripted.Request, map[string]any)
		refused string
		told    string
	}{
		"no call":        {say("I would refund it."), "action_type should be one of", "That was no action"},
		"nothing":        {say(""), "action_type should be one of", "That was no action"},
		"no type":        {say(`{"message": "Hello"}`), "action_type is required", ""},
		"unknown action": {say(`{"action_type": "dance"}`), "action_type should be one of", ""},
		"unknown tool":   {calls("dance", "{}"), "action_type should be one of", ""},
		"broken arguments": {calls("respond", `{"message": "Hel`), "action_type should be one of",
			`The arguments were no JSON object: {"message": "Hel`},
		"wrong arguments": {calls("classify", `{"category": "love"}`), "category should be one of", ""},
		"no arguments":    {calls("respond", ""), "respond needs message", ""},
		"smuggled type": {calls("respond", `{"action_type": "resolve", "message": "x"}`),
			"action_type should be one of", ""},
		"far too long": {calls("respond", `{"message": "`+strings.Repeat("a", 200_000)+`"}`),
			"action_type should be one of", "The arguments were no JSON object"},
		"too long": {calls("respond", `{"message": "`+strings.Repeat("a", 20_000)+`"}`),
			"at most 4000 characters", ""},
		"too deep": {say(`{"a":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`),
			"action_type", ""},
		"no text": {say("\x00\ufffd{"), "action_type should be one of", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pod := serve(t, kind, 0)
			p := only(t, kind, "ticket-resolve", 1, 1)
			endpoint := newModel(t, p, policy.Noop)
			var heard []string
			endpoint.Shape = func(a scripted.Request, answer map[string]any) {
				heard = append(heard, a.Messages[len(a.Messages)-1].Content)
				tc.shape(a, answer)
			}
			var kept []record.Episode
			cfg := config(t, p, policy.Noop, pod)
			cfg.Record = func(e record.Episode) { kept = append(kept, e) }
			cfg.Policy = endpoint.agent(t, kind.Name(), 1, nil)
			ledger, summary := run(t, cfg)
			if ledger.Failed != 1 || len(summary.Errored) > 0 || summary.Retried > 0 || summary.Mute != 1 {
				t.Fatalf("%d failed, %d scored, errored %v, retried %d, %d without an action", ledger.Failed, ledger.Scored,
					summary.Errored, summary.Retried, summary.Mute)
			}
			if n := endpoint.Calls(); n != episode.MaxInvalidActions {
				t.Errorf("the model got %d requests, want %d", n, episode.MaxInvalidActions)
			}
			if !strings.Contains(heard[1], tc.refused) || !strings.Contains(heard[1], tc.told) {
				t.Errorf("the model received %.400q, want %q and %q", heard[1], tc.refused, tc.told)
			}
			if size := len(kept[0].Turns[0].Action); size > 64<<10 || kept[0].Turns[0].Refused == "" {
				t.Errorf("an action of %d bytes was recorded, refused as %q", size, kept[0].Turns[0].Refused)
			}
		})
	}
}

// Of two calls in one answer the first is played, and the model is informed.
func TestFirstOfTwoCallsIsPlayed(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := only(t, kind, "ticket-resolve", 2, 1)
	endpoint := newModel(t, p, policy.Oracle)
	told := 0
	endpoint.Shape = func(a scripted.Request, answer map[string]any) {
		second, err := scripted.MakeCall(a.Tools, "second", json.RawMessage(`{"action_type":"escalate","team":"nobody"}`))
		if err != nil {
			t.Error(err)
		}
		answer["tool_calls"] = append(answer["tool_calls"].([]any), second)
		last := a.Messages[len(a.Messages)-1]
		if strings.Contains(last.Content, "You called 2 tools in one answer") {
			told++
		}
		for _, m := range a.Messages {
			if len(m.ToolCalls) > 1 {
				t.Error("the second call is in the conversation, without an answer to it")
			}
		}
	}
	cfg := config(t, p, policy.Noop, pod)
	cfg.Concurrency = 1
	cfg.Policy = endpoint.agent(t, kind.Name(), 1, nil)
	ledger, _ := run(t, cfg)
	if ledger.Tasks[0].Passes != 2 || told == 0 {
		t.Errorf("%d passes of 2; the model was informed %d times", ledger.Tasks[0].Passes, told)
	}
}

// Features that an endpoint refuses are omitted from all further requests, except those that the
// configuration names.
func TestEndpointsWithFewerFeatures(t *testing.T) {
	kind := ticketKind(t, offline.New())
	refuse := func(named, member string) func(a scripted.Request) string {
		return func(a scripted.Request) string {
			if a.Raw[member] != nil {
				return named
			}
			return ""
		}
	}
	tests := map[string]struct {
		complaints []func(a scripted.Request) string
		// without lists members that the last request must not have.
		without []string
		change  func(*policy.OpenAIConfig)
		class   string
	}{
		"tool choice": {complaints: []func(scripted.Request) string{refuse("tool_choice 'required' is not supported",
			"tool_choice")}, without: []string{"tool_choice"}},
		"strict": {complaints: []func(scripted.Request) string{func(a scripted.Request) string {
			if strings.Contains(string(a.Raw["tools"]), `"strict"`) {
				return "Invalid schema for function 'classify': unknown keyword"
			}
			return ""
		}}},
		"one call": {complaints: []func(scripted.Request) string{
			refuse("Unrecognized request argument supplied: parallel_tool_calls", "parallel_tool_calls")},
			without: []string{"parallel_tool_calls"}},
		"tools": {complaints: []func(scripted.Request) string{refuse("this model does not support tools", "tools")},
			without: []string{"tools", "tool_choice", "parallel_tool_calls"}},
		"nothing": {
			complaints: []func(scripted.Request) string{refuse("tools: unknown field", "tools"),
				refuse("response_format is unknown", "response_format")},
			without: []string{"tools", "response_format"},
		},
		"schemas": {
			complaints: []func(scripted.Request) string{func(a scripted.Request) string {
				if strings.Contains(string(a.Format), "json_schema") {
					return "response_format.type: json_schema is unknown, use json_object"
				}
				return ""
			}},
			change: func(c *policy.OpenAIConfig) { c.Mode = policy.ModeJSON },
		},
		"max tokens": {
			complaints: []func(scripted.Request) string{
				refuse("Unsupported parameter: 'max_tokens' is not supported with this model. Use "+
					"'max_completion_tokens' instead.", "max_tokens")},
			without: []string{"max_tokens"}, change: func(c *policy.OpenAIConfig) { c.MaxTokens = 300 },
		},
		"temperature": {
			complaints: []func(scripted.Request) string{refuse("Unsupported value: 'temperature' does not support 0.2",
				"temperature")},
			change: func(c *policy.OpenAIConfig) { c.Temperature = "0.2" }, class: score.ClassAgentError,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pod := serve(t, kind, 0)
			p := only(t, kind, "ticket-resolve", 2, 1)
			endpoint := newModel(t, p, policy.Oracle)
			var last scripted.Request
			endpoint.Trouble = func(w http.ResponseWriter, r *http.Request, a scripted.Request) bool {
				last = a
				for _, complaint := range tc.complaints {
					if text := complaint(a); text != "" {
						body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": text, "param": nil,
							"type": "invalid_request_error"}})
						return status(http.StatusBadRequest, string(body))(w, r, a)
					}
				}
				return false
			}
			cfg := config(t, p, policy.Noop, pod)
			cfg.Concurrency = 1
			cfg.Policy = endpoint.agent(t, kind.Name(), 1, tc.change)
			ledger, summary := run(t, cfg)
			if tc.class != "" {
				if ledger.Scored > 0 || summary.Errored[0].Class != tc.class {
					t.Errorf("%d scored, errored %v", ledger.Scored, summary.Errored)
				}
				return
			}
			if ledger.Scored != 2 || ledger.Tasks[0].Passes != 2 || summary.Retried > 0 {
				t.Errorf("%d scored, %d retried, errored %v", ledger.Scored, summary.Retried, summary.Errored)
			}
			for _, member := range tc.without {
				if last.Raw[member] != nil {
					t.Errorf("the last request has %s: %s", member, last.Raw[member])
				}
			}
		})
	}
}
