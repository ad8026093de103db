package scenarios

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/source"
)

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

// instance renders the parts that tickets and workflows share.
type instance struct{ expr.Scope }

func (in *instance) renderCustomer(f *customerFile) Customer {
	return Customer{Name: in.Text(f.Name), Company: in.Text(f.Company), AccountLevel: f.AccountLevel,
		Since: in.Instant(f.Since)}
}

func (in *instance) renderFacts(files []factFile) []Fact {
	return expr.FilterMap(&in.Scope, files, func(f factFile) Fact {
		out := Fact{
			ID: f.ID, Slot: f.Slot, What: in.Text(f.What), Judged: f.Judged, Value: in.Text(f.Value),
			Negative: f.Polarity == "neg", Optional: f.Optional, Seeded: !f.Value.Literal(),
		}
		if !f.Judged {
			out.Stated, out.Also = in.canonicalValue(f.Pos, out.What, f.Value), nil
			for _, also := range f.Also {
				out.Also = append(out.Also, in.canonicalValue(f.Pos, out.What, also))
			}
		}
		return out
	})
}

func (in *instance) renderReferences(f *referencesFile) References {
	r := References{
		Good: expr.FilterMap(&in.Scope, f.Good, func(g goodFile) string { return in.Text(g.Text) }),
		Bad: expr.FilterMap(&in.Scope, f.Bad, func(g badFile) BadReference {
			return BadReference{Text: in.Text(g.Text), Max: g.Max,
				Why: g.Why}
		}),
	}
	if len(r.Good) == 0 {
		in.Fail(f.Pos.Errorf("no good reference is left: every branch needs one"))
	}
	return r
}

// canonicalValue renders the value of a fact. Values of an enum have the form of the vocabulary, so
// that a param may draw words: "damaged box" is damaged_box.
func (in *instance) canonicalValue(pos source.Position, what string, value expr.Text) string {
	v := in.Text(value)
	n, known := facts.Find(what)
	switch {
	case in.Err != nil:
	case !known:
		in.Fail(pos.Errorf("%q isn't a name of the vocabulary%s", what, source.SuggestWord(what, facts.Whats)))
	case n.Type == facts.Enum:
		v = strings.ReplaceAll(strings.ToLower(v), " ", "_")
		if !slices.Contains(n.Values, v) {
			in.Fail(pos.Errorf("%q isn't a value of %s%s", v, what, source.SuggestWord(v, n.Values)))
		}
	}
	return v
}

func (in *instance) bindPredicate(p expr.Predicate) Predicate {
	if p.Expr == nil {
		return Predicate{}
	}
	return Predicate{Source: p.Text, program: p.Expr.Program, vars: in.Vals}
}
