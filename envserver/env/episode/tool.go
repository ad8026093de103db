package episode

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/object"
)

// Tool is a variant of a form, as a function that an agent calls with arguments.
type Tool struct {
	// Name is the variant's type.
	Name        string
	Description string
	// InputSchema is the JSON Schema (draft 2020-12) of the arguments, an object.
	InputSchema json.RawMessage
	// Object names the field of an action that contains the arguments. "" means that they are the
	// action's own fields.
	Object string
}

// Tools returns the form's variants as tools, in their order.
func (f *Form) Tools() ([]Tool, error) {
	tools := make([]Tool, len(f.variants))
	explainer := ""
	for i := range f.variants {
		v := &f.variants[i]
		object := f.objectOf(v)
		arguments := f.argumentFields(v, object, explainer)
		if explainer == "" && f.takesFacts(v, object) {
			explainer = v.Type
		}
		input, err := json.Marshal(arguments)
		if err != nil {
			return nil, fmt.Errorf("writing the schema of tool %s: %w", v.Type, err)
		}
		tools[i] = Tool{Name: v.Type, Description: upperFirst(v.Description), InputSchema: input, Object: object}
	}
	return tools, nil
}

// variant is the JSON Schema of the tool's action: its arguments, or the object that contains them,
// beside the type.
func (t Tool) variant() (schema, error) {
	var arguments schema
	if err := json.Unmarshal(t.InputSchema, &arguments); err != nil {
		return nil, fmt.Errorf("reading the schema of tool %s: %w", t.Name, err)
	}
	if t.Object != "" {
		arguments = schema{"type": "object", "properties": map[string]any{t.Object: arguments},
			"required": []any{t.Object}, "additionalProperties": false}
	}
	properties, _ := arguments["properties"].(map[string]any)
	required, _ := arguments["required"].([]any)
	if properties == nil { // of a tool without arguments
		properties = map[string]any{}
		arguments["properties"] = properties
	}
	properties[typeField] = schema{"const": t.Name, "description": t.Description}
	arguments["required"] = append([]any{typeField}, required...)
	return arguments, nil
}

// readArguments decodes a JSON object. An empty text means no arguments. The error is an
// *ActionError.
func readArguments(text json.RawMessage) (map[string]jsontext.Value, error) {
	given := map[string]jsontext.Value{}
	if len(text) == 0 {
		return given, nil
	}
	members, err := object.Read(text, object.LastCounts)
	switch {
	case errors.Is(err, object.ErrTooMany):
		return nil, &ActionError{
			Items: []ErrorItem{newErrorItem("too_long", []any{}, tooMany("a call of a tool"), nil)},
		}
	case err != nil:
		return nil, &ActionError{
			Items: []ErrorItem{newErrorItem("dict_type", []any{}, "the arguments should be a JSON object",
				jsontext.Value(text))},
		}
	}
	for _, m := range members {
		given[m.Name] = m.Value
	}
	return given, nil
}

// Action returns the action for a call of the tool. The error is an *ActionError if the arguments
// can't be part of any action; the environment checks everything else.
func (t Tool) Action(arguments json.RawMessage) (json.RawMessage, error) {
	given, err := readArguments(arguments)
	if err != nil {
		return nil, err
	}
	if value, ok := given[typeField]; ok && t.Object == "" {
		return nil, &ActionError{Items: []ErrorItem{newErrorItem("extra_forbidden", []any{typeField},
			fmt.Sprintf("%s has no argument %q: leave it out", t.Name, typeField), value)}}
	}
	name, err := json.Marshal(t.Name)
	if err != nil {
		return nil, fmt.Errorf("naming the action of a tool: %w", err)
	}
	if t.Object != "" {
		inner, err := json.Marshal(given)
		if err != nil {
			return nil, fmt.Errorf("copying the arguments of a tool: %w", err)
		}
		given = map[string]jsontext.Value{t.Object: inner}
	}
	given[typeField] = name
	action, err := json.Marshal(given)
	if err != nil {
		return nil, fmt.Errorf("writing the action of a tool: %w", err)
	}
	return action, nil
}
