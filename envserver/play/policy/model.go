package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// maxBody bounds an endpoint's response, in bytes.
const maxBody = 8 << 20

// model is a language model behind an OpenAI-compatible endpoint. All episodes of a process share
// it.
type model struct {
	config      OpenAIConfig
	idKey       string
	temperature float64
	extra       map[string]json.RawMessage
	completions *endpoint.Completions
	caller      *endpoint.Caller
	wait        func(context.Context, time.Duration) error
}

// fixed are the parameters that the owner sets: they aren't left out.
const fixed = endpoint.Temperature | endpoint.TopP

func newModel(c *OpenAIConfig, timeout time.Duration, o Options) (*model, error) {
	temperature, err := c.parseTemperature()
	if err != nil {
		return nil, err
	}
	extra, err := c.parseExtraBody()
	if err != nil {
		return nil, err
	}
	return &model{
		config: *c, idKey: o.IDKey, temperature: temperature, extra: extra, wait: o.wait(),
		caller: newCaller(float64(c.RequestsPerMinute)/float64(max(o.Share, 1)), o),
		completions: endpoint.NewCompletions(endpoint.Service{
			BaseURL: c.BaseURL, Key: o.Key, Timeout: timeout, MaxBody: maxBody, HTTPClient: httpClient(o),
			Now: time.Now, Fixed: fixed,
		}),
	}, nil
}

// trials is how often an endpoint is tried.
const trials = 3

// try tries the endpoint, and again where an answer says nothing of the endpoint's settings.
func (m *model) try(ctx context.Context) error {
	return endpoint.AwaitStart(ctx, trials, m.wait, func() error {
		return m.completions.Try(ctx, m.config.Model, m.extra)
	})
}

type modelPlayer struct {
	*model
	seed int64
	mode Mode
	// tools are all of the environment's, and offered those that the task allows.
	tools, offered []tool

	system map[Mode]string
	talk   conversation
	usage  score.Tokens
	answer record.Answer
	// traced is the size of the traces so far, in bytes.
	traced int
}

func (m *model) play(planned score.PlannedEpisode) (Policy, error) { return m.newPlayer(planned), nil }

func (m *model) newPlayer(planned score.PlannedEpisode) *modelPlayer {
	_, number := EpisodeID(m.idKey, planned)
	return &modelPlayer{model: m, seed: number, mode: m.config.Mode,
		talk: conversation{longest: cmp.Or(m.config.MaxConversationBytes, defaultConversation)}}
}

func (p *modelPlayer) Usage() score.Tokens   { return p.usage }
func (p *modelPlayer) Answer() record.Answer { return p.answer }

func (p *modelPlayer) Act(ctx context.Context, turn Turn) (json.RawMessage, error) {
	if p.tools == nil {
		if err := p.readSchema(turn); err != nil {
			return nil, err
		}
	}
	p.talk.addObservation(turn)
	answer, err := p.askModel(ctx)
	if err != nil {
		return nil, newEndpointError(ctx, err)
	}
	return p.readAction(answer), nil
}

func (p *modelPlayer) readSchema(turn Turn) error {
	known, err := toolsOf(turn.Schema)
	if err != nil {
		return err
	}
	p.tools, p.offered, p.system = known, allowedBy(turn.Observation, known), map[Mode]string{}
	for _, mode := range []Mode{ModeTools, ModeJSON} {
		p.system[mode] = systemPrompt(p.config.SystemPrompt, turn.Environment, turn.Task, mode, p.offered)
	}
	return nil
}

// askModel sends the conversation until the model answers. One that is too long for the model is
// shortened.
func (p *modelPlayer) askModel(ctx context.Context) (*endpoint.Answer, error) {
	var answer *endpoint.Answer
	err := p.caller.Do(ctx, func(ctx context.Context) error {
		lacks := p.completions.Lacks()
		request := p.buildRequest(lacks)
		ctx, span := p.startChat(ctx, &request)
		var err error
		answer, err = p.completions.Send(ctx, request, lacks)
		endChat(ctx, span, answer, err)
		used := tokensOf(answer.Usage.PromptTokens, answer.Usage.CompletionTokens)
		p.usage.Add(used)
		if e, ok := errors.AsType[*endpoint.Error](err); ok {
			e.Anew = e.Anew || e.Class == endpoint.TooLong && p.talk.shortenForModel()
			return e
		}
		p.answer = record.Answer{Trace: p.makeTrace(answer)}
		if used != (score.Tokens{}) {
			p.answer.Tokens = &used
		}
		return nil
	}, nil)
	return answer, err
}

