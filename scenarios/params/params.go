// Package params draws the variables of scenarios from seeds. Each variable has a random stream of
// its own, so that adding one does not change the others.
package params

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/source"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"
)

// Drawing is the part of a scenario file that says what the seed decides.
type Drawing struct {
	Now         nowFile                   `yaml:"now,optional"`
	Params      source.Ordered[paramFile] `yaml:"params,optional"`
	Constraints []expr.Condition          `yaml:"constraints,optional"`

	params []param
	now    *param
}

// nowFile is the frozen time of a scenario: fixed text, or {date: [from, to], step}.
type nowFile struct {
	fixed string
	span  *dateSpan
	pos   source.Position
}

type dateSpan struct {
	Date []string `yaml:"date"`
	Step string   `yaml:"step"`
}

func (f *nowFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	f.pos = d.At(n)
	if n.Kind == yaml.ScalarNode {
		f.fixed = n.Value
		return
	}
	f.span = &dateSpan{}
	d.Value(n, source.ValueOf(f.span), "")
}

// paramFile is one entry of params: one kind, and the modifiers of that kind.
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

func (f *pickFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		f.list = n.Value
		return
	}
	d.Value(n, source.ValueOf(&f.literal), "")
}

// param is a compiled param: a value drawn from its own stream.
type param struct {
	name string
	pos  source.Position
	// stream is the name of the stream, "" for a param that draws nothing.
	stream string
	// pair replaces the scenario in the key of the stream, so that paired branches flip together.
	pair string
	typ  *cel.Type
	draw func(d *draws, s *expr.Stream) (ref.Val, error)
	// branch params are drawn once; a constraint never redraws them, so that it can't skew a
	// toggle.
	branch bool
}

// draws is the state of drawing one instance.
type draws struct {
	vals expr.Values
	seed int64
}

// paramCompiler compiles params with the name lists at hand.
type Compiler struct {
	*expr.Compiler
	Lists func(id string) *NameList
}

var paramName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func (c *Compiler) param(e source.Entry[paramFile]) (param, bool) {
	faults := len(c.Errs)
	p := param{name: e.Name, pos: e.Pos, stream: e.Name}
	if !paramName.MatchString(e.Name) || e.Name == "now" {
		c.Failf(e.Pos, "a param is named in lower case with digits and _, and not now: got %q", e.Name)
	}
	if slices.Contains(c.Names, e.Name) {
		c.Failf(e.Pos, "param %q is given twice", e.Name)
	}
	f := e.Value
	kinds := map[string]bool{
		"int": f.Int != nil, "money": f.Money != nil, "id": f.ID != "", "person": f.Person != "",
		"pick":   f.Pick.list != "" || f.Pick.literal != nil,
		"branch": f.Branch != nil, "expr": f.Expr.Given(), "date": f.Date != nil,
	}
	kind := ""
	for _, k := range []string{"int", "money", "id", "person", "pick", "branch", "expr", "date"} {
		if kinds[k] && kind != "" {
			c.Failf(e.Pos, "param %q has both %s and %s: keep one", e.Name, kind, k)
		} else if kinds[k] {
			kind = k
		}
	}
	if f.Pair != "" && kind != "branch" {
		c.Failf(e.Pos, "param %q: only a branch has a pair", e.Name)
	}
	c.kind(&p, f, kind)
	return p, len(c.Errs) == faults
}

func (c *Compiler) kind(p *param, f paramFile, kind string) {
	switch kind {
	case "int":
		c.intParam(p, f)
	case "money":
		c.moneyParam(p, f)
	case "id":
		c.idParam(p, f)
	case "person":
		c.personParam(p, f)
	case "pick":
		c.pickParam(p, f)
	case "branch":
		c.branchParam(p, f)
	case "expr":
		c.exprParam(p, f)
	case "date":
		c.dateParam(p, f)
	default:
		c.Failf(p.pos, "param %q has no kind: one of int, money, id, person, pick, branch, expr, date", p.name)
	}
}

// steps makes a param that is uniform over lo, lo+step, …, hi.
func (c *Compiler) steps(p *param, lo, hi, step int64, wrap func(int64) ref.Val) {
	if step <= 0 || hi < lo || (hi-lo)%step != 0 {
		c.Failf(p.pos, "param %q: the range must go upwards in whole steps above 0", p.name)
		return
	}
	n := uint64((hi-lo)/step) + 1 //nolint:gosec // hi >= lo and step > 0
	p.draw = func(_ *draws, s *expr.Stream) (ref.Val, error) {
		return wrap(lo + step*int64(s.Below(n))), nil //nolint:gosec // below n, which came from an int64
	}
}

func intValue(i int64) ref.Val { return types.Int(i) }

