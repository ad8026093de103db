package episode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxInvalidActions is the number of actions outside the schema that end an episode: the last of them is answered with done and the outcome failed.
const MaxInvalidActions = 5

// maxEcho bounds, in bytes, the input that an error item repeats.
const maxEcho = 512

// typeField names the property that says which variant an action is.
const typeField = "action_type"

// Field is one property of an environment's actions beside action_type and metadata. It may be absent or null wherever a variant doesn't require it.
type Field struct {
	Name        string
	Description string
	// Enum lists the values of a closed vocabulary.
	Enum []string
	// MaxLength is the most characters (Unicode code points) of a free text. A free text has at least one.
	MaxLength int
	// Object marks a free JSON object in place of a text.
	Object bool
}

// Variant is one value of action_type with the fields that it reads. Every other field must be absent or null.
type Variant struct {
	Type        string
	Description string
	Required    []string
	Optional    []string
	// AnyOf names optional fields of which at least one must be given.
	AnyOf []string
}

// Form is the shape of an environment's actions: one table that both the served JSON Schema and the decoder follow, so that they can't disagree. It is
// immutable and safe for concurrent use.
type Form struct {
	title    string
	fields   []Field
	variants []Variant
	byField  map[string]*Field
	byType   map[string]*Variant
}

// Action is a decoded action. Fields that were absent or null read as "".
type Action struct {
	Type   string
	values map[string]string
}

// Get returns a text field's value, or an object field's JSON.
func (a Action) Get(field string) string { return a.values[field] }

// NewForm makes the form of the given fields and variants. The title names the schema.
func NewForm(title string, fields []Field, variants []Variant) *Form {
	f := &Form{title: title, fields: fields, variants: variants, byField: map[string]*Field{}, byType: map[string]*Variant{}}
	for i := range fields {
		f.byField[fields[i].Name] = &fields[i]
	}
	for i := range variants {
		f.byType[variants[i].Type] = &variants[i]
	}
	return f
}

// Types lists the values of action_type in the order of the variants.
func (f *Form) Types() []string {
	types := make([]string, len(f.variants))
	for i, v := range f.variants {
		types[i] = v.Type
	}
	return types
}

// Decode reads an action strictly. It returns an *ActionError that lists every fault when the action is outside the form's schema.
func (f *Form) Decode(raw json.RawMessage) (Action, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		return Action{}, &ActionError{Items: []ErrorItem{item("model_type", []any{}, f.example(), raw)}}
	}
	d := decoder{form: f, given: given, action: Action{values: make(map[string]string, len(given))}}
	variant := d.variant()
	d.checkKnown()
	for i := range f.fields {
		d.field(&f.fields[i], variant)
	}
	d.metadata()
	if variant != nil {
		d.anyOf(variant)
	}
	if len(d.items) > 0 {
		return Action{}, &ActionError{Items: d.items}
	}
	return d.action, nil
}

func (f *Form) example() string {
	return fmt.Sprintf(`an action is a JSON object with an action_type, for example {"action_type": %q}`, f.variants[0].Type)
}

// decoder is one run of Decode.
type decoder struct {
	form   *Form
	given  map[string]json.RawMessage
	action Action
	items  []ErrorItem
}

func item(kind string, loc []any, msg string, input json.RawMessage) ErrorItem {
	it := ErrorItem{Type: kind, Loc: loc, Msg: msg}
	if len(input) <= maxEcho && json.Valid(input) {
		it.Input = bytes.Clone(input)
	}
	return it
}

func (d *decoder) fault(kind, field, format string, args ...any) {
	d.items = append(d.items, item(kind, []any{field}, fmt.Sprintf(format, args...), d.given[field]))
}

// variant reads action_type; it is nil, with a fault, when that is none of the form's.
func (d *decoder) variant() *Variant {
	raw, ok := d.given[typeField]
	if !ok {
		d.fault("missing", typeField, "action_type is required: one of %s", quoted(d.form.Types()))
		return nil
	}
	var name string
	if isNull(raw) || json.Unmarshal(raw, &name) != nil || d.form.byType[name] == nil {
		d.fault("literal_error", typeField, "action_type should be one of %s", quoted(d.form.Types()))
		return nil
	}
	d.action.Type = name
	return d.form.byType[name]
}