// shortenForModel shortens a conversation that is too long for the model, and reports whether it is
// shorter.
func (c *conversation) shortenForModel() bool {
	before := c.countBytes()
	if len(c.turns) == 0 {
		return false
	}
	c.shortenTo(before / 2)
	c.longest = before * 3 / 4
	return c.countBytes() < before
}

// buildRequest is the conversation so far, for an endpoint that lacks some features.
func (p *modelPlayer) buildRequest(lacks endpoint.Feature) endpoint.ChatRequest {
	mode := ModeTools
	if p.mode == ModeJSON || lacks&endpoint.Tools != 0 {
		mode = ModeJSON
	}
	request := endpoint.ChatRequest{Model: p.config.Model, Messages: p.talk.encodeMessages(p.system[mode], mode),
		MaxTokens: p.config.MaxTokens, Seed: &p.seed, Extra: p.extra}
	if p.config.Temperature != "" {
		request.Temperature = &p.temperature
	}
	if mode == ModeTools {
		request.Tools = chatTools(p.offered, lacks&endpoint.Strict == 0)
		request.ToolChoice, request.ParallelToolCalls = "required", new(bool)
	} else {
		request.ResponseFormat = endpoint.JSONFormat("action", actionSchema(p.offered))
	}
	return request
}

// actionSchema returns the strict JSON Schema of an action for models that answer without tools:
// one variant for each tool, with its own members.
func actionSchema(tools []tool) map[string]any {
	variants := make([]any, len(tools))
	for i, t := range tools {
		members := map[string]any{t.Object: t.encodeSchema(true)}
		if t.Object == "" {
			members, _ = t.encodeSchema(true)["properties"].(map[string]any)
		}
		members[actionType] = map[string]any{"type": "string", "enum": []string{t.Name}}
		variants[i] = strictObject(members)
	}
	return strictObject(map[string]any{wrapped: map[string]any{"anyOf": variants}})
}

func strictObject(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": properties, "required": slices.Sorted(maps.Keys(properties)),
		"additionalProperties": false}
}

func chatTools(known []tool, strict bool) []endpoint.ChatTool {
	out := make([]endpoint.ChatTool, len(known))
	for i, t := range known {
		out[i] = endpoint.ChatTool{Type: "function", Function: endpoint.ChatFunction{Name: t.Name,
			Description: t.Description, Parameters: t.encodeSchema(strict), Strict: strict}}
	}
	return out
}

// The comments on an answer without an action.
const (
	noteNoAction = "That was no action. Answer with exactly one."
	noteCut      = "The answer reached its maximum length before it held an action: be brief."
	// cutOff is for readers of the transcript.
	cutOff = "(the answer reached its maximum length: raise maxTokens, or --max-tokens) "
)

// readAction converts the model's answer to an action and stores it. The first of several calls is
// played.
func (p *modelPlayer) readAction(answer *endpoint.Answer) json.RawMessage {
	said := cmp.Or(answer.Text, answer.Refusal)
	p.answer.Said = clipText(said, maxSaid)
	turn := exchange{said: p.answer.Said, received: answer.Received}
	action := objectIn(said)
	switch {
	case answer.Slip != "":
		action, turn.note = noAction(cmp.Or(said, answer.Slip)), "That was no action: "+clipText(answer.Slip, 500)
	case len(answer.Calls) > 0:
		action = p.readCalls(answer, &turn)
	case action != nil:
	case answer.Cut:
		action, turn.note = noAction(cutOff+said), noteCut
	default:
		action, turn.note = noAction(said), noteNoAction
		if member := p.actionIn(answer.Received); member != "" && strings.TrimSpace(said) == "" {
			turn.note = fmt.Sprintf(elsewhere, member)
			action = noAction(turn.note)
		}
	}
	turn.settleCall(answer)
	p.talk.turns = append(p.talk.turns, turn)
	return action
}