func (c *Compiler) intParam(p *param, f paramFile) {
	p.typ = cel.IntType
	step := int64(1)
	if f.Step.Given() {
		var err error
		if step, err = f.Step.Int(); err != nil {
			c.Failf(p.pos, "param %q: step is a whole number", p.name)
		}
	}
	if len(f.Int) != 2 {
		c.Failf(p.pos, "param %q: int wants [lowest, highest]", p.name)
		return
	}
	c.steps(p, f.Int[0], f.Int[1], step, intValue)
}

func (c *Compiler) moneyParam(p *param, f paramFile) {
	p.typ = cel.IntType
	cents := make([]int64, 0, 3)
	for _, s := range append(slices.Clone(f.Money), f.Step.Text) {
		m, err := expr.ParseMoney(s)
		if err != nil {
			c.Failf(p.pos, "param %q: %v", p.name, err)
		}
		cents = append(cents, m)
	}
	if len(f.Money) != 2 {
		c.Failf(p.pos, "param %q: money wants [lowest, highest] and a step", p.name)
		return
	}
	c.steps(p, cents[0], cents[1], cents[2], intValue)
}

func (c *Compiler) idParam(p *param, f paramFile) {
	p.typ = cel.StringType
	pattern, err := expr.ParseIDPattern(f.ID)
	if err != nil {
		c.Failf(p.pos, "param %q: %v", p.name, err)
		return
	}
	p.draw = func(_ *draws, s *expr.Stream) (ref.Val, error) { return types.String(pattern.Draw(s)), nil }
}

func (c *Compiler) nameList(p *param, id string) *NameList {
	list := c.Lists(id)
	if list == nil {
		c.Failf(p.pos, "param %q: there is no names/%s.yaml", p.name, id)
	}
	return list
}

func (c *Compiler) personParam(p *param, f paramFile) {
	p.typ = cel.MapType(cel.StringType, cel.StringType)
	list := c.nameList(p, f.Person)
	if list == nil {
		return
	}
	p.draw = func(_ *draws, s *expr.Stream) (ref.Val, error) {
		return types.DefaultTypeAdapter.NativeToValue(list.person(s)), nil
	}
}

