package endpoint

import (
	"regexp"
	"slices"
)

// Feature is a part of a request that some endpoints refuse, or a set of such parts.
type Feature uint32

// The features. The first five are part of the judge's cache keys.
const (
	JSONSchema Feature = 1 << iota
	Seed
	Temperature
	TopP
	// MaxTokens is the parameter max_tokens; max_completion_tokens replaces it.
	MaxTokens
	// Strict are tools whose arguments follow their schemas exactly.
	Strict
	ToolChoice
	OneCall
	Tools
	JSONObject
	// System is the system's role; the user's first message replaces it.
	System
	// Members are members of the model's own messages that aren't in the protocol.
	Members
	// Closed are schemas of objects that forbid other members (additionalProperties).
	Closed
	// Calls are the calls of earlier turns. They can't be left out.
	Calls
)

// features are what is done about each. The words are those by which endpoints name it when they
// refuse it: the first that match decide, so the least important come first, because a complaint
// about tools may mean the form of their descriptions. Used reports whether a request has it, and
// drop leaves it out where that needs no other instructions: tools, and strict ones, are the
// caller's to leave out.
var features = [...]struct {
	feature Feature
	// name is the name in messages: the member of the request, or words.
	name  string
	words *regexp.Regexp
	used  func(r *ChatRequest) bool
	drop  func(r *ChatRequest)
}{
	{Members, "members of the model's messages",
		regexp.MustCompile(`(?is)\bmessages?['"]?[.\[]['"]?\d+.*` + refusing + `|` + thoughtMembers),
		hasMessage(func(m ChatMessage) bool { return m.Received != nil }),
		func(r *ChatRequest) {
			r.Messages = slices.Clone(r.Messages)
			for i := range r.Messages {
				r.Messages[i].Received = nil
			}
		}},
	{ToolChoice, "tool_choice", regexp.MustCompile(`(?i)tool[_ ]?choice|` + grammars),
		func(r *ChatRequest) bool { return r.ToolChoice != "" },
		func(r *ChatRequest) { r.ToolChoice = "" }},
	{OneCall, "parallel_tool_calls", regexp.MustCompile(`(?i)parallel[_ ]?tool|multiple tool`),
		func(r *ChatRequest) bool { return r.ParallelToolCalls != nil },
		func(r *ChatRequest) { r.ParallelToolCalls = nil }},
	{Seed, "seed", regexp.MustCompile(`(?i)\bseed\b`),
		func(r *ChatRequest) bool { return r.Seed != nil },
		func(r *ChatRequest) { r.Seed = nil }},
	{MaxTokens, "max_tokens", regexp.MustCompile(`(?is)max_?tokens.*(` + refusing + `|max_completion_tokens)|` +
		refusing + `.*max_?tokens`),
		func(r *ChatRequest) bool { return r.MaxTokens > 0 },
		func(r *ChatRequest) { r.MaxTokens, r.MaxCompletionTokens = 0, r.MaxTokens }},
	{Temperature, "temperature", regexp.MustCompile(`(?i)\btemperature\b`),
		func(r *ChatRequest) bool { return r.Temperature != nil },
		func(r *ChatRequest) { r.Temperature = nil }},
	{TopP, "top_p", regexp.MustCompile(`(?i)\btop_?p\b`),
		func(r *ChatRequest) bool { return r.TopP != nil },
		func(r *ChatRequest) { r.TopP = nil }},
	{System, "role system", regexp.MustCompile(`(?i)system['" ]+(role|message|prompt|instruction)|` +
		`roles must alternate|only (supports )?['"]?user['"]?,?( and| or)? ['"]?(assistant|model)|` +
		`(role|unknown).{0,40}['"]?system\b|` +
		`(support|value:?) ['"]system|developer instruction`),
		hasMessage(func(m ChatMessage) bool { return m.Role == RoleSystem }), dropSystem},
	{Closed, "additionalProperties", regexp.MustCompile(`(?i)additional_?properties`),
		func(r *ChatRequest) bool { return !r.open && (r.Tools != nil || r.schema() != nil) },
		func(r *ChatRequest) {
			r.open, r.Tools = true, slices.Clone(r.Tools)
			for i := range r.Tools {
				r.Tools[i].Function.Strict = false // strict schemas must be closed
			}
		}},
	{JSONSchema, "response_format json_schema", regexp.MustCompile(`(?i)` + grammars + `|json_?schema|` +
		`response_?format|\bschema\b|structured output|guided`),
		func(r *ChatRequest) bool { return r.schema() != nil },
		func(r *ChatRequest) {
			if r.ResponseFormat != nil {
				r.ResponseFormat = &ResponseFormat{Type: "json_object"}
			}
		}},
	{JSONObject, "response_format json_object", regexp.MustCompile(`(?i)` + grammars + `|response_?format|` +
		`json_?object|json mode`),
		func(r *ChatRequest) bool { return r.ResponseFormat != nil },
		func(r *ChatRequest) { r.ResponseFormat = nil }},
	{Strict, "strict schemas of tools", regexp.MustCompile(`(?i)` + grammars + `|\bstrict\b|schema for function|` +
		`\btools\b|\bfunctions\b`),
		func(r *ChatRequest) bool {
			return slices.ContainsFunc(r.Tools, func(t ChatTool) bool { return t.Function.Strict })
		}, nil},
	{Tools, "tools", regexp.MustCompile(`(?i)` + grammars + `|\btools?\b|\bfunction[ _-]?call|\bfunctions?\b|` +
		`roles must alternate|tool_calls?`),
		func(r *ChatRequest) bool { return r.Tools != nil }, nil},
	{Calls, "", regexp.MustCompile(`$^`), hasMessage(func(m ChatMessage) bool { return m.ToolCalls != nil }), nil},
}

