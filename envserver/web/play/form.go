package play

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/scenarios/facts"
)

// typeField names the field of an action that chooses its kind, in servers of csenv.
const typeField = "action_type"

// action is an action that a server's schema allows, as a form.
type action struct {
	// Type is the value of action_type, "" for a server whose actions are all of one kind.
	Type        string
	Description string
	Fields      []field
	// object names the field of the action that holds the form's values, "" for the action itself.
	object string
}

// Title is the action's name for people.
func (a action) Title() string {
	if a.Type == "" {
		return "Act"
	}
	words := strings.ReplaceAll(a.Type, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// The kinds of fields.
const (
	choiceField = "choice"
	lineField   = "line"
	longField   = "long"
	numberField = "number"
	flagField   = "flag"
	jsonField   = "json"
	listField   = "list"
	manyField   = "many"
)

// field is a value of an action.
type field struct {
	Name, Description, Kind string
	Choices                 []string
	Required                bool
	// MaxLength is in characters, 0 for any length.
	MaxLength int
	// textual means that a text is allowed besides a number.
	textual bool
	// Members are the members of the objects in a list, which has at most Rows.
	Members []field
	Rows    int
}

// Title is the field's name for people.
func (f field) Title() string { return strings.ReplaceAll(f.Name, "_", " ") }

// schema has the parts of a JSON Schema that forms are made of. The zero value allows anything, as
// the schema true does.
type schema struct {
	Type        any               `json:"type"`
	Const       any               `json:"const"`
	Enum        []any             `json:"enum"`
	AnyOf       []schema          `json:"anyOf"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	MaxLength   int               `json:"maxLength"`
	Items       *schema           `json:"items"`
	MaxItems    int               `json:"maxItems"`
	Description string            `json:"description"`
}

// plainSchema has no methods, so that UnmarshalJSON can decode it.
type plainSchema schema

// UnmarshalJSON reads a schema, which may be true or false.
func (s *schema) UnmarshalJSON(data []byte) error {
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		*s = schema{}
		return nil
	}
	return json.Unmarshal(data, (*plainSchema)(s))
}

// actionsOf makes the forms of an action's JSON Schema, in its order: of each alternative with a
// kind of its own, as the schemas of csenv's tasks have, or of the one kind of others.
func actionsOf(text json.RawMessage) ([]action, error) {
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("the server's schema of actions can't be read: %w", err)
	}
	var actions []action
	for _, variant := range s.AnyOf {
		about := variant.Properties[typeField]
		name, _ := about.Const.(string)
		if name == "" {
			continue
		}
		a := action{Type: name, Description: about.Description}
		delete(variant.Properties, typeField)
		for member, inner := range variant.Properties {
			if len(inner.Properties) > 0 && len(variant.Properties) == 1 {
				a.object, variant = member, inner
				break
			}
		}
		a.Fields = fieldsOf(variant)
		actions = append(actions, a)
	}
	if actions == nil {
		delete(s.Properties, "metadata") // notes of the client
		actions = []action{{Fields: fieldsOf(s)}}
	}
	return actions, nil
}

// list returns the schema of a short list of objects among the alternatives, nil for none.
func (s schema) list() *schema {
	if s.Items != nil && len(s.Items.Properties) > 0 && s.MaxItems <= maxRows {
		return &s
	}
	for _, alternative := range s.AnyOf {
		if found := alternative.list(); found != nil {
			return found
		}
	}
	return nil
}

// maxRows bounds the objects of a list that is a form, which has openRows if the schema has no
// maximum: those that models generate by can't have one.
const (
	maxRows  = 20
	openRows = facts.MaxStated
)

// choices returns the allowed texts, nil for free values.
func (s schema) choices() []string {
	var values []string
	for _, v := range s.Enum {
		if text, ok := v.(string); ok {
			values = append(values, text)
		}
	}
	if s.Items != nil {
		values = append(values, s.Items.choices()...)
	}
	for _, alternative := range s.AnyOf {
		values = append(values, alternative.choices()...)
	}
	return values
}

// many reports whether a list of allowed texts is among the alternatives.
func (s schema) many() bool {
	return s.Items != nil && len(s.Items.Enum) > 0 || slices.ContainsFunc(s.AnyOf, schema.many)
}

// types returns the names of the allowed types.
func (s schema) types() []string {
	var names []string
	switch given := s.Type.(type) {
	case string:
		names = append(names, given)
	case []any:
		for _, name := range given {
			names = append(names, fmt.Sprint(name))
		}
	}
	for _, alternative := range s.AnyOf {
		names = append(names, alternative.types()...)
	}
	return names
}

// longest returns the maximum length of a text, 0 for any.
func (s schema) longest() int {
	longest := s.MaxLength
	for _, alternative := range s.AnyOf {
		longest = max(longest, alternative.longest())
	}
	return longest
}

// fieldOrder is the order of the fields that servers of csenv have; others follow by name.
var fieldOrder = []string{"ticket_id", "category", "priority", "decision", "order_id", "payment_id", "sku", "amount",
	"topic", "team", "reason", "address", "query", "message", "facts", "what", "value", "asks", "offers",
	"confirms"}

func fieldsOf(s schema) []field {
	var fields []field
	for name, property := range s.Properties {
		fields = append(fields, property.field(name, slices.Contains(s.Required, name)))
	}
	place := func(f field) int {
		if at := slices.Index(fieldOrder, f.Name); at >= 0 {
			return at
		}
		return len(fieldOrder)
	}
	slices.SortFunc(fields, func(a, b field) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return fields
}

// longText is the length from which a text is entered in several lines.
const longText = 500

func (s schema) field(name string, required bool) field {
	types := s.types()
	f := field{Name: name, Description: s.Description, Required: required, Choices: s.choices(), MaxLength: s.longest(),
		textual: slices.Contains(types, "string")}
	is := func(kinds ...string) bool {
		return slices.ContainsFunc(types, func(t string) bool { return slices.Contains(kinds, t) })
	}
	list := s.list()
	switch {
	case list != nil:
		f.Kind, f.Rows, f.Members = listField, cmp.Or(list.MaxItems, openRows), fieldsOf(*list.Items)
	case s.many():
		f.Kind = manyField
	case len(f.Choices) > 0:
		f.Kind = choiceField
	case is("number", "integer") && !prefersText(types):
		f.Kind = numberField
	case is("boolean"):
		f.Kind = flagField
	case f.textual && (f.MaxLength >= longText || name == "message" || name == "code"):
		f.Kind = longField
	case f.textual:
		f.Kind = lineField
	default:
		f.Kind = jsonField
	}
	return f
}

// prefersText reports whether a list of types has texts before numbers.
func prefersText(types []string) bool {
	text := slices.Index(types, "string")
	return text >= 0 && text < slices.Index(types, "number")
}

// row returns a list's fields of one row, which are named after the list.
func (f field) row(i int) []field {
	row := slices.Clone(f.Members)
	for k := range row {
		row[k].Name = fmt.Sprintf("%s.%d.%s", f.Name, i, f.Members[k].Name)
	}
	return row
}

// Input is the name of the field's input in the form.
func (f field) Input() string { return "f." + f.Name }

// encode makes the action of a filled-in form. Empty fields are left out.
func (a action) encode(form url.Values) (json.RawMessage, error) {
	given := map[string]json.RawMessage{}
	for _, f := range a.Fields {
		value, err := f.read(form)
		if err != nil {
			return nil, err
		}
		if value != nil {
			given[f.Name] = value
		}
	}
	if a.Type == "" {
		return json.Marshal(given)
	}
	arguments, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	return episode.Tool{Name: a.Type, Object: a.object}.Action(arguments)
}

// read returns the field's value in a form, nil if it is empty.
func (f field) read(form url.Values) (json.RawMessage, error) {
	switch chosen := form[f.Input()]; {
	case f.Kind == listField:
		return f.readRows(form)
	case f.Kind == manyField && len(chosen) == 0:
		return nil, nil
	case f.Kind == manyField:
		return json.Marshal(chosen)
	}
	text := strings.ReplaceAll(form.Get(f.Input()), "\r\n", "\n")
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	return f.encode(text)
}

// readRows returns the filled-in rows of a list. A row has all its required values or none.
func (f field) readRows(form url.Values) (json.RawMessage, error) {
	var rows []map[string]json.RawMessage
	for i := range f.Rows {
		given, missing := map[string]json.RawMessage{}, ""
		for k, member := range f.row(i) {
			value, err := member.read(form)
			switch {
			case err != nil:
				return nil, err
			case value != nil:
				given[f.Members[k].Name] = value
			case member.Required:
				missing = f.Members[k].Name
			}
		}
		if len(given) > 0 && missing != "" {
			return nil, fmt.Errorf("row %d of %s lacks its %s: add it or empty the row", i+1, f.Title(), missing)
		}
		if len(given) > 0 {
			rows = append(rows, given)
		}
	}
	if rows == nil {
		return nil, nil
	}
	return json.Marshal(rows)
}

func (f field) encode(text string) (json.RawMessage, error) {
	trimmed := json.RawMessage(strings.TrimSpace(text))
	switch {
	case f.Kind == longField || f.Kind == lineField || f.Kind == choiceField:
		return json.Marshal(text)
	case json.Valid(trimmed) && (f.Kind != numberField || trimmed[0] == '-' || trimmed[0] >= '0' && trimmed[0] <= '9'):
		return trimmed, nil
	case f.Kind == numberField && f.textual:
		return json.Marshal(text)
	case f.Kind == numberField:
		return nil, fmt.Errorf("%s is not a number: write it like 12.50", f.Title())
	}
	return nil, fmt.Errorf("%s is not JSON: write a text in quotes, a number, a list or an object", f.Title())
}
