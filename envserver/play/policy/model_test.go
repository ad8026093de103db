package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// wanted is the part of a request that the tests check.
type wanted struct {
	Model     string   `json:"model"`
	MaxTokens *int     `json:"max_tokens"`
	Seed      *int64   `json:"seed"`
	Heat      *float64 `json:"temperature"`
	TopK      *int     `json:"top_k"`
	Store     *struct{ Keep []int }
	Choice    string `json:"tool_choice"`
	Parallel  *bool  `json:"parallel_tool_calls"`
	Messages  []struct {
		Role, Content string
		ToolCallID    string `json:"tool_call_id"`
		ToolCalls     []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Type     string
		Function struct {
			Name, Description string
			Strict            bool
			Parameters        struct {
				Properties           map[string]json.RawMessage
				Required             []string
				AdditionalProperties *bool
			}
		}
	} `json:"tools"`
	Format struct {
		Type   string
		Schema struct {
			Strict bool
			Schema map[string]any
		} `json:"json_schema"`
	} `json:"response_format"`
}

// model makes an agent whose endpoint answers with the messages in turn, repeating the last one,
// and returns its requests.
func model(t *testing.T, change func(*policy.OpenAIConfig), answers ...string) (policy.Policy, *[]wanted) {
	t.Helper()
	asked := new([]wanted)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request wanted
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		*asked = append(*asked, request)
		answer := answers[min(len(*asked), len(answers))-1]
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices": [{"message": %s}], "usage": {"prompt_tokens": 11, "completion_tokens": -5}}`,
			answer)
	}))
	t.Cleanup(server.Close)
	c := policy.OpenAIConfig{BaseURL: server.URL, Model: "m"}
	if change != nil {
		change(&c)
	}
	return newAgent(t, policy.Config{Type: policy.TypeOpenAI, OpenAI: &c}), asked
}

// schema returns the action schema of an environment.
func schema(t *testing.T, environment string) json.RawMessage {
	t.Helper()
	for _, kind := range kinds(t) {
		if kind.Name() == environment {
			return kind.Schemas().Action
		}
	}
	t.Fatal("unknown environment")
	return nil
}

func see(t *testing.T, environment, task, observation string) policy.Turn {
	t.Helper()
	return policy.Turn{Environment: environment, Task: task, Observation: json.RawMessage(observation),
		Schema: schema(t, environment)}
}

const answer = `{"role": "assistant", "content": "Let me see.", "tool_calls": [{"id": "c1", "type": "function",` +
	` "function": {"name": "respond", "arguments": "{\"message\":\"Hello\"}"}}]}`

