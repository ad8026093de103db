package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"
)

// drawing is the part of a scenario file that says what the seed decides.
type drawing struct {
	Now         nowFile            `yaml:"now,optional"`
	Params      ordered[paramFile] `yaml:"params,optional"`
	Constraints []condition        `yaml:"constraints,optional"`

	params []param
	now    *param
}

// nowFile is the frozen time of a scenario: fixed text, or {date: [from, to], step}.
type nowFile struct {
	fixed string
	span  *dateSpan
	pos   position
}

type dateSpan struct {
	Date []string `yaml:"date"`
	Step string   `yaml:"step"`
}

func (f *nowFile) fromYAML(d *decoder, n *yaml.Node) {
	f.pos = d.at(n)
	if n.Kind == yaml.ScalarNode {
		f.fixed = n.Value
		return
	}
	f.span = &dateSpan{}
	d.value(n, valueOf(f.span), "")
}

// paramFile is one entry of params: one kind, and the modifiers of that kind.
type paramFile struct {
	Int    []int64   `yaml:"int,optional"`
	Money  []string  `yaml:"money,optional"`
	ID     string    `yaml:"id,optional"`
	Person string    `yaml:"person,optional"`
	Pick   pickFile  `yaml:"pick,optional"`
	Branch []raw     `yaml:"branch,optional"`
	Expr   condition `yaml:"expr,optional"`
	Date   []string  `yaml:"date,optional"`
	Step   raw       `yaml:"step,optional"`
	Pair   string    `yaml:"pair,optional"`
}

// pickFile is the name of a list, or the list itself.
type pickFile struct {
	list    string
	literal []raw
}

func (f *pickFile) fromYAML(d *decoder, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		f.list = n.Value
		return
	}
	d.value(n, valueOf(&f.literal), "")
}

// param is a compiled param: a value drawn from its own stream.
type param struct {
	name string
	pos  position
	// stream is the name of the stream, "" for a param that draws nothing.
	stream string
	// pair replaces the scenario in the key of the stream, so that paired branches flip together.
	pair string
	typ  *cel.Type
	draw func(d *draws, s *stream) (ref.Val, error)
	// branch params are drawn once; a constraint never redraws them, so that it can't skew a
	// toggle.
	branch bool
}

// draws is the state of drawing one instance.
type draws struct {
	vals *values
	seed int64
}

// paramCompiler compiles params with the name lists at hand.
type paramCompiler struct {
	*compiler
	pack *openPack
}

var paramName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func (c *paramCompiler) param(e entry[paramFile]) (param, bool) {
	faults := len(c.errs)
	p := param{name: e.Name, pos: e.Pos, stream: e.Name}
	if !paramName.MatchString(e.Name) || e.Name == "now" {
		c.failf(e.Pos, "a param is named in lower case with digits and _, and not now: got %q", e.Name)
	}
	if slices.Contains(c.names, e.Name) {
		c.failf(e.Pos, "param %q is given twice", e.Name)
	}
	f := e.Value
	kinds := map[string]bool{
		"int": f.Int != nil, "money": f.Money != nil, "id": f.ID != "", "person": f.Person != "",
		"pick":   f.Pick.list != "" || f.Pick.literal != nil,
		"branch": f.Branch != nil, "expr": f.Expr.given(), "date": f.Date != nil,
	}
	kind := ""
	for _, k := range []string{"int", "money", "id", "person", "pick", "branch", "expr", "date"} {
		if kinds[k] && kind != "" {
			c.failf(e.Pos, "param %q has both %s and %s: keep one", e.Name, kind, k)
		} else if kinds[k] {
			kind = k
		}
	}
	if f.Pair != "" && kind != "branch" {
		c.failf(e.Pos, "param %q: only a branch has a pair", e.Name)
	}
	c.kind(&p, f, kind)
	return p, len(c.errs) == faults
}

func (c *paramCompiler) kind(p *param, f paramFile, kind string) {
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
		c.failf(p.pos, "param %q has no kind: one of int, money, id, person, pick, branch, expr, date", p.name)
	}
}

// steps makes a param that is uniform over lo, lo+step, …, hi.
func (c *paramCompiler) steps(p *param, lo, hi, step int64, wrap func(int64) ref.Val) {
	if step <= 0 || hi < lo || (hi-lo)%step != 0 {
		c.failf(p.pos, "param %q: the range must go upwards in whole steps above 0", p.name)
		return
	}
	n := uint64((hi-lo)/step) + 1 //nolint:gosec // hi >= lo and step > 0
	p.draw = func(_ *draws, s *stream) (ref.Val, error) {
		return wrap(lo + step*int64(s.below(n))), nil //nolint:gosec // below n, which came from an int64
	}
}

