package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/record"
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
	// refused are the features that the endpoint has refused.
	refused atomic.Uint32
}

// feature is a part of a request that some endpoints refuse.
type feature uint32

const (
	// strictTools are tools whose arguments follow their schemas exactly.
	strictTools feature = 1 << iota
	toolChoice
	oneCall
	tools
	seed
	// maxTokens is the parameter max_tokens; its replacement is max_completion_tokens.
	maxTokens
	jsonSchema
	responseFormat
)

// features lists how endpoints' errors name the features. The least important comes first. An error
// about tools may mean the form of their descriptions.
var features = [...]struct {
	feature feature
	names   []string
}{
	{strictTools, []string{"strict", "schema for function", "tools", "functions"}},
	{toolChoice, []string{"tool_choice", "tool choice", "toolChoice"}},
	{oneCall, []string{"parallel_tool_calls", "parallel tool"}},
	{seed, []string{"seed"}},
	{maxTokens, []string{"max_tokens"}},
	{jsonSchema, []string{"json_schema", "response_format", "schema"}},
	{responseFormat, []string{"response_format", "json_object"}},
	{tools, []string{"tools", "tool use", "tool call", "tool-call", "tool_call", "function call", "functions"}},
}

func newModel(c *OpenAIConfig, timeout time.Duration, o Options) (*model, error) {
	temperature, err := c.temperature()
	if err != nil {
		return nil, err
	}
	extra, err := c.extraBody()
	if err != nil {
		return nil, err
	}
	return &model{
		config: *c, idKey: o.IDKey, temperature: temperature, extra: extra,
		caller: newCaller(float64(c.RequestsPerMinute)/float64(max(o.Share, 1)), o),
		completions: endpoint.NewCompletions(endpoint.Service{
			BaseURL: c.BaseURL, Key: o.Key, Timeout: timeout, MaxBody: maxBody, HTTPClient: httpClient(o),
			Now: time.Now,
		}),
	}, nil
}

func (m *model) try(ctx context.Context) error {
	return m.completions.Try(ctx, m.config.Model, m.extra)
}

type modelPlayer struct {
	*model
	seed   int64
	tools  []tool
	system map[Mode]string
	talk   conversation
	usage  score.Tokens
	answer record.Answer
	// traced is the size of the traces so far, in bytes.
	traced int
}

func (m *model) play(planned score.PlannedEpisode) (Policy, error) {
	_, number := EpisodeID(m.idKey, planned)
	return &modelPlayer{model: m, seed: number}, nil
}

func (p *modelPlayer) Usage() score.Tokens   { return p.usage }
func (p *modelPlayer) Answer() record.Answer { return p.answer }

func (p *modelPlayer) Act(ctx context.Context, turn Turn) (json.RawMessage, error) {
	if p.tools == nil {
		if err := p.prepare(turn); err != nil {
			return nil, err
		}
	}
	p.talk.observe(turn)
	message, err := p.ask(ctx)
	if err != nil {
		return nil, unanswered(ctx, err)
	}
	return p.read(message), nil
}

func (p *modelPlayer) prepare(turn Turn) error {
	known, err := toolsOf(turn.Schema)
	if err != nil {
		return err
	}
	p.tools, p.system = known, map[Mode]string{}
	for _, mode := range []Mode{ModeTools, ModeJSON} {
		p.system[mode] = systemPrompt(p.config.SystemPrompt, turn.Environment, turn.Task, mode, known)
	}
	return nil
}

// ask sends the conversation until the model answers.
func (p *modelPlayer) ask(ctx context.Context) (endpoint.ChatAnswer, error) {
	var message endpoint.ChatAnswer
	err := p.caller.Do(ctx, func(ctx context.Context) error {
		with := p.features()
		request := p.request(with)
		ctx, span := p.startChat(ctx, &request)
		answer, err := p.completions.Send(ctx, request)
		endChat(ctx, span, answer, err)
		if err != nil {
			p.noteRefusal(err, with)
			return err
		}
		used := tokensOf(answer.Usage.PromptTokens, answer.Usage.CompletionTokens)
		p.usage.Add(used)
		if len(answer.Choices) == 0 {
			return &endpoint.Error{Class: endpoint.Unparsable, Err: errors.New("no choices")}
		}
		message = answer.Choices[0].Message
		p.answer = record.Answer{Trace: p.trace(answer)}
		if used != (score.Tokens{}) {
			p.answer.Tokens = &used
		}
		return nil
	}, nil)
	return message, err
}

// noteRefusal records the feature that the endpoint refused, if any, so that the request is sent
// again without it.
func (p *modelPlayer) noteRefusal(err error, with feature) {
	e, ok := errors.AsType[*endpoint.Error](err)
	if !ok || e.Complaint == "" {
		return
	}
	isNamed := func(name string) bool { return strings.Contains(e.Complaint, name) }
	for _, f := range features {
		if with&f.feature != 0 && slices.ContainsFunc(f.names, isNamed) {
			p.refused.Or(uint32(f.feature))
			e.Anew = true
			return
		}
	}
}

