package params

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/source"
)

// paramFile is one entry of params: one kind, and its modifiers.
type paramFile struct {
	Int    []int64        `yaml:"int,optional"`
	Money  []string       `yaml:"money,optional"`
	ID     string         `yaml:"id,optional"`
	Person string         `yaml:"person,optional"`
	Pick   pickFile       `yaml:"pick,optional"`
	Branch []source.Raw   `yaml:"branch,optional"`
	Expr   expr.Condition `yaml:"expr,optional"`
	Date   []string       `yaml:"date,optional"`
	Step   source.Raw     `yaml:"step,optional"`
	Pair   string         `yaml:"pair,optional"`
}

// pickFile is the name of a list, or the list itself.
type pickFile struct {
	list    string
	literal []source.Raw
}

// FromYAML implements source.Unmarshaler.
func (f *pickFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		f.list = n.Value
		return
	}
	d.Value(n, source.ValueOf(&f.literal), "")
}

// Compiler compiles params. Lists returns the list of names with an id, or nil.
type Compiler struct {
	*expr.Compiler
	Lists func(id string) *NameList
}

var paramName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// kind is a way to draw a param. given reports whether the file uses it.
type kind struct {
	name    string
	given   func(f *paramFile) bool
	compile func(c *Compiler, p *param, f *paramFile)
}

func listKinds() []kind {
	return []kind{
		{"int", func(f *paramFile) bool { return f.Int != nil }, (*Compiler).intParam},
		{"money", func(f *paramFile) bool { return f.Money != nil }, (*Compiler).moneyParam},
		{"id", func(f *paramFile) bool { return f.ID != "" }, (*Compiler).idParam},
		{"person", func(f *paramFile) bool { return f.Person != "" }, (*Compiler).personParam},
		{"pick", func(f *paramFile) bool { return f.Pick.list != "" || f.Pick.literal != nil }, (*Compiler).pickParam},
		{"branch", func(f *paramFile) bool { return f.Branch != nil }, (*Compiler).branchParam},
		{"expr", func(f *paramFile) bool { return f.Expr.Given() }, (*Compiler).exprParam},
		{"date", func(f *paramFile) bool { return f.Date != nil }, (*Compiler).dateParam},
	}
}

// param compiles an entry. It returns false after a fault.
func (c *Compiler) param(e source.Entry[paramFile]) (param, bool) {
	faults := len(c.Errs)
	p := param{name: e.Name, pos: e.Pos, stream: e.Name}
	// A param of these names would share a stream of random numbers with the choice of a ticket's
	// wording or of a workflow's query.
	reserved := []string{"now", "query", "variant"}
	if !paramName.MatchString(e.Name) || slices.Contains(reserved, e.Name) {
		c.Failf(e.Pos, "a param is named in lower case with digits and _, and not %s: got %q",
			strings.Join(reserved, ", "), e.Name)
	}
	if slices.Contains(c.Names, e.Name) {
		c.Failf(e.Pos, "param %q is given twice", e.Name)
	}
	var chosen kind
	for _, k := range listKinds() {
		switch {
		case !k.given(&e.Value):
		case chosen.name != "":
			c.Failf(e.Pos, "param %q has both %s and %s: keep one", e.Name, chosen.name, k.name)
		default:
			chosen = k
		}
	}
	if e.Value.Pair != "" && chosen.name != "branch" {
		c.Failf(e.Pos, "param %q: only a branch has a pair", e.Name)
	}
	if chosen.name == "" {
		c.Failf(e.Pos, "param %q has no kind: one of int, money, id, person, pick, branch, expr, date", e.Name)
		return p, false
	}
	chosen.compile(c, &p, &e.Value)
	return p, len(c.Errs) == faults
}

// steps makes a param that is uniform over lo, lo+step, …, hi.
func (c *Compiler) steps(p *param, lo, hi, step int64, wrap func(expr.Values, int64) ref.Val) {
	span := hi - lo // negative after an overflow
	if step <= 0 || hi < lo || span < 0 || span%step != 0 {
		c.Failf(p.pos, "param %q: the range must go upwards in whole steps above 0, and be less than 2^63 wide",
			p.name)
		return
	}
	n := uint64(span/step) + 1 //nolint:gosec // span >= 0 and step > 0
	p.draw = func(vals expr.Values, s *expr.Stream) (ref.Val, error) {
		return wrap(vals, lo+step*int64(s.Below(n))), nil //nolint:gosec // below n, which came from an int64
	}
	p.holds = func(v ref.Val) bool {
		at := int64(0)
		switch v := v.(type) {
		case types.Int:
			at = int64(v)
		case types.Timestamp:
			at = v.Unix()
		default:
			return false
		}
		return at >= lo && at <= hi && (at-lo)%step == 0
	}
}

func toInt(_ expr.Values, i int64) ref.Val { return types.Int(i) }

// parseRange reads the bounds and the step of a range.
func parseRange[T ~int64](c *Compiler, p *param, ends []string, step string, parse func(string) (T, error)) []int64 {
	out := make([]int64, 0, len(ends)+1)
	for _, s := range append(slices.Clone(ends), step) {
		v, err := parse(s)
		if err != nil {
			c.Failf(p.pos, "param %q: %v", p.name, err)
		}
		out = append(out, int64(v))
	}
	return out
}

