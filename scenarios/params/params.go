// Package params draws the variables of scenarios from seeds. Each variable has a random stream of
// its own, so that adding one does not change the others.
package params

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/source"
)

// Drawing is the part of a scenario file that depends on the seed.
type Drawing struct {
	Now         nowFile                   `yaml:"now,optional"`
	Params      source.Ordered[paramFile] `yaml:"params,optional"`
	Constraints []expr.Condition          `yaml:"constraints,optional"`

	params []param // the first one is now
	// redrawn are, for each constraint, the params on which it depends and that another try
	// redraws.
	redrawn [][]string
}

// Request says which instance of a scenario to draw.
type Request struct {
	Salt, ID string
	Version  int
	Seed     int64
	// Defaults are variables that the scenario doesn't draw. With room for its params they are
	// copied without a hash for each.
	Defaults expr.Values
	// Fixed are variables that keep their values: a param's must be a value that the scenario could
	// draw.
	Fixed expr.Values
	// Round is 0, or the number of a further draw with the same seed and the same branches.
	Round int
	// Tries bounds the draws, 0 for expr.MaxTries.
	Tries int
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

// FromYAML implements source.Unmarshaler.
func (f *nowFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	f.pos = d.At(n)
	if n.Kind == yaml.ScalarNode {
		f.fixed = n.Value
		return
	}
	f.span = &dateSpan{}
	d.Value(n, source.ValueOf(f.span), "")
}

// param is a compiled param: a value drawn from its own stream.
type param struct {
	name string
	pos  source.Position
	// stream is the name of the stream, or "" for a param that draws nothing.
	stream string
	// pair replaces the scenario in the key of the stream, so that paired branches change together.
	pair string
	typ  *cel.Type
	draw func(vals expr.Values, s *expr.Stream) (ref.Val, error)
	// holds reports whether draw can return the value. It is nil if that depends on other values.
	holds func(v ref.Val) bool
	// uses are the variables of an expression.
	uses []string
	// late is true for an expression that no constraint needs, so that it is evaluated only after a
	// draw satisfies them.
	late bool
	// canonical is the value of a branch at seed 0, nil for other params. A branch is drawn once,
	// because redrawing it for a constraint would change the odds of its values.
	canonical ref.Val
	// checkable is the number of constraints, from the first one on, that need no later param.
	checkable int
}

// CompileParams compiles the drawing and declares its variables.
func (d *Drawing) CompileParams(c *Compiler) {
	c.Times = expr.MaxTries
	defer func() { c.Times = 0 }()
	d.params = append(d.params, c.now(d.Now))
	c.Declare("now", cel.TimestampType)
	for _, e := range d.Params {
		p, ok := c.param(e)
		if p.typ == nil {
			p.typ = cel.DynType // after a fault: report it once, not at every use
		}
		c.Declare(p.name, p.typ)
		if ok {
			d.params = append(d.params, p)
		}
	}
	for i := range d.Constraints {
		d.Constraints[i].Compile(c.Compiler)
	}
	d.redrawn = d.dependencies()
	d.markLate()
	d.countCheckable()
}

// countCheckable finds after which param each constraint can be checked.
func (d *Drawing) countCheckable() {
	n := 0
	for i := range d.params {
		later := func(name string) bool {
			return slices.ContainsFunc(d.params[i+1:], func(p param) bool { return p.name == name })
		}
		for n < len(d.Constraints) && (d.Constraints[n].Expr == nil ||
			!slices.ContainsFunc(d.Constraints[n].Expr.Variables, later)) {
			n++
		}
		d.params[i].checkable = n
	}
}

// markLate marks the expressions on which no constraint depends.
func (d *Drawing) markLate() {
	needed := map[string]bool{}
	need := func(names []string) {
		for _, name := range names {
			needed[name] = true
		}
	}
	for _, c := range d.Constraints {
		if c.Expr != nil {
			need(c.Expr.Variables)
		}
	}
	for i := range slices.Backward(d.params) { // an expression uses earlier params only
		p := &d.params[i]
		if needed[p.name] {
			need(p.uses)
		}
		p.late = p.stream == "" && !needed[p.name]
	}
}

// now compiles the time of a scenario. The default is a multiple of 15 minutes between February and
// November 2026.
func (c *Compiler) now(f nowFile) param {
	p := param{name: "now", stream: "now", typ: cel.TimestampType, pos: f.pos}
	span := dateSpan{Date: []string{"2026-02-02T08:00:00Z", "2026-11-27T17:45:00Z"}, Step: "15m"}
	switch {
	case f.fixed != "":
		span.Date = []string{f.fixed, f.fixed}
	case f.span != nil:
		span = *f.span
	}
	ends := make([]int64, 0, len(span.Date))
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
	c.steps(&p, ends[0], ends[1], int64(step/time.Second),
		func(_ expr.Values, sec int64) ref.Val { return types.Timestamp{Time: time.Unix(sec, 0).UTC()} })
	return p
}

// dependencies returns, for each constraint, the params on which it depends, also through
// expressions, and that another try redraws.
func (d *Drawing) dependencies() [][]string {
	behind := map[string][]string{}
	trace := func(names []string) []string {
		var out []string
		for _, name := range names {
			out = append(out, behind[name]...)
		}
		return out
	}
	for _, p := range d.params {
		switch {
		case p.stream == "":
			behind[p.name] = trace(p.uses)
		case p.canonical == nil:
			behind[p.name] = []string{p.name}
		}
	}
	out := make([][]string, len(d.Constraints))
	for i, c := range d.Constraints {
		if c.Expr != nil {
			out[i] = trace(c.Expr.Variables)
		}
	}
	return out
}

var errTooManyTries = fmt.Errorf("no draw satisfied the constraints in %d tries: widen the params' ranges or loosen "+
	"the constraint", expr.MaxTries)

// errMisfit means that the fixed values contradict the scenario.
var errMisfit = errors.New("the fixed values are none that the scenario could draw")

// Draw draws the variables of an instance, in addition to the defaults. It also returns the number
// of draws until the constraints were satisfied.
func (d *Drawing) Draw(r Request) (expr.Values, int, error) {
	vals := maps.Clone(r.Defaults)
	if vals == nil {
		vals = make(expr.Values, len(d.params)+1)
	}
	maps.Copy(vals, r.Fixed)
	key := r.key()
	vals[expr.DrawKey] = types.String(key)
	streams := d.streams(r, key)
	limit := cmp.Or(r.Tries, expr.MaxTries)
	furthest := 0 // the last constraint that a try has reached: no try has satisfied it
	for try := range limit {
		failing, err := d.try(vals, &r, streams, try == 0)
		if err != nil {
			return nil, try + 1, err
		}
		if failing < 0 {
			return vals, try + 1, d.setLate(vals, &r)
		}
		furthest = max(furthest, failing)
		if try == limit-1 || d.decided(failing, r.Fixed) {
			at := d.Constraints[furthest]
			return nil, try + 1, at.Pos.Errorf("constraint %.120q, seed %d: %w", at.Text, r.Seed, errTooManyTries)
		}
	}
	return vals, limit, nil
}

// try draws the params that are not late, and returns the index of the first constraint that they
// don't satisfy, or -1. It checks a constraint once its params are drawn, and after a failure only
// advances the streams, so that what the next try draws doesn't depend on the constraints.
func (d *Drawing) try(vals expr.Values, r *Request, streams []*expr.Stream, first bool) (int, error) {
	next, failing := 0, -1
	for i := range d.params {
		p, err := &d.params[i], error(nil)
		switch branch := p.canonical != nil; {
		case p.late || branch && !first:
		case branch || failing < 0:
			err = p.set(vals, r, streams[i])
		case p.stream != "":
			_, err = p.draw(vals, streams[i])
		}
		checkable := p.checkable
		if len(r.Fixed) > 0 && i < len(d.params)-1 {
			checkable = 0 // whether the fixed values fit is found before any constraint
		}
		for ; err == nil && failing < 0 && next < checkable; next++ {
			var holds ref.Val
			if holds, err = d.Constraints[next].Expr.Eval(vals); holds != types.True {
				failing = next
			}
		}
		if err != nil {
			return failing, err
		}
	}
	return failing, nil
}

// setLate evaluates the expressions that no constraint needs.
func (d *Drawing) setLate(vals expr.Values, r *Request) error {
	for i := range d.params {
		if d.params[i].late {
			if err := d.params[i].set(vals, r, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Request) key() expr.StreamKey { return expr.NewStreamKey(r.Salt, r.ID, r.Version, r.Seed) }

// streams returns the stream of each param. All tries of a param use one stream.
func (d *Drawing) streams(r Request, key expr.StreamKey) []*expr.Stream {
	streams := make([]*expr.Stream, len(d.params))
	for i, p := range d.params {
		switch {
		case p.pair != "":
			streams[i] = expr.NewStreamKey(r.Salt, p.pair, 0, r.Seed).Stream(p.stream)
		case p.stream != "" && r.Round > 0 && p.canonical == nil:
			streams[i] = key.Stream(fmt.Sprintf("%s#%d", p.stream, r.Round))
		case p.stream != "":
			streams[i] = key.Stream(p.stream)
		}
	}
	return streams
}

// set draws the param's value, unless it is fixed.
func (p *param) set(vals expr.Values, r *Request, s *expr.Stream) error {
	fixed, isFixed := r.Fixed[p.name]
	if isFixed && p.holds != nil {
		if !p.holds(fixed) {
			return errMisfit
		}
		return nil
	}
	v, err := p.canonical, error(nil)
	if v == nil || r.Seed != 0 {
		v, err = p.draw(vals, s)
	}
	switch {
	case err != nil:
		return err
	case isFixed && v.Equal(fixed) != types.True:
		return errMisfit
	}
	if err := vals.Set(p.name, v); err != nil {
		return fmt.Errorf("%s: param %q: %w", p.pos, p.name, err)
	}
	return nil
}

// decided reports whether another try can't change a constraint, because all params on which it
// depends are fixed.
func (d *Drawing) decided(constraint int, fixed expr.Values) bool {
	return !slices.ContainsFunc(d.redrawn[constraint], func(name string) bool { return fixed[name] == nil })
}
