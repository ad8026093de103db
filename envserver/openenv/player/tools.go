package player

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// ObserveTool is the tool that returns the current observation.
const ObserveTool = "get_observation"

// reservedTools are the orchestrator's operations.
var reservedTools = []string{"reset", "step", "state", "close"}

// Tools are the tools of an environment: its actions and ObserveTool.
type Tools struct {
	Offered []episode.Tool
	byName  map[string]*episode.Tool
	// Listed has the descriptors of tools/list, described the descriptors of a list_tools step,
	// which name the schema differently.
	Listed, described json.RawMessage
}

func newTools(kind episode.Kind) (*Tools, error) {
	t := &Tools{byName: map[string]*episode.Tool{}, Offered: append([]episode.Tool{{
		Name: ObserveTool, Description: "Shows the task as it stands, without playing an action.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	}}, kind.Schemas().Tools...)}
	var listed, described []any
	for i := range t.Offered {
		tool := &t.Offered[i]
		if slices.Contains(reservedTools, tool.Name) || t.byName[tool.Name] != nil {
			return nil, fmt.Errorf("tool %q of environment %q: the name is reserved or taken", tool.Name, kind.Name())
		}
		t.byName[tool.Name] = tool
		describe := func(schema string) any {
			return map[string]any{"name": tool.Name, "description": tool.Description, schema: tool.InputSchema}
		}
		listed = append(listed, describe("inputSchema"))
		described = append(described, describe("input_schema"))
	}
	var err error
	if t.Listed, err = json.Marshal(map[string]any{"tools": listed}); err != nil {
		return nil, fmt.Errorf("listing the tools of environment %q: %w", kind.Name(), err)
	}
	t.described, err = json.Marshal(map[string]any{"tools": described})
	return t, err
}

// joinNames lists the tools.
func (t *Tools) joinNames() string {
	names := make([]string, len(t.Offered))
	for i := range t.Offered {
		names[i] = t.Offered[i].Name
	}
	return strings.Join(names, ", ")
}

// noToolError is the name of an unknown tool.
type noToolError string

func (e noToolError) Error() string { return fmt.Sprintf("tool %.64q not found", string(e)) }

// Call plays a tool as an action. Without an episode it begins one with default options.
func (p *Player) Call(ctx context.Context, name string, arguments json.RawMessage) Reply {
	tool := p.Tools.byName[name]
	if tool == nil {
		return p.refuseTool(ctx, name)
	}
	if p.last.Observation == nil {
		if begun := p.Reset(nil, protocol.LenientSeed, "data"); begun.Err != nil {
			return begun
		}
	}
	if name == ObserveTool {
		return p.Observe()
	}
	action, err := tool.Action(arguments)
	if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
		return p.refuseCall(ctx, invalid)
	}
	if err != nil {
		return p.failReply(err)
	}
	return p.playStep(ctx, action)
}

// Observe returns the last observation without a step. The error is episode.ErrNotReset before the
// first reset.
func (p *Player) Observe() Reply {
	if p.last.Observation == nil {
		return p.failReply(episode.ErrNotReset)
	}
	return Reply{kind: p.Kind, result: episode.Result{Observation: p.last.Observation, Done: p.last.Done}}
}

// IsUnknownTool reports whether an error of Call is that no tool has the name.
func IsUnknownTool(err error) bool {
	_, unknown := errors.AsType[noToolError](err)
	return unknown
}

// refuseTool answers a call of an unknown tool.
func (p *Player) refuseTool(ctx context.Context, name string) Reply {
	unknown := noToolError(name)
	if p.penalty == nil {
		return p.failReply(unknown)
	}
	quoted, _ := jsontext.AppendQuote(nil, name)
	return p.refuseCall(ctx, &episode.ActionError{Items: []episode.ErrorItem{
		protocol.NewErrorItem("literal_error", quoted,
			fmt.Sprintf("%v: choose one of %s", unknown, p.Tools.joinNames()),
			"tool_name"),
	}})
}

// Act plays the data of a step: an action of the environment, or one of the two forms that
// OpenEnv's MCP clients send.
func (p *Player) Act(ctx context.Context, data []byte) Reply {
	a, ok := readMCPAction(data)
	switch {
	case !ok:
		return p.playStep(ctx, data)
	case a.err != nil:
		return p.refuseCall(ctx, a.err)
	case a.tool == "":
		p.countStep()
		return Reply{kind: p.Kind, result: episode.Result{Observation: p.Tools.described, Done: p.last.Done}}
	}
	// Whatever the call does, its answer is an observation and a step.
	answered := p.answered
	r := p.Call(ctx, a.tool, a.arguments)
	if p.answered == answered {
		p.countStep()
	}
	observation := toolObservation{ToolName: a.tool}
	if r.Err != nil {
		observation.Error = newToolError(r.Err)
	} else if observation.Result, r.Err = ToolResult(r, false); r.Err != nil {
		return r
	}
	// As in the official server, the observation has the error and the episode continues.
	return Reply{kind: r.kind, result: episode.Result{Observation: observation, Reward: r.result.Reward,
		Done: r.result.Done || r.Err != nil && p.last.Done, Final: r.result.Final}}
}

// mcpAction is the data of a step that calls a tool, or lists the tools if it names none.
type mcpAction struct {
	tool      string
	arguments json.RawMessage
	err       *episode.ActionError
}

// readMCPAction recognises {"type":"list_tools"} and
// {"type":"call_tool","tool_name":…,"arguments":…}, which are not actions of the environment.
func readMCPAction(data []byte) (mcpAction, bool) {
	if !bytes.Contains(data, []byte(`tool_name"`)) && !bytes.Contains(data, []byte(`"list_tools"`)) {
		return mcpAction{}, false
	}
	members, err := object.Read(data, object.LastCounts)
	if err != nil {
		return mcpAction{}, false
	}
	var kindText, toolName, arguments, metadata jsontext.Value
	extra := members.Take(map[string]*jsontext.Value{"type": &kindText, "tool_name": &toolName,
		"arguments": &arguments, "metadata": &metadata})
	kind, _ := protocol.ReadText(kindText)
	if kind == "" && kindText == nil && toolName != nil {
		kind = "call_tool"
	}
	if kind != "list_tools" && kind != "call_tool" {
		return mcpAction{}, false
	}
	items := protocol.ExtraItems(protocol.MessageKind(kind), extra)
	if kind == "list_tools" {
		return newMCPAction("", nil, items), true
	}
	name, ok := protocol.ReadText(toolName)
	if !ok || name == "" {
		items = append(items, protocol.NewErrorItem("string_type", toolName, "tool_name should be the name of a tool",
			"tool_name"))
	}
	if protocol.IsGiven(arguments) && arguments.Kind() != '{' {
		items = append(items, protocol.NewErrorItem("dict_type", arguments, "arguments should be a JSON object",
			"arguments"))
	}
	if !protocol.IsGiven(arguments) {
		arguments = nil
	}
	return newMCPAction(name, arguments, items), true
}

func newMCPAction(tool string, arguments jsontext.Value, items []episode.ErrorItem) mcpAction {
	if len(items) > 0 {
		return mcpAction{err: &episode.ActionError{Items: items}}
	}
	return mcpAction{tool: tool, arguments: json.RawMessage(arguments)}
}

// toolObservation is the observation of a step that called a tool.
type toolObservation struct {
	ToolName string          `json:"tool_name"`
	Result   json.RawMessage `json:"result"`
	Error    *toolError      `json:"error"`
}

// toolError is the error of a tool call. Clients accept only these members and the types of
// newToolError.
type toolError struct {
	ErrorType string `json:"error_type"`
	Message   string `json:"message"`
}

func newToolError(err error) *toolError {
	e := &toolError{ErrorType: "execution_error", Message: protocol.ClipMessage(err.Error())}
	if _, ok := errors.AsType[noToolError](err); ok {
		e.ErrorType = "tool_not_found"
	} else if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
		e.ErrorType = "invalid_args"
		e.Message = protocol.ClipMessage(cmp.Or(protocol.JoinMessages(invalid.Items), e.Message))
	} else if errors.Is(err, context.DeadlineExceeded) {
		e.ErrorType = "timeout"
	}
	return e
}

// Structured returns the result of a tool call (see WriteResult).
func (r Reply) Structured() (json.RawMessage, error) {
	var out bytes.Buffer
	if err := r.WriteResult(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// ToolResult returns the result of a tool call as the official server writes it. With both, members
// are repeated under MCP's names.
func ToolResult(r Reply, both bool) (json.RawMessage, error) {
	structured, err := r.Structured()
	if err != nil {
		return nil, err
	}
	text := map[string]any{"type": "text", "text": string(structured), "annotations": nil, "meta": nil}
	result := map[string]any{"content": []any{text}, "structured_content": structured, "meta": nil, "data": structured,
		"is_error": false}
	if both {
		result["structuredContent"], result["isError"] = structured, false
	}
	return json.Marshal(result)
}
