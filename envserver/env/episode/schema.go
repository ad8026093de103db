package episode

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/facts"
)

type schema = map[string]any

// draft is the version of JSON Schema.
const draft = "https://json-schema.org/draft/2020-12/schema"

// Schema returns the form as a JSON Schema (draft 2020-12). It is short, because some trainers show
// it to their model with every observation.
func (f *Form) Schema() map[string]any {
	properties := schema{
		typeField: schema{"type": "string", "enum": f.Types(), "description": f.describeTypes()},
		"metadata": schema{"type": []string{"object", "null"},
			"description": "Free notes of the client. The environment ignores them."},
	}
	for i := range f.fields {
		properties[f.fields[i].Name] = f.fields[i].compactSchema()
	}
	s := schema{
		"$schema": draft, "title": f.title, "type": "object",
		"properties": properties, "required": []string{typeField}, "additionalProperties": false,
	}
	if rules := append(f.listUnread(), f.listNeeds()...); len(rules) > 0 {
		s["allOf"] = rules
	}
	return s
}

// compactSchema is like nullable, but lists the types and has no default.
func (field *Field) compactSchema() schema {
	s := schema{"description": field.Description}
	switch {
	case field.Properties != nil:
		properties := schema{}
		for i := range field.Properties {
			properties[field.Properties[i].Name] = field.Properties[i].compactSchema()
		}
		s["type"], s["properties"], s["additionalProperties"] = []string{"object", "null"}, properties, false
	case field.Facts:
		value := schema{"type": []string{"string", "number"}, "maxLength": valueField.MaxLength}
		s["type"], s["maxItems"], s["items"] = []string{"array", "null"}, facts.MaxStated, factSchema(value, "")
	case field.Many:
		s["type"], s["maxItems"] = []string{"array", "null"}, len(field.Enum)
		s["items"] = schema{"enum": field.Enum}
	case field.Enum != nil:
		values := make([]any, len(field.Enum), len(field.Enum)+1)
		for i, v := range field.Enum {
			values[i] = v
		}
		s["enum"] = append(values, nil)
	default:
		s["type"], s["minLength"], s["maxLength"] = []string{"string", "null"}, 1, field.MaxLength
		if field.Number {
			s["type"] = []string{"number", "string", "null"}
		}
	}
	return s
}

// listUnread returns the rules that fields are null in the variants that don't read them, one for
// the fields with the same readers.
func (f *Form) listUnread() []any {
	var rules []any
	byReaders := map[string]schema{}
	for _, field := range f.fields {
		var readers []string
		for i := range f.variants {
			if f.variants[i].readsField(field.Name) {
				readers = append(readers, f.variants[i].Type)
			}
		}
		if len(readers) == len(f.variants) {
			continue
		}
		key := strings.Join(readers, " ")
		if byReaders[key] == nil {
			byReaders[key] = schema{}
			rules = append(rules, schema{"anyOf": []any{schema{"properties": byReaders[key]},
				schema{"properties": schema{typeField: schema{"enum": readers}}}}})
		}
		byReaders[key][field.Name] = schema{"type": "null"}
	}
	return rules
}

// listNeeds returns the rules of the variants that need fields.
func (f *Form) listNeeds() []any {
	var rules []any
	for i := range f.variants {
		v := &f.variants[i]
		if len(v.Required) == 0 && len(v.AnyOf) == 0 {
			continue
		}
		then := v.requireFields(schema{})
		if len(v.Required) > 0 {
			properties := schema{}
			for _, name := range v.Required {
				properties[name] = notNull()
			}
			then["properties"] = properties
		}
		isType := schema{"properties": schema{typeField: schema{"const": v.Type}}}
		rules = append(rules, schema{"if": isType, "then": then})
	}
	return rules
}

func (f *Form) describeTypes() string {
	lines := make([]string, len(f.variants))
	for i, v := range f.variants {
		lines[i] = v.Type + ": " + v.Description
		if len(v.Properties) > 0 {
			lines[i] += fmt.Sprintf(" %s: %s.", upperFirst(f.objectOf(&v)), strings.Join(v.Properties, ", "))
		}
	}
	return strings.Join(lines, "\n")
}

func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func (field *Field) nullableSchema() schema {
	return schema{"anyOf": append(field.alternativeSchemas(), schema{"type": "null"}), "default": nil,
		"description": field.Description}
}

func (field *Field) required() schema {
	alternatives := field.alternativeSchemas()
	if len(alternatives) > 1 {
		return schema{"anyOf": alternatives, "description": field.Description}
	}
	only := alternatives[0].(schema)
	only["description"] = field.Description
	return only
}

// alternativeSchemas returns the schemas of a field's value, without null.
func (field *Field) alternativeSchemas() []any {
	text := schema{"type": "string", "minLength": 1, "maxLength": field.MaxLength}
	switch {
	case field.Facts:
		// A model generates by this schema: it has neither maxItems, which strict modes don't
		// support, nor a choice of types.
		return []any{schema{"type": "array", "items": factSchema(schema{"type": "string"}, field.explainer)}}
	case field.Many:
		return []any{schema{"type": "array", "items": schema{"type": "string", "enum": field.Enum}}}
	case field.Enum != nil:
		return []any{schema{"type": "string", "enum": field.Enum}}
	case field.Number:
		return []any{schema{"type": "number"}, text}
	default:
		return []any{text}
	}
}

// factSchema returns the JSON Schema of a fact with a schema of its value. The names are explained
// unless another tool, the explainer, does. The name comes first, because some endpoints generate
// members in the order of the schema.
func factSchema(value schema, explainer string) schema {
	about := whatField.Description + "\n" + facts.Describe()
	if explainer != "" {
		about = whatField.Description + " The tool " + explainer + " explains the names."
	}
	value["description"] = valueField.Description
	return schema{"type": "object", "additionalProperties": false,
		"required": []string{whatField.Name, valueField.Name},
		"properties": struct {
			What  schema `json:"what"`
			Value schema `json:"value"`
		}{schema{"type": "string", "enum": whatField.Enum, "description": about}, value}}
}

// requireFields adds the fields that the variant requires to a schema.
func (v *Variant) requireFields(s schema) schema {
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

// takesFacts reports whether a tool's arguments contain facts.
func (f *Form) takesFacts(v *Variant, object string) bool {
	if object != "" {
		return slices.ContainsFunc(f.byField[object].Properties, func(p Field) bool {
			return p.Facts && slices.Contains(v.Properties, p.Name)
		})
	}
	return slices.ContainsFunc(f.fields, func(field Field) bool { return field.Facts && v.readsField(field.Name) })
}

// argumentFields returns the JSON Schema of a tool's arguments. The explainer is the tool that
// explains the names of facts, "" for this one.
func (f *Form) argumentFields(v *Variant, object, explainer string) schema {
	properties := schema{}
	arguments := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if object != "" {
		for _, property := range f.byField[object].Properties {
			if slices.Contains(v.Properties, property.Name) {
				property.explainer = explainer
				properties[property.Name] = property.nullableSchema()
			}
		}
		return arguments
	}
	for _, field := range f.fields {
		field.explainer = explainer
		switch {
		case slices.Contains(v.Required, field.Name):
			properties[field.Name] = field.required()
		case v.readsField(field.Name):
			properties[field.Name] = field.nullableSchema()
		}
	}
	return v.requireFields(arguments)
}