// features returns the features of the next request.
func (p *modelPlayer) features() feature {
	with := seed
	if p.config.MaxTokens > 0 {
		with |= maxTokens
	}
	refused := feature(p.refused.Load())
	if p.config.Mode != ModeJSON && refused&tools == 0 {
		with |= tools | strictTools | toolChoice | oneCall
	} else {
		with |= jsonSchema | responseFormat
	}
	return with &^ refused
}

// request is the conversation so far with the features.
func (p *modelPlayer) request(with feature) endpoint.ChatRequest {
	mode := ModeJSON
	if with&tools != 0 {
		mode = ModeTools
	}
	request := endpoint.ChatRequest{Model: p.config.Model, Messages: p.talk.messages(p.system[mode], mode),
		Extra: p.extra}
	if p.config.Temperature != "" {
		request.Temperature = &p.temperature
	}
	if with&seed != 0 {
		request.Seed = &p.seed
	}
	switch {
	case with&maxTokens != 0:
		request.MaxTokens = p.config.MaxTokens
	case p.config.MaxTokens > 0:
		request.MaxCompletionTokens = p.config.MaxTokens
	}
	if mode == ModeTools {
		p.offerTools(&request, with)
	} else {
		p.askForJSON(&request, with)
	}
	return request
}

func (p *modelPlayer) offerTools(request *endpoint.ChatRequest, with feature) {
	strict := with&strictTools != 0
	request.Tools = chatTools(p.tools, strict)
	if with&toolChoice != 0 {
		request.ToolChoice = "required"
	}
	if with&oneCall != 0 {
		request.ParallelToolCalls = new(bool)
	}
}

func chatTools(known []tool, strict bool) []endpoint.ChatTool {
	out := make([]endpoint.ChatTool, len(known))
	for i, t := range known {
		out[i] = endpoint.ChatTool{Type: "function", Function: endpoint.ChatFunction{Name: t.Name,
			Description: t.Description, Parameters: t.schema(strict), Strict: strict}}
	}
	return out
}

func (p *modelPlayer) askForJSON(request *endpoint.ChatRequest, with feature) {
	switch {
	case with&jsonSchema != 0:
		request.ResponseFormat = endpoint.JSONSchema("action", actionSchema(p.tools))
	case with&responseFormat != 0:
		request.ResponseFormat = endpoint.JSONObject()
	}
}

// read converts the model's answer to an action and stores it. The first of several calls is
// played.
func (p *modelPlayer) read(message endpoint.ChatAnswer) json.RawMessage {
	said := message.Content
	if said == "" {
		said = message.Refusal
	}
	p.answer.Said = clip(said, maxSaid)
	turn := exchange{said: p.answer.Said}
	action := objectIn(said)
	if len(message.ToolCalls) > 0 {
		action = p.readCalls(message.ToolCalls, &turn)
	} else if action == nil {
		action = noAction(said)
		turn.note = noteNoAction
	}
	p.talk.turns = append(p.talk.turns, turn)
	return action
}

// noteNoAction is the comment on an answer without an action.
const noteNoAction = "That was no action. Answer with exactly one."

// readCalls converts the first call to an action.
func (p *modelPlayer) readCalls(calls []endpoint.ChatCall, turn *exchange) json.RawMessage {
	first := calls[0]
	if len(calls) > 1 {
		turn.note = fmt.Sprintf(
			"You called %d tools in one answer. Only the first call was played: call one tool at a time.", len(calls))
	}
	i := slices.IndexFunc(p.tools, func(t tool) bool { return t.Name == first.Function.Name })
	if i < 0 {
		name := clip(first.Function.Name, 200)
		turn.said = strings.TrimSpace(turn.said + "\n(called " + name + ")")
		return noAction(name)
	}
	arguments := rewritten([]byte(first.Function.Arguments))
	if arguments == nil && strings.TrimSpace(first.Function.Arguments) == "" {
		arguments = json.RawMessage("{}") // some endpoints leave empty arguments out
	}
	turn.call = &toolCall{id: callID(first.ID, len(p.talk.turns)), name: first.Function.Name, arguments: "{}"}
	if arguments == nil {
		turn.note = strings.TrimSpace("The arguments were no JSON object: " + clip(first.Function.Arguments, 500) +
			"\n" + turn.note)
		return noAction(first.Function.Name + " " + first.Function.Arguments)
	}
	if len(arguments) <= maxArguments {
		turn.call.arguments = string(arguments)
	}
	action, err := p.tools[i].Action(arguments)
	if err != nil {
		return noAction(first.Function.Name + " " + string(arguments))
	}
	return played(action)
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
