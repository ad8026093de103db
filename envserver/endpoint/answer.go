package endpoint

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// Answer is a model's answer. Text, calls and refusal are the model's own, whatever they are worth.
type Answer struct {
	ID, Model string
	// Text is what the model wrote beside its thoughts, and Refusal why it refuses to answer.
	Text, Refusal string
	Calls         []ChatCall
	// Slip is why the endpoint finds no call or no JSON in what the model wrote, "" if it does.
	Slip string
	// Cut means that the answer ended at its maximum length.
	Cut          bool
	FinishReason string
	// Received is the message as it came, for ChatMessage.
	Received map[string]any
	Usage    Usage
	// PromptTokenIDs and TokenIDs are vLLM's lists of token ids.
	PromptTokenIDs, TokenIDs []int32
	LogProbs                 LogProbs
	// thought means that the model wrote something, if only thoughts.
	thought bool
}

// Usage are the tokens that an answer cost, as the endpoint counts them.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	PromptDetails    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// UnmarshalJSON reads the numbers as integers, also those that are written as 10.0 or "10". What
// isn't a number is 0.
func (u *Usage) UnmarshalJSON(data []byte) error {
	var members map[string]any
	if err := decodeJSON(data, &members); err != nil {
		return err
	}
	details, _ := members["prompt_tokens_details"].(map[string]any)
	*u = Usage{PromptTokens: countOf(members["prompt_tokens"]), CompletionTokens: countOf(members["completion_tokens"])}
	u.PromptDetails.Cached = countOf(details["cached_tokens"])
	return nil
}

// countOf is a number of tokens.
func countOf(value any) int64 {
	n, err := strconv.ParseFloat(fmt.Sprint(value), 64)
	if err != nil || !(n > 0 && n < 1<<53) {
		return 0
	}
	return int64(n)
}

// LogProbs has the tokens of an answer with their natural log-probabilities.
type LogProbs struct {
	Content []struct {
		Token   string  `json:"token"`
		LogProb float64 `json:"logprob"`
	} `json:"content"`
}

// optional is a part of an answer that is left out if the endpoint gives it another form.
type optional[T any] struct{ Value T }

// UnmarshalJSON never fails. Numbers of any value are read as they are written.
func (o *optional[T]) UnmarshalJSON(data []byte) error {
	if decodeJSON(data, &o.Value) != nil {
		*o = optional[T]{}
	}
	return nil
}

// completion is the body of an answer.
type completion struct {
	ID             optional[string]   `json:"id"`
	Model          optional[string]   `json:"model"`
	Choices        optional[[]choice] `json:"choices"`
	PromptTokenIDs optional[[]int32]  `json:"prompt_token_ids"`
	Usage          optional[Usage]    `json:"usage"`
	Error          optional[any]      `json:"error"`
}

type choice struct {
	Message      optional[map[string]any] `json:"message"`
	Delta        optional[map[string]any] `json:"delta"`
	FinishReason optional[string]         `json:"finish_reason"`
	Error        optional[any]            `json:"error"`
	LogProbs     optional[LogProbs]       `json:"logprobs"`
	TokenIDs     optional[[]int32]        `json:"token_ids"`
}

// best is the first choice that calls a tool, or the first: some gateways answer with the model's
// text and its call as two choices.
func (c *completion) best() choice {
	for _, each := range c.Choices.Value {
		if !isEmpty(each.Message.Value["tool_calls"]) {
			return each
		}
	}
	return c.Choices.Value[0]
}

// newAnswer reads what the model wrote. The error names a part that can't be read.
func newAnswer(c *completion, offered []ChatTool) (*Answer, error) {
	a := &Answer{ID: c.ID.Value, Model: c.Model.Value, Usage: c.Usage.Value,
		PromptTokenIDs: c.PromptTokenIDs.Value}
	if len(c.Choices.Value) == 0 {
		return a, errNoChoices
	}
	first := c.best()
	a.FinishReason, a.LogProbs, a.TokenIDs = first.FinishReason.Value, first.LogProbs.Value, first.TokenIDs.Value
	a.Received = first.Message.Value
	if a.Received == nil {
		return a, errNoMessage
	}
	if err := a.readContent(a.Received["content"]); err != nil {
		return a, err
	}
	if refusal, ok := a.Received["refusal"].(string); ok {
		a.Refusal += refusal
	}
	if err := a.readCalls(); err != nil {
		return a, err
	}
	for _, name := range []string{"reasoning_content", "reasoning", "thinking"} {
		a.thought = a.thought || a.Received[name] != nil && a.Received[name] != ""
	}
	a.thought = a.thought || a.Text != ""
	a.Text = withoutThoughts(a.Text)
	if len(a.Calls) == 0 {
		a.Calls = CallsIn(a.Text, offered)
	}
	for i := range a.Calls {
		a.Calls[i].Function.Name = toolNamed(a.Calls[i].Function.Name, offered)
	}
	return a, nil
}

