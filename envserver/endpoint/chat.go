package endpoint

import (
	"encoding/json"
	"maps"
)

// ChatRequest is a request for a chat completion: the part of OpenAI's protocol that csenv uses.
// Its types are written here because OpenAI's library adds 15 MB to a program.
type ChatRequest struct {
	Model               string          `json:"model"`
	Messages            []ChatMessage   `json:"messages"`
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"top_p,omitempty"`
	Seed                *int64          `json:"seed,omitempty"`
	MaxTokens           int64           `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64           `json:"max_completion_tokens,omitempty"`
	Tools               []ChatTool      `json:"tools,omitempty"`
	ToolChoice          string          `json:"tool_choice,omitempty"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls,omitempty"`
	ResponseFormat      *ResponseFormat `json:"response_format,omitempty"`
	// Extra are further members. They replace members of the same names.
	Extra map[string]json.RawMessage `json:"-"`
	// open leaves additionalProperties out of all schemas.
	open bool
}

// ChatMessage is a message of a request.
type ChatMessage struct {
	Role string `json:"role"`
	// Content is nil in an answer that only calls a tool.
	Content   *string    `json:"content,omitempty"`
	ToolCalls []ChatCall `json:"tool_calls,omitempty"`
	// ToolCallID is the call whose result a message contains.
	ToolCallID string `json:"tool_call_id,omitempty"`
	// Received is the model's message as it came, nil for other messages. What it has beside the
	// members above is sent back, because some endpoints require that.
	Received map[string]any `json:"-"`
}

// The roles of messages.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// NewMessage makes a message with a text.
func NewMessage(role, text string) ChatMessage { return ChatMessage{Role: role, Content: &text} }

// ChatCall is a call of a tool. Its type is "function".
type ChatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function CallFunction `json:"function"`
}

// CallFunction is what a call calls. The arguments are JSON, as the model wrote it.
type CallFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// ChatTool is a tool that the model may call. Its type is "function".
type ChatTool struct {
	Type     string       `json:"type"`
	Function ChatFunction `json:"function"`
}

// ChatFunction describes a tool.
type ChatFunction struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`
	Strict      bool           `json:"strict,omitempty"`
}

// ResponseFormat is the form of the answer: any JSON object, or one of a schema.
type ResponseFormat struct {
	Type       string            `json:"type"`
	JSONSchema *ChatAnswerSchema `json:"json_schema,omitempty"`
}

// ChatAnswerSchema is the schema of an answer.
type ChatAnswerSchema struct {
	Name   string `json:"name"`
	Strict bool   `json:"strict"`
	Schema any    `json:"schema"`
}

// JSONFormat asks for JSON that follows the schema.
func JSONFormat(name string, schema any) *ResponseFormat {
	return &ResponseFormat{"json_schema", &ChatAnswerSchema{Name: name, Strict: true, Schema: schema}}
}

// encode writes the request with its extra members.
func (r *ChatRequest) encode() ([]byte, error) {
	messages := make([]any, len(r.Messages))
	for i, m := range r.Messages {
		messages[i] = m
		if m.Role == RoleAssistant {
			messages[i] = m.members()
		}
	}
	body, err := json.Marshal(struct {
		*ChatRequest
		Messages []any `json:"messages"`
	}{r, messages})
	if err != nil || len(r.Extra) == 0 && !r.open {
		return body, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	for _, name := range []string{"tools", "response_format"} {
		var schemas any
		if r.open && json.Unmarshal(members[name], &schemas) == nil {
			openSchemas(schemas)
			if members[name], err = json.Marshal(schemas); err != nil {
				return nil, err
			}
		}
	}
	maps.Copy(members, r.Extra)
	return json.Marshal(members)
}

// members are the members of a model's message, with what it had when it came. Some endpoints
// require the content, even if it is null.
func (m ChatMessage) members() map[string]any {
	out := map[string]any{"role": m.Role, "content": m.Content}
	if content, came := m.Received["content"]; came {
		out["content"] = content
	}
	if len(m.ToolCalls) > 0 {
		calls := make([]any, len(m.ToolCalls))
		for i, c := range m.ToolCalls {
			calls[i] = map[string]any{"id": c.ID, "type": c.Type,
				"function": map[string]any{"name": c.Function.Name, "arguments": c.Function.Arguments}}
		}
		out["tool_calls"] = calls
	}
	fillObject(out, m.Received)
	return out
}

// fillObject adds what one JSON object has and the other lacks, at every depth.
func fillObject(to, from map[string]any) {
	for name, value := range from {
		have, known := to[name]
		switch {
		case known:
			fillValue(have, value)
		case !isEmpty(value):
			to[name] = value
		}
	}
}

func fillValue(to, from any) {
	switch have := to.(type) {
	case map[string]any:
		if more, ok := from.(map[string]any); ok {
			fillObject(have, more)
		}
	case []any:
		if more, ok := from.([]any); ok {
			for i := range min(len(have), len(more)) {
				fillValue(have[i], more[i])
			}
		}
	}
}

// isEmpty reports whether a member says nothing: servers that write it needn't accept it.
func isEmpty(value any) bool {
	list, isList := value.([]any)
	return value == nil || isList && len(list) == 0
}
