package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
)

// actionType is the member of an action that names its type.
const actionType = "action_type"

// tool is a value of action_type, as a function that a model calls.
type tool struct {
	episode.Tool
	parameters []parameter
	required   []string
}

// parameter is an argument of a tool.
type parameter struct {
	name, description string
	// kind is the JSON type.
	kind string
	// enum are the allowed values, of the items if the kind is a list.
	enum []string
	// maxLength is in characters, 0 if unbounded.
	maxLength int
	// members are the members of the objects that a list contains; each object has all of them.
	// They are nil for other kinds.
	members []parameter
	// details are for the instructions, because several tools have the argument.
	details string
}

// node is the part of JSON Schema that action schemas use.
type node struct {
	// Type is a text, or a list of them.
	Type        json.RawMessage  `json:"type"`
	Enum        []string         `json:"enum"`
	Const       string           `json:"const"`
	Description string           `json:"description"`
	MaxLength   int              `json:"maxLength"`
	Items       *node            `json:"items"`
	Properties  map[string]*node `json:"properties"`
	Required    []string         `json:"required"`
	AnyOf       []*node          `json:"anyOf"`
	AllOf       []*node          `json:"allOf"`
	If          *node            `json:"if"`
	Then        *node            `json:"then"`
}

// UnmarshalJSON reads the schemas true and false as empty ones.
func (n *node) UnmarshalJSON(data []byte) error {
	if string(data) == "true" || string(data) == "false" {
		return nil
	}
	type plain node
	return json.Unmarshal(data, (*plain)(n))
}

func (n *node) hasType(kind string) bool { return string(n.Type) == `"`+kind+`"` }

// admitsType reports whether the type, or one of a list, is the kind.
func (n *node) admitsType(kind string) bool { return strings.Contains(string(n.Type), `"`+kind+`"`) }

// prefersNumbers reports whether the type is a number, or a list that has it before texts.
func (n *node) prefersNumbers() bool {
	before, _, found := strings.Cut(string(n.Type), `"number"`)
	return found && !strings.Contains(before, `"string"`)
}

// findAlternative returns the first alternative of a field that isn't null, numbers before texts.
func (n *node) findAlternative() *node {
	best := n
	for _, a := range n.AnyOf {
		if !a.hasType("null") && (best == n || a.hasType("number")) {
			best = a
		}
	}
	return best
}

// errNoActions means that a schema doesn't have csenv's form.
var errNoActions = errors.New("the pool's action schema lists no values of " + actionType +
	": models can only play environments whose actions have one")

// toolsOf makes a tool of each value of action_type. Its arguments are the fields that the schema's
// rules for this value don't force to be null. If one field is left and is an object, they are the
// object's own fields, or the ones that the rules or the description name.
func toolsOf(schema json.RawMessage) ([]tool, error) {
	var root node
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, fmt.Errorf("reading the pool's action schema: %w", err)
	}
	types := root.Properties[actionType]
	if types == nil || len(types.Enum) == 0 {
		return nil, errNoActions
	}
	tools := make([]tool, len(types.Enum))
	for i, name := range types.Enum {
		tools[i] = root.makeTool(name)
	}
	return tools, nil
}

// allowedBy returns the tools that the task allows, as its first observation lists them; all of
// them if it lists none.
func allowedBy(observation json.RawMessage, known []tool) []tool {
	var seen struct {
		Allowed []string `json:"allowed_actions"`
	}
	_ = json.Unmarshal(observation, &seen) // an observation of another form lists none
	allowed := slices.DeleteFunc(slices.Clone(known), func(t tool) bool {
		return !slices.Contains(seen.Allowed, t.Name)
	})
	if len(allowed) == 0 {
		return known
	}
	return allowed
}

func (n *node) makeTool(name string) tool {
	t := tool{Tool: episode.Tool{Name: name, Description: lineOf(n.Properties[actionType].Description, name)}}
	rule := n.joinRules(name)
	fields := maps.Clone(n.Properties)
	maps.DeleteFunc(fields, func(field string, _ *node) bool {
		then := rule.Properties[field]
		return field == actionType || field == "metadata" || then != nil && then.hasType("null")
	})
	t.required = rule.Required
	if names := slices.Collect(maps.Keys(fields)); len(names) == 1 &&
		fields[names[0]].findAlternative().admitsType("object") {
		t.Object, t.required = names[0], nil
		fields = maps.Clone(fields[t.Object].findAlternative().Properties)
		then := rule.Properties[t.Object]
		named := namedIn(t.Description, t.Object)
		maps.DeleteFunc(fields, func(field string, _ *node) bool {
			if then != nil && len(then.Properties) > 0 {
				return then.Properties[field] == nil
			}
			return len(named) > 0 && !slices.Contains(named, field)
		})
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		t.parameters = append(t.parameters, newParameter(field, fields[field]))
	}
	return t
}

