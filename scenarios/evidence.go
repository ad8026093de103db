package scenarios

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/source"
)

// FromYAML reads a text, or a mapping with a condition.
func (f *goodFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		f.Text.FromYAML(d, n)
		return
	}
	d.Mapping(n, source.ValueOf(f))
}

// FromYAML reads the name of a tool.
func (t *toolName) FromYAML(d *source.Decoder, n *yaml.Node) {
	var name string
	d.Value(n, source.ValueOf(&name), strings.Join(desk.ListToolNames(desk.Written), "|"))
	*t = toolName(name)
}

// FromYAML reads the minutes of all tools of written workflows.
func (m *minutesFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	var minutes source.Ordered[int]
	minutes.FromYAML(d, n)
	names := desk.ListToolNames(desk.Written)
	*m = minutesFile{}
	for i, e := range minutes {
		if !slices.Contains(names, e.Name) {
			d.Failf(n.Content[2*i], "unknown key %q%s", e.Name, source.SuggestWord(e.Name, names))
		}
		(*m)[e.Name] = e.Value
	}
	for _, name := range names {
		if _, given := (*m)[name]; !given {
			d.Failf(n, "missing key %q", name)
		}
	}
}

// FromYAML reads a text, or a list of texts.
func (f *queryFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		d.Sequence(n, source.ValueOf(f), "")
		return
	}
	*f = make(queryFile, 1)
	(*f)[0].FromYAML(d, n)
}

func (f *argFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	f.pos = d.At(n)
	if n.Kind == yaml.ScalarNode && n.Value == "any" {
		f.any = true
		return
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		d.Failf(n, "an argument is any, {eq: value} or {in: [values]}")
		return
	}
	d.Mapping(n, source.ValueOf(f))
}

func (v *argValue) Compile(c *expr.Compiler) {
	v.Template = c.Template(v.Raw)
	if e := v.Single(); e != nil && !expr.FitsType(e.Type, cel.StringType, cel.IntType, cel.BoolType) {
		c.Failf(v.Pos, "expression %.120q is %s: an argument is text, a whole number or a bool", e.Source,
			cel.FormatCELType(e.Type))
	}
}

// renderArgument returns the payload value that an agent would send: string, int64 or bool.
func (in *instance) renderArgument(v argValue) any {
	if e := v.Single(); e != nil {
		switch val := in.Eval(e).(type) {
		case types.Int:
			return int64(val)
		case types.Bool:
			return bool(val)
		}
	}
	if v.Tag == "!!int" {
		return in.Integer(expr.Integer(v))
	}
	if v.Tag == "!!bool" {
		return v.Text == "true"
	}
	return in.Text(expr.Text(v))
}

// evidenceFile is a ticket's state: the records behind the tools. Only its scalars are used, as
// values that a reply may state.
type evidenceFile struct {
	Scalars []evidence
}

// evidence is a scalar of the state, with the conditions on the path to it.
type evidence struct {
	conditions []expr.Condition
	value      source.Raw
	parts      expr.Template
}

func (f *evidenceFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	known := []string{"orders", "payments", "invoices", "devices", "subscription", "account", "notes"}
	if n.Kind != yaml.MappingNode {
		d.Failf(n, "want a mapping, got %s", source.DescribeNode(n))
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(known, key.Value) {
			d.Failf(key, "unknown key %q%s", key.Value, source.SuggestWord(key.Value, known))
		}
		f.collect(d, n.Content[i+1], nil)
	}
}

func (f *evidenceFile) collect(d *source.Decoder, n *yaml.Node, conditions []expr.Condition) {
	switch n.Kind {
	case yaml.ScalarNode:
		e := evidence{conditions: conditions}
		e.value.FromYAML(d, n)
		f.Scalars = append(f.Scalars, e)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			f.collect(d, c, conditions)
		}
	default:
		f.collectMapping(d, n, conditions)
	}
}

func (f *evidenceFile) collectMapping(d *source.Decoder, n *yaml.Node, conditions []expr.Condition) {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == "when" {
			var when expr.Condition
			when.FromYAML(d, n.Content[i+1])
			conditions = append(slices.Clone(conditions), when)
		}
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value != "when" {
			f.collect(d, n.Content[i+1], conditions)
		}
	}
}

func (f *evidenceFile) Compile(c *expr.Compiler) {
	for i := range f.Scalars {
		e := &f.Scalars[i]
		for j := range e.conditions {
			e.conditions[j].Compile(c)
		}
		e.parts = c.Template(e.value)
	}
}

// listEvidence lists the scalars of the state.
func (in *instance) listEvidence(f *evidenceFile, out []string) []string {
	for _, e := range f.Scalars {
		if !slices.ContainsFunc(e.conditions, func(c expr.Condition) bool { return !in.Holds(c) }) {
			out = in.appendEvidence(&e.parts, out)
		}
	}
	return out
}

func (in *instance) appendEvidence(t *expr.Template, out []string) []string {
	e := t.Single()
	if e == nil {
		return append(out, in.Text(expr.Text{Template: *t}))
	}
	from := len(out)
	out = in.Scalars(in.Eval(e), out)
	for _, s := range out[from:] {
		in.Count(t.Pos, len(s))
	}
	return out
}

// moneyForms lists the forms in which a reply may write an amount.
func (in *instance) moneyForms(c Cents, out []string) []string {
	return append(out, in.Loc.Money(int64(c)), c.String(), strconv.FormatInt(int64(c)/100, 10))
}