func (c *paramCompiler) intParam(p *param, f paramFile) {
	p.typ = cel.IntType
	step := int64(1)
	if f.Step.given() {
		t := integer{template{raw: f.Step}}
		t.compile(c.compiler)
		in := instance{}
		if step = in.integer(t); !t.literal() || in.err != nil {
			c.failf(p.pos, "param %q: step is a whole number", p.name)
		}
	}
	if len(f.Int) != 2 {
		c.failf(p.pos, "param %q: int wants [lowest, highest]", p.name)
		return
	}
	c.steps(p, f.Int[0], f.Int[1], step, toInt)
}

func (c *paramCompiler) moneyParam(p *param, f paramFile) {
	p.typ = cel.IntType
	cents := make([]int64, 0, 3)
	for _, s := range append(slices.Clone(f.Money), f.Step.text) {
		m, err := parseMoney(s)
		if err != nil {
			c.failf(p.pos, "param %q: %v", p.name, err)
		}
		cents = append(cents, m)
	}
	if len(f.Money) != 2 {
		c.failf(p.pos, "param %q: money wants [lowest, highest] and a step", p.name)
		return
	}
	c.steps(p, cents[0], cents[1], cents[2], toInt)
}

func (c *paramCompiler) idParam(p *param, f paramFile) {
	p.typ = cel.StringType
	pattern, err := parseIDPattern(f.ID)
	if err != nil {
		c.failf(p.pos, "param %q: %v", p.name, err)
		return
	}
	p.draw = func(_ *draws, s *stream) (ref.Val, error) { return types.String(pattern.draw(s)), nil }
}

func (c *paramCompiler) nameList(p *param, id string) *nameList {
	list := c.pack.nameList(id)
	if list == nil {
		c.failf(p.pos, "param %q: there is no names/%s.yaml", p.name, id)
	}
	return list
}

func (c *paramCompiler) personParam(p *param, f paramFile) {
	p.typ = cel.MapType(cel.StringType, cel.StringType)
	list := c.nameList(p, f.Person)
	if list == nil {
		return
	}
	p.draw = func(_ *draws, s *stream) (ref.Val, error) {
		return types.DefaultTypeAdapter.NativeToValue(list.person(s)), nil
	}
}

func (c *paramCompiler) pickParam(p *param, f paramFile) {
	vals := c.literals(p, f.Pick.literal)
	if f.Pick.list != "" {
		vals = c.listed(p, f.Pick.list)
	}
	if len(vals) == 0 {
		return
	}
	p.draw = func(_ *draws, s *stream) (ref.Val, error) { return vals[s.below(uint64(len(vals)))], nil }
}

func (c *paramCompiler) listed(p *param, name string) []ref.Val {
	p.typ = cel.StringType
	lang, listName, _ := strings.Cut(name, "/")
	list := c.nameList(p, lang)
	if list == nil {
		return nil
	}
	entries := list.lists[listName]
	if len(entries) == 0 {
		c.failf(p.pos, "param %q: names/%s.yaml has no list %q", p.name, lang, listName)
	}
	vals := make([]ref.Val, len(entries))
	for i, s := range entries {
		vals[i] = types.String(s)
	}
	return vals
}

// literals reads values of one type, which becomes the param's.
func (c *paramCompiler) literals(p *param, raws []raw) []ref.Val {
	tags := map[string]*cel.Type{"!!str": cel.StringType, "!!int": cel.IntType, "!!bool": cel.BoolType}
	var vals []ref.Val
	for _, r := range raws {
		if p.typ != nil && p.typ != tags[r.tag] {
			c.failf(r.pos, "param %q: the values must be of one type", p.name)
		}
		if strings.Contains(r.text, "{{") {
			c.failf(r.pos, "param %q: the values are taken as they stand: use expr for a choice that depends on others",
				p.name)
		}
		p.typ = tags[r.tag]
		switch r.tag {
		case "!!int":
			in := instance{}
			vals = append(vals, types.Int(in.integer(integer{template{raw: r}})))
		case "!!bool":
			vals = append(vals, types.Bool(r.text == "true"))
		default:
			vals = append(vals, types.String(r.text))
		}
	}
	return vals
}