func (d *decoder) checkKnown() {
	var unknown []string
	for name := range d.given {
		if name != typeField && name != "metadata" && d.form.byField[name] == nil {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		d.fault("extra_forbidden", name, "%q is not a field of an action: leave it out", name)
	}
}

// field checks one field's value, and, where the variant is known, whether it reads the field.
func (d *decoder) field(field *Field, variant *Variant) {
	raw, given := d.given[field.Name]
	given = given && !isNull(raw)
	if !given {
		if variant != nil && slices.Contains(variant.Required, field.Name) {
			d.fault("missing", field.Name, "%s needs %s", variant.Type, field.Name)
		}
		return
	}
	if variant != nil && !variant.reads(field.Name) {
		d.fault("extra_forbidden", field.Name, "%s does not use %s: leave it out or send null", variant.Type, field.Name)
		return
	}
	if field.Object {
		d.object(field.Name, raw)
		return
	}
	d.text(field, raw)
}

func (d *decoder) object(name string, raw json.RawMessage) {
	if raw[0] != '{' {
		d.fault("dict_type", name, "%s should be a JSON object or null", name)
		return
	}
	d.action.values[name] = string(raw)
}

func (d *decoder) text(field *Field, raw json.RawMessage) {
	var value string
	if json.Unmarshal(raw, &value) != nil {
		d.fault("string_type", field.Name, "%s should be a string", field.Name)
		return
	}
	switch {
	case field.Enum != nil && !slices.Contains(field.Enum, value):
		d.fault("literal_error", field.Name, "%s should be one of %s", field.Name, quoted(field.Enum))
	case field.Enum == nil && value == "":
		d.fault("string_too_short", field.Name, "%s should have at least 1 character", field.Name)
	case field.Enum == nil && utf8.RuneCountInString(value) > field.MaxLength:
		d.fault("string_too_long", field.Name, "%s should have at most %d characters", field.Name, field.MaxLength)
	default:
		d.action.values[field.Name] = value
	}
}

func (d *decoder) metadata() {
	if raw, ok := d.given["metadata"]; ok && !isNull(raw) && raw[0] != '{' {
		d.fault("dict_type", "metadata", "metadata should be a JSON object")
	}
}

func (d *decoder) anyOf(variant *Variant) {
	if len(variant.AnyOf) == 0 {
		return
	}
	for _, name := range variant.AnyOf {
		if raw, ok := d.given[name]; ok && !isNull(raw) {
			return
		}
	}
	d.items = append(d.items, item("missing", []any{variant.AnyOf[0]}, fmt.Sprintf("%s needs %s", variant.Type, strings.Join(variant.AnyOf, " or ")), nil))
}

func (v *Variant) reads(field string) bool {
	return slices.Contains(v.Required, field) || slices.Contains(v.Optional, field)
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

func quoted(values []string) string { return "'" + strings.Join(values, "', '") + "'" }

// Schema is the form as a JSON Schema (draft 2020-12) in pydantic's dialect.
func (f *Form) Schema() map[string]any {
	properties := map[string]any{
		typeField:  map[string]any{"type": "string", "enum": f.Types(), "title": "Action Type", "description": f.describeTypes()},
		"metadata": map[string]any{"type": []string{"object", "null"}, "title": "Metadata", "description": "Free notes of the client. The environment ignores them."},
	}
	for _, field := range f.fields {
		properties[field.Name] = map[string]any{
			"anyOf": []any{field.schema(), map[string]any{"type": "null"}}, "default": nil, "description": field.Description,
		}
	}
	rules := make([]any, len(f.variants))
	for i := range f.variants {
		rules[i] = f.rule(&f.variants[i])
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f.title, "type": "object",
		"properties": properties, "required": []string{typeField}, "additionalProperties": false, "allOf": rules,
	}
}

func (f *Form) describeTypes() string {
	lines := make([]string, len(f.variants))
	for i, v := range f.variants {
		lines[i] = v.Type + ": " + v.Description
	}
	return strings.Join(lines, "\n")
}

func (field *Field) schema() map[string]any {
	switch {
	case field.Object:
		return map[string]any{"type": "object", "additionalProperties": true}
	case field.Enum != nil:
		return map[string]any{"type": "string", "enum": field.Enum}
	default:
		return map[string]any{"type": "string", "minLength": 1, "maxLength": field.MaxLength}
	}
}

// rule says, for one value of action_type, which fields must be given and which must not.
func (f *Form) rule(v *Variant) map[string]any {
	properties := map[string]any{}
	for _, field := range f.fields {
		if !v.reads(field.Name) {
			properties[field.Name] = map[string]any{"type": "null"}
		}
	}
	for _, name := range v.Required {
		properties[name] = notNull()
	}
	then := map[string]any{"properties": properties}
	if len(v.Required) > 0 {
		then["required"] = v.Required
	}
	if len(v.AnyOf) > 0 {
		choices := make([]any, len(v.AnyOf))
		for i, name := range v.AnyOf {
			choices[i] = map[string]any{"required": []string{name}, "properties": map[string]any{name: notNull()}}
		}
		then["anyOf"] = choices
	}
	is := map[string]any{"properties": map[string]any{typeField: map[string]any{"const": v.Type}}, "required": []string{typeField}}
	return map[string]any{"if": is, "then": then}
}

func notNull() map[string]any { return map[string]any{"not": map[string]any{"type": "null"}} }