// elsewhere is the comment on an answer whose action is where thoughts are.
const elsewhere = "The answer is empty, and its member %s holds an action: switch the server's parser of thoughts off."

// actionIn is the member of a message in which exactly one action is, "" for none.
func (p *modelPlayer) actionIn(message map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(message)) {
		text, _ := message[name].(string)
		if calls := endpoint.CallsIn(text, chatTools(p.offered, false)); name != "content" && text != "" &&
			(len(calls) == 1 || p.isAction(objectIn(text))) {
			return name
		}
	}
	return ""
}

// settleCall keeps of the message as it came what the conversation doesn't have: members of the
// first call, and the content if it has more than the text, as thoughts.
func (e *exchange) settleCall(answer *endpoint.Answer) {
	if e.received == nil {
		return
	}
	calls, _ := e.received["tool_calls"].([]any)
	content, inText := e.received["content"], e.call != nil && len(calls) == 0 && e.received["function_call"] == nil
	delete(e.received, "function_call")
	delete(e.received, "tool_calls")
	if e.call != nil && len(calls) > 0 {
		e.received["tool_calls"] = calls[:1]
		call, _ := calls[0].(map[string]any)
		if function, ok := call["function"].(map[string]any); ok {
			delete(function, "name")
			delete(function, "arguments")
		}
	}
	if inText {
		e.said = "" // the text was the call
	}
	if inText || e.said != answer.Text || e.said != "" && content == any(e.said) || e.call == nil && content == nil {
		delete(e.received, "content")
	}
	data, err := json.Marshal(e.received)
	if e.weight = len(data); err != nil {
		e.received = nil
	}
}

// readCalls converts the first call to an action.
func (p *modelPlayer) readCalls(answer *endpoint.Answer, turn *exchange) json.RawMessage {
	calls, first := answer.Calls, answer.Calls[0].Function
	if len(calls) > 1 {
		turn.note = fmt.Sprintf(
			"You called %d tools in one answer. Only the first call was played: call one tool at a time.", len(calls))
	}
	i := slices.IndexFunc(p.tools, func(t tool) bool { return t.Name == first.Name })
	if i < 0 {
		name := clipText(first.Name, 200)
		turn.said = strings.TrimSpace(turn.said + "\n(called " + name + ")")
		return noAction(name)
	}
	arguments := reencodeObject([]byte(first.Arguments))
	if arguments == nil && strings.TrimSpace(first.Arguments) == "" {
		arguments = json.RawMessage("{}") // some endpoints leave empty arguments out
	}
	turn.call = &toolCall{id: callID(calls[0].ID, len(p.talk.turns)), name: first.Name, arguments: "{}"}
	if arguments == nil {
		turn.note = strings.TrimSpace("The arguments were no JSON object: " + clipText(first.Arguments, 500) + "\n" +
			turn.note)
		if answer.Cut {
			turn.note = noteCut
			return noAction(cutOff + first.Name + " " + first.Arguments)
		}
		return noAction(first.Name + " " + first.Arguments)
	}
	if len(arguments) <= maxArguments {
		turn.call.arguments = string(arguments)
	}
	action, err := p.tools[i].Action(arguments)
	if err != nil {
		return noAction(first.Name + " " + string(arguments))
	}
	return parseAction(action)
}

// callID is the endpoint's id of a call, or a generated one.
func callID(id string, turn int) string {
	if id == "" || len(id) > 256 {
		return fmt.Sprintf("call%05d", turn) // some endpoints require nine letters and digits
	}
	return id
}

// httpClient sends an agent's requests. It follows no redirect, because that could send the key and
// the observations to another host.
func httpClient(o Options) *http.Client {
	client := http.Client{}
	if o.HTTPClient != nil {
		client = *o.HTTPClient
	} else if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport = transport.Clone()
		transport.MaxIdleConnsPerHost = max(o.Concurrency, 1)
		client.Transport = transport
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}
