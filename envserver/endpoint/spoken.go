package endpoint

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// thoughts are the marks around a model's thoughts in its text. Their beginning may be part of the
// prompt, and then isn't in the text.
var thoughts = [][2]string{
	{"<think>", "</think>"}, {"<thinking>", "</thinking>"}, {"<thought>", "</thought>"},
	{"<reasoning>", "</reasoning>"}, {"<seed:think>", "</seed:think>"}, {"[THINK]", "[/THINK]"},
	{"◁think▷", "◁/think▷"}, {"<|begin_of_thought|>", "<|end_of_thought|>"},
	{"<|channel|>analysis<|message|>", "<|end|>"}, {"<unused94>", "<unused95>"},
}

// callMark finds the marks that models of several families write before a call. A server that
// doesn't recognise them leaves them in the text.
var callMark = regexp.MustCompile(`<tool_calls?>|<function_calls?>|<function=|\[TOOL_CALLS\]|<\|tool_calls?_begin\|>|` +
	`<\|tool_calls?_section_begin\|>|<\|python_tag\|>|<｜tool▁calls?▁begin｜>|to=functions\.|<\|tool_call\|?>|` +
	`<\|channel\|>`)

// spokenParameter finds the arguments of calls that aren't JSON.
var spokenParameter = regexp.MustCompile(`(?s)<(?:parameter(?:=| name=")|arg_key>)\s*([\w-]+)"?\s*` +
	`(?:>|</arg_key>\s*<arg_value>)` + `\s*(.*?)\s*</(?:parameter|arg_value)>`)

// callEnd finds the end of a call.
var callEnd = regexp.MustCompile(`</function>|</tool_call>`)

// CallsIn reads calls of the offered tools that a server left in the text: objects with a tool's
// name and arguments, and arguments after the name of a tool and one of the marks. The text says so
// plainly; nothing else is taken for a call.
func CallsIn(text string, offered []ChatTool) []ChatCall {
	var out []ChatCall
	if len(offered) == 0 {
		return nil
	}
	marked := callMark.FindStringIndex(text)
	if marked != nil {
		if call, ok := spokenCall(text[marked[0]:], offered); ok {
			return []ChatCall{call}
		}
	}
	for rest := 0; ; {
		at := strings.IndexAny(text[rest:], "{")
		if at < 0 {
			return out
		}
		from := rest + at
		object, _, length := objectAt(text[from:])
		if object == nil {
			rest = from + 1
			continue
		}
		call, ok := callOf(object)
		ok = ok && call.Function.Arguments != "" && isOffered(toolNamed(call.Function.Name, offered), offered)
		if !ok && marked != nil && marked[0] < from {
			call, ok = namedBefore(text[marked[0]:from], object, offered)
		}
		if ok {
			out = append(out, call)
		}
		rest = from + length
	}
}

// objectAt decodes the object at the beginning of a text, and returns its JSON and its length; nil
// and 0 if there is none.
func objectAt(text string) (object map[string]any, written string, length int) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&object) == nil {
		length = int(dec.InputOffset())
		return object, text[:length], length
	}
	if len(text) <= maxLoose && strings.HasPrefix(text, "{") {
		written, length = LooseJSON(text)
	}
	if decodeJSON([]byte(written), &object) != nil {
		return nil, "", 0
	}
	return object, written, length
}

// word finds names.
var word = regexp.MustCompile(`[\w-]+`)

// namedBefore is the call whose name is the last offered one before its arguments.
func namedBefore(before string, object map[string]any, offered []ChatTool) (ChatCall, bool) {
	names := word.FindAllString(before, -1)
	slices.Reverse(names)
	at := slices.IndexFunc(names, func(name string) bool { return isOffered(name, offered) })
	arguments, ok := argumentsOf(object)
	if at < 0 || !ok {
		return ChatCall{}, false
	}
	return ChatCall{Type: "function", Function: CallFunction{Name: names[at], Arguments: arguments}}, true
}

// spokenCall reads <function=name><parameter=a>value</parameter> and its like.
func spokenCall(text string, offered []ChatTool) (ChatCall, bool) {
	found := spokenParameter.FindAllStringSubmatchIndex(text, -1)
	if end := callEnd.FindStringIndex(text); end != nil {
		found = slices.DeleteFunc(found, func(m []int) bool { return m[0] > end[0] })
	}
	if len(found) == 0 {
		return ChatCall{}, false
	}
	call, ok := namedBefore(text[:found[0][0]], map[string]any{}, offered)
	i := slices.IndexFunc(offered, func(t ChatTool) bool { return t.Function.Name == call.Function.Name })
	if !ok || i < 0 {
		return call, false
	}
	properties, _ := offered[i].Function.Parameters["properties"].(map[string]any)
	arguments := map[string]any{}
	for _, m := range found {
		name, value := text[m[2]:m[3]], text[m[4]:m[5]]
		schema, err := json.Marshal(properties[name])
		if err == nil && strings.Contains(string(schema), `"number"`) && json.Valid([]byte(value)) || value == "null" {
			arguments[name] = json.RawMessage(value)
		} else {
			arguments[name] = value
		}
	}
	data, err := json.Marshal(arguments)
	call.Function.Arguments = string(data)
	return call, err == nil
}

func isOffered(name string, offered []ChatTool) bool {
	return slices.ContainsFunc(offered, func(t ChatTool) bool { return t.Function.Name == name })
}

// namespaces are what some models put before a tool's name.
var namespaces = regexp.MustCompile(`^(functions|tools?|default_api|api)[.:]`)

// toolNamed is the offered tool that a name means: a name may have a namespace or another prefix
// before it, and the model's control tokens after it, and be written in another case. It means the
// only tool that it matches so.
func toolNamed(name string, offered []ChatTool) string {
	if isOffered(name, offered) {
		return name
	}
	short, _, _ := strings.Cut(name, "<|")
	short, _, _ = strings.Cut(namespaces.ReplaceAllString(strings.TrimSpace(short), ""), ":")
	if short = strings.TrimSpace(short); isOffered(short, offered) {
		return short
	}
	var meant []string
	for _, t := range offered {
		at := len(short) - len(t.Function.Name)
		if at >= 0 && strings.EqualFold(short[at:], t.Function.Name) &&
			(at == 0 || separators.MatchString(short[:at])) {
			meant = append(meant, t.Function.Name)
		}
	}
	if len(meant) == 1 {
		return meant[0]
	}
	return name
}

// separators find the end of a prefix.
var separators = regexp.MustCompile(`[_.:/-]$`)
