package episode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Tool is a variant of a form as a function that an agent calls with arguments.
type Tool struct {
	// Name is the variant's type.
	Name        string
	Description string
	// InputSchema is the JSON Schema (draft 2020-12) of the arguments, an object.
	InputSchema json.RawMessage
	// Object names the field that holds the arguments in an action; "" means that they are the
	// action's own fields.
	Object string
}

// Action is the action that a call of the tool means. The error is an *ActionError when the
// arguments can't be part of any action; everything else about them is for the environment to
// judge.
func (t Tool) Action(arguments json.RawMessage) (json.RawMessage, error) {
	given := map[string]jsontext.Value{}
	if len(arguments) > 0 {
		given = members(arguments).byName()
	}
	if given == nil {
		return nil, &ActionError{Items: []ErrorItem{item("dict_type", []any{}, "the arguments should be a JSON object",
			jsontext.Value(arguments))}}
	}
	if value, ok := given[typeField]; ok && t.Object == "" {
		return nil, &ActionError{Items: []ErrorItem{item("extra_forbidden", []any{typeField},
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

// Tools are the form's variants, in their order.
func (f *Form) Tools() ([]Tool, error) {
	tools := make([]Tool, len(f.variants))
	for i := range f.variants {
		v := &f.variants[i]
		t := Tool{Name: v.Type, Description: sentence(v.Description), Object: f.objectOf(v)}
		schema, err := json.Marshal(f.arguments(v, t.Object))
		if err != nil {
			return nil, fmt.Errorf("writing the schema of tool %s: %w", v.Type, err)
		}
		t.InputSchema = schema
		tools[i] = t
	}
	return tools, nil
}

// sentence begins a text with a capital.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// objectOf is the object field whose properties are the variant's arguments, "" for none.
func (f *Form) objectOf(v *Variant) string {
	if len(v.Properties) == 0 {
		return ""
	}
	for _, field := range f.fields {
		if field.Properties != nil && v.reads(field.Name) {
			return field.Name
		}
	}
	return ""
}

// arguments is the JSON Schema of a tool's arguments.
func (f *Form) arguments(v *Variant, object string) map[string]any {
	properties := map[string]any{}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if object != "" {
		for i := range f.byField[object].Properties {
			if property := &f.byField[object].Properties[i]; slices.Contains(v.Properties, property.Name) {
				properties[property.Name] = property.nullable()
			}
		}
		return schema
	}
	for i := range f.fields {
		field := &f.fields[i]
		switch {
		case slices.Contains(v.Required, field.Name):
			properties[field.Name] = field.required()
		case v.reads(field.Name):
			properties[field.Name] = field.nullable()
		}
	}
	if len(v.Required) > 0 {
		schema["required"] = v.Required
	}
	if len(v.AnyOf) > 0 {
		schema["anyOf"] = v.choices()
	}
	return schema
}

// required is the schema of a field that must be given.
func (field *Field) required() map[string]any {
	alternatives := field.schemas()
	if len(alternatives) > 1 {
		return map[string]any{"anyOf": alternatives, "description": field.Description}
	}
	schema := alternatives[0].(map[string]any)
	schema["description"] = field.Description
	return schema
}