// withoutThoughts removes the thoughts from a text. Thoughts without an end are all that follows.
func withoutThoughts(text string) string {
	if json.Valid([]byte(text)) {
		return text
	}
	for _, mark := range thoughts {
		for {
			from, to := strings.Index(text, mark[0]), strings.Index(text, mark[1])
			switch {
			case to >= 0 && (from < 0 || from > to):
				text = text[to+len(mark[1]):]
				continue
			case from >= 0 && to > from:
				text = text[:from] + text[to+len(mark[1]):]
				continue
			case from >= 0:
				text = text[:from]
			}
			break
		}
	}
	return text
}

// thinking matches the types of parts that are thoughts.
var thinking = regexp.MustCompile(`(?i)think|thought|reason`)

// readContent adds a text, or the parts of a list.
func (a *Answer) readContent(content any) error {
	switch c := content.(type) {
	case nil:
	case string:
		a.Text += c
	case []any:
		for _, part := range c {
			if err := a.readContent(part); err != nil {
				return err
			}
		}
	case map[string]any:
		return a.readPart(c)
	default:
		a.Text += fmt.Sprint(c)
	}
	return nil
}

func (a *Answer) readPart(part map[string]any) error {
	kind, _ := part["type"].(string)
	text, isText := part["text"].(string)
	switch {
	case thinking.MatchString(kind), part["thought"] == true:
		a.thought = true
	case kind == "refusal":
		refusal, _ := part["refusal"].(string)
		a.Refusal += refusal
	case isText:
		a.Text += text
	case strings.Contains(kind, "tool") || strings.Contains(kind, "function"):
		return a.readCall(part)
	case kind == "": // a server that has read the model's JSON already
		data, err := json.Marshal(part)
		a.Text += string(data)
		return err
	default:
		return fmt.Errorf("a part of the content has the type %.40q", kind)
	}
	return nil
}

func (a *Answer) readCalls() error {
	calls := a.Received["tool_calls"]
	if text, ok := calls.(string); ok && decodeJSON([]byte(text), &calls) != nil {
		return errCalls
	}
	switch list := calls.(type) {
	case nil:
	case []any:
		for _, call := range list {
			if err := a.readCall(call); err != nil {
				return err
			}
		}
	default:
		if err := a.readCall(calls); err != nil {
			return err
		}
	}
	if older := a.Received["function_call"]; older != nil && len(a.Calls) == 0 {
		return a.readCall(older)
	}
	return nil
}

// readCall adds a call. Its arguments are a text with JSON or the JSON itself.
func (a *Answer) readCall(value any) error {
	call, ok := value.(map[string]any)
	if !ok {
		return errCalls
	}
	read, ok := callOf(call)
	if !ok {
		return errCalls
	}
	a.Calls = append(a.Calls, read)
	return nil
}

// callOf reads a call in one of the forms {"function": {"name": …, "arguments": …}} and
// {"name": …, "arguments": …}, where the arguments may have other names.
func callOf(call map[string]any) (ChatCall, bool) {
	out := ChatCall{Type: "function"}
	out.ID, _ = call["id"].(string)
	function, ok := call["function"].(map[string]any)
	if !ok {
		function = call
	}
	for _, name := range []string{"arguments", "parameters", "args", "input"} {
		if arguments, given := function[name]; given && out.Function.Arguments == "" {
			if out.Function.Arguments, ok = argumentsOf(arguments); !ok {
				return out, false
			}
		}
	}
	for _, name := range []string{"name", "tool", "tool_name", "function"} {
		if out.Function.Name, _ = function[name].(string); out.Function.Name != "" {
			return out, true
		}
	}
	return out, false
}

// argumentsOf are arguments as text: JSON, as the model wrote it. Other forms of an object are
// written as JSON: a literal of Python, one that is quoted once more, the only element of a list,
// one in a fence, after null, before the model's control tokens, or twice. What is none is returned
// as it is.
func argumentsOf(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case map[string]any:
		data, err := json.Marshal(v)
		return string(data), err == nil
	case []any:
		if len(v) == 1 {
			return argumentsOf(v[0])
		}
	case string:
		text := strings.TrimSpace(strings.TrimPrefix(v, "null"))
		if fenced := fence.FindStringSubmatch(text); fenced != nil {
			text = fenced[1]
		}
		var inner any
		if decodeJSON([]byte(text), &inner) == nil {
			switch of := inner.(type) {
			case string:
				return argumentsOf(of)
			case []any:
				if len(of) == 1 {
					return argumentsOf(of[0])
				}
			}
			return text, true
		}
		first, written, n := objectAt(text)
		rest := strings.TrimSpace(text[n:])
		if again, _, length := objectAt(rest); n > 0 && (rest == "" || strings.HasPrefix(rest, "<") ||
			length == len(rest) && reflect.DeepEqual(first, again)) {
			return written, true
		}
		if listed, n := LooseJSON(text); strings.HasPrefix(text, "[") && n == len(text) && listed != text {
			return argumentsOf(listed)
		}
		return text, true
	}
	return "", false
}

// fence finds a block of code that is all of a text.
var fence = regexp.MustCompile("(?s)^```[a-z]*\\s*(.*?)\\s*```$")
