package episode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/facts"
)

// typeField is the property that selects an action's variant.
const typeField = "action_type"

// Field is a property of an environment's actions, other than action_type and metadata. It may be
// absent or null unless the variant requires it.
type Field struct {
	Name        string
	Description string
	// Enum lists the values of a closed vocabulary, of which a field with Many is a list.
	Enum []string
	Many bool
	// MaxLength bounds a free text in Unicode code points. A free text has at least one, unless
	// Empty is set.
	MaxLength int
	Empty     bool
	// Number admits a JSON number as well as a text.
	Number bool
	// Properties make the field a JSON object with exactly these fields, each of which may be
	// absent or null.
	Properties []Field
	// Facts make the field a list of at most facts.MaxStated facts, which Action.Facts returns. An
	// action has one such field.
	Facts bool
	// explainer is the tool that explains the names of facts, "" for the field's own tool.
	explainer string
}

// FactsField is the field of what an agent states beside its message to the customer.
func FactsField() Field {
	return Field{Name: "facts", Facts: true, Description: fmt.Sprintf("What the message tells the customer, as "+
		"typed facts, at most %d. Each value must stand in the message as well.", facts.MaxStated)}
}

// The members of a fact, both of which it has.
var (
	whatField  = Field{Name: "what", Enum: facts.Whats, Description: "What is stated."}
	valueField = Field{Name: "value", MaxLength: facts.MaxValue, Number: true, Empty: true,
		Description: "Its value, in any usual form."}
)

// Variant is one value of action_type with the fields that it reads. Every other field must be
// absent or null.
type Variant struct {
	Type        string
	Description string
	Required    []string
	Optional    []string
	// AnyOf lists optional fields. At least one of them must be given.
	AnyOf []string
	// Properties lists the properties of the variant's single field, an object, that the variant
	// uses. Actions may contain the others; a tool doesn't offer them.
	Properties []string
}

func (v *Variant) readsField(field string) bool {
	return slices.Contains(v.Required, field) || slices.Contains(v.Optional, field)
}

// Form is the shape of an environment's actions. The served JSON Schema and the decoder use the
// same table, so that they can't disagree. It is immutable and safe for concurrent use.
type Form struct {
	title    string
	fields   []Field
	variants []Variant
	byField  map[string]*Field
	types    []string
}

// NewForm makes the form of the given fields and variants. The title names the schema.
func NewForm(title string, fields []Field, variants []Variant) *Form {
	f := &Form{title: title, fields: fields, variants: variants, byField: map[string]*Field{}}
	for i := range fields {
		f.byField[fields[i].Name] = &fields[i]
	}
	for i := range variants {
		f.types = append(f.types, variants[i].Type)
	}
	return f
}

// Types lists the values of action_type in the order of the variants.
func (f *Form) Types() []string { return slices.Clone(f.types) }

// objectOf returns the object field whose properties are the variant's arguments, or "".
func (f *Form) objectOf(v *Variant) string {
	if len(v.Properties) > 0 {
		for _, field := range f.fields {
			if field.Properties != nil && v.readsField(field.Name) {
				return field.Name
			}
		}
	}
	return ""
}

// Schemas returns the form's action schema and tools, and the schemas of the observation and the
// state, read from schemas/observation.json and schemas/state.json of the files. The text
// "ACTION_TYPES" of the observation's schema stands for the form's types.
func (f *Form) Schemas(files fs.FS) (s Schemas, err error) {
	if s.Action, err = json.Marshal(f.Schema()); err != nil {
		return Schemas{}, fmt.Errorf("writing the action schema: %w", err)
	}
	observation, err := fs.ReadFile(files, "schemas/observation.json")
	if err != nil {
		return Schemas{}, fmt.Errorf("reading the observation schema: %w", err)
	}
	s.Observation = bytes.ReplaceAll(observation, []byte(`"ACTION_TYPES"`),
		[]byte(`"`+strings.Join(f.types, `", "`)+`"`))
	if s.State, err = fs.ReadFile(files, "schemas/state.json"); err != nil {
		return Schemas{}, fmt.Errorf("reading the state schema: %w", err)
	}
	s.Tools, err = f.Tools()
	return s, err
}
