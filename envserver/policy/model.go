package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/score"
)

// maxBody bounds an endpoint's response, in bytes.
const maxBody = 8 << 20

// model is a language model behind an OpenAI-compatible endpoint, which all episodes of a process
// share.
type model struct {
	config      OpenAIConfig
	key         string
	temperature float64
	extra       map[string]any
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
	// maxTokens is the parameter of this name; what newer endpoints call max_completion_tokens
	// stands in for it.
	maxTokens
	jsonSchema
	responseFormat
)

// features are named as complaints name them; what is less of a loss comes first. A complaint about
// tools may mean how they are described.
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

// newModel makes the agent of a checked config.
func newModel(c *OpenAIConfig, timeout time.Duration, o Options) (*model, error) {
	temperature, err := c.temperature()
	if err != nil {
		return nil, err
	}
	members, err := c.extraBody()
	if err != nil {
		return nil, err
	}
	m := &model{
		config: *c, key: o.Key, temperature: temperature,
		caller: newCaller(float64(c.RequestsPerMinute)/float64(max(o.Share, 1)), o),
		completions: endpoint.NewCompletions(endpoint.Service{
			BaseURL: c.BaseURL, Key: o.Key, Timeout: timeout, MaxBody: maxBody, HTTPClient: httpClient(o),
			Now: time.Now,
		}),
	}
	for name, value := range members {
		if m.extra == nil {
			m.extra = map[string]any{}
		}
		m.extra[name] = value
	}
	return m, nil
}

// modelPlayer is a model that plays one episode.
type modelPlayer struct {
	*model
	planned score.PlannedEpisode
	tools   []tool
	system  map[Mode]string
	talk    conversation
	usage   Usage
	said    string
}

func (m *model) play(planned score.PlannedEpisode) (Policy, error) {
	return &modelPlayer{model: m, planned: planned}, nil
}

// Usage implements Metered.
func (p *modelPlayer) Usage() Usage { return p.usage }

// Said implements Speaker.
func (p *modelPlayer) Said() string { return p.said }

// Act asks the model.
func (p *modelPlayer) Act(ctx context.Context, turn Turn) (json.RawMessage, error) {
	if p.tools == nil {
		if err := p.learn(turn); err != nil {
			return nil, err
		}
	}
	p.talk.hear(turn)
	message, err := p.ask(ctx)
	if err != nil {
		return nil, unanswered(ctx, err, p.key)
	}
	return p.read(message), nil
}

// learn makes the tools and the instructions.
func (p *modelPlayer) learn(turn Turn) error {
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

// ask sends the conversation until it is answered.
func (p *modelPlayer) ask(ctx context.Context) (openai.ChatCompletionMessage, error) {
	var message openai.ChatCompletionMessage
	err := p.caller.Do(ctx, func(ctx context.Context) error {
		with := p.features()
		answer, err := p.completions.Send(ctx, p.request(with))
		if err != nil {
			p.understand(err, with)
			return err
		}
		p.usage.add(answer.Usage.PromptTokens, answer.Usage.CompletionTokens)
		if len(answer.Choices) == 0 {
			return &endpoint.Error{Class: endpoint.Unparsable, Err: errors.New("no choices")}
		}
		message = answer.Choices[0].Message
		return nil
	}, nil)
	return message, err
}

// understand notes which feature the endpoint has refused, if any: then the request is sent again
// without it.
func (p *modelPlayer) understand(err error, with feature) {
	e, ok := errors.AsType[*endpoint.Error](err)
	if !ok || e.Complaint == "" {
		return
	}
	for _, f := range features {
		named := slices.ContainsFunc(f.names, func(name string) bool { return strings.Contains(e.Complaint, name) })
		if named && with&f.feature != 0 {
			p.refused.Or(uint32(f.feature))
			e.Anew = true
			return
		}
	}
}

// features are those that a request is to have.
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
func (p *modelPlayer) request(with feature) openai.ChatCompletionNewParams {
	mode := ModeJSON
	if with&tools != 0 {
		mode = ModeTools
	}
	params := openai.ChatCompletionNewParams{Model: p.config.Model, Messages: p.talk.messages(p.system[mode], mode)}
	if p.config.Temperature != "" {
		params.Temperature = openai.Float(p.temperature)
	}
	if with&seed != 0 {
		params.Seed = openai.Int(p.planned.Seed & 0x7fff_ffff) // endpoints with seeds of 32 bits are many
	}
	switch {
	case with&maxTokens != 0:
		params.MaxTokens = openai.Int(p.config.MaxTokens)
	case p.config.MaxTokens > 0:
		params.MaxCompletionTokens = openai.Int(p.config.MaxTokens)
	}
	if mode == ModeTools {
		p.offerTools(&params, with)
	} else {
		p.askForJSON(&params, with)
	}
	if p.extra != nil {
		params.SetExtraFields(maps.Clone(p.extra))
	}
	return params
}

func (p *modelPlayer) offerTools(params *openai.ChatCompletionNewParams, with feature) {
	strict := with&strictTools != 0
	for _, t := range p.tools {
		function := shared.FunctionDefinitionParam{Name: t.Name, Description: openai.String(t.Description),
			Parameters: t.schema(strict)}
		if strict {
			function.Strict = openai.Bool(true)
		}
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(function))
	}
	if with&toolChoice != 0 {
		params.ToolChoice.OfAuto = openai.String("required")
	}
	if with&oneCall != 0 {
		params.ParallelToolCalls = openai.Bool(false)
	}
}

func (p *modelPlayer) askForJSON(params *openai.ChatCompletionNewParams, with feature) {
	switch {
	case with&jsonSchema != 0:
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: "action", Strict: openai.Bool(true), Schema: actionSchema(p.tools),
			}}
	case with&responseFormat != 0:
		params.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
}

// read makes an action of the model's answer and remembers the answer. Of several calls the first
// is played.
func (p *modelPlayer) read(message openai.ChatCompletionMessage) json.RawMessage {
	said := message.Content
	if said == "" {
		said = message.Refusal
	}
	p.said = clip(said, maxSaid)
	if said == "" {
		p.said = ""
	}
	turn := exchange{said: p.said}
	action := objectIn(said)
	if len(message.ToolCalls) > 0 {
		action = p.readCalls(message.ToolCalls, &turn)
	} else if action == nil {
		action = noAction(said)
		turn.note = "That was no action. Answer with exactly one."
	}
	p.talk.turns = append(p.talk.turns, turn)
	return action
}

// readCalls makes an action of the first call.
func (p *modelPlayer) readCalls(calls []openai.ChatCompletionMessageToolCallUnion, turn *exchange) json.RawMessage {
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
		arguments = json.RawMessage("{}") // as some endpoints write a call without arguments
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

// callID is the endpoint's id of a call, or one of ours where it has none.
func callID(id string, turn int) string {
	if id == "" || len(id) > 256 {
		return fmt.Sprintf("call%05d", turn) // nine letters and digits: some endpoints want just that
	}
	return id
}

// httpClient sends an agent's requests. It follows no redirect: the key and the observations are
// for the endpoint that was named.
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