// joinRules joins the rules of the schema for one value of action_type.
func (n *node) joinRules(name string) *node {
	joined := &node{Properties: map[string]*node{}}
	for _, r := range n.AllOf {
		then := r.Then
		switch {
		case r.If != nil && then != nil && r.If.Properties[actionType] != nil &&
			r.If.Properties[actionType].Const == name:
			joined.Required = append(joined.Required, then.Required...)
		case len(r.AnyOf) == 2 && r.AnyOf[1].Properties[actionType] != nil &&
			!slices.Contains(r.AnyOf[1].Properties[actionType].Enum, name):
			then = r.AnyOf[0] // the fields that only other values read
		default:
			continue
		}
		maps.Copy(joined.Properties, then.Properties)
	}
	return joined
}

// namedIn returns the fields that a description lists in its last sentence, after the name of the
// object that has them.
func namedIn(description, object string) []string {
	_, list, found := strings.Cut(description, " "+strings.ToUpper(object[:1])+object[1:]+": ")
	if !found {
		return nil
	}
	return strings.Split(strings.TrimSuffix(list, "."), ", ")
}

// lineOf returns the text of the line "name: text" in the description of action_type.
func lineOf(description, name string) string {
	for line := range strings.Lines(description) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name+": "); ok && text != "" {
			return strings.ToUpper(text[:1]) + text[1:]
		}
	}
	return ""
}

func newParameter(name string, field *node) parameter {
	value := field.findAlternative()
	a := parameter{name: name, description: field.Description, kind: "string",
		maxLength: value.MaxLength}
	if value.Enum != nil { // null, which is optional here, reads as ""
		a.enum = slices.DeleteFunc(slices.Clone(value.Enum), func(v string) bool { return v == "" })
	}
	a.description, a.details, _ = strings.Cut(a.description, "\n")
	switch {
	case value.Items != nil && value.admitsType("array"):
		a.kind, a.enum = "array", value.Items.Enum
		for _, member := range value.Items.Required {
			a.members = append(a.members, newParameter(member, value.Items.Properties[member]))
		}
	case value.prefersNumbers():
		a.kind = "number"
	}
	if a.maxLength > 0 {
		// Endpoints that generate by a schema don't support maxLength.
		a.description = strings.TrimSpace(fmt.Sprintf("%s At most %d characters.", a.description, a.maxLength))
	}
	return a
}

// encodeSchema returns the JSON Schema of the argument. Strict schemas require null for an omitted
// argument.
func (p parameter) encodeSchema(nullable bool) map[string]any {
	s := map[string]any{"type": p.kind}
	if p.description != "" {
		s["description"] = p.description
	}
	if nullable {
		s["type"] = []string{p.kind, "null"}
	}
	if p.kind == "array" && p.enum != nil {
		s["items"] = map[string]any{"type": "string", "enum": p.enum}
	} else if p.enum != nil {
		values := make([]any, len(p.enum), len(p.enum)+1)
		for i, v := range p.enum {
			values[i] = v
		}
		if nullable {
			values = append(values, nil)
		}
		s["enum"] = values
	}
	if p.members != nil {
		s["items"] = listItem(p.members)
	}
	return s
}

// listItem returns the JSON Schema of an object with exactly these members. It keeps their order,
// because some endpoints generate them in the order of the schema.
func listItem(members []parameter) map[string]any {
	properties, required := []byte{'{'}, make([]string, len(members))
	for i, m := range members {
		required[i] = m.name
		member, _ := json.Marshal(map[string]any{m.name: m.encodeSchema(false)}) // of texts and lists of them
		if i > 0 {
			properties = append(properties, ',')
		}
		properties = append(properties, member[1:len(member)-1]...)
	}
	return map[string]any{"type": "object", "properties": json.RawMessage(append(properties, '}')),
		"required": required, "additionalProperties": false}
}

// encodeSchema returns the JSON Schema of the tool's arguments. A strict one uses the subset that
// endpoints support for generation: every property is required, and optional ones may be null.
func (t tool) encodeSchema(strict bool) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, a := range t.parameters {
		must := slices.Contains(t.required, a.name)
		properties[a.name] = a.encodeSchema(strict && !must)
		if strict || must {
			required = append(required, a.name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required,
		"additionalProperties": false}
}

// wrapped is the member that holds the action in a schema of several: endpoints that generate by a
// schema require an object without alternatives around it.
const wrapped = "action"
