package endpoint

import (
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
)

// asked is a request with every feature.
func asked() ChatRequest {
	return ChatRequest{Model: "m", Seed: new(int64), MaxTokens: 5, Temperature: new(float64), TopP: new(float64),
		Messages: []ChatMessage{NewMessage(RoleSystem, "Be kind."), NewMessage(RoleUser, "Hello"),
			{Role: RoleAssistant, Received: map[string]any{"reasoning_content": "hm"}}},
		Tools: []ChatTool{{Type: "function", Function: ChatFunction{Name: "classify", Strict: true,
			Parameters: map[string]any{
				"properties": map[string]any{"n": map[string]any{"type": "number"}}}}}},
		ToolChoice: "required", ParallelToolCalls: new(bool), ResponseFormat: JSONFormat("action", nil)}
}

// at returns an endpoint with one answer, and the bodies of the requests that it gets.
func at(t *testing.T, status int, body string, header ...string) (*Completions, *[]map[string]any) {
	t.Helper()
	got := new([]map[string]any)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request map[string]any
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		*got = append(*got, request)
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return NewCompletions(serviceAt(server.URL)), got
}

// What an error means is the same wherever a server writes it.
func TestErrors(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		header []string
		class  Class
		lacks  Feature
		after  time.Duration
	}{
		"a decimal pause": {status: 429, header: []string{"Retry-After", "15.5"}, class: Throttled,
			after: 15500 * time.Millisecond},
		"milliseconds": {status: 429, header: []string{"retry-after-ms", "250", "Retry-After", "1"}, class: Throttled,
			after: 250 * time.Millisecond},
		"a reset": {status: 429, header: []string{"x-ratelimit-reset-requests", "7m12s",
			"x-ratelimit-remaining-requests", "14",
			"x-ratelimit-reset-tokens", "7.5s", "x-ratelimit-remaining-tokens", "0"}, class: Throttled,
			after: 7500 * time.Millisecond},
		"a far reset": {status: 429, header: []string{"x-ratelimit-reset", "3600"}, class: Throttled, after: time.Minute},
		"a pause in words": {status: 429, body: `{"error": {"message": "Please try again in 7.66s. Visit"}}`,
			class: Throttled,
			after: 7660 * time.Millisecond},
		"Google's pause": {status: 429, body: `[{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": ` +
			`[{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "41s"}]}}]`, class: Throttled,
			after: 41 * time.Second},
		"an exhausted account": {status: 429, body: `{"error": {"code": "insufficient_quota", "message": "You exceeded"}}`,
			class: Rejected},
		"a code in 200": {status: 200, body: `{"error": {"code": 429, "message": "slow", "metadata": {"retry_after": 9}}}`,
			class: Throttled, after: 9 * time.Second},
		"a code in a choice": {status: 200, body: `{"choices": [{"finish_reason": "error", "error": {"code": "401"}}]}`,
			class: Unauthorised},
		"a type in 200":      {status: 200, body: `{"error": {"type": "rate_limit_error"}}`, class: Throttled},
		"nothing in 200":     {status: 200, body: `{"error": {"message": "x"}, "choices": null}`, class: ServerError},
		"no capacity":        {status: 498, class: Throttled},
		"a dead gateway":     {status: 499, class: ServerError},
		"not yet loaded":     {status: 400, body: `{"error": "The model is loading"}`, class: ServerError},
		"a limit as 403":     {status: 403, body: `{"message": "API rate limit exceeded"}`, class: Throttled},
		"an invalid request": {status: 400, body: `{"error": "check your input and try again"}`, class: Rejected},
		"another refusal":    {status: 403, body: `{"message": "no"}`, class: Rejected},
		"too long": {status: 400, body: `{"error": {"code": "context_length_exceeded", "message": "x"}}`,
			class: TooLong},
		"too long for vLLM": {status: 400, body: `{"object": "error", "message": "This model's maximum context ` +
			`length is 2048 ` +
			`tokens. However, you requested 2100 tokens (1600 in the messages, 500 in max_tokens)."}`, class: TooLong},
		"too long for llama.cpp": {status: 400, body: `{"error": {"type": "exceed_context_size_error", "message": "x"}}`,
			class: TooLong},
		"too long for TGI": {status: 422, body: "{\"error\": \"Input validation error: " +
			"`inputs` tokens + `max_new_tokens` must " +
			"be <= 4096\", \"error_type\": \"validation\"}", class: TooLong},
		"too long for Anthropic": {status: 400, body: `{"error": {"message": "prompt is too long: 210 tokens > 200 ` +
			`maximum"}}`,
			class: TooLong},
		"too long for Gemini": {status: 400, body: `[{"error": {"message": "The input token count (12) exceeds the maximum ` +
			`number of tokens allowed (10)."}}]`, class: TooLong},
		"too long in 200": {status: 200, body: `{"error": {"code": 400, "message": "maximum prompt length is 131072"}}`,
			class: TooLong},
		"too large":           {status: 413, class: TooLong},
		"too many per minute": {status: 429, body: `{"error": {"message": "too many tokens per minute"}}`, class: Throttled},
		"a filter":            {status: 400, body: `{"error": {"code": "content_filter", "message": "x"}}`, class: Filtered},
		"a filtered answer":   {status: 200, body: chosen(`{"content": ""}`, "content_filter"), class: Filtered},
		"Gemini's filter":     {status: 200, body: chosen(`{"content": null}`, "PROHIBITED_CONTENT"), class: Filtered},
		"seed by param":       {status: 400, body: `{"error": {"message": "x", "param": "seed"}}`, lacks: Seed},
		"seed in a list":      {status: 422, body: `{"detail": [{"loc": ["body", "seed"], "msg": "extra"}]}`, lacks: Seed},
		"seed as detail":      {status: 422, body: `{"detail": "seed is not permitted"}`, lacks: Seed},
		"seed in a page":      {status: 415, body: `unknown parameter: seed`, lacks: Seed},
		"seed in errors":      {status: 404, body: `{"errors": [{"message": "no seed, please"}]}`, lacks: Seed},
		"seed in a text":      {status: 405, body: `"Argument not supported on this model: seed"`, lacks: Seed},
		"seed in 501":         {status: 501, body: `{"error": "seed is not implemented"}`, lacks: Seed},
		"seed in 200":         {status: 200, body: `{"error": {"code": 400, "message": "unknown: seed"}}`, lacks: Seed},
		"a seed that failed":  {status: 500, body: `{"error": "the seed database died"}`, class: ServerError},
		"seed in 503":         {status: 503, body: `{"error": "seed is not supported"}`, lacks: Seed},
		"a relay's 429": {status: 429, body: `{"error": {"message": "Unknown name \"additionalProperties\" at 'tools[0]': ` +
			`Cannot find field.", "type": "rate_limit_error"}}`, lacks: Closed},
		"a seed of an overload": {status: 503, body: `{"error": "overloaded: seed is not supported now"}`,
			class: ServerError},
		"a limit of tools": {status: 429, body: `{"error": {"message": "Rate limit of tool calls reached, which isn't ` +
			`supported by your plan: contact support about max_tokens"}}`, class: Throttled},
		"camel case": {status: 400, body: `{"error": "Model x does not support parameter toolChoice."}`,
			lacks: ToolChoice},
		"a system's text": {status: 400, body: `{"error": {"message": "System role not supported"}}`, lacks: System},
		"members": {status: 400, body: `{"message": "property 'reasoning_content' is unsupported"}`,
			lacks: Members},
		"members that lack": {status: 400, body: "{\"message\": \"`reasoning_content` must be passed back\"}",
			class: Rejected,
			lacks: 0},
		"a pause in hours": {status: 429, body: `{"error": {"message": "Please try again in 1h13m38s."}}`,
			class: Throttled, after: 73*time.Minute + 38*time.Second},
		"a pause in long words": {status: 429, body: `try again in 2 minutes`, class: Throttled, after: 2 * time.Minute},
		"Bedrock's throttling": {status: 500, body: `{"detail": "An error occurred (ThrottlingException): Too many tokens, ` +
			`please wait before trying again."}`, class: Throttled},
		"Bedrock's throttling in 200": {status: 200, body: `{"error": {"message": "Too many tokens, please wait"}}`,
			class: Throttled},
		"Groq's size": {status: 413, body: `{"error": {"code": "rate_limit_exceeded", "message": "Request too large ` +
			`for model on tokens per minute (TPM)"}}`, class: TooLong},
		"a grammar": {status: 400, body: `{"error": {"message": "Failed to initialize samplers: failed to parse grammar"}}`,
			lacks: ToolChoice},
		"a schema for llama.cpp": {status: 400, body: `{"error": {"message": "JSON schema conversion failed: x"}}`,
			lacks: ToolChoice},
		"an open schema": {status: 400, body: `[{"error": {"code": 400, "message": "Invalid JSON payload received. Unknown ` +
			`name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field."}}]`,
			lacks: Closed},
		"the model's name": {status: 404, body: `{"error": {"message": "No endpoints found for ` +
			`groq/llama-3-groq-70b-tool-use"}}`, class: Rejected},
		"another model's name": {status: 400, body: `{"error": {"message": "unknown model llama-3-70b-tool-function"}}`,
			class: Rejected},
		"a model without tools": {status: 400, body: `{"error": "registry.ollama.ai/library/gemma:2b does not support ` +
			`tools"}`, lacks: Strict},
		"a validator of answers": {status: 400, body: `{"error": {"message": "1 validation error for list[function-wrap` +
			`[__log_extra_fields__()]]\n  Invalid JSON: expected value [type=json_invalid, input_value='{\"tool\"']"}}`,
			class: Rejected},
		"TGI's slip": {status: 422, body: `{"error": "Tool error: EOF while parsing an object at line 1 column 512", ` +
			`"error_type": "tool_error"}`, lacks: Tools},
		"a quoted request": {status: 500, body: `{"error": "invalid request {'model': 'm', 'tools': [{'seed': 1}], ` +
			`'messages': []} at the upstream"}`, class: ServerError},
		"a quoted error": {status: 500, body: `{"error": {"message": "Error code: 500 - {'error': {'message': 'Internal ` +
			`server error', 'type': 'invalid_request_error'}}"}}`, class: ServerError},
		"a quoted refusal": {status: 500, body: `{"error": {"message": "Error code: 400 - {'error': {'message': ` +
			`'Unsupported parameter: seed', 'type': 'invalid_request_error'}}"}}`, lacks: Seed},
		"members by their path": {status: 400, body: `{"error": {"message": "'messages.2': property 'x' is unsupported"}}`,
			lacks: Members},
		"tools of no form": {status: 500, body: `{"error": {"message": "Failed to parse tools: missing field"}}`,
			class: ServerError},
		"arguments of the history": {status: 500, body: `{"error": {"code": 500, "message": "Failed to parse tool call ` +
			`arguments as JSON: syntax error"}}`, class: Unclear},
		"accepted, without a body": {status: 202, class: Unclear},
		"an unknown ending":        {status: 200, body: chosen(`{"content": "I would."}`, "sunset"), class: Unclear},
		"a lost call":              {status: 200, body: chosen(`{"content": "I call."}`, "tool_calls"), class: Unclear},
		"calls of no form":         {status: 200, body: chosen(`{"tool_calls": [7]}`, "stop"), class: Unclear},
		"a part of no form":        {status: 200, body: chosen(`{"content": [{"type": "hologram"}]}`, "stop"), class: Unclear},
		"nothing":                  {status: 200, body: chosen(`{"content": null}`, "stop"), class: Unclear},
		"an engine's end":          {status: 200, body: chosen(`{"content": "{}"}`, "abort"), class: ServerError},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, _ := at(t, tc.status, tc.body, tc.header...)
			if tc.lacks != 0 {
				tc.class = Rejected
			}
			_, err := c.Send(t.Context(), asked(), 0)
			if tc.lacks != 0 { // a complaint counts when it is repeated
				if e, ok := errors.AsType[*Error](err); !ok || !e.Anew || c.Lacks() != 0 {
					t.Errorf("the first complaint: %+v, lacks %b", err, c.Lacks())
				}
				_, err = c.Send(t.Context(), asked(), 0)
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Class != tc.class || e.Lacks != tc.lacks || e.After != tc.after || c.Lacks() != tc.lacks ||
				e.Anew != (tc.lacks != 0) {
				t.Errorf("got %+v, want %v, lacks %b, after %v", err, tc.class, tc.lacks, tc.after)
			}
		})
	}
}