func (c *Compiler) intParam(p *param, f *paramFile) {
	p.typ = cel.IntType
	step := int64(1)
	if f.Step.Given() {
		var err error
		if step, err = f.Step.Int(); err != nil {
			c.Failf(p.pos, "param %q: step is a whole number", p.name)
		}
	}
	if len(f.Int) != 2 {
		c.Failf(p.pos, "param %q: int requires [lowest, highest]", p.name)
		return
	}
	c.steps(p, f.Int[0], f.Int[1], step, toInt)
}

func (c *Compiler) moneyParam(p *param, f *paramFile) {
	p.typ = cel.IntType
	cents := parseRange(c, p, f.Money, f.Step.Text, expr.ParseMoney)
	if len(f.Money) != 2 {
		c.Failf(p.pos, "param %q: money requires [lowest, highest] and a step", p.name)
		return
	}
	c.steps(p, cents[0], cents[1], cents[2], toInt)
}

func (c *Compiler) dateParam(p *param, f *paramFile) {
	p.typ = cel.TimestampType
	spans := parseRange(c, p, f.Date, f.Step.Text, expr.ParseSpan)
	if len(f.Date) != 2 {
		c.Failf(p.pos, "param %q: date requires [earliest, latest] relative to now, and a step", p.name)
		return
	}
	c.steps(p, spans[0], spans[1], spans[2], func(vals expr.Values, offset int64) ref.Val {
		return types.Timestamp{Time: expr.ToNative[time.Time](vals["now"]).Add(time.Duration(offset))}
	})
	p.holds = nil // its range moves with now
}

func (c *Compiler) idParam(p *param, f *paramFile) {
	p.typ = cel.StringType
	pattern, err := expr.ParseIDPattern(f.ID)
	if err != nil {
		c.Failf(p.pos, "param %q: %v", p.name, err)
		return
	}
	p.draw = func(_ expr.Values, s *expr.Stream) (ref.Val, error) { return types.String(pattern.Draw(s)), nil }
}

func (c *Compiler) nameList(p *param, id string) *NameList {
	list := c.Lists(id)
	if list == nil {
		c.Failf(p.pos, "param %q: there is no names/%s.yaml", p.name, id)
	}
	return list
}

func (c *Compiler) personParam(p *param, f *paramFile) {
	p.typ = cel.MapType(cel.StringType, cel.StringType)
	if list := c.nameList(p, f.Person); list != nil {
		p.draw = func(_ expr.Values, s *expr.Stream) (ref.Val, error) {
			return types.DefaultTypeAdapter.NativeToValue(list.Person(s)), nil
		}
	}
}

func (c *Compiler) pickParam(p *param, f *paramFile) {
	vals := c.literals(p, f.Pick.literal)
	if f.Pick.list != "" {
		vals = c.listed(p, f.Pick.list)
	}
	if len(vals) == 0 {
		c.Failf(p.pos, "param %q has no values to pick from", p.name)
	}
	p.oneOf(vals)
}

// oneOf makes a param that is one of the values.
func (p *param) oneOf(vals []ref.Val) {
	p.draw = func(_ expr.Values, s *expr.Stream) (ref.Val, error) { return vals[s.Below(uint64(len(vals)))], nil }
	p.holds = func(v ref.Val) bool {
		return slices.ContainsFunc(vals, func(of ref.Val) bool { return of.Equal(v) == types.True })
	}
}

func (c *Compiler) listed(p *param, name string) []ref.Val {
	p.typ = cel.StringType
	lang, listName, _ := strings.Cut(name, "/")
	list := c.nameList(p, lang)
	if list == nil {
		return nil
	}
	entries := list.Lists[listName]
	if len(entries) == 0 {
		c.Failf(p.pos, "param %q: names/%s.yaml has no list %q", p.name, lang, listName)
	}
	vals := make([]ref.Val, len(entries))
	for i, s := range entries {
		vals[i] = types.String(s)
	}
	return vals
}

// literals reads values of one type, which becomes the type of the param.
func (c *Compiler) literals(p *param, raws []source.Raw) []ref.Val {
	tags := map[string]*cel.Type{"!!str": cel.StringType, "!!int": cel.IntType, "!!bool": cel.BoolType}
	var vals []ref.Val
	for _, r := range raws {
		if p.typ != nil && p.typ != tags[r.Tag] {
			c.Failf(r.Pos, "param %q: the values must be of one type", p.name)
		}
		if strings.Contains(r.Text, "{{") {
			c.Failf(r.Pos, "param %q: the values are not rendered: use expr for a choice that depends on other params",
				p.name)
		}
		p.typ = tags[r.Tag]
		switch r.Tag {
		case "!!int":
			n, err := r.Int()
			if err != nil {
				c.Errs = append(c.Errs, err)
			}
			vals = append(vals, types.Int(n))
		case "!!bool":
			vals = append(vals, types.Bool(r.Text == "true"))
		default:
			vals = append(vals, types.String(r.Text))
		}
	}
	return vals
}

func (c *Compiler) branchParam(p *param, f *paramFile) {
	vals := c.literals(p, f.Branch)
	if len(vals) < 2 {
		c.Failf(p.pos, "param %q: a branch has at least 2 values, the first of which is the canonical one", p.name)
		return
	}
	if f.Pair != "" {
		p.stream, p.pair = f.Pair, "pair"
	}
	p.canonical = vals[0]
	p.oneOf(vals)
}

func (c *Compiler) exprParam(p *param, f *paramFile) {
	p.stream = ""
	if e := c.Compile(f.Expr.Pos, f.Expr.Text); e != nil {
		p.typ, p.uses = e.Type, e.Variables
		p.draw = func(vals expr.Values, _ *expr.Stream) (ref.Val, error) { return e.Eval(vals) }
	}
}
