// Package model is a scripted language model for tests: an OpenAI-compatible endpoint that plays
// like a built-in policy, using only the messages and tools of each request, and fails on request.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// The usage that every answer reports.
const (
	PromptTokens     = 100
	CompletionTokens = 7
)

// maxRequest bounds a request, in bytes.
const maxRequest = 1 << 20

// Message is one of the messages of a request.
type Message struct {
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

// Tool is one of the tools that a request offers.
type Tool struct {
	Function struct {
		Name       string `json:"name"`
		Strict     bool   `json:"strict"`
		Parameters struct {
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
		} `json:"parameters"`
	} `json:"function"`
}

// Request is a request for a chat completion.
type Request struct {
	// N counts the requests from 1.
	N int64 `json:"-"`
	// Key is the bearer token.
	Key      string          `json:"-"`
	Seed     int64           `json:"seed"`
	Messages []Message       `json:"messages"`
	Tools    []Tool          `json:"tools"`
	Format   json.RawMessage `json:"response_format"`
	// Raw contains all members of the body.
	Raw map[string]json.RawMessage `json:"-"`
}

// Task returns the task in the request's first message.
func (r Request) Task() string {
	if len(r.Messages) < 2 {
		return ""
	}
	task, _, _ := strings.Cut(strings.TrimPrefix(r.Messages[1].Content, "Task: "), "\n")
	return task
}

// turn counts the model's turns of the episode from 1.
func (r Request) turn() int {
	turn := 1
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	return turn
}

// Trial reports whether the request tries the endpoint and plays no episode.
func (r Request) Trial() bool { return len(r.Messages) == 1 && r.Tools == nil && r.Raw["seed"] == nil }

// Rehearsal reports whether the request is one of the two turns that a run plays before its first
// episode.
func (r Request) Rehearsal() bool {
	return len(r.Messages) > 1 && strings.Contains(r.Messages[1].Content, `{"trial":`)
}

// SeedOf returns the seed that an endpoint receives for an episode of a run with that key of ids.
func SeedOf(idKey string, planned score.PlannedEpisode) int64 {
	_, seed := policy.EpisodeID(idKey, planned)
	return seed
}

// Endpoint answers chat completions. Its fields are set before it serves; its functions must be
// safe for concurrent use.
type Endpoint struct {
	// Episodes contains the played episodes by SeedOf. It is nil for policies that need only the
	// observation.
	Episodes map[int64]score.PlannedEpisode
	// Trouble may answer a request of an episode in place of the model and reports whether it did;
	// nil for no trouble.
	Trouble func(w http.ResponseWriter, r *http.Request, asked Request) bool
	// Shape changes the message that answers; nil for no change.
	Shape func(asked Request, answer map[string]any)
	// Fault is called for requests that no agent should send; they are answered with 418.
	Fault func(error)

	calls atomic.Int64
	// plays contains the policies by environment.
	plays map[string]policy.Factory
}

// New makes an endpoint that plays like the built-in policy with that name. Only Oracle reads the
// catalogue; for the others it may be nil.
func New(name string, catalog *scenarios.Catalog) (*Endpoint, error) {
	e := &Endpoint{plays: map[string]policy.Factory{}}
	for _, environment := range []string{tasks.Ticket, tasks.Workflow} {
		factory, err := policy.NewBuiltin(name, environment, catalog)
		if err != nil {
			return nil, err
		}
		e.plays[environment] = factory
	}
	return e, nil
}

// Calls returns the number of requests so far, trials apart.
func (e *Endpoint) Calls() int64 { return e.calls.Load() }

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, err := readRequest(r)
	if errors.Is(err, errLeft) {
		return
	}
	if err == nil && asked.Trial() {
		writeResponse(w, asked, map[string]any{"role": "assistant", "content": "ready"})
		return
	}
	asked.N = e.calls.Add(1)
	if err == nil && e.Trouble != nil && e.Trouble(w, r, asked) {
		return
	}
	var answer map[string]any
	if err == nil {
		answer, err = e.answer(r.Context(), asked)
	}
	if err != nil {
		e.Fault(fmt.Errorf("request %d: %w", asked.N, err))
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if e.Shape != nil {
		e.Shape(asked, answer)
	}
	writeResponse(w, asked, answer)
}

func writeResponse(w http.ResponseWriter, asked Request, answer map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	choice := map[string]any{"index": 0, "message": answer, "finish_reason": "stop"}
	body := map[string]any{
		"id": "x", "object": "chat.completion", "created": 1, "model": "scripted", "choices": []any{choice},
		"usage": map[string]any{"prompt_tokens": PromptTokens, "completion_tokens": CompletionTokens,
			"total_tokens": PromptTokens + CompletionTokens},
	}
	if string(asked.Raw["return_token_ids"]) == "true" { // as vLLM does
		body["prompt_token_ids"] = TokenIDs(asked.N, PromptTokens)
		choice["token_ids"] = TokenIDs(-asked.N, CompletionTokens)
	}
	if string(asked.Raw["logprobs"]) == "true" {
		content := make([]any, CompletionTokens)
		for i := range content {
			content[i] = map[string]any{"token": fmt.Sprintf("t%d", i), "logprob": LogProb(i), "bytes": nil,
				"top_logprobs": []any{}}
		}
		choice["logprobs"] = map[string]any{"content": content}
	}
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler) // the agent has disconnected
	}
}

// TokenIDs returns n ids, which differ by request.
func TokenIDs(request int64, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(request&0xffff)<<8 + int32(i)
	}
	return ids
}

