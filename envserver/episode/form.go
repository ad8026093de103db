package episode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxInvalidActions is the number of actions outside the schema that end an episode: the last of
// them is answered with done and the outcome failed.
const MaxInvalidActions = 5

// maxEcho bounds, in bytes, the input that an error item repeats.
const maxEcho = 512

// typeField names the property that says which variant an action is.
const typeField = "action_type"

// Field is one property of an environment's actions beside action_type and metadata. It may be
// absent or null wherever a variant doesn't require it.
type Field struct {
	Name        string
	Description string
	// Enum lists the values of a closed vocabulary.
	Enum []string
	// MaxLength is the most characters (Unicode code points) of a free text. A free text has at
	// least one.
	MaxLength int
	// Number admits a JSON number beside a text.
	Number bool
	// Properties make the field a JSON object of these fields, each of which may be absent or null,
	// and no others.
	Properties []Field
}

// Variant is one value of action_type with the fields that it reads. Every other field must be
// absent or null.
type Variant struct {
	Type        string
	Description string
	Required    []string
	Optional    []string
	// AnyOf names optional fields of which at least one must be given.
	AnyOf []string
	// Properties are those properties of the variant's one field, an object, that it makes use of.
	// The others may be sent all the same; a tool doesn't offer them.
	Properties []string
}

// Form is the shape of an environment's actions: one table that both the served JSON Schema and the
// decoder follow, so that they can't disagree. It is immutable and safe for concurrent use.
type Form struct {
	title    string
	fields   []Field
	variants []Variant
	byField  map[string]*Field
	byType   map[string]*Variant
}

// Schemas are the form's action schema and, from schemas/observation.json and schemas/state.json of
// the files, those of the observation and the state.
func (f *Form) Schemas(files fs.FS) (Schemas, error) {
	action, err := json.Marshal(f.Schema())
	if err != nil {
		return Schemas{}, fmt.Errorf("writing the action schema: %w", err)
	}
	observation, err := fs.ReadFile(files, "schemas/observation.json")
	if err != nil {
		return Schemas{}, fmt.Errorf("reading the observation schema: %w", err)
	}
	state, err := fs.ReadFile(files, "schemas/state.json")
	if err != nil {
		return Schemas{}, fmt.Errorf("reading the state schema: %w", err)
	}
	tools, err := f.Tools()
	if err != nil {
		return Schemas{}, err
	}
	return Schemas{Action: action, Observation: observation, State: state, Tools: tools}, nil
}

// Action is a decoded action. Fields that were absent or null read as "".
type Action struct {
	Type   string
	values []text
}

// text is the value of a field. An action has few of them: looking through a list is faster than
// making a map.
type text struct{ field, value string }

// Get returns a field's text, or a number as it was written. A property of an object field is named
// "field.property".
func (a Action) Get(field string) string {
	for _, t := range a.values {
		if t.field == field {
			return t.value
		}
	}
	return ""
}

// NewForm makes the form of the given fields and variants. The title names the schema.
func NewForm(title string, fields []Field, variants []Variant) *Form {
	f := &Form{title: title, fields: fields, variants: variants, byField: map[string]*Field{},
		byType: map[string]*Variant{}}
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

// Decode reads an action strictly. It returns an *ActionError that lists every fault when the
// action is outside the form's schema.
func (f *Form) Decode(raw json.RawMessage) (Action, error) {
	given := members(raw)
	if given == nil {
		return Action{}, &ActionError{Items: []ErrorItem{item("model_type", []any{}, f.example(), jsontext.Value(raw))}}
	}
	d := decoder{form: f, given: given, action: Action{values: make([]text, 0, len(given))}}
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
	return fmt.Sprintf(`an action is a JSON object with an action_type, for example {"action_type": %q}`,
		f.variants[0].Type)
}

// decoder is one run of Decode.
type decoder struct {
	form   *Form
	given  object
	action Action
	items  []ErrorItem
}

// lastWins reads a name that appears twice as every JSON Schema validator does.
var lastWins = jsontext.AllowDuplicateNames(true)

// object is a JSON object taken apart, in the order of its members. It is nil for what is no
// object.
type object []member

// member is a name, and a value that is a part of the text that was read.
type member struct {
	name       string
	value      jsontext.Value
	start, end int64
}

// get returns a member's value, nil if there is none.
func (o object) get(name string) jsontext.Value {
	for i := range o {
		if o[i].name == name {
			return o[i].value
		}
	}
	return nil
}

// UnmarshalJSONFrom notes where the members are: what the decoder returns is valid only until it
// goes on.
func (o *object) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return errors.New("not an object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() == '"' {
		quoted, err := dec.ReadValue()
		if err != nil {
			return err
		}
		name, _ := unquote(quoted)
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		end := dec.InputOffset()
		o.set(member{name: name, start: end - int64(len(value)), end: end})
	}
	_, err := dec.ReadToken()
	return err
}

