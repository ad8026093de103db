package transcript

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/facts"
)

// Action is an agent's action. An action that isn't a JSON object has only Raw.
type Action struct {
	// Type is the action_type, "" if it has none.
	Type string
	// Arguments are the members of the action and of its payload by name, without its message, its
	// facts and those that are null.
	Arguments []Field
	// Message is the message to the customer, or "".
	Message string
	// Facts are those stated beside the message.
	Facts []facts.Fact
	Raw   string
}

// Field is a name and a value. A value that isn't a string is JSON.
type Field struct{ Name, Value string }

// ReadAction reads an action.
func ReadAction(action json.RawMessage) Action {
	var members map[string]any
	if json.Unmarshal(action, &members) != nil {
		return Action{Raw: string(action)}
	}
	var a Action
	a.Type, _ = members["action_type"].(string)
	delete(members, "action_type")
	payload, _ := members["payload"].(map[string]any)
	for _, from := range []map[string]any{members, payload} {
		for _, f := range listFields(from) {
			switch {
			case f.Name == "message":
				a.Message = f.Value
			case f.Name == "facts" && readFacts(f.Value) != nil:
				a.Facts = readFacts(f.Value)
			case f.Name != "payload" || payload == nil:
				a.Arguments = append(a.Arguments, f)
			}
		}
	}
	return a
}

// readFacts reads facts, nil from a value of another form.
func readFacts(value string) []facts.Fact {
	var list []struct {
		What  string `json:"what"`
		Value any    `json:"value"`
	}
	if json.Unmarshal([]byte(value), &list) != nil {
		return nil
	}
	stated := make([]facts.Fact, 0, len(list))
	for _, f := range list {
		text, isText := f.Value.(string)
		if !isText {
			text = encodeInline(f.Value)
		}
		stated = append(stated, facts.Fact{What: f.What, Value: text})
	}
	return stated
}

func listFields(members map[string]any) []Field {
	var out []Field
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch value := members[name].(type) {
		case nil:
		case string:
			out = append(out, Field{name, value})
		default:
			out = append(out, Field{name, encodeInline(value)})
		}
	}
	return out
}

// encodeInline encodes a value on one line.
func encodeInline(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Summary is the action's arguments in a line, without its message and the facts beside it.
func (a Action) Summary() string {
	words := make([]string, len(a.Arguments))
	for i, f := range a.Arguments {
		words[i] = f.Name + " " + f.Value
	}
	return strings.Join(words, ", ")
}
