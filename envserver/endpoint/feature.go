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
	// Members are those of the model's own messages that aren't in the protocol.
	Members
	// Closed are schemas of objects that forbid other members (additionalProperties).
	Closed
	// Calls are the calls of earlier turns. They can't be left out.
	Calls
)

// featureNames are the features as messages name them: by the member of the request, or in words.
var featureNames = [...]struct {
	feature Feature
	name    string
}{
	{Tools, "tools"}, {Strict, "strict schemas of tools"}, {ToolChoice, "tool_choice"},
	{OneCall, "parallel_tool_calls"}, {JSONSchema, "response_format json_schema"},
	{JSONObject, "response_format json_object"}, {Seed, "seed"}, {Temperature, "temperature"}, {TopP, "top_p"},
	{MaxTokens, "max_tokens"}, {System, "role system"}, {Members, "members of the model's messages"},
	{Closed, "additionalProperties"},
}

// Names are the names of the features in the set.
func (f Feature) Names() []string {
	var names []string
	for _, n := range featureNames {
		if f&n.feature != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// features say how endpoints name the features that they refuse. The first that matches is left
// out, so the least important come first: a complaint about tools may mean the form of their
// descriptions.
var features = [...]struct {
	feature Feature
	names   *regexp.Regexp
}{
	{Members, regexp.MustCompile(`(?is)\bmessages?['"]?[.\[]['"]?\d+.*` + refusing + `|` + thoughtMembers)},
	{ToolChoice, regexp.MustCompile(`(?i)tool[_ ]?choice|` + grammars)},
	{OneCall, regexp.MustCompile(`(?i)parallel[_ ]?tool|multiple tool`)},
	{Seed, regexp.MustCompile(`(?i)\bseed\b`)},
	{MaxTokens, regexp.MustCompile(`(?is)max_?tokens.*(` + refusing + `|max_completion_tokens)|` + refusing +
		`.*max_?tokens`)},
	{Temperature, regexp.MustCompile(`(?i)\btemperature\b`)},
	{TopP, regexp.MustCompile(`(?i)\btop_?p\b`)},
	{System, regexp.MustCompile(`(?i)system['" ]+(role|message|prompt|instruction)|roles must alternate|` +
		`only (supports )?['"]?user['"]?,?( and| or)? ['"]?(assistant|model)|(role|unknown).{0,40}['"]?system\b|` +
		`(support|value:?) ['"]system|developer instruction`)},
	{Closed, regexp.MustCompile(`(?i)additional_?properties`)},
	{JSONSchema, regexp.MustCompile(`(?i)` + grammars + `|json_?schema|response_?format|\bschema\b|` +
		`structured output|guided`)},
	{JSONObject, regexp.MustCompile(`(?i)` + grammars + `|response_?format|json_?object|json mode`)},
	{Strict, regexp.MustCompile(`(?i)` + grammars + `|\bstrict\b|schema for function|\btools\b|\bfunctions\b`)},
	{Tools, regexp.MustCompile(`(?i)` + grammars + `|\btools?\b|\bfunction[ _-]?call|\bfunctions?\b|` +
		`roles must alternate|tool_calls?`)},
}

// refusing are the words of servers for what they don't know or support.
const refusing = `(support|unknown|unrecogni[sz]ed|unexpected|extra|additional|permitted|forbidden|not allowed|` +
	`invalid|implemented|require|deprecated|enable)`

// thoughtMembers are the names of the members that hold a model's thoughts, and grammars the words
// of servers that can't generate by a schema: it may be that of a forced call, of a tool or of the
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

// used are the features that the request uses.
func (r *ChatRequest) used() Feature {
	var used Feature
	for feature, is := range map[Feature]bool{
		Seed: r.Seed != nil, Temperature: r.Temperature != nil, TopP: r.TopP != nil, MaxTokens: r.MaxTokens > 0,
		Tools: r.Tools != nil, Strict: slices.ContainsFunc(r.Tools, func(t ChatTool) bool { return t.Function.Strict }),
		ToolChoice: r.ToolChoice != "", OneCall: r.ParallelToolCalls != nil, JSONObject: r.ResponseFormat != nil,
		JSONSchema: r.ResponseFormat != nil && r.ResponseFormat.JSONSchema != nil,
		Closed:     !r.open && (r.Tools != nil || r.ResponseFormat != nil && r.ResponseFormat.JSONSchema != nil),
		Calls:      slices.ContainsFunc(r.Messages, func(m ChatMessage) bool { return m.ToolCalls != nil }),
		System:     slices.ContainsFunc(r.Messages, func(m ChatMessage) bool { return m.Role == RoleSystem }),
		Members:    slices.ContainsFunc(r.Messages, func(m ChatMessage) bool { return m.Received != nil }),
	} {
		if is {
			used |= feature
		}
	}
	return used
}

// without returns the request without the features that need no other instructions. Tools, and
// strict ones, are the caller's to leave out.
func (r ChatRequest) without(f Feature) ChatRequest {
	if f&Seed != 0 {
		r.Seed = nil
	}
	if f&Temperature != 0 {
		r.Temperature = nil
	}
	if f&TopP != 0 {
		r.TopP = nil
	}
	if f&MaxTokens != 0 {
		r.MaxTokens, r.MaxCompletionTokens = 0, r.MaxTokens
	}
	if f&ToolChoice != 0 {
		r.ToolChoice = ""
	}
	if f&OneCall != 0 {
		r.ParallelToolCalls = nil
	}
	if f&JSONObject != 0 {
		r.ResponseFormat = nil
	} else if f&JSONSchema != 0 && r.ResponseFormat != nil {
		r.ResponseFormat = &ResponseFormat{Type: "json_object"}
	}
	if f&System != 0 {
		r.Messages = withoutSystem(r.Messages)
	}
	if f&Members != 0 {
		r.Messages = withoutReceived(r.Messages)
	}
	if r.open = f&Closed != 0; r.open { // strict schemas must be closed
		r.Tools = slices.Clone(r.Tools)
		for i := range r.Tools {
			r.Tools[i].Function.Strict = false
		}
	}
	return r
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

// withoutReceived returns the messages without what they have beside the protocol's members.
func withoutReceived(messages []ChatMessage) []ChatMessage {
	out := slices.Clone(messages)
	for i := range out {
		out[i].Received = nil
	}
	return out
}

// withoutSystem moves the system's text to the beginning of the first message of the user.
func withoutSystem(messages []ChatMessage) []ChatMessage {
	first := slices.IndexFunc(messages, func(m ChatMessage) bool { return m.Role == RoleUser })
	if len(messages) == 0 || messages[0].Role != RoleSystem || first < 0 {
		return messages
	}
	out := slices.Clone(messages[1:])
	out[first-1] = NewMessage(RoleUser, *messages[0].Content+"\n\n"+*messages[first].Content)
	return out
}
