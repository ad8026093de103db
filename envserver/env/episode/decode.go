package episode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/scenarios/facts"
)

// MaxInvalidActions is the number of actions outside the schema that end an episode. The last of
// them is answered with done and the outcome failed.
const MaxInvalidActions = 5

// MaxErrorItems bounds the faults that an answer lists.
const MaxErrorItems = 16

// maxEcho bounds, in bytes, the input that an error item repeats.
const maxEcho = 512

// Action is a decoded action. Absent and null fields are "".
type Action struct {
	Type   string
	values []text
	facts  []facts.Fact
}

// text is the value of a field. An action has so few fields that a list is faster than a map.
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

// List returns the values of a field with Many.
func (a Action) List(field string) (values []string) {
	for _, t := range a.values {
		if t.field == field {
			values = append(values, t.value)
		}
	}
	return values
}

// Facts returns what is stated beside the action's message, in the order in which it was sent. A
// value that was a number is as it was written. The result is shared.
func (a Action) Facts() []facts.Fact { return a.facts }

// Decode decodes an action strictly. If the action is outside the form's schema, it returns an
// *ActionError that lists every fault.
func (f *Form) Decode(raw json.RawMessage) (Action, error) {
	given, err := object.Read(raw, object.LastCounts)
	if errors.Is(err, object.ErrTooMany) {
		return Action{}, &ActionError{Items: []ErrorItem{newErrorItem("too_long", []any{}, tooMany("an action"), nil)}}
	}
	if err != nil {
		msg := fmt.Sprintf(`an action is a JSON object with an action_type, for example {"action_type": %q}`,
			f.variants[0].Type)
		return Action{}, &ActionError{Items: []ErrorItem{newErrorItem("model_type", []any{}, msg, jsontext.Value(raw))}}
	}
	d := decoder{form: f, given: given, action: Action{values: make([]text, 0, len(given))}}
	variant := d.decodeVariant()
	d.checkKnown()
	for i := range f.fields {
		d.decodeField(&f.fields[i], variant)
	}
	if s := d.at("metadata"); s.given() && s.raw.Kind() != '{' {
		d.faultf("dict_type", s, "metadata should be a JSON object")
	}
	if variant != nil {
		d.anyOf(variant)
	}
	if len(d.items) > 0 {
		return Action{}, &ActionError{Items: d.items}
	}
	return d.action, nil
}

type decoder struct {
	form   *Form
	given  object.Object
	action Action
	items  []ErrorItem
}

// unquoteJSON decodes a JSON string that is known to be valid. It returns false for other values.
func unquoteJSON(raw jsontext.Value) (string, bool) {
	if raw.Kind() != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err == nil
}

// indexQuoted returns the index of the value that a JSON string, which is known to be valid, stands
// for, or -1.
func indexQuoted(values []string, raw jsontext.Value) int {
	if raw.Kind() == '"' && bytes.IndexByte(raw, '\\') < 0 {
		inside := raw[1 : len(raw)-1]
		return slices.IndexFunc(values, func(v string) bool { return v == string(inside) })
	}
	value, ok := unquoteJSON(raw)
	if !ok {
		return -1
	}
	return slices.Index(values, value)
}

// spot is a place in an action, and the value sent there or nil.
type spot struct {
	// parent is the object or list around the place, nil for the action's own fields.
	parent *spot
	// field names a member of an object; "" for an item of a list, which has an index.
	field string
	index int
	raw   jsontext.Value
}

func (s spot) name() string {
	switch {
	case s.parent == nil:
		return s.field
	case s.field == "":
		return s.parent.name() + "[" + strconv.Itoa(s.index) + "]"
	}
	return s.parent.name() + "." + s.field
}

func (s spot) loc() []any {
	var last any = object.ClipName(s.field)
	if s.field == "" {
		last = s.index
	}
	if s.parent == nil {
		return []any{last}
	}
	return append(s.parent.loc(), last)
}