func (c *Compiler) pickParam(p *param, f paramFile) {
	vals := c.literals(p, f.Pick.literal)
	if f.Pick.list != "" {
		vals = c.listed(p, f.Pick.list)
	}
	if len(vals) == 0 {
		return
	}
	p.draw = func(_ *draws, s *expr.Stream) (ref.Val, error) { return vals[s.Below(uint64(len(vals)))], nil }
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

// literals reads values of one type, which becomes the param's.
func (c *Compiler) literals(p *param, raws []source.Raw) []ref.Val {
	tags := map[string]*cel.Type{"!!str": cel.StringType, "!!int": cel.IntType, "!!bool": cel.BoolType}
	var vals []ref.Val
	for _, r := range raws {
		if p.typ != nil && p.typ != tags[r.Tag] {
			c.Failf(r.Pos, "param %q: the values must be of one type", p.name)
		}
		if strings.Contains(r.Text, "{{") {
			c.Failf(r.Pos, "param %q: the values are taken as they stand: use expr for a choice that depends on others",
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

func (c *Compiler) branchParam(p *param, f paramFile) {
	p.branch = true
	vals := c.literals(p, f.Branch)
	if len(vals) < 2 {
		c.Failf(p.pos, "param %q: a branch has at least 2 values, the first of which is the canonical one", p.name)
		return
	}
	if f.Pair != "" {
		p.stream, p.pair = f.Pair, "pair"
	}
	p.draw = func(d *draws, s *expr.Stream) (ref.Val, error) {
		if d.seed == 0 {
			return vals[0], nil
		}
		return vals[s.Below(uint64(len(vals)))], nil
	}
}

func (c *Compiler) exprParam(p *param, f paramFile) {
	p.stream = ""
	e := c.Compile(f.Expr.Pos, f.Expr.Text)
	if e == nil {
		return
	}
	p.typ = e.Type
	p.draw = func(d *draws, _ *expr.Stream) (ref.Val, error) { return e.Eval(d.vals) }
}

func (c *Compiler) dateParam(p *param, f paramFile) {
	p.typ = cel.TimestampType
	spans := make([]int64, 0, 3)
	for _, s := range append(slices.Clone(f.Date), f.Step.Text) {
		d, err := expr.ParseSpan(s)
		if err != nil {
			c.Failf(p.pos, "param %q: %v", p.name, err)
		}
		spans = append(spans, int64(d))
	}
	if len(f.Date) != 2 {
		c.Failf(p.pos, "param %q: date wants [earliest, latest] relative to now, and a step", p.name)
		return
	}
	c.steps(p, spans[0], spans[1], spans[2], intValue)
	offset := p.draw
	p.draw = func(d *draws, s *expr.Stream) (ref.Val, error) {
		by, err := offset(d, s)
		if err != nil {
			return nil, err
		}
		return types.Timestamp{Time: expr.Native[time.Time](d.vals["now"]).Add(time.Duration(expr.Native[int64](by)))}, nil
	}
}

// nowParam compiles the time of a scenario. Without one it is a quarter of an hour between February
// and November 2026.
func (c *Compiler) nowParam(f nowFile) *param {
	p := &param{name: "now", stream: "now", typ: cel.TimestampType, pos: f.pos}
	span := dateSpan{Date: []string{"2026-02-02T08:00:00Z", "2026-11-27T17:45:00Z"}, Step: "15m"}
	switch {
	case f.fixed != "":
		span.Date = []string{f.fixed, f.fixed}
	case f.span != nil:
		span = *f.span
	}
	ends := make([]int64, 0, 2)
	for _, s := range span.Date {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			c.Failf(f.pos, "a time is written as \"2026-03-14T09:20:00Z\", got %q", s)
		}
		ends = append(ends, t.Unix())
	}
	step, err := expr.ParseSpan(span.Step)
	if err != nil || len(ends) != 2 {
		c.Failf(f.pos, "now is a time, or {date: [earliest, latest], step: \"15m\"}")
		return p
	}
	c.steps(p, ends[0], ends[1], int64(step/time.Second),
		func(sec int64) ref.Val { return types.Timestamp{Time: time.Unix(sec, 0).UTC()} })
	return p
}

// CompileParams compiles the drawing; after it, the variables are declared.
func (d *Drawing) CompileParams(c *Compiler) {
	c.Times = expr.MaxTries
	defer func() { c.Times = 0 }()
	d.now = c.nowParam(d.Now)
	c.Declare("now", cel.TimestampType)
	for _, e := range d.Params {
		p, ok := c.param(e)
		if p.typ != nil {
			c.Declare(p.name, p.typ)
		} else {
			c.Declare(e.Name, cel.DynType) // so that one fault is not reported at every use
		}
		if ok {
			d.params = append(d.params, p)
		}
	}
	for i := range d.Constraints {
		d.Constraints[i].Compile(c.Compiler)
	}
}

var errTooManyTries = errors.New("no draw satisfied the constraints in 100 tries: widen the params' ranges or loosen " +
	"the constraint")

// Values draws the variables of an instance, over the defaults.
func (d *Drawing) Values(salt, id string, version int, seed int64, defaults expr.Values) (expr.Values, error) {
	key := expr.NewStreamKey(salt, id, version, seed)
	vals := make(expr.Values, len(d.params)+len(defaults)+2)
	maps.Copy(vals, defaults)
	vals[expr.DrawKey] = types.String(key)
	return vals, d.draw(salt, key, seed, vals)
}

// draw fills the variables of an instance. All of a variable's tries come from its one stream.
func (d *Drawing) draw(salt string, key expr.StreamKey, seed int64, vals expr.Values) error {
	state := &draws{vals: vals, seed: seed}
	streams := make([]*expr.Stream, len(d.params))
	now := key.Stream("now")
	for i, p := range d.params {
		switch {
		case p.pair != "":
			streams[i] = expr.NewStreamKey(salt, p.pair, 0, seed).Stream(p.stream)
		case p.stream != "":
			streams[i] = key.Stream(p.stream)
		}
	}
	for try := range expr.MaxTries {
		if err := d.drawOne(d.now, state, now); err != nil {
			return err
		}
		for i := range d.params {
			if d.params[i].branch && try > 0 {
				continue
			}
			if err := d.drawOne(&d.params[i], state, streams[i]); err != nil {
				return err
			}
		}
		failing, err := d.failing(vals)
		if err != nil || failing == nil {
			return err
		}
		if try == expr.MaxTries-1 {
			return failing.Pos.Errorf("constraint %.120q, seed %d: %w", failing.Text, seed, errTooManyTries)
		}
	}
	return nil
}

func (d *Drawing) drawOne(p *param, state *draws, s *expr.Stream) error {
	v, err := p.draw(state, s)
	if err != nil {
		return err
	}
	if err := state.vals.Set(p.name, v); err != nil {
		return fmt.Errorf("%s: param %q: %w", p.pos, p.name, err)
	}
	return nil
}

// failing is the first constraint that does not hold.
func (d *Drawing) failing(vals expr.Values) (*expr.Condition, error) {
	for i := range d.Constraints {
		v, err := d.Constraints[i].Expr.Eval(vals)
		if err != nil {
			return nil, err
		}
		if v != types.True {
			return &d.Constraints[i], nil
		}
	}
	return nil, nil
}