// set adds a member, or puts it in the place of an earlier one of the name.
func (o *object) set(m member) {
	for i := range *o {
		if (*o)[i].name == m.name {
			(*o)[i] = m
			return
		}
	}
	*o = append(*o, m)
}

// byName is the object as a map, nil for nil.
func (o object) byName() map[string]jsontext.Value {
	if o == nil {
		return nil
	}
	values := make(map[string]jsontext.Value, len(o))
	for i := range o {
		values[o[i].name] = o[i].value
	}
	return values
}

// members are the members of a JSON object, nil for anything else. They are parts of raw.
func members(raw []byte) object {
	given := make(object, 0, 4)
	if jsonv2.Unmarshal(raw, &given, lastWins) != nil {
		return nil
	}
	for i := range given {
		given[i].value = raw[given[i].start:given[i].end]
	}
	return given
}

// unquote reads a JSON string of an object that was taken apart, so that it is valid.
func unquote(raw jsontext.Value) (string, bool) {
	if raw.Kind() != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err == nil
}

// spot is a field's place in an action and what was sent there, nil for nothing. The parent is ""
// for the action's own fields.
type spot struct {
	parent, field string
	raw           jsontext.Value
}

func (s spot) name() string {
	if s.parent == "" {
		return s.field
	}
	return s.parent + "." + s.field
}

func (s spot) loc() []any {
	if s.parent == "" {
		return []any{s.field}
	}
	return []any{s.parent, s.field}
}

// given reports whether a value other than null was sent.
func (s spot) given() bool { return s.raw != nil && s.raw.Kind() != 'n' }

func (d *decoder) at(field string) spot { return spot{"", field, d.given.get(field)} }

func item(kind string, loc []any, msg string, input jsontext.Value) ErrorItem {
	it := ErrorItem{Type: kind, Loc: loc, Msg: msg}
	if len(input) <= maxEcho && input.IsValid() {
		it.Input = bytes.Clone(input)
	}
	return it
}

func (d *decoder) faultf(kind string, s spot, format string, args ...any) {
	d.items = append(d.items, item(kind, s.loc(), fmt.Sprintf(format, args...), s.raw))
}

// variant reads action_type; it is nil, with a fault, when that is none of the form's.
func (d *decoder) variant() *Variant {
	s := d.at(typeField)
	if s.raw == nil {
		d.faultf("missing", s, "action_type is required: one of %s", quoted(d.form.Types()))
		return nil
	}
	name, ok := unquote(s.raw)
	if !ok || d.form.byType[name] == nil {
		d.faultf("literal_error", s, "action_type should be one of %s", quoted(d.form.Types()))
		return nil
	}
	d.action.Type = name
	return d.form.byType[name]
}

func (d *decoder) checkKnown() {
	known := func(name string) bool { return name == typeField || name == "metadata" || d.form.byField[name] != nil }
	for _, name := range unknown(d.given, known) {
		d.faultf("extra_forbidden", d.at(name), "%q is not a field of an action: leave it out", name)
	}
}

