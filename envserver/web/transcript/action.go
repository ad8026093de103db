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
	// Fields are the other members by name, without those that are null.
	Fields []Field
	// Message is the message to the customer, or "".
	Message string
	// Facts are those stated beside the message.
	Facts []facts.Fact
	Raw   string

	arguments []string
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
	a.Fields = listFields(members)
	payload, _ := members["payload"].(map[string]any)
	for _, from := range []map[string]any{members, payload} {
		for _, f := range listFields(from) {
			switch {
			case f.Name == "message":
				a.Message = f.Value
			case f.Name == "facts":
				a.Facts = readFacts(f.Value)
			case f.Name != "payload" || payload == nil:
				a.arguments = append(a.arguments, f.Name+" "+f.Value)
			}
		}
	}
	return a
}

// readFacts reads facts, none from a value of another form.
func readFacts(value string) (stated []facts.Fact) {
	var list []struct {
		What  string `json:"what"`
		Value any    `json:"value"`
	}
	if json.Unmarshal([]byte(value), &list) != nil {
		return nil
	}
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
func (a Action) Summary() string { return strings.Join(a.arguments, ", ") }