// text is an answer without a call.
func text(t *testing.T, content string) string {
	t.Helper()
	data, err := json.Marshal(map[string]string{"role": "assistant", "content": content})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Every setting of the agent is sent to the endpoint, and no other.
func TestSettingsAreSent(t *testing.T) {
	agent, asked := model(t, func(c *policy.OpenAIConfig) {
		c.Temperature, c.MaxTokens, c.ExtraBody, c.SystemPrompt = "0.25", 77, json.RawMessage(
			`{"top_k": 5, "Store": {"Keep": [1]}, "seed": 9}`), "Be brief."
	}, answer)
	if _, err := agent.Act(t.Context(), see(t, "ticket", "ticket-resolve", `{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	got := (*asked)[0]
	if got.Model != "m" || *got.MaxTokens != 77 || *got.Heat != 0.25 || *got.TopK != 5 || got.Store.Keep[0] != 1 ||
		*got.Seed != 9 || got.Choice != "required" || *got.Parallel {
		t.Errorf("asked %+v", got)
	}
	if told := got.Messages[0].Content; !strings.HasPrefix(told, "Be brief.\n\n") ||
		strings.Contains(told, "Larkfield") || !strings.Contains(told, "calling exactly one tool") {
		t.Errorf("the instructions are %q", told)
	}
	agent, asked = model(t, nil, answer)
	if _, err := agent.Act(t.Context(), see(t, "ticket", "ticket-resolve", `{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if got := (*asked)[0]; got.MaxTokens != nil || got.Heat != nil || *got.Seed != 520250822 {
		t.Errorf("asked %+v", got)
	}
	if usage := agent.(policy.Metered).Usage(); usage != (score.Tokens{Prompt: 11}) {
		t.Errorf("usage %+v: a negative count must be ignored", usage)
	}
}

// The tools are made from the served schema. They have the names, arguments and requirements of the
// environment's list of tools.
func TestToolsMatchTheEnvironment(t *testing.T) {
	for _, kind := range kinds(t) {
		agent, asked := model(t, nil, answer)
		if _, err := agent.Act(t.Context(), see(t, kind.Name(), "any", `{}`)); err != nil {
			t.Fatal(err)
		}
		tools := (*asked)[0].Tools
		if len(tools) != len(kind.Schemas().Tools) {
			t.Fatalf("%s: %d tools, want %d", kind.Name(), len(tools), len(kind.Schemas().Tools))
		}
		for i, want := range kind.Schemas().Tools {
			var input struct {
				Properties map[string]json.RawMessage
				Required   []string
			}
			if err := json.Unmarshal(want.InputSchema, &input); err != nil {
				t.Fatal(err)
			}
			got := tools[i].Function
			names := slices.Sorted(maps.Keys(input.Properties))
			if got.Name != want.Name || got.Description != want.Description && !strings.HasPrefix(got.Description,
				want.Description) || !got.Strict || *got.Parameters.AdditionalProperties {
				t.Errorf("%s: %+v, want %s: %s", kind.Name(), got, want.Name, want.Description)
			}
			if diff := cmp.Diff(names, slices.Sorted(maps.Keys(got.Parameters.Properties))); diff != "" {
				t.Errorf("%s: arguments (-want +got)\n%s", want.Name, diff)
			}
			if diff := cmp.Diff(names, slices.Sorted(slices.Values(got.Parameters.Required))); diff != "" {
				t.Errorf("%s: a strict schema requires all (-want +got)\n%s", want.Name, diff)
			}
			for name, property := range got.Parameters.Properties {
				if nullable := strings.Contains(string(property), `"null"`); nullable == slices.Contains(input.Required,
					name) {
					t.Errorf("%s.%s is %s", want.Name, name, property)
				}
			}
		}
	}
}

// The vocabulary of facts stands once in the instructions, if an action takes facts, and in no
// tool.
func TestModelsAreToldTheVocabulary(t *testing.T) {
	const item = `{"additionalProperties":false,"properties":{"what":{"description":"What is stated.","enum":[%s],` +
		`"type":"string"},"value":{"description":"Its value, in any usual form. At most 200 characters.",` +
		`"type":"string"}},"required":["what","value"],"type":"object"}`
	var names []string
	for _, n := range facts.Vocabulary {
		names = append(names, strconv.Quote(n.What))
	}
	for environment, with := range map[string]int{"ticket": 4, "workflow": 2} {
		for _, mode := range []policy.Mode{policy.ModeTools, policy.ModeJSON} {
			agent, asked := model(t, func(c *policy.OpenAIConfig) { c.Mode, c.SystemPrompt = mode, "Be kind." }, answer)
			if _, err := agent.Act(t.Context(), see(t, environment, "any", `{}`)); err != nil {
				t.Fatal(err)
			}
			told, tools := (*asked)[0].Messages[0].Content, testkit.EncodeJSON((*asked)[0].Tools)+
				testkit.EncodeJSON((*asked)[0].Format.Schema.Schema)
			if strings.Count(told, facts.Describe()) != 1 || !strings.Contains(told, "Be kind.") {
				t.Errorf("%s: told %s", environment, told)
			}
			if strings.Contains(tools, facts.Vocabulary[0].Meaning) {
				t.Errorf("%s: a tool repeats the vocabulary: %s", environment, tools)
			}
			if got := strings.Count(tools, fmt.Sprintf(item, strings.Join(names, ","))); mode == policy.ModeTools && got != with {
				t.Errorf("%s: %d tools have facts, want %d: %s", environment, got, with, tools)
			}
			if list := `"asks":{"description":"What the message asks the customer about.","items":{"enum":["order","photo",`; environment ==
				"workflow" && mode == policy.ModeTools && !strings.Contains(tools, list) {
				t.Errorf("a list of topics isn't offered: %s", tools)
			}
			if list := `"asks": ["order | photo | `; environment == "workflow" && mode == policy.ModeJSON && !strings.Contains(told,
				list) {
				t.Errorf("a list of topics isn't shown: %s", told)
			}
			if example := `"facts": [{"what": "<What is stated.>", "value": "<Its value`; mode == policy.ModeJSON &&
				strings.Count(told, example) != with {
				t.Errorf("%s: told %s", environment, told)
			}
		}
	}
	agent, asked := model(t, nil, answer)
	if _, err := agent.Act(t.Context(), see(t, "ticket", "any", `{"allowed_actions":["classify"]}`)); err != nil {
		t.Fatal(err)
	}
	if told := (*asked)[0].Messages[0].Content; strings.Contains(told, facts.Vocabulary[0].Meaning) {
		t.Errorf("without facts told %s", told)
	}
}

// Without tools the instructions list the same actions, and the model answers by a schema of them.
func TestModelsWithoutTools(t *testing.T) {
	for environment, tc := range map[string]struct{ answer, action, told string }{
		"ticket": {
			answer: `{"action_type": "respond", "message": "Hello", "category": null}`,
			action: `{"action_type":"respond","category":null,"message":"Hello"}`,
			told: `{"action_type": "classify", "category": "billing | shipping | technical | general",` +
				` "priority": "low | medium | high | urgent"}`,
		},
		"workflow": {
			answer: "Well:\n```json\n{\"action_type\": \"check_order_status\", \"payload\": {\"order_id\": " +
				"\"LD-1\"}}\n```\nThat is it.", action: `{"action_type":"check_order_status",` +
				`"payload":{"order_id":"LD-1"}}`,
			told: `{"action_type": "check_order_status",` +
				` "payload": {"order_id": "<An order's id, or a subscription's for its payments. At most 64 characters.>"}}`,
		},
	} {
		agent, asked := model(t, func(c *policy.OpenAIConfig) { c.Mode = policy.ModeJSON }, text(t, tc.answer))
		action, err := agent.Act(t.Context(), see(t, environment, "any", `{}`))
		if err != nil || string(action) != tc.action {
			t.Errorf("%s: Act() = %s, %v, want %s", environment, action, err, tc.action)
		}
		got := (*asked)[0]
		if len(got.Tools) > 0 || got.Choice != "" || got.Format.Type != "json_schema" || !got.Format.Schema.Strict ||
			!strings.Contains(got.Messages[0].Content, tc.told) {
			t.Errorf("%s: asked %+v", environment, got)
		}
		if said := agent.(policy.Speaker).Answer().Said; said != tc.answer {
			t.Errorf("%s: said %q", environment, said)
		}
	}
}

// An object that is an action is played, even if it has text around it.
func TestObjectsAreFound(t *testing.T) {
	tests := map[string]struct{ said, action string }{
		"bare":     {`{"action_type":"resolve"}`, `{"action_type":"resolve"}`},
		"wrapped":  {`{"action": {"action_type":"resolve"}}`, `{"action_type":"resolve"}`},
		"fenced":   {"```\n{\"action_type\":\"resolve\"}\n```", `{"action_type":"resolve"}`},
		"one line": {"```json {\"action_type\":\"resolve\"}```", `{"action_type":"resolve"}`},
		"last block": {
			"```json\n{\"action_type\":\"classify\"}\n```\nNo:\n```json\n{\"action_type\":\"resolve\"}\n```",
			`{"action_type":"resolve"}`},
		"in between":     {"I will {\"action_type\":\"resolve\"} now", `{"action_type":"resolve"}`},
		"thoughts":       {"<think>{hm}</think>{\"action_type\":\"resolve\"}", `{"action_type":"resolve"}`},
		"thoughts alone": {"<think>{\"action_type\":\"resolve\"}", `{"action_type":"(nothing)"}`},
		"two": {`{"action_type":"resolve"} {"action_type":"resolve"}`,
			`{"action_type":"{\"action_type\":\"resolve\"} {\"action_type\":\"resolve\"}"}`},
		"a fence only": {"```", "{\"action_type\":\"```\"}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			agent, _ := model(t, nil, text(t, tc.said))
			action, err := agent.Act(t.Context(), see(t, "ticket", "any", `{}`))
			var got, want any
			if err != nil || json.Unmarshal(action, &got) != nil || json.Unmarshal([]byte(tc.action), &want) != nil ||
				!cmp.Equal(got, want) {
				t.Errorf("Act() = %s, %v, want %s", action, err, tc.action)
			}
		})
	}
}

// The conversation contains every call with its answer: first the whole observation, then the
// changes.
func TestConversation(t *testing.T) {
	agent, asked := model(t, nil, answer)
	turn := see(t, "ticket", "ticket-resolve", `{"same":{"a":1},"list":[1,2],"other":[1],"step":0}`)
	for _, next := range []policy.Turn{
		turn,
		{Observation: turn.Observation, Refused: "no such thing"},
		{Observation: json.RawMessage(`{"same":{"a":1},"list":[1,2,{"b":3}],"other":[2],"step":1,"new":null}`)},
	} {
		if _, err := agent.Act(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
	last := (*asked)[2].Messages
	var got []string
	for _, m := range last[1:] {
		text := m.Role + ": " + m.Content
		for _, c := range m.ToolCalls {
			text += " " + c.ID + " " + c.Function.Name + c.Function.Arguments
		}
		got = append(got, strings.TrimSpace(text+" "+m.ToolCallID))
	}
	want := []string{
		`user: Task: ticket-resolve` + "\n" + `Observation: {"same":{"a":1},"list":[1,2],"other":[1],"step":0}`,
		`assistant: Let me see. c1 respond{"message":"Hello"}`,
		`tool: Refused, and nothing was done: no such thing c1`,
		`assistant: Let me see. c1 respond{"message":"Hello"}`,
		`tool: Observation: {"list":{"added":[{"b":3}]},"new":null,"other":[2],"step":1} c1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A conversation that is too long loses its old turns and keeps the current state. It mentions the
// cut and stays below its bound.
func TestLongConversationsAreShortened(t *testing.T) {
	agent, asked := model(t, nil, strings.ReplaceAll(answer, "Hello", strings.Repeat("m", 3000)))
	largest, repeated := 0, 0
	for step := range 60 {
		turn := see(t, "ticket", "ticket-resolve", fmt.Sprintf(`{"kept":"from the beginning","step":%d,"text":%q}`,
			step, strings.Repeat("t", 4000)+fmt.Sprint(step)))
		if _, err := agent.Act(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		messages := (*asked)[step].Messages
		size := 0
		for i, m := range messages[1:] {
			size += len(m.Content)
			for _, c := range m.ToolCalls {
				size += len(c.Function.Arguments)
			}
			if want := []string{"user", "assistant", "tool"}[min(i, 1)+(max(i, 1)-1)%2]; m.Role != want {
				t.Fatalf("message %d is of %s, want %s", i+1, m.Role, want)
			}
		}
		largest = max(largest, size)
		if last := messages[len(messages)-1].Content; strings.Contains(last, "Earlier turns were shortened.") {
			repeated++
			if !strings.Contains(last, `"kept":"from the beginning"`) {
				t.Errorf("step %d: the whole observation isn't repeated: %.300s", step, last)
			}
		}
	}
	if largest > 110<<10 || largest < 48<<10 {
		t.Errorf("the largest conversation has %d bytes", largest)
	}
	if repeated == 0 || repeated > 15 {
		t.Errorf("shortened %d times in 60 steps", repeated)
	}
}

// All episodes of a process wait if one was requested to wait, and stay within the process's share
// of the rate.
func TestPace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices": [{"message": %s}]}`, answer)
	}))
	defer server.Close()
	var waits []time.Duration
	made, err := policy.New(
		policy.Config{Type: policy.TypeOpenAI, OpenAI: &policy.OpenAIConfig{BaseURL: server.URL, Model: "m",
			RequestsPerMinute: 120}},
		policy.Options{Share: 4, Concurrency: 1, Wait: func(_ context.Context,
			d time.Duration) error {
			waits = append(waits, d)
			return nil
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		agent, err := made.Play(score.PlannedEpisode{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agent.Act(t.Context(), see(t, "ticket", "any", `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	last := waits[len(waits)-1]
	if want := 6 * time.Second; last > want || last < want-2*time.Second {
		t.Errorf("the fourth request of 30 a minute waited %v of %v, want about %v", last, waits, want)
	}
}

// No instruction contains the title, the team or an article of a scenario.
func TestInstructionsDoNotRevealScenarios(t *testing.T) {
	var told strings.Builder
	for task, environment := range map[string]string{
		"ticket-classify": "ticket", "ticket-resolve": "ticket", "queue-management": "ticket",
		"order-inquiry": "workflow", "refund": "workflow", "payment-exception": "workflow",
	} {
		agent, asked := model(t, nil, answer)
		told.WriteString(instructionsOf(t, agent, asked, environment, task))
	}
	text := strings.ToLower(told.String())
	for _, secret := range secretsOf(t, testkit.Catalog(t)) {
		if strings.Contains(text, strings.ToLower(secret)) {
			t.Errorf("the instructions contain %q", secret)
		}
	}
}

func instructionsOf(t *testing.T, agent policy.Policy, asked *[]wanted, environment, task string) string {
	t.Helper()
	if _, err := agent.Act(t.Context(), see(t, environment, task, `{}`)); err != nil {
		t.Fatal(err)
	}
	text := (*asked)[0].Messages[0].Content
	if len(text) < 500 || !strings.Contains(text, "Larkfield") {
		t.Errorf("%s: instructions of %d bytes", task, len(text))
	}
	return text
}

// secretsOf returns the names of scenarios, articles and teams.
func secretsOf(t *testing.T, c *scenarios.Catalog) []string {
	t.Helper()
	var secrets []string
	for _, s := range c.Tickets() {
		ticket, err := s.Instantiate(1)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, ticket.ScenarioID, ticket.Subject)
		if len(ticket.Gold.Team) > 5 {
			secrets = append(secrets, " "+ticket.Gold.Team+" ")
		}
	}
	return secrets
}

// The tools and the schema are those of the actions that the task allows, each with its own
// members.
func TestActionsOfTheTask(t *testing.T) {
	const first = `{"allowed_actions": ["classify", "escalate"]}`
	agent, asked := model(t, nil, answer)
	if _, err := agent.Act(t.Context(), see(t, "ticket", "ticket-classify", first)); err != nil {
		t.Fatal(err)
	}
	if got := (*asked)[0].Tools; len(got) != 2 || got[0].Function.Name != "classify" ||
		got[1].Function.Name != "escalate" {
		t.Errorf("offered %+v", got)
	}
	agent, asked = model(t, func(c *policy.OpenAIConfig) { c.Mode = policy.ModeJSON }, text(t, "{}"))
	if _, err := agent.Act(t.Context(), see(t, "ticket", "ticket-classify", first)); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal((*asked)[0].Format.Schema.Schema)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Action struct {
				AnyOf []struct {
					Required   []string
					Properties map[string]struct{ Type any }
				}
			}
		}
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	var members [][]string
	for _, variant := range schema.Properties.Action.AnyOf {
		members = append(members, variant.Required)
	}
	want := [][]string{{"action_type", "category", "priority"}, {"action_type", "facts", "message", "reason", "team"}}
	if diff := cmp.Diff(want, members); diff != "" {
		t.Errorf("members of the variants (-want +got)\n%s", diff)
	}
	if told := (*asked)[0].Messages[0].Content; strings.Contains(told, `"select_ticket"`) ||
		!strings.Contains(told, `"classify"`) {
		t.Errorf("told %s", told)
	}
}

// The model's message is sent back as it came, with members that the protocol doesn't have, and
// without what only servers write.
func TestMessagesAreSentBack(t *testing.T) {
	raw := `{"role": "assistant", "content": null, "refusal": null, "annotations": [], "reasoning_content": "Hm.",
		"tool_calls": [{"id": "c1", "index": 0, "type": "function",
			"extra_content": {"google": {"thought_signature": "c2ln"}},
		"function": {"name": "respond<|channel|>", "arguments": {"message": "Hello \ud83d"}, "note": 1}}, {"id": "c2", "type":
		"function", "function": {"name": "resolve", "arguments": "{}"}}]}`
	var bodies []map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		bodies = append(bodies, body)
		fmt.Fprintf(w, `{"choices": [{"message": %s}]}`, raw)
	}))
	defer server.Close()
	agent := newAgent(t, policy.Config{Type: policy.TypeOpenAI, OpenAI: &policy.OpenAIConfig{BaseURL: server.URL,
		Model: "m"}})
	for range 2 {
		action, err := agent.Act(t.Context(), see(t, "ticket", "any", `{}`))
		if err != nil || string(action) != "{\"action_type\":\"respond\",\"message\":\"Hello \uFFFD\"}" {
			t.Fatalf("Act() = %s, %v", action, err)
		}
	}
	want := map[string]any{"role": "assistant", "content": nil, "reasoning_content": "Hm.",
		"tool_calls": []any{map[string]any{
			"id": "c1", "index": 0., "type": "function",
			"extra_content": map[string]any{"google": map[string]any{"thought_signature": "c2ln"}},
			"function":      map[string]any{"name": "respond", "arguments": "{\"message\":\"Hello \uFFFD\"}", "note": 1.}}}}
	if diff := cmp.Diff(want, bodies[1]["messages"].([]any)[2]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A conversation that is too long for the model is shortened and sent again; one that can't be
// shortened is an error of its own class.
func TestConversationsThatAreTooLong(t *testing.T) {
	longest := 20 << 10
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var asked struct{ Messages json.RawMessage }
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Error(err)
		}
		if len(asked.Messages) > longest {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error": {"code": "context_length_exceeded", "message": "too many tokens in max_tokens"}}`)
			return
		}
		fmt.Fprintf(w, `{"choices": [{"message": %s}]}`, answer)
	}))
	defer server.Close()
	agent := newAgent(t, policy.Config{Type: policy.TypeOpenAI, OpenAI: &policy.OpenAIConfig{BaseURL: server.URL,
		Model: "m"}})
	for step := range 20 {
		turn := see(t, "ticket", "any", fmt.Sprintf(`{"step":%d,"text":%q}`, step, strings.Repeat("t",
			2000)+fmt.Sprint(step)))
		if _, err := agent.Act(t.Context(), turn); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	longest = 100
	_, err := agent.Act(t.Context(), see(t, "ticket", "any", `{}`))
	if e, ok := errors.AsType[*policy.EndpointError](err); !ok || e.Class != score.ClassAgentContext {
		t.Errorf("error = %v", err)
	}
}