func (c *paramCompiler) branchParam(p *param, f paramFile) {
	p.branch = true
	vals := c.literals(p, f.Branch)
	if len(vals) < 2 {
		c.failf(p.pos, "param %q: a branch has at least 2 values, the first of which is the canonical one", p.name)
		return
	}
	if f.Pair != "" {
		p.stream, p.pair = f.Pair, "pair"
	}
	p.draw = func(d *draws, s *stream) (ref.Val, error) {
		if d.seed == 0 {
			return vals[0], nil
		}
		return vals[s.below(uint64(len(vals)))], nil
	}
}

func (c *paramCompiler) exprParam(p *param, f paramFile) {
	p.stream = ""
	e := c.compile(f.Expr.pos, f.Expr.text)
	if e == nil {
		return
	}
	p.typ = e.typ
	p.draw = func(d *draws, _ *stream) (ref.Val, error) { return e.eval(d.vals) }
}

func (c *paramCompiler) dateParam(p *param, f paramFile) {
	p.typ = cel.TimestampType
	spans := make([]int64, 0, 3)
	for _, s := range append(slices.Clone(f.Date), f.Step.text) {
		d, err := parseSpan(s)
		if err != nil {
			c.failf(p.pos, "param %q: %v", p.name, err)
		}
		spans = append(spans, int64(d))
	}
	if len(f.Date) != 2 {
		c.failf(p.pos, "param %q: date wants [earliest, latest] relative to now, and a step", p.name)
		return
	}
	c.steps(p, spans[0], spans[1], spans[2], toInt)
	offset := p.draw
	p.draw = func(d *draws, s *stream) (ref.Val, error) {
		by, err := offset(d, s)
		if err != nil {
			return nil, err
		}
		return types.Timestamp{Time: native[time.Time](d.vals.byName["now"]).Add(time.Duration(native[int64](by)))}, nil
	}
}

// nowParam compiles the time of a scenario. Without one it is a quarter of an hour between February
// and November 2026.
func (c *paramCompiler) nowParam(f nowFile) *param {
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
			c.failf(f.pos, "a time is written as \"2026-03-14T09:20:00Z\", got %q", s)
		}
		ends = append(ends, t.Unix())
	}
	step, err := parseSpan(span.Step)
	if err != nil || len(ends) != 2 {
		c.failf(f.pos, "now is a time, or {date: [earliest, latest], step: \"15m\"}")
		return p
	}
	c.steps(p, ends[0], ends[1], int64(step/time.Second),
		func(sec int64) ref.Val { return types.Timestamp{Time: time.Unix(sec, 0).UTC()} })
	return p
}

// compileParams compiles the drawing; after it, the variables are declared.
func (d *drawing) compileParams(c *paramCompiler) {
	c.times = maxTries
	defer func() { c.times = 0 }()
	d.now = c.nowParam(d.Now)
	c.declare("now", cel.TimestampType)
	for _, e := range d.Params {
		p, ok := c.param(e)
		if p.typ != nil {
			c.declare(p.name, p.typ)
		} else {
			c.declare(e.Name, cel.DynType) // so that one fault is not reported at every use
		}
		if ok {
			d.params = append(d.params, p)
		}
	}
	for i := range d.Constraints {
		d.Constraints[i].compile(c.compiler)
	}
}

const maxTries = 100

// draw fills the variables of an instance. All of a variable's tries come from its one stream.
func (d *drawing) draw(salt string, key streamKey, seed int64, vals *values) error {
	state := &draws{vals: vals, seed: seed}
	streams := make([]*stream, len(d.params))
	now := key.stream("now")
	for i, p := range d.params {
		switch {
		case p.pair != "":
			streams[i] = newStreamKey(salt, p.pair, 0, seed).stream(p.stream)
		case p.stream != "":
			streams[i] = key.stream(p.stream)
		}
	}
	for try := range maxTries {
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
		if try == maxTries-1 {
			return failing.pos.errorf("constraint %.120q, seed %d: %w", failing.text, seed, errTooManyTries)
		}
	}
	return nil
}

func (d *drawing) drawOne(p *param, state *draws, s *stream) error {
	v, err := p.draw(state, s)
	if err != nil {
		return err
	}
	if err := state.vals.set(p.name, v); err != nil {
		return fmt.Errorf("%s: param %q: %w", p.pos, p.name, err)
	}
	return nil
}

// failing is the first constraint that does not hold.
func (d *drawing) failing(vals *values) (*condition, error) {
	for i := range d.Constraints {
		v, err := d.Constraints[i].expr.eval(vals)
		if err != nil {
			return nil, err
		}
		if v != types.True {
			return &d.Constraints[i], nil
		}
	}
	return nil, nil
}
