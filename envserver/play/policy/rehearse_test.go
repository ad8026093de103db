package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/play/policy"
)

// dialect is an endpoint's way to answer a request, by its body: a status and the answer.
type dialect func(body string) (int, string)

// rehearsing makes an agent whose endpoint speaks a dialect, and the turn to rehearse with.
func rehearsing(t *testing.T, mode policy.Mode, speak dialect) (*policy.Agent, policy.Turn) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		status, answer := speak(string(body))
		if r.Method == http.MethodGet {
			status, answer = http.StatusOK, `{"data": [{"id": "m", "max_model_len": 8192}]}`
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	agent, err := policy.New(policy.Config{Type: policy.TypeOpenAI, OpenAI: &policy.OpenAIConfig{
		BaseURL: server.URL, Model: "m", Mode: mode}}, policy.Options{Environment: "ticket",
		Wait: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return agent, see(t, "ticket", "ticket-resolve", `{}`)
}

const (
	calls = `{"choices": [{"message": {"content": null, "tool_calls": [{"id": "a", "type": "function",
		"function": {"name": "classify", "arguments": "{\"category\": \"billing\", \"priority\": \"low\"}"}}]}}],
		"usage": {"prompt_tokens": 900, "completion_tokens": 20}}`
	writes = `{"choices": [{"message": {"content": "{\"action_type\": \"classify\", \"category\": \"billing\"}"},
		"logprobs": {"content": [{"token": "{", "logprob": -0.5}]}}]}`
	chats = `{"choices": [{"message": {"content": "How can I help?"}}]}`
)

func refuses(what string) string {
	return fmt.Sprintf(`{"error": {"message": "%s is not supported", "param": "%s"}}`, what, what)
}

// advised is what to do if no answer was an action.
const advised = " If the model can't call tools, try --mode json; `csenv doctor` with the same endpoint and model " +
	"shows what it answers."

// A rehearsal has two turns with a result between them, and finds what the endpoint refuses.
func TestRehearse(t *testing.T) {
	for name, tc := range map[string]struct {
		speak dialect
		want  string // "" for an error that is permanent
		left  string
	}{
		"calls": {func(string) (int, string) { return 200, calls },
			"The endpoint answers with actions as calls of tools.", ""},
		"no seed": {func(body string) (int, string) {
			if strings.Contains(body, `"seed"`) {
				return 400, refuses("seed")
			}
			return 200, calls
		}, "The endpoint answers with actions as calls of tools.", "seed (of 2 requests)"},
		"no tools": {func(body string) (int, string) {
			if strings.Contains(body, `"tools"`) {
				return 400, refuses("tools")
			}
			return 200, writes
		}, "The endpoint answers with actions as JSON text. It counts no tokens, so no budget ends the run.",
			"tools (of 2 requests), strict schemas of tools (of 4 requests)"},
		"chat": {func(string) (int, string) { return 200, chats },
			`The endpoint answers with no action in two turns, but with "How can I help?".` + advised +
				` It counts no tokens, so no budget ends the run.`, ""},
		"a stray refusal": {func() dialect {
			n := 0
			return func(string) (int, string) {
				if n++; n == 1 {
					return 404, `{"error": {"message": "No endpoints found that support tool use"}}`
				}
				return 200, calls
			}
		}(), "The endpoint answers with actions as calls of tools.", ""},
		"a name that nobody offered": {func(string) (int, string) {
			return 200, strings.ReplaceAll(calls, "classify", "dance")
		}, `The endpoint answers with no action in two turns, but with "dance".` + advised, ""},
		"an action in the thoughts": {func(string) (int, string) {
			return 200, `{"choices": [{"message": {"content": null, "reasoning_content": "{\"action_type\": \"classify\"}"}}],
				"usage": {"completion_tokens": 9}}`
		}, `The endpoint answers with no action in two turns, but with "The answer is empty, and its member ` +
			`reasoning_content holds an action: switch the server's parser of […]".` + advised, ""},
		// As Gemini 3 did where the signature of its thoughts was not sent back.
		"the second turn is refused": {func(body string) (int, string) {
			if strings.Contains(body, `"role":"tool"`) {
				return 403, `{"error": {"message": "the call lacks its signature"}}`
			}
			return 200, calls
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			agent, turn := rehearsing(t, policy.ModeTools, tc.speak)
			seen, is, err := agent.Rehearse(t.Context(), turn)
			refused, ok := errors.AsType[*endpoint.Error](err)
			if tc.want == "" && (!ok || !refused.Permanent()) || tc.want != "" && (err != nil || seen.String() != tc.want) {
				t.Errorf("seen %q, want %q: %v", seen, tc.want, err)
			}
			if !is || agent.LeftOut() != tc.left {
				t.Errorf("a model: %v, left out %q, want %q", is, agent.LeftOut(), tc.left)
			}
		})
	}
	agent, err := policy.New(policy.Config{Type: policy.TypeBuiltin, Builtin: &policy.BuiltinConfig{
		Policy: policy.Noop}}, policy.Options{Environment: "ticket"})
	if err != nil {
		t.Fatal(err)
	}
	if _, is, err := agent.Rehearse(t.Context(), policy.Turn{}); is || err != nil {
		t.Errorf("a built-in policy was rehearsed: %v", err)
	}
}

// states are the abilities of a probe, abbreviated.
func states(abilities []policy.Ability) map[string]string {
	out := map[string]string{}
	for _, a := range abilities {
		out[a.Name] = a.State
	}
	return out
}

func TestProbe(t *testing.T) {
	asked := 0
	able := func(body string) (int, string) {
		if strings.Contains(body, `"tools"`) {
			return 200, calls
		}
		return 200, writes
	}
	poor := func(body string) (int, string) {
		asked++
		for _, refused := range []string{"tools", "seed", "response_format", "logprobs"} {
			if strings.Contains(body, `"`+refused+`"`) {
				return 400, refuses(refused)
			}
		}
		return 200, fmt.Sprintf(`{"choices": [{"message": {"content": "Hello %d"}}]}`, asked)
	}
	for name, tc := range map[string]struct {
		speak dialect
		want  map[string]string
	}{
		"able": {able, map[string]string{
			policy.AbilityTurns: "yes", policy.AbilityTools: "yes", policy.AbilityStrict: "yes", policy.AbilityForced: "yes",
			policy.AbilityJSON: "yes", policy.AbilitySeed: "yes", policy.AbilityLogProbs: "yes", policy.AbilityUsage: "yes",
			policy.AbilityContext: "yes", policy.AbilityLeftOut: "no"}},
		"poor": {poor, map[string]string{
			policy.AbilityTurns: "no", policy.AbilityTools: "no", policy.AbilityStrict: "no", policy.AbilityForced: "no",
			policy.AbilityJSON: "no", policy.AbilitySeed: "no", policy.AbilityLogProbs: "no", policy.AbilityUsage: "no",
			policy.AbilityContext: "yes", policy.AbilityLeftOut: "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			agent, turn := rehearsing(t, policy.ModeTools, tc.speak)
			var abilities []policy.Ability
			if err := agent.Probe(t.Context(), turn, func(a policy.Ability) {
				abilities = append(abilities, a)
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, states(abilities)); diff != "" {
				t.Errorf("%s\n%+v", diff, abilities)
			}
		})
	}
}

// A meter acts as the measured policy does, and its estimate grows with the conversation.
func TestMeter(t *testing.T) {
	meter, err := policy.NewMeter(policy.Config{Type: policy.TypeOpenAI, OpenAI: &policy.OpenAIConfig{
		BaseURL: "http://unused", Model: "m"}}, policy.Options{Environment: "ticket"})
	if err != nil {
		t.Fatal(err)
	}
	noop, err := policy.NewBuiltin(policy.Noop, "ticket", nil)
	if err != nil {
		t.Fatal(err)
	}
	turn := see(t, "ticket", "ticket-resolve", `{"ticket": "Where is my parcel?"}`)
	inner, err := noop(turn.Planned)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := meter.Measure(noop)(turn.Planned)
	if err != nil {
		t.Fatal(err)
	}
	var before int64
	for step := range 3 {
		turn.Step = step
		var actions [2]json.RawMessage
		for i, p := range []policy.Policy{inner, outer} {
			if actions[i], err = p.Act(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
		}
		requests, tokens := meter.Measured()
		if string(actions[0]) != string(actions[1]) || requests != int64(step+1) || tokens.Prompt <= 2*before ||
			tokens.Completion == 0 {
			t.Errorf("step %d: %s instead of %s, %d requests of %+v", step, actions[1], actions[0], requests, tokens)
		}
		before = tokens.Prompt / 2
	}
}