// given reports whether the value is present and not null.
func (s spot) given() bool { return s.raw != nil && s.raw.Kind() != 'n' }

func (d *decoder) at(field string) spot { return spot{field: field, raw: d.given.Get(field)} }

func tooMany(what string) string {
	return fmt.Sprintf("%s has at most %d members", what, object.MaxMembers)
}

func newErrorItem(kind string, loc []any, msg string, input jsontext.Value) ErrorItem {
	it := ErrorItem{Type: kind, Loc: loc, Msg: msg}
	if len(input) <= maxEcho && input.IsValid() {
		it.Input = bytes.Clone(input)
	}
	return it
}

func (d *decoder) faultf(kind string, s spot, format string, args ...any) {
	if len(d.items) == MaxErrorItems {
		return
	}
	d.items = append(d.items, newErrorItem(kind, s.loc(), fmt.Sprintf(format, args...), s.raw))
}

// decodeVariant reads action_type. For an unknown value it records a fault and returns nil.
func (d *decoder) decodeVariant() *Variant {
	s := d.at(typeField)
	if s.raw == nil {
		d.faultf("missing", s, "action_type is required: one of %s", quoteValues(d.form.types))
		return nil
	}
	if at := indexQuoted(d.form.types, s.raw); at >= 0 {
		d.action.Type = d.form.types[at]
		return &d.form.variants[at]
	}
	d.faultf("literal_error", s, "action_type should be one of %s", quoteValues(d.form.types))
	return nil
}

func (d *decoder) checkKnown() {
	known := func(name string) bool { return name == typeField || name == "metadata" || d.form.byField[name] != nil }
	for _, name := range listUnknownNames(d.given, known) {
		d.faultf("extra_forbidden", d.at(name), "%q is not a field of an action: leave it out", object.ClipName(name))
	}
}

// listUnknownNames lists the unknown names, sorted.
func listUnknownNames(given object.Object, known func(string) bool) []string {
	var names []string
	for _, m := range given {
		if !known(m.Name) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// decodeField checks the value of a field and, if the variant is known, whether the variant reads
// the field.
func (d *decoder) decodeField(field *Field, variant *Variant) {
	s := d.at(field.Name)
	switch {
	case !s.given():
		if variant != nil && slices.Contains(variant.Required, field.Name) {
			d.faultf("missing", s, "%s needs %s", variant.Type, field.Name)
		}
	case variant != nil && !variant.readsField(field.Name):
		d.faultf("extra_forbidden", s, "%s does not use %s: leave it out or send null", variant.Type, field.Name)
	default:
		d.decodeValue(field, s)
	}
}

func (d *decoder) decodeValue(field *Field, s spot) {
	switch {
	case field.Properties != nil:
		d.decodeObject(field, s)
	case field.Facts:
		d.decodeFacts(s)
	case field.Many:
		d.decodeList(field, s)
	default:
		if value, ok := d.decodeText(field, s); ok {
			d.action.values = append(d.action.values, text{s.name(), value})
		}
	}
}

func (d *decoder) decodeObject(field *Field, s spot) {
	given, ok := d.decodeMembers(field.Properties, s)
	if !ok {
		return
	}
	for i := range field.Properties {
		property := &field.Properties[i]
		if inner := (spot{parent: &s, field: property.Name, raw: given.Get(property.Name)}); inner.given() {
			d.decodeValue(property, inner)
		}
	}
}

// decodeMembers reads an object, and records the members that aren't among the fields.
func (d *decoder) decodeMembers(fields []Field, s spot) (given object.Object, ok bool) {
	given, err := object.Read(s.raw, object.LastCounts)
	switch {
	case errors.Is(err, object.ErrTooMany):
		d.items = append(d.items, newErrorItem("too_long", s.loc(), tooMany(s.name()), nil))
		return nil, false
	case err != nil:
		d.faultf("dict_type", s, "%s should be a JSON object%s", s.name(), orNull(s.field != ""))
		return nil, false
	}
	isField := func(name string) bool {
		return slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name })
	}
	for _, name := range listUnknownNames(given, isField) {
		d.faultf("extra_forbidden", spot{parent: &s, field: name, raw: given.Get(name)},
			"%s has no field %q: leave it out", s.name(), object.ClipName(name))
	}
	return given, true
}

