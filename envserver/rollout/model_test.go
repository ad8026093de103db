package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/workflow"
)

// message is one of the messages of a request.
type message struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// asked is a request to the scripted endpoint.
type asked struct {
	n        int64
	Seed     int64           `json:"seed"`
	Messages []message       `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Format   json.RawMessage `json:"response_format"`
	Choice   json.RawMessage `json:"tool_choice"`
	raw      map[string]json.RawMessage
}

// scripted is an OpenAI-compatible endpoint that plays as a built-in policy does, with nothing to go by but the messages, and misbehaves as its script says.
type scripted struct {
	*httptest.Server
	factory     policy.Factory
	environment string
	episodes    map[int64]score.PlannedEpisode
	calls       atomic.Int64
	// trouble answers a request in place of the model, and says whether it did.
	trouble func(w http.ResponseWriter, r *http.Request, a asked) bool
	// shape changes the answer of the model.
	shape func(a asked, answer map[string]any)

	mu      sync.Mutex
	waits   []time.Duration
	authors map[string]int
}

const agentKey = "sk-secret-of-the-agent"

func newScripted(t *testing.T, p score.Plan, environment, name string) *scripted {
	t.Helper()
	factory, err := policy.Builtin(name, environment, catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{factory: factory, environment: environment, episodes: map[int64]score.PlannedEpisode{}, authors: map[string]int{}}
	for shard := range p.Shards {
		for e := range p.Shard(shard) {
			s.episodes[e.Seed&0x7fff_ffff] = e
		}
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(t, w, r) }))
	t.Cleanup(s.Close)
	return s
}

func (s *scripted) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	a := asked{n: s.calls.Add(1)}
	var body json.RawMessage
	if err := errors.Join(json.NewDecoder(r.Body).Decode(&body), json.Unmarshal(body, &a), json.Unmarshal(body, &a.raw)); err != nil {
		t.Errorf("the request is no JSON: %v", err)
	}
	s.mu.Lock()
	s.authors[r.Header.Get("Authorization")]++
	s.mu.Unlock()
	if r.URL.Path != "/v1/chat/completions" {
		t.Errorf("asked at %s", r.URL.Path)
	}
	if s.trouble != nil && s.trouble(w, r, a) {
		return
	}
	action, err := s.act(t.Context(), a)
	if err != nil {
		t.Errorf("request %d: %v", a.n, err)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	answer := map[string]any{"role": "assistant", "content": nil}
	if a.Tools != nil {
		answer["content"] = "I think so."
		answer["tool_calls"] = []any{toolCall(fmt.Sprintf("call-%d", a.n), action)}
	} else {
		answer["content"] = "Here it is:\n```json\n" + string(action) + "\n```"
	}
	if s.shape != nil {
		s.shape(a, answer)
	}
	complete(w, answer)
}

// complete answers with a completion.
func complete(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]any{
		"id": "x", "object": "chat.completion", "created": 1, "model": "scripted",
		"choices": []any{map[string]any{"index": 0, "message": answer, "finish_reason": "stop"}},
		"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
	}); err != nil {
		panic(http.ErrAbortHandler) // the agent has gone
	}
}

// toolCall makes a call of an action.
func toolCall(id string, action json.RawMessage) map[string]any {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(action, &members); err != nil {
		panic(err)
	}
	var name string
	_ = json.Unmarshal(members["action_type"], &name)
	delete(members, "action_type")
	arguments, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	if payload, nested := members["payload"]; nested {
		arguments = payload
	}
	return map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": string(arguments)}}
}

// act plays the episode from its messages: the policy is told every observation again, put together from what was told of it.
func (s *scripted) act(ctx context.Context, a asked) (json.RawMessage, error) {
	planned, ok := s.episodes[a.Seed]
	if !ok {
		return nil, fmt.Errorf("no episode has the seed %d", a.Seed)
	}
	agent, err := s.factory(planned)
	if err != nil {
		return nil, err
	}
	turn := policy.Turn{Environment: s.environment, Task: planned.Task, Planned: planned}
	var action, seen json.RawMessage
	for _, m := range a.Messages[1:] {
		if m.Role == "assistant" {
			continue
		}
		turn.Refused = ""
		if text, refused := strings.CutPrefix(m.Content, "Refused, and nothing was done: "); refused {
			turn.Refused = text
		} else if seen, err = observed(seen, m.Content); err != nil {
			return nil, err
		}
		turn.Observation = seen
		if action, err = agent.Act(ctx, turn); err != nil {
			return nil, err
		}
		turn.Step++
	}
	return action, nil
}

// observed puts an observation together from the one before it and what a message tells of its changes.
func observed(before json.RawMessage, content string) (json.RawMessage, error) {
	_, text, ok := strings.Cut(content, "Observation: ")
	if _, full, long := strings.Cut(content, "The observation in full: "); long {
		before, text, ok = nil, full, true
	}
	if !ok {
		return nil, fmt.Errorf("a message tells of no observation: %.200s", content)
	}
	was, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if before != nil {
		if err := json.Unmarshal(before, &was); err != nil {
			return nil, err
		}
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&is); err != nil {
		return nil, fmt.Errorf("reading %.200s: %w", text, err)
	}
	for name, value := range is {
		var grown struct{ Added []json.RawMessage }
		if json.Unmarshal(value, &grown) == nil && grown.Added != nil {
			var list []json.RawMessage
			if err := json.Unmarshal(was[name], &list); err != nil {
				return nil, err
			}
			whole, err := json.Marshal(append(list, grown.Added...))
			if err != nil {
				return nil, err
			}
			is[name] = whole
		}
	}
	maps.Copy(was, is)
	return json.Marshal(was)
}

// model is an agent that asks the endpoint.
func (s *scripted) model(t *testing.T, environment string, concurrency int, change func(*policy.OpenAIConfig)) policy.Factory {
	t.Helper()
	c := policy.OpenAIConfig{BaseURL: s.URL + "/v1", Model: "scripted"}
	if change != nil {
		change(&c)
	}
	factory, err := policy.New(policy.Config{Type: policy.TypeOpenAI, OpenAI: &c}, policy.Options{
		Environment: environment, Key: agentKey, Concurrency: concurrency,
		Wait: func(ctx context.Context, d time.Duration) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.waits = append(s.waits, d)
			return ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return factory
}

func workflowKind(tb testing.TB) episode.Kind {
	tb.Helper()
	kind, err := workflow.New(catalog(tb), grader.NewOffline())
	if err != nil {
		tb.Fatal(err)
	}
	return kind
}

// only is the plan's one task.
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

// throughTasks runs the test for each task that a model is to play.
func throughTasks(t *testing.T, test func(t *testing.T, kind episode.Kind, task string, n int)) {
	tickets, workflows := ticketKind(t, grader.NewOffline()), workflowKind(t)
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

// run plays the plan's one shard and returns its ledger.
func run(t *testing.T, cfg Config) (*score.Ledger, score.Summary) {
	t.Helper()
	summary, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	return ledgerOf(t, summary), summary
}

// A model that knows no more than what it is told scores what the same policy scores that sees everything: nothing is lost on the way, neither with tools nor without.
func TestModelsAreToldEverything(t *testing.T) {
	throughTasks(t, func(t *testing.T, kind episode.Kind, task string, n int) {
		_, pod := serve(t, kind, 0)
		for _, name := range []string{policy.Heuristic, policy.Oracle} {
			p := only(t, kind, task, n, 2)
			p.Run = "run-" + name
			cfg := config(t, p, policy.Null, pod)
			cfg.Environment = kind.Name()
			var err error
			if cfg.Policy, err = policy.Builtin(name, kind.Name(), catalog(t)); err != nil {
				t.Fatal(err)
			}
			direct, _ := run(t, cfg)
			for _, mode := range []policy.Mode{policy.ModeTools, policy.ModeJSON} {
				endpoint := newScripted(t, p, kind.Name(), name)
				cfg.Policy = endpoint.model(t, kind.Name(), 4, func(c *policy.OpenAIConfig) { c.Mode = mode })
				cfg.Plan.Run = "run-" + name + string(mode)
				asked, summary := run(t, cfg)
				if diff := cmp.Diff(direct.Tasks, asked.Tasks, cmp.AllowUnexported(score.Durations{})); diff != "" || len(summary.Errored) > 0 {
					t.Errorf("%s by %s, errored %v (-direct +asked)\n%s", name, mode, summary.Errored, diff)
				}
				if len(endpoint.authors) != 1 || endpoint.authors["Bearer "+agentKey] == 0 {
					t.Errorf("the key was not sent: %v", len(endpoint.authors))
				}
			}
		}
	})
}

// stall never answers.
func stall(_ http.ResponseWriter, r *http.Request, _ asked) bool {
	<-r.Context().Done()
	return true
}

// status answers with an error of the endpoint.
func status(code int, body string) func(http.ResponseWriter, *http.Request, asked) bool {
	return func(w http.ResponseWriter, _ *http.Request, _ asked) bool {
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "3")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
		return true
	}
}

// sometimes makes the trouble on every nth request.
func sometimes(n, remainder int64, trouble func(http.ResponseWriter, *http.Request, asked) bool) func(http.ResponseWriter, *http.Request, asked) bool {
	return func(w http.ResponseWriter, r *http.Request, a asked) bool {
		return a.n%n == remainder && trouble(w, r, a)
	}
}

// within makes the trouble on the requests from first to last.
func within(first, last int64, trouble func(http.ResponseWriter, *http.Request, asked) bool) func(http.ResponseWriter, *http.Request, asked) bool {
	return func(w http.ResponseWriter, r *http.Request, a asked) bool {
		return first <= a.n && a.n <= last && trouble(w, r, a)
	}
}

// An endpoint that is full, fails, hangs and breaks off all the time, and twice for so long that attempts are given up, costs time and no point.
func TestTroubleCostsNoScore(t *testing.T) {
	throughTasks(t, func(t *testing.T, kind episode.Kind, task string, n int) {
		_, pod := serve(t, kind, 0)
		p := only(t, kind, task, n, 1)
		endpoint := newScripted(t, p, kind.Name(), policy.Oracle)
		troubles := []func(http.ResponseWriter, *http.Request, asked) bool{
			sometimes(5, 1, status(429, `{"error": {"message": "slow down"}}`)),
			sometimes(7, 2, status(500, "<html>oops</html>")),
			sometimes(11, 3, func(http.ResponseWriter, *http.Request, asked) bool { panic(http.ErrAbortHandler) }),
			sometimes(13, 5, status(503, "")),
			within(3, 3, status(200, `{"choices": [`)),
		}
		// Of all that ask, one fails five times in a row.
		workers := int64(min(n, 4))
		long := []func(http.ResponseWriter, *http.Request, asked) bool{within(6, 5+5*workers, status(429, "")), within(9+5*workers, 8+10*workers, stall)}
		endpoint.trouble = func(w http.ResponseWriter, r *http.Request, a asked) bool {
			for _, trouble := range slices.Concat(long, troubles) {
				if trouble(w, r, a) {
					return true
				}
			}
			return false
		}
		cfg := config(t, p, policy.Null, pod)
		cfg.Environment = kind.Name()
		cfg.EpisodeAttempts = 10
		cfg.Policy = endpoint.model(t, kind.Name(), 4, func(c *policy.OpenAIConfig) { c.TimeoutSeconds = 1 })
		ledger, summary := run(t, cfg)
		if summary.RetriedBy[string(policy.RateLimited)] == 0 || summary.RetriedBy[string(policy.TimedOut)] == 0 {
			t.Errorf("retried %v, want some by both of the long troubles", summary.RetriedBy)
		}
		if ledger.Scored != p.Episodes() || len(summary.Errored) > 0 {
			t.Errorf("%d of %d scored, errored %v", ledger.Scored, p.Episodes(), summary.Errored)
		}
		if mean := ledger.Tasks[0].Sum / ledger.Tasks[0].Episodes; mean < 990_000 {
			t.Errorf("the mean is %s", score.Decimal(mean))
		}
		if want := int64(100 * len(endpoint.episodes)); summary.Tokens.Prompt < want || summary.Tokens.Prompt%100 != 0 || summary.Tokens.Completion != summary.Tokens.Prompt/100*7 {
			t.Errorf("%+v tokens, want at least %d read and 7 written for each 100", summary.Tokens, want)
		}
		if _, err := summary.Encode(); err != nil {
			t.Error(err)
		}
		if !slices.Contains(endpoint.waits, 3*time.Second) {
			t.Error("nobody waited the three seconds that the endpoint asked for")
		}
	})
}

// An endpoint that doesn't come round is an error of its class, never a score, and what it says of keys is told to nobody.
func TestDeadEndpointsAreNoScore(t *testing.T) {
	kind := ticketKind(t, grader.NewOffline())
	tests := map[string]struct {
		trouble func(http.ResponseWriter, *http.Request, asked) bool
		want    policy.Class
	}{
		"full":         {status(429, ""), policy.RateLimited},
		"down":         {status(502, ""), policy.Unavailable},
		"hanging":      {stall, policy.TimedOut},
		"wrong key":    {status(401, `{"error": {"message": "no such key: `+agentKey+`"}}`), policy.Refused},
		"wrong model":  {status(404, `{"error": {"message": "no such model"}}`), policy.Refused},
		"complaining":  {status(400, `{"error": {"message": "temperature of `+agentKey+` is not supported"}}`), policy.Refused},
		"moved":        {status(307, `{"choices": []}`), policy.Refused},
		"no protocol":  {status(200, `"hello"`), policy.Refused},
		"no choices":   {status(200, `{"choices": []}`), policy.Refused},
		"cut off":      {status(200, `{"choices": [{"message": {"content": "`), policy.Refused},
		"far too long": {status(200, `{"choices": [{"message": {"content": "`+strings.Repeat("a", 9<<20)+`"}}]}`), policy.Refused},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pod := serve(t, kind, 0)
			p := only(t, kind, "ticket-resolve", 1, 1)
			endpoint := newScripted(t, p, kind.Name(), policy.Oracle)
			endpoint.trouble = tc.trouble
			var logs strings.Builder
			var kept []record.Episode
			cfg := config(t, p, policy.Null, pod)
			cfg.EpisodeAttempts = 2
			cfg.Concurrency = 1
			cfg.Log = slog.New(slog.NewTextHandler(&logs, nil))
			cfg.Record = func(e record.Episode) { kept = append(kept, e) }
			cfg.Policy = endpoint.model(t, kind.Name(), 1, func(c *policy.OpenAIConfig) { c.TimeoutSeconds = 1 })
			if name == "hanging" {
				cfg.EpisodeAttempts = 1
			}
			ledger, summary := run(t, cfg)
			if want := int64(cfg.EpisodeAttempts - 1); summary.Retried != want || summary.RetriedBy[string(tc.want)] != want {
				t.Errorf("retried %d, %v; want %d", summary.Retried, summary.RetriedBy, want)
			}
			if ledger.Scored+ledger.Failed != 0 || len(summary.Errored) != 1 || summary.Errored[0].Class != string(tc.want) {
				t.Errorf("%d scored, %d failed, errored %v; want %s", ledger.Scored, ledger.Failed, summary.Errored, tc.want)
			}
			if len(kept) != 1 || kept[0].Score != nil || kept[0].Class != string(tc.want) {
				t.Errorf("recorded %+v", kept)
			}
			record, _ := json.Marshal(kept)
			if told := logs.String() + string(record); strings.Contains(told, agentKey) || !strings.Contains(told, string(tc.want)) {
				t.Errorf("told: %s", told)
			}
		})
	}
}

// What a model says badly is played and refused, so that it counts against the model: the episode is over and scored.
func TestBadAnswersAreTheModels(t *testing.T) {
	kind := ticketKind(t, grader.NewOffline())
	say := func(text string) func(asked, map[string]any) {
		return func(_ asked, answer map[string]any) { answer["content"], answer["tool_calls"] = text, nil }
	}
	calls := func(name, arguments string) func(asked, map[string]any) {
		return func(_ asked, answer map[string]any) {
			answer["tool_calls"] = []any{map[string]any{"id": "", "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}}
		}
	}
	tests := map[string]struct {
		shape   func(asked, map[string]any)
		refused string
		told    string
	}{
		"no call":          {say("I would refund it."), "action_type should be one of", "That was no action"},
		"nothing":          {say(""), "action_type should be one of", "That was no action"},
		"no type":          {say(`{"message": "Hello"}`), "action_type is required", ""},
		"unknown action":   {say(`{"action_type": "dance"}`), "action_type should be one of", ""},
		"unknown tool":     {calls("dance", "{}"), "action_type should be one of", ""},
		"broken arguments": {calls("respond", `{"message": "Hel`), "action_type should be one of", `The arguments were no JSON object: {"message": "Hel`},
		"wrong arguments":  {calls("classify", `{"category": "love"}`), "category should be one of", ""},
		"no arguments":     {calls("respond", ""), "respond needs message", ""},
		"smuggled type":    {calls("respond", `{"action_type": "resolve", "message": "x"}`), "action_type should be one of", ""},
		"far too long":     {calls("respond", `{"message": "`+strings.Repeat("a", 200_000)+`"}`), "action_type should be one of", "The arguments were no JSON object"},
		"too long":         {calls("respond", `{"message": "`+strings.Repeat("a", 20_000)+`"}`), "at most 4000 characters", ""},
		"too deep":         {say(`{"a":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`), "action_type", ""},
		"no text":          {say("\x00\ufffd{"), "action_type should be one of", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pod := serve(t, kind, 0)
			p := only(t, kind, "ticket-resolve", 1, 1)
			endpoint := newScripted(t, p, kind.Name(), policy.Null)
			var heard []string
			endpoint.shape = func(a asked, answer map[string]any) {
				heard = append(heard, a.Messages[len(a.Messages)-1].Content)
				tc.shape(a, answer)
			}
			var kept []record.Episode
			cfg := config(t, p, policy.Null, pod)
			cfg.Record = func(e record.Episode) { kept = append(kept, e) }
			cfg.Policy = endpoint.model(t, kind.Name(), 1, nil)
			ledger, summary := run(t, cfg)
			if ledger.Failed != 1 || len(summary.Errored) > 0 || summary.Retried > 0 {
				t.Fatalf("%d failed, %d scored, errored %v, retried %d", ledger.Failed, ledger.Scored, summary.Errored, summary.Retried)
			}
			if n := endpoint.calls.Load(); n != episode.MaxInvalidActions {
				t.Errorf("the model was asked %d times, want %d", n, episode.MaxInvalidActions)
			}
			if !strings.Contains(heard[1], tc.refused) || !strings.Contains(heard[1], tc.told) {
				t.Errorf("the model was told %.400q, want %q and %q", heard[1], tc.refused, tc.told)
			}
			if size := len(kept[0].Turns[0].Action); size > 64<<10 || kept[0].Turns[0].Refused == "" {
				t.Errorf("an action of %d bytes was recorded, refused as %q", size, kept[0].Turns[0].Refused)
			}
		})
	}
}

// Of two calls in one answer the first is played, and the model is told.
func TestFirstOfTwoCallsIsPlayed(t *testing.T) {
	kind := ticketKind(t, grader.NewOffline())
	_, pod := serve(t, kind, 0)
	p := only(t, kind, "ticket-resolve", 2, 1)
	endpoint := newScripted(t, p, kind.Name(), policy.Oracle)
	told := 0
	endpoint.shape = func(a asked, answer map[string]any) {
		answer["tool_calls"] = append(answer["tool_calls"].([]any), toolCall("second", json.RawMessage(`{"action_type":"escalate","team":"nobody"}`)))
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
	cfg := config(t, p, policy.Null, pod)
	cfg.Concurrency = 1
	cfg.Policy = endpoint.model(t, kind.Name(), 1, nil)
	ledger, _ := run(t, cfg)
	if ledger.Tasks[0].Passes != 2 || told == 0 {
		t.Errorf("%d passes of 2; the model was told %d times", ledger.Tasks[0].Passes, told)
	}
}

// What an endpoint doesn't know is left out of all further requests, down to the bare conversation; what it is asked for by name is not.
func TestEndpointsThatKnowLess(t *testing.T) {
	kind := ticketKind(t, grader.NewOffline())
	refuse := func(named, member string) func(a asked) string {
		return func(a asked) string {
			if a.raw[member] != nil {
				return named
			}
			return ""
		}
	}
	tests := map[string]struct {
		complaints []func(a asked) string
		// without are members that the last request must not have.
		without []string
		change  func(*policy.OpenAIConfig)
		class   string
	}{
		"tool choice": {complaints: []func(asked) string{refuse("tool_choice 'required' is not supported", "tool_choice")}, without: []string{"tool_choice"}},
		"strict": {complaints: []func(asked) string{func(a asked) string {
			if strings.Contains(string(a.Tools), `"strict"`) {
				return "Invalid schema for function 'classify': unknown keyword"
			}
			return ""
		}}},
		"one call": {complaints: []func(asked) string{refuse("Unrecognized request argument supplied: parallel_tool_calls", "parallel_tool_calls")}, without: []string{"parallel_tool_calls"}},
		"tools":    {complaints: []func(asked) string{refuse("this model does not support tools", "tools")}, without: []string{"tools", "tool_choice", "parallel_tool_calls"}},
		"nothing": {
			complaints: []func(asked) string{refuse("tools: unknown field", "tools"), refuse("response_format is unknown", "response_format")},
			without:    []string{"tools", "response_format"},
		},
		"schemas": {
			complaints: []func(asked) string{func(a asked) string {
				if strings.Contains(string(a.Format), "json_schema") {
					return "response_format.type: json_schema is unknown, use json_object"
				}
				return ""
			}},
			change: func(c *policy.OpenAIConfig) { c.Mode = policy.ModeJSON },
		},
		"max tokens": {
			complaints: []func(asked) string{refuse("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "max_tokens")},
			without:    []string{"max_tokens"}, change: func(c *policy.OpenAIConfig) { c.MaxTokens = 300 },
		},
		"temperature": {
			complaints: []func(asked) string{refuse("Unsupported value: 'temperature' does not support 0.2", "temperature")},
			change:     func(c *policy.OpenAIConfig) { c.Temperature = "0.2" }, class: string(policy.Refused),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pod := serve(t, kind, 0)
			p := only(t, kind, "ticket-resolve", 2, 1)
			endpoint := newScripted(t, p, kind.Name(), policy.Oracle)
			var last asked
			endpoint.trouble = func(w http.ResponseWriter, r *http.Request, a asked) bool {
				last = a
				for _, complaint := range tc.complaints {
					if text := complaint(a); text != "" {
						body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": text, "param": nil, "type": "invalid_request_error"}})
						return status(http.StatusBadRequest, string(body))(w, r, a)
					}
				}
				return false
			}
			cfg := config(t, p, policy.Null, pod)
			cfg.Concurrency = 1
			cfg.Policy = endpoint.model(t, kind.Name(), 1, tc.change)
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
				if last.raw[member] != nil {
					t.Errorf("the last request has %s: %s", member, last.raw[member])
				}
			}
		})
	}
}
