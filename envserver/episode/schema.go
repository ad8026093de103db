package episode

import (
	"fmt"
	"slices"
	"strings"
)

type schema = map[string]any

// Schema returns the form as a JSON Schema (draft 2020-12) in pydantic's dialect.
func (f *Form) Schema() map[string]any {
	properties := schema{
		typeField: schema{"type": "string", "enum": f.Types(), "title": "Action Type",
			"description": f.describeTypes()},
		"metadata": schema{"type": []string{"object", "null"}, "title": "Metadata",
			"description": "Free notes of the client. The environment ignores them."},
	}
	for _, field := range f.fields {
		properties[field.Name] = field.nullable()
	}
	rules := make([]any, len(f.variants))
	for i := range f.variants {
		rules[i] = f.rule(&f.variants[i])
	}
	return schema{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f.title, "type": "object",
		"properties": properties, "required": []string{typeField}, "additionalProperties": false, "allOf": rules,
	}
}

func (f *Form) describeTypes() string {
	lines := make([]string, len(f.variants))
	for i, v := range f.variants {
		lines[i] = v.Type + ": " + v.Description
		if len(v.Properties) > 0 {
			lines[i] += fmt.Sprintf(" %s: %s.", sentence(f.objectOf(&v)), strings.Join(v.Properties, ", "))
		}
	}
	return strings.Join(lines, "\n")
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func (field *Field) nullable() schema {
	return schema{"anyOf": append(field.alternatives(), schema{"type": "null"}), "default": nil,
		"description": field.Description}
}

func (field *Field) required() schema {
	alternatives := field.alternatives()
	if len(alternatives) > 1 {
		return schema{"anyOf": alternatives, "description": field.Description}
	}
	only := alternatives[0].(schema)
	only["description"] = field.Description
	return only
}

// alternatives returns the schemas of a field's value, without null.
func (field *Field) alternatives() []any {
	text := schema{"type": "string", "minLength": 1, "maxLength": field.MaxLength}
	switch {
	case field.Properties != nil:
		properties := schema{}
		for i := range field.Properties {
			properties[field.Properties[i].Name] = field.Properties[i].nullable()
		}
		return []any{schema{"type": "object", "properties": properties, "additionalProperties": false}}
	case field.Enum != nil:
		return []any{schema{"type": "string", "enum": field.Enum}}
	case field.Number:
		return []any{schema{"type": "number"}, text}
	default:
		return []any{text}
	}
}

// rule returns, for one value of action_type, which fields must be given and which must not.
func (f *Form) rule(v *Variant) schema {
	properties := schema{}
	for _, field := range f.fields {
		if !v.reads(field.Name) {
			properties[field.Name] = schema{"type": "null"}
		}
	}
	for _, name := range v.Required {
		properties[name] = notNull()
	}
	if object := f.objectOf(v); object != "" {
		// The properties of the object that the variant uses; true permits any value.
		used := schema{}
		for _, name := range v.Properties {
			used[name] = true
		}
		properties[object] = schema{"properties": used}
	}
	then := v.require(schema{"properties": properties})
	isType := schema{"properties": schema{typeField: schema{"const": v.Type}}, "required": []string{typeField}}
	return schema{"if": isType, "then": then}
}

// require adds the fields that the variant requires to a schema.
func (v *Variant) require(s schema) schema {
	if len(v.Required) > 0 {
		s["required"] = v.Required
	}
	if len(v.AnyOf) > 0 {
		choices := make([]any, len(v.AnyOf))
		for i, name := range v.AnyOf {
			choices[i] = schema{"required": []string{name}, "properties": schema{name: notNull()}}
		}
		s["anyOf"] = choices
	}
	return s
}

func notNull() schema { return schema{"not": schema{"type": "null"}} }

// arguments returns the JSON Schema of a tool's arguments.
func (f *Form) arguments(v *Variant, object string) schema {
	properties := schema{}
	arguments := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if object != "" {
		for i := range f.byField[object].Properties {
			if property := &f.byField[object].Properties[i]; slices.Contains(v.Properties, property.Name) {
				properties[property.Name] = property.nullable()
			}
		}
		return arguments
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
	return v.require(arguments)
}