// chosen is the body of an answer.
func chosen(message, reason string) string {
	return `{"choices": [{"message": ` + message + `, "finish_reason": "` + reason + `"}]}`
}

// called is the body of an answer with a call that has these arguments.
func called(arguments string) string {
	return chosen(`{"tool_calls": [{"id": "c", "function": {"name": "classify", "arguments": `+arguments+`}}]}`, "stop")
}

// streamed is a stream of calls that all have the index 0, and other ids in each of their parts.
func streamed(ids ...string) string {
	var out strings.Builder
	for _, id := range ids {
		for i, part := range []string{`"name": "classify", "arguments": "{"`, `"arguments": "\"n\":1}"`} {
			fmt.Fprintf(&out, `data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "%s%s", "function": {%s}}]}}]}`+
				"\n\n", id, strings.Repeat("x", i), part)
		}
	}
	return out.String() + `data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}` + "\n\ndata: [DONE]\n\n"
}

// What a model wrote is read in every form.
func TestAnswers(t *testing.T) {
	call := []ChatCall{{ID: "c", Type: "function", Function: CallFunction{"classify", `{"n":1}`}}}
	bare := []ChatCall{{Type: "function", Function: call[0].Function}}
	tests := map[string]struct {
		body string
		want Answer
	}{
		"text":        {chosen(`{"content": "Hello"}`, "stop"), Answer{Text: "Hello", FinishReason: "stop"}},
		"a surrogate": {chosen(`{"content": "Hello \ud83d"}`, "stop"), Answer{Text: "Hello \ufffd", FinishReason: "stop"}},
		"parts": {chosen(`{"content": [{"type": "thinking", "thinking": "{"}, {"type": "text", "text": "a"}, "b",
			{"thought": true, "text": "c"}, {"type": "refusal", "refusal": "no"}]}`, "stop"),
			Answer{Text: "ab", Refusal: "no", FinishReason: "stop"}},
		"JSON as JSON": {chosen(`{"content": {"a": 1}}`, "stop"), Answer{Text: `{"a":1}`, FinishReason: "stop"}},
		"thoughts": {chosen(`{"content": "<think>{</think>\n\nyes"}`, "stop"), Answer{Text: "\n\nyes",
			FinishReason: "stop"}},
		"half a thought": {chosen(`{"content": "so {it} is</think>yes"}`, "eos"),
			Answer{Text: "yes", FinishReason: "eos"}},
		"only thoughts":        {chosen(`{"content": "<think>on and on"}`, "stop"), Answer{FinishReason: "stop"}},
		"thoughts in a member": {chosen(`{"content": null, "reasoning": "so"}`, "stop"), Answer{FinishReason: "stop"}},
		"thoughts in JSON": {chosen(`{"content": "{\"a\": \"<think>\"}"}`, "stop"),
			Answer{Text: `{"a": "<think>"}`, FinishReason: "stop"}},
		"repetition": {chosen(`{"content": "a a a"}`, "repetition_truncation"),
			Answer{Text: "a a a", Cut: true, FinishReason: "repetition_truncation"}},
		"cut":       {chosen(`{"content": ""}`, "MAX_TOKENS"), Answer{Cut: true, FinishReason: "MAX_TOKENS"}},
		"a refusal": {chosen(`{"content": null, "refusal": "no"}`, "stop"), Answer{Refusal: "no", FinishReason: "stop"}},
		"a malformed call": {chosen(`{"content": null}`, "function_call_filter: MALFORMED_FUNCTION_CALL"),
			Answer{Slip: "the answer ended with finish_reason function_call_filter: MALFORMED_FUNCTION_CALL",
				FinishReason: "function_call_filter: MALFORMED_FUNCTION_CALL"}},
		"not a number": {`{"logprobs": [NaN, -Infinity, "NaN \" NaN"], ` + chosen(`{"content": "Hello"}`, "stop")[1:],
			Answer{Text: "Hello", FinishReason: "stop"}},
		"a prefix": {chosen(`{"tool_calls": [{"id": "c", "function": {"name": "proxy_classify", "arguments": "{\"n\":1}"}}]}`,
			"stop"), Answer{Calls: call, FinishReason: "stop"}},
		"a server's prefix": {chosen(`{"tool_calls": [{"id": "c", "function": {"name": "mcp__desk__Classify", "arguments": `+
			`"{\"n\":1}"}}]}`, "stop"), Answer{Calls: call, FinishReason: "stop"}},
		"another name": {chosen(`{"tool_calls": [{"id": "c", "function": {"name": "reclassify", "arguments": "{\"n\":1}"}}]}`,
			"stop"), Answer{Calls: []ChatCall{{ID: "c", Type: "function", Function: CallFunction{"reclassify", `{"n":1}`}}},
			FinishReason: "stop"}},
		"arguments twice": {chosen(`{"tool_calls": [{"id": "c", "function": {"name": "classify", "arguments": `+
			`"{\"n\":1}{\"n\":1}"}}]}`, "stop"), Answer{Calls: call, FinishReason: "stop"}},
		"a prefix of null":    {called(`"null{\"n\":1}"`), Answer{Calls: call, FinishReason: "stop"}},
		"a dict":              {called(`"{'n': 1, }"`), Answer{Calls: call, FinishReason: "stop"}},
		"a fence":             {called("\"```json\\n{\\\"n\\\":1}\\n```\""), Answer{Calls: call, FinishReason: "stop"}},
		"a list":              {called(`[{"n": 1}]`), Answer{Calls: call, FinishReason: "stop"}},
		"a list as text":      {called(`"[{\"n\":1}]"`), Answer{Calls: call, FinishReason: "stop"}},
		"a list of a dict":    {called(`"[{'n': 1}]"`), Answer{Calls: call, FinishReason: "stop"}},
		"a dict as text":      {called(`"\"{'n': 1}\""`), Answer{Calls: call, FinishReason: "stop"}},
		"a trailing comma":    {called(`"{\"n\":1,\n}"`), Answer{Calls: call, FinishReason: "stop"}},
		"keys without quotes": {called(`"{n: 1}"`), Answer{Calls: call, FinishReason: "stop"}},
		"Python twice":        {called(`"{'n': 1}{'n': 1}"`), Answer{Calls: call, FinishReason: "stop"}},
		"no object": {called(`"n = 1"`), Answer{Calls: []ChatCall{{ID: "c", Type: "function",
			Function: CallFunction{"classify", `n = 1`}}}, FinishReason: "stop"}},
		"other names of arguments": {chosen(`{"tool_calls": [{"id": "c", "function": {"name": "classify", "parameters": `+
			`{"n": 1}}}]}`, "stop"), Answer{Calls: call, FinishReason: "stop"}},
		"a dict of Python in the text": {chosen(`{"content": "<tool_call>{'name': 'classify', 'arguments': {'n': 1}}`+
			`</tool_call>"}`, "stop"), Answer{Text: `<tool_call>{'name': 'classify', 'arguments': {'n': 1}}</tool_call>`,
			Calls: bare, FinishReason: "stop"}},
		"other arguments after it": {chosen(`{"tool_calls": [{"id": "c", "function": {"name": "classify", "arguments": `+
			`"{\"n\":1}{\"n\":2}"}}]}`, "stop"), Answer{Calls: []ChatCall{{ID: "c", Type: "function",
			Function: CallFunction{"classify", `{"n":1}{"n":2}`}}}, FinishReason: "stop"}},
		"numbers as text": {`{"usage": {"prompt_tokens": "12", "completion_tokens": 5.0, "prompt_tokens_details": []}, ` +
			chosen(`{"content": "Hello"}`, "stop")[1:], Answer{Text: "Hello", FinishReason: "stop",
			Usage: Usage{PromptTokens: 12, CompletionTokens: 5}}},
		"a stream of calls with one index": {streamed("a", "b"), Answer{Calls: []ChatCall{
			{ID: "a", Type: "function", Function: CallFunction{"classify", `{"n":1}`}},
			{ID: "b", Type: "function", Function: CallFunction{"classify", `{"n":1}`}}}, FinishReason: "stop"}},
		"a call": {chosen(`{"tool_calls": [{"id": "c", "function": {"name": "classify", "arguments": `+
			`"{\"n\":1}"}}]}`, "stop"),
			Answer{Calls: call, FinishReason: "stop"}},
		"an object": {chosen(`{"tool_calls": [{"id": "c", "function": {"name": "classify", "arguments": {"n": `+
			`1}}}]}`, "stop"),
			Answer{Calls: call, FinishReason: "stop"}},
		"quoted twice": {chosen(`{"tool_calls": [{"id": "c", "function": {"name": "classify", "arguments": `+
			`"\"{\\\"n\\\":1}\""}}]}`,
			"stop"), Answer{Calls: call, FinishReason: "stop"}},
		"tokens after it": {chosen(`{"tool_calls": [{"id": "c", "function": {"name": "classify", "arguments": `+
			`"{\"n\":1}<|im_end|>"}}]}`, "stop"), Answer{Calls: call, FinishReason: "stop"}},
		"a mark of the byte order": {"\ufeff" + chosen(`{"content": "Hello"}`, "stop"),
			Answer{Text: "Hello", FinishReason: "stop"}},
		"flat": {chosen(`{"tool_calls": [{"id": "c", "name": "functions.classify", "input": {"n": 1}}]}`, "stop"),
			Answer{Calls: call, FinishReason: "stop"}},
		"a part": {chosen(`{"content": [{"type": "tool_use", "id": "c", "name": "classify", "input": {"n": 1}}]}`, "stop"),
			Answer{Calls: call, FinishReason: "stop"}},
		"the second choice": {`{"choices": [{"message": {"content": "I call."}}, {"message": {"tool_calls": [{"id": "c",
			"function": {"name": "classify", "arguments": "{\"n\":1}"}}]}, "finish_reason": "stop"}]}`,
			Answer{Calls: call, FinishReason: "stop"}},
		"XML": {chosen(`{"content": "<function=classify>\n<parameter=n>\n1\n</parameter>\n</function>"}`, "stop"),
			Answer{Text: "<function=classify>\n<parameter=n>\n1\n</parameter>\n</function>", Calls: bare, FinishReason: "stop"}},
		"names and prose": {chosen(`{"content": "I would classify {\"n\":1} so."}`, "stop"),
			Answer{Text: `I would classify {"n":1} so.`, FinishReason: "stop"}},
		"another's call": {chosen(`{"content": "{\"name\": \"dance\", \"arguments\": {}}"}`, "stop"),
			Answer{Text: `{"name": "dance", "arguments": {}}`, FinishReason: "stop"}},
		"an unknown ending": {chosen(`{"content": "{\"n\":1}"}`, "sunset"), Answer{Text: `{"n":1}`, FinishReason: "sunset"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, _ := at(t, 200, tc.body)
			got, err := c.Send(t.Context(), asked(), 0)
			if err != nil {
				t.Fatal(err)
			}
			got.Received, got.thought = nil, false
			for i := range got.Calls { // whose blanks are the model's
				got.Calls[i].Function.Arguments = strings.ReplaceAll(got.Calls[i].Function.Arguments, `: `, `:`)
			}
			if diff := cmp.Diff(tc.want, *got, cmp.AllowUnexported(Answer{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A call that the endpoint couldn't read is the model's slip, in the words of each server.
func TestSlips(t *testing.T) {
	for status, body := range map[int]string{
		400: `{"error": {"code": "tool_use_failed", "message": "Failed to call a function.", "failed_generation": "<x>"}}`,
		422: `{"error": {"message": "tool call validation failed: parameters for tool classify did not match schema"}}`,
		500: `{"error": {"message": "error parsing tool call: raw='{', err=unexpected end of JSON input"}}`,
		501: `{"error": {"code": 500, "message": "Failed to parse input at pos 12: <tool_call>"}}`,
		200: `{"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": ` +
			`"{\"error\":{\"code\":\"tool_use_failed\",\"message\":\"x\"}}"}}}`,
	} {
		c, _ := at(t, status, body)
		request := asked()
		c.refusals.noteAnswered(request.usedFeatures())
		got, err := c.Send(t.Context(), asked(), 0)
		if err != nil || got.Slip == "" || c.Lacks() != 0 || status == 400 && got.Text != "<x>" {
			t.Errorf("%d: %+v, %v", status, got, err)
		}
	}
}

// A request leaves out what the endpoint lacks, except what is fixed.
func TestRequestsWithoutFeatures(t *testing.T) {
	c, got := at(t, 400, `{"error": {"message": "temperature is not supported"}}`)
	c.service.Fixed = Temperature
	if _, err := c.Send(t.Context(), asked(), 0); ClassOf(err) != Rejected || c.Lacks() != 0 {
		t.Errorf("%v, lacks %b", err, c.Lacks())
	}
	if _, err := c.Send(t.Context(), asked(), (1<<12-1)&^(Tools|Strict|JSONObject)); err == nil {
		t.Error("no error")
	}
	full, less := (*got)[0], (*got)[1]
	delete(full, "tools")
	delete(less, "tools")
	want := []map[string]any{
		{"model": "m", "max_tokens": 5., "temperature": 0., "top_p": 0., "seed": 0., "tool_choice": "required",
			"parallel_tool_calls": false, "response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{
				"name": "action", "strict": true, "schema": nil}}, "messages": []any{
				map[string]any{"role": "system", "content": "Be kind."}, map[string]any{"role": "user", "content": "Hello"},
				map[string]any{"role": "assistant", "content": nil, "reasoning_content": "hm"}}},
		{"model": "m", "max_completion_tokens": 5., "response_format": map[string]any{"type": "json_object"},
			"messages": []any{
				map[string]any{"role": "user", "content": "Be kind.\n\nHello"}, map[string]any{"role": "assistant",
					"content": nil}}},
	}
	if diff := cmp.Diff(want, []map[string]any{full, less}); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Keys are sent without the end of their line, and Azure's older form of URLs gets them too.
func TestKeysAndURLs(t *testing.T) {
	var asked *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r }))
	defer server.Close()
	s := serviceAt(server.URL + "/openai/deployments/gpt/chat/completions/?api-version=2024-10-21")
	s.Key = "sk-of-azure\n"
	_, err := NewCompletions(s).Send(t.Context(), ChatRequest{}, 0)
	if asked.URL.String() != "/openai/deployments/gpt/chat/completions?api-version=2024-10-21" ||
		asked.Header.Get("Authorization") != "Bearer sk-of-azure" || asked.Header.Get("Api-Key") != "sk-of-azure" {
		t.Errorf("asked %s with %v", asked.URL, asked.Header)
	}
	if err == nil || strings.Contains(err.Error(), "api-version") {
		t.Errorf("error = %v", err)
	}
}

// Keys that are words of any text aren't cut out of it.
func TestShortKeysAreNoSecrets(t *testing.T) {
	if got := ErrorWords([]byte("ollama is out of memory"), "ollama"); got != "ollama is out of memory" {
		t.Error(got)
	}
}

// What has worked stays: one complaint, of one request however often, is about that request. Two
// requests that are refused again and again show that the endpoint has changed.
func TestWhatWorkedStays(t *testing.T) {
	var r refusals
	first, second := []ChatMessage{NewMessage(RoleUser, "1")}, []ChatMessage{NewMessage(RoleUser, "2")}
	complain := func(messages []ChatMessage, n int) (believed bool) {
		for range n {
			believed, _ = r.countComplaint(Tools, messages)
		}
		return believed
	}
	r.noteAnswered(Tools)
	if complain(first, 100) || complain(second, stubborn-1) {
		t.Error("believed one request")
	}
	r.noteAnswered(Tools | Seed)
	if complain(second, stubborn) || complain(first, stubborn-1) {
		t.Error("believed complaints from before the feature worked again")
	}
	if !complain(first, 1) || r.lacks != Tools {
		t.Error("two requests were not believed")
	}
	if r.needFeature(Tools); complain(first, 100) || r.lacks != 0 {
		t.Error("left out again what the endpoint misses")
	}
}

// Members that the endpoint's thoughts need come back when they were left out.
func TestThoughtsComeBack(t *testing.T) {
	c, got := at(t, 400, `{"error": {"message": "The `+"`reasoning_content`"+` in the thinking mode must be passed back"}}`)
	c.refusals.lacks = Members
	_, err := c.Send(t.Context(), asked(), Members)
	if e, ok := errors.AsType[*Error](err); !ok || !e.Anew || c.Lacks() != 0 {
		t.Errorf("%+v, lacks %b", err, c.Lacks())
	}
	_, err = c.Send(t.Context(), asked(), 0)
	if e, ok := errors.AsType[*Error](err); !ok || e.Anew || len(*got) != 2 {
		t.Errorf("%+v", err)
	}
}

// What is left out is said with since when and how often.
func TestLeftOut(t *testing.T) {
	c, _ := at(t, 400, `{"error": {"message": "seed is not supported"}}`)
	for range 2 {
		_, _ = c.Send(t.Context(), asked(), c.Lacks())
	}
	c.refusals.noteAnswered(Tools)
	for i := range 2 * stubborn {
		_, _ = c.refusals.countComplaint(Tools, []ChatMessage{NewMessage(RoleUser, fmt.Sprint(i%2))})
	}
	for range 3 {
		_, _ = c.Send(t.Context(), asked(), c.Lacks())
	}
	if got := c.LeftOut(); got != "tools (since request 3, of 3), seed (of 3 requests)" {
		t.Error(got)
	}
}

// Schemas that may not forbid other members are sent without that, at every depth, and not strict.
func TestOpenSchemas(t *testing.T) {
	c, got := at(t, 400, "")
	r := asked()
	r.Tools[0].Function.Parameters = map[string]any{"additionalProperties": false, "properties": map[string]any{
		"n": map[string]any{"type": "object", "additionalProperties": false}}}
	if _, err := c.Send(t.Context(), r, Closed); err == nil {
		t.Error("no error")
	}
	data, err := json.Marshal((*got)[0])
	if err != nil || strings.Contains(string(data), "additionalProperties") || strings.Contains(string(data), `"strict":true,"n`) {
		t.Errorf("%s, %v", data, err)
	}
	if !r.Tools[0].Function.Strict || r.Tools[0].Function.Parameters["additionalProperties"] != false {
		t.Error("the caller's request was changed")
	}
}

// A text that isn't an action, of an endpoint that counts tokens and counted none for it, is the
// endpoint's own.
func TestUncountedText(t *testing.T) {
	c, _ := at(t, 200, `{"usage": {"prompt_tokens": 0, "completion_tokens": 0}, `+
		chosen(`{"content": "[Gateway] Upstream returned an empty response."}`, "stop")[1:])
	if _, err := c.Send(t.Context(), asked(), 0); err != nil {
		t.Errorf("an endpoint that never counts: %v", err)
	}
	c.counts.Store(true)
	if _, err := c.Send(t.Context(), asked(), 0); ClassOf(err) != Unclear {
		t.Errorf("an endpoint that counts: %v", err)
	}
}