// hasMessage reports whether a request has such a message.
func hasMessage(is func(ChatMessage) bool) func(*ChatRequest) bool {
	return func(r *ChatRequest) bool { return slices.ContainsFunc(r.Messages, is) }
}

// Names are the names of the features in the set, the most important first.
func (f Feature) Names() []string {
	var names []string
	for _, row := range slices.Backward(features[:]) {
		if f&row.feature != 0 && row.name != "" {
			names = append(names, row.name)
		}
	}
	return names
}

// refusing are the words of servers for what they don't know or support.
const refusing = `(support|unknown|unrecogni[sz]ed|unexpected|extra|additional|permitted|forbidden|not allowed|` +
	`invalid|implemented|require|deprecated|enable)`

// thoughtMembers are the names of the members that hold a model's thoughts, and grammars the words
// of servers that can't generate by a schema: it may belong to a forced call, to a tool or to the
// answer.
const (
	thoughtMembers = `\breasoning_(content|details)\b|['"\x60]reasoning['"\x60]|thinking_blocks|thought_?signature|` +
		`extra_content`
	grammars = `\bgrammar\b|schema conversion|initialize samplers`
)

// unsupported finds words that leave no doubt that the endpoint doesn't know a part of the request.
var unsupported = regexp.MustCompile(`(?i)unsupported|not supported?\b|unknown (name|param|arg|field)|` +
	`unrecogni[sz]ed|unexpected (keyword|arg|param|field)|extra (inputs|fields)|not permitted`)

var (
	refuses = regexp.MustCompile(`(?i)` + refusing)
	lacks   = regexp.MustCompile(`(?i)passed back|must be (provided|included)|is missing|missing an?\b`)
	thought = regexp.MustCompile(`(?i)` + thoughtMembers)
)

// usedFeatures are the features that the request uses.
func (r *ChatRequest) usedFeatures() (used Feature) {
	for _, row := range features {
		if row.used(r) {
			used |= row.feature
		}
	}
	return used
}

// withoutFeatures returns the request without the features.
func (r ChatRequest) withoutFeatures(f Feature) ChatRequest {
	for _, row := range features {
		if f&row.feature != 0 && row.drop != nil {
			row.drop(&r)
		}
	}
	return r
}

// schema is the answer's, nil for none.
func (r *ChatRequest) schema() *ChatAnswerSchema {
	if r.ResponseFormat == nil {
		return nil
	}
	return r.ResponseFormat.JSONSchema
}

// openSchemas removes additionalProperties from schemas, at every depth.
func openSchemas(value any) {
	switch v := value.(type) {
	case map[string]any:
		delete(v, "additionalProperties")
		for _, each := range v {
			openSchemas(each)
		}
	case []any:
		for _, each := range v {
			openSchemas(each)
		}
	}
}

// dropSystem moves the system's text to the beginning of the first message of the user.
func dropSystem(r *ChatRequest) {
	first := slices.IndexFunc(r.Messages, func(m ChatMessage) bool { return m.Role == RoleUser })
	if len(r.Messages) == 0 || r.Messages[0].Role != RoleSystem || first < 0 {
		return
	}
	text := *r.Messages[0].Content + "\n\n" + *r.Messages[first].Content
	r.Messages = slices.Clone(r.Messages[1:])
	r.Messages[first-1] = NewMessage(RoleUser, text)
}