// LogProb is the log-probability of the token at a place of an answer.
func LogProb(place int) float64 { return -0.125 * float64(place) }

// errLeft means that the client ended before it had sent its request.
var errLeft = errors.New("the client has left")

func readRequest(r *http.Request) (Request, error) {
	if r.URL.Path != "/v1/chat/completions" {
		return Request{}, fmt.Errorf("asked at %s", r.URL.Path)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return Request{}, errLeft
	}
	asked := Request{Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	if err := errors.Join(json.Unmarshal(body, &asked), json.Unmarshal(body, &asked.Raw)); err != nil {
		return asked, fmt.Errorf("the request is no JSON: %w", err)
	}
	if asked.Task() == "" && !asked.Trial() {
		return asked, errors.New("the messages name no task")
	}
	return asked, nil
}

// answer returns the model's message: a tool call, or an action as text if there are no tools.
func (e *Endpoint) answer(ctx context.Context, asked Request) (map[string]any, error) {
	action, err := e.act(ctx, asked)
	if err != nil {
		return nil, err
	}
	if asked.Tools == nil {
		return map[string]any{"role": "assistant", "content": "Here it is:\n```json\n" + string(action) + "\n```"}, nil
	}
	call, err := MakeCall(asked.Tools, fmt.Sprintf("call-%d", asked.turn()), action)
	return map[string]any{"role": "assistant", "content": "I think so.", "tool_calls": []any{call}}, err
}

// act plays the episode from its messages: the policy gets every observation again, reconstructed
// from its changes.
func (e *Endpoint) act(ctx context.Context, asked Request) (json.RawMessage, error) {
	planned, ok := e.Episodes[asked.Seed]
	if !ok && e.Episodes != nil {
		return nil, fmt.Errorf("no episode has the seed %d", asked.Seed)
	}
	task := asked.Task()
	planned.Task = task
	row, _ := tasks.Find(task)
	factory := e.plays[row.Environment]
	if factory == nil {
		return nil, fmt.Errorf("no policy plays task %q", task)
	}
	agent, err := factory(planned)
	if err != nil {
		return nil, err
	}
	turn := policy.Turn{Environment: row.Environment, Task: task, Planned: planned}
	var action, seen json.RawMessage
	for _, m := range asked.Messages[1:] {
		if m.Role == "assistant" {
			continue
		}
		turn.Refused = ""
		if text, refused := strings.CutPrefix(m.Content, "Refused, and nothing was done: "); refused {
			turn.Refused = text
		} else if seen, err = mergeObservation(seen, m.Content); err != nil {
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

// mergeObservation reconstructs an observation from the one before it and a message with its
// changes.
func mergeObservation(before json.RawMessage, content string) (json.RawMessage, error) {
	_, text, ok := strings.Cut(content, "Observation: ")
	if _, full, long := strings.Cut(content, "The observation in full: "); long {
		before, text, ok = nil, full, true
	}
	if !ok {
		return nil, fmt.Errorf("a message has no observation: %.200s", content)
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
		if json.Unmarshal(value, &grown) != nil || grown.Added == nil {
			continue
		}
		var list []json.RawMessage
		if err := json.Unmarshal(was[name], &list); err != nil {
			return nil, fmt.Errorf("%s grew, and was no list: %w", name, err)
		}
		var err error
		if is[name], err = json.Marshal(append(list, grown.Added...)); err != nil {
			return nil, err
		}
	}
	maps.Copy(was, is)
	return json.Marshal(was)
}

// MakeCall is the call of a tool that means the action. A field that the tool's schema doesn't have
// is an object whose members are the arguments; arguments that a strict schema requires and the
// action leaves out are null. It is an error if no tool takes a part of the action.
func MakeCall(tools []Tool, id string, action json.RawMessage) (map[string]any, error) {
	var fields map[string]json.RawMessage
	var name string
	if err := json.Unmarshal(action, &fields); err != nil {
		return nil, fmt.Errorf("reading the action %.200s: %w", action, err)
	}
	if err := json.Unmarshal(fields["action_type"], &name); err != nil {
		return nil, fmt.Errorf("reading the type of the action %.200s: %w", action, err)
	}
	delete(fields, "action_type")
	at := slices.IndexFunc(tools, func(t Tool) bool { return t.Function.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no tool %s", name)
	}
	arguments, err := tools[at].arguments(fields)
	function := map[string]any{"name": name, "arguments": arguments}
	return map[string]any{"id": id, "type": "function", "function": function}, err
}

func (t Tool) arguments(fields map[string]json.RawMessage) (string, error) {
	takes := t.Function.Parameters
	arguments := map[string]json.RawMessage{}
	if takes.Properties["facts"] == nil {
		delete(fields, "facts") // a release before typed facts
	}
	for name, value := range fields {
		members := map[string]json.RawMessage{name: value}
		if takes.Properties[name] == nil {
			members = nil
			if err := json.Unmarshal(value, &members); err != nil {
				return "", fmt.Errorf("tool %s takes no %s", t.Function.Name, name)
			}
		}
		maps.Copy(arguments, members)
	}
	for name := range arguments {
		if takes.Properties[name] == nil {
			return "", fmt.Errorf("tool %s takes no %s", t.Function.Name, name)
		}
	}
	for _, name := range takes.Required {
		if arguments[name] == nil {
			arguments[name] = json.RawMessage("null")
		}
	}
	data, err := json.Marshal(arguments)
	return string(data), err
}