// unknown lists the names that aren't known, sorted.
func unknown(given object, known func(string) bool) []string {
	var names []string
	for i := range given {
		if name := given[i].name; !known(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// field checks one field's value, and, where the variant is known, whether it reads the field.
func (d *decoder) field(field *Field, variant *Variant) {
	s := d.at(field.Name)
	switch {
	case !s.given():
		if variant != nil && slices.Contains(variant.Required, field.Name) {
			d.faultf("missing", s, "%s needs %s", variant.Type, field.Name)
		}
	case variant != nil && !variant.reads(field.Name):
		d.faultf("extra_forbidden", s, "%s does not use %s: leave it out or send null", variant.Type, field.Name)
	default:
		d.value(field, s)
	}
}

func (d *decoder) value(field *Field, s spot) {
	switch {
	case field.Properties != nil:
		d.object(field, s)
	case field.Number && s.raw.Kind() == '0':
		d.action.values = append(d.action.values, text{s.name(), string(s.raw)})
	default:
		d.text(field, s)
	}
}

func (d *decoder) object(field *Field, s spot) {
	given := members(s.raw)
	if given == nil {
		d.faultf("dict_type", s, "%s should be a JSON object or null", s.name())
		return
	}
	isProperty := func(name string) bool {
		return slices.ContainsFunc(field.Properties, func(p Field) bool { return p.Name == name })
	}
	for _, name := range unknown(given, isProperty) {
		d.faultf("extra_forbidden", spot{s.field, name, given.get(name)}, "%s has no field %q: leave it out", s.name(),
			name)
	}
	for i := range field.Properties {
		property := &field.Properties[i]
		if inner := (spot{s.field, property.Name, given.get(property.Name)}); inner.given() {
			d.value(property, inner)
		}
	}
}

func (d *decoder) text(field *Field, s spot) {
	value, ok := unquote(s.raw)
	if !ok {
		d.faultf("string_type", s, "%s should be a string", s.name())
		return
	}
	switch {
	case field.Enum != nil && !slices.Contains(field.Enum, value):
		d.faultf("literal_error", s, "%s should be one of %s", s.name(), quoted(field.Enum))
	case field.Enum == nil && value == "":
		d.faultf("string_too_short", s, "%s should have at least 1 character", s.name())
	case field.Enum == nil && utf8.RuneCountInString(value) > field.MaxLength:
		d.faultf("string_too_long", s, "%s should have at most %d characters", s.name(), field.MaxLength)
	default:
		d.action.values = append(d.action.values, text{s.name(), value})
	}
}

func (d *decoder) metadata() {
	if s := d.at("metadata"); s.given() && s.raw.Kind() != '{' {
		d.faultf("dict_type", s, "metadata should be a JSON object")
	}
}

func (d *decoder) anyOf(variant *Variant) {
	if len(variant.AnyOf) == 0 {
		return
	}
	if slices.ContainsFunc(variant.AnyOf, func(name string) bool { return d.at(name).given() }) {
		return
	}
	d.items = append(d.items, item("missing", []any{variant.AnyOf[0]}, fmt.Sprintf("%s needs %s", variant.Type,
		strings.Join(variant.AnyOf, " or ")), nil))
}

func (v *Variant) reads(field string) bool {
	return slices.Contains(v.Required, field) || slices.Contains(v.Optional, field)
}

func quoted(values []string) string { return "'" + strings.Join(values, "', '") + "'" }

// Schema is the form as a JSON Schema (draft 2020-12) in pydantic's dialect.
func (f *Form) Schema() map[string]any {
	properties := map[string]any{
		typeField: map[string]any{"type": "string", "enum": f.Types(), "title": "Action Type",
			"description": f.describeTypes()},
		"metadata": map[string]any{"type": []string{"object", "null"}, "title": "Metadata",
			"description": "Free notes of the client. The environment ignores them."},
	}
	for _, field := range f.fields {
		properties[field.Name] = field.nullable()
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
		if len(v.Properties) > 0 {
			lines[i] += fmt.Sprintf(" %s: %s.", sentence(f.objectOf(&v)), strings.Join(v.Properties, ", "))
		}
	}
	return strings.Join(lines, "\n")
}

func (field *Field) nullable() map[string]any {
	return map[string]any{"anyOf": append(field.schemas(), map[string]any{"type": "null"}), "default": nil,
		"description": field.Description}
}

// schemas are the alternatives of a field's value, null aside.
func (field *Field) schemas() []any {
	text := map[string]any{"type": "string", "minLength": 1, "maxLength": field.MaxLength}
	switch {
	case field.Properties != nil:
		properties := map[string]any{}
		for i := range field.Properties {
			properties[field.Properties[i].Name] = field.Properties[i].nullable()
		}
		return []any{map[string]any{"type": "object", "properties": properties, "additionalProperties": false}}
	case field.Enum != nil:
		return []any{map[string]any{"type": "string", "enum": field.Enum}}
	case field.Number:
		return []any{map[string]any{"type": "number"}, text}
	default:
		return []any{text}
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
	if object := f.objectOf(v); object != "" {
		// Which of the object's fields the variant makes use of: true forbids nothing.
		used := map[string]any{}
		for _, name := range v.Properties {
			used[name] = true
		}
		properties[object] = map[string]any{"properties": used}
	}
	then := map[string]any{"properties": properties}
	if len(v.Required) > 0 {
		then["required"] = v.Required
	}
	if len(v.AnyOf) > 0 {
		then["anyOf"] = v.choices()
	}
	is := map[string]any{"properties": map[string]any{typeField: map[string]any{"const": v.Type}},
		"required": []string{typeField}}
	return map[string]any{"if": is, "then": then}
}

// choices say that one of the fields of AnyOf is given.
func (v *Variant) choices() []any {
	choices := make([]any, len(v.AnyOf))
	for i, name := range v.AnyOf {
		choices[i] = map[string]any{"required": []string{name}, "properties": map[string]any{name: notNull()}}
	}
	return choices
}

func notNull() map[string]any { return map[string]any{"not": map[string]any{"type": "null"}} }
