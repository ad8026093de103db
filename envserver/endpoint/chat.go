package endpoint

import (
	"encoding/json"
	"maps"
)

// ChatRequest is a request for a chat completion: the part of OpenAI's protocol that csenv uses.
// Its types are written here because those of OpenAI's library add 15 MB to a program.
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
	// Extra are further members. They replace those of the same names.
	Extra map[string]json.RawMessage `json:"-"`
}

// ChatMessage is a message of a request.
type ChatMessage struct {
	Role string `json:"role"`
	// Content is nil in an answer that only calls a tool.
	Content   *string    `json:"content,omitempty"`
	ToolCalls []ChatCall `json:"tool_calls,omitempty"`
	// ToolCallID is the call of which a message has the result.
	ToolCallID string `json:"tool_call_id,omitempty"`
}

// The roles of messages.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Message makes a message with a text.
func Message(role, text string) ChatMessage { return ChatMessage{Role: role, Content: &text} }

// ChatCall is a call of a tool. Its type is "function".
type ChatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
		// Arguments are JSON, as the model wrote it.
		Arguments string `json:"arguments"`
	} `json:"function"`
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

// JSONObject asks for a JSON object.
func JSONObject() *ResponseFormat { return &ResponseFormat{Type: "json_object"} }

// JSONSchema asks for JSON that follows the schema.
func JSONSchema(name string, schema any) *ResponseFormat {
	return &ResponseFormat{"json_schema", &ChatAnswerSchema{Name: name, Strict: true, Schema: schema}}
}

// Completion is the answer to a ChatRequest.
type Completion struct {
	ID      string       `json:"id"`
	Model   string       `json:"model"`
	Choices []ChatChoice `json:"choices"`
	// PromptTokenIDs is vLLM's list of the prompt's token ids.
	PromptTokenIDs Optional[[]int32] `json:"prompt_token_ids"`
	Usage          struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		PromptDetails    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// ChatChoice is one answer, and why it ended.
type ChatChoice struct {
	Message      ChatAnswer         `json:"message"`
	FinishReason string             `json:"finish_reason"`
	LogProbs     Optional[LogProbs] `json:"logprobs"`
	// TokenIDs is vLLM's list of the answer's token ids.
	TokenIDs Optional[[]int32] `json:"token_ids"`
}

// LogProbs has the tokens of an answer with their natural log-probabilities.
type LogProbs struct {
	Content []struct {
		Token   string  `json:"token"`
		LogProb float64 `json:"logprob"`
	} `json:"content"`
}

// Optional is a part of an answer that is left out if the endpoint gives it another form.
type Optional[T any] struct{ Value T }

// UnmarshalJSON never fails.
func (o *Optional[T]) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &o.Value) != nil {
		*o = Optional[T]{}
	}
	return nil
}

// ChatAnswer is what the model wrote.
type ChatAnswer struct {
	Content   string     `json:"content"`
	Refusal   string     `json:"refusal"`
	ToolCalls []ChatCall `json:"tool_calls"`
}

// encode writes the request with its extra members.
func (r *ChatRequest) encode() ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil || len(r.Extra) == 0 {
		return body, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	maps.Copy(members, r.Extra)
	return json.Marshal(members)
}