func orNull(optional bool) string {
	if optional {
		return " or null"
	}
	return ""
}

// decodeFacts reads a list of facts.
func (d *decoder) decodeFacts(s spot) {
	items, err := object.ReadList(s.raw, facts.MaxStated)
	switch {
	case errors.Is(err, object.ErrTooMany):
		d.faultf("too_long", s, "%s should have at most %d facts", s.name(), facts.MaxStated)
	case err != nil:
		d.faultf("list_type", s, "%s should be a list of facts, each {%q: …, %q: …}, or null", s.name(), whatField.Name,
			valueField.Name)
	}
	for i, raw := range items {
		item := spot{parent: &s, index: i, raw: raw}
		if given, ok := d.decodeMembers([]Field{whatField, valueField}, item); ok {
			d.action.facts = append(d.action.facts, facts.Fact{
				What: d.decodeMember(&whatField, item, given), Value: d.decodeMember(&valueField, item, given)})
		}
	}
}

// decodeList reads a list of values of a vocabulary.
func (d *decoder) decodeList(field *Field, s spot) {
	items, err := object.ReadList(s.raw, len(field.Enum))
	switch {
	case errors.Is(err, object.ErrTooMany):
		d.faultf("too_long", s, "%s should have at most %d values", s.name(), len(field.Enum))
	case err != nil:
		d.faultf("list_type", s, "%s should be a list of some of %s, or null", s.name(), quoteValues(field.Enum))
	}
	for i, raw := range items {
		if value, ok := d.decodeText(field, spot{parent: &s, index: i, raw: raw}); ok {
			d.action.values = append(d.action.values, text{s.name(), value})
		}
	}
}

// decodeMember reads a required text of an object.
func (d *decoder) decodeMember(field *Field, s spot, given object.Object) string {
	inner := spot{parent: &s, field: field.Name, raw: given.Get(field.Name)}
	if inner.raw == nil {
		d.faultf("missing", inner, "%s needs %s", s.name(), field.Name)
		return ""
	}
	value, _ := d.decodeText(field, inner)
	return value
}

// decodeText reads a text, or a number as it was written.
func (d *decoder) decodeText(field *Field, s spot) (value string, ok bool) {
	if at := indexQuoted(field.Enum, s.raw); at >= 0 {
		return field.Enum[at], true
	}
	value, ok = unquoteJSON(s.raw)
	if field.Number && s.raw.Kind() == '0' {
		value, ok = string(s.raw), true
	}
	switch {
	case !ok:
		d.faultf("string_type", s, "%s should be a string", s.name())
	case field.Enum != nil:
		d.faultf("literal_error", s, "%s should be one of %s", s.name(), quoteValues(field.Enum))
	case value == "" && !field.Empty:
		d.faultf("string_too_short", s, "%s should have at least 1 character", s.name())
	case utf8.RuneCountInString(value) > field.MaxLength:
		d.faultf("string_too_long", s, "%s should have at most %d characters", s.name(), field.MaxLength)
	default:
		return value, true
	}
	return "", false
}

func (d *decoder) anyOf(v *Variant) {
	if len(v.AnyOf) == 0 || slices.ContainsFunc(v.AnyOf, func(name string) bool { return d.at(name).given() }) {
		return
	}
	d.faultf("missing", spot{field: v.AnyOf[0]}, "%s needs %s", v.Type, strings.Join(v.AnyOf, " or "))
}

func quoteValues(values []string) string { return "'" + strings.Join(values, "', '") + "'" }
