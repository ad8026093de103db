package scenarios

import (
	"slices"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"
)

// goodFile is a text, or a mapping with a condition.
func (f *goodFile) fromYAML(d *decoder, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		f.Text.fromYAML(d, n)
		return
	}
	d.mapping(n, valueOf(f))
}

// queryFile is a text, or a list of texts.
func (f *queryFile) fromYAML(d *decoder, n *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		d.sequence(n, valueOf(f), "")
		return
	}
	*f = make(queryFile, 1)
	(*f)[0].fromYAML(d, n)
}

func (f *argFile) fromYAML(d *decoder, n *yaml.Node) {
	f.pos = d.at(n)
	if n.Kind == yaml.ScalarNode && n.Value == "any" {
		f.any = true
		return
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		d.failf(n, "an argument is any, {eq: value} or {in: [values]}")
		return
	}
	d.mapping(n, valueOf(f))
}

func (v *argValue) compile(c *compiler) {
	v.template = c.template(v.raw)
	if e := v.single(); e != nil && !fits(e.typ, cel.StringType, cel.IntType, cel.BoolType) {
		c.failf(v.pos, "expression %.120q is %s: an argument is text, a whole number or a bool", e.source,
			cel.FormatCELType(e.typ))
	}
}

// argument is the payload value that an agent would send: string, int64 or bool.
func (in *instance) argument(v argValue) any {
	if e := v.single(); e != nil {
		switch val := in.eval(e).(type) {
		case types.Int:
			return int64(val)
		case types.Bool:
			return bool(val)
		}
	}
	if v.tag == "!!int" {
		return in.integer(integer(v))
	}
	if v.tag == "!!bool" {
		return v.text == "true"
	}
	return in.text(text(v))
}

// evidenceFile is a ticket's state: whatever lies behind the tools. Only its scalars matter here,
// as values that a reply may state.
type evidenceFile struct {
	Scalars []evidence
}

// evidence is a scalar of the state with the conditions on the way to it.
type evidence struct {
	conditions []condition
	value      raw
	parts      template
}

func (f *evidenceFile) fromYAML(d *decoder, n *yaml.Node) {
	known := []string{"orders", "payments", "invoices", "devices", "subscription", "account", "notes"}
	if n.Kind != yaml.MappingNode {
		d.failf(n, "want a mapping, got %s", describe(n))
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(known, key.Value) {
			d.failf(key, "unknown key %q%s", key.Value, suggest(key.Value, known))
		}
		f.collect(d, n.Content[i+1], nil)
	}
}

func (f *evidenceFile) collect(d *decoder, n *yaml.Node, conditions []condition) {
	switch n.Kind {
	case yaml.ScalarNode:
		e := evidence{conditions: conditions}
		e.value.fromYAML(d, n)
		f.Scalars = append(f.Scalars, e)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			f.collect(d, c, conditions)
		}
	default:
		f.collectMapping(d, n, conditions)
	}
}

func (f *evidenceFile) collectMapping(d *decoder, n *yaml.Node, conditions []condition) {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == "when" {
			var when condition
			when.fromYAML(d, n.Content[i+1])
			conditions = append(slices.Clone(conditions), when)
		}
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value != "when" {
			f.collect(d, n.Content[i+1], conditions)
		}
	}
}

func (f *evidenceFile) compile(c *compiler) {
	for i := range f.Scalars {
		e := &f.Scalars[i]
		for j := range e.conditions {
			e.conditions[j].compile(c)
		}
		e.parts = c.template(e.value)
	}
}

// evidence lists the scalars of the state.
func (in *instance) evidence(f *evidenceFile, out []string) []string {
	for _, e := range f.Scalars {
		if !slices.ContainsFunc(e.conditions, func(c condition) bool { return !in.holds(c) }) {
			out = in.evidenceOf(&e.parts, out)
		}
	}
	return out
}

func (in *instance) evidenceOf(t *template, out []string) []string {
	e := t.single()
	if e == nil {
		return append(out, in.text(text{*t}))
	}
	from := len(out)
	out = in.scalars(in.eval(e), out)
	for _, s := range out[from:] {
		in.count(t.pos, len(s))
	}
	return out
}

// moneyForms are the ways in which a reply may write an amount.
func (in *instance) moneyForms(c Cents, out []string) []string {
	return append(out, in.loc.money(int64(c)), c.String(), strconv.FormatInt(int64(c)/100, 10))
}
