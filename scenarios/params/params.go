// Package params draws the variables of scenarios from seeds. Each variable has a random stream of
// its own, so that adding one does not change the others.
package params

import (
	"fmt"
	"maps"

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
	// canonical is the value of a branch at seed 0, nil for other params. A branch is drawn once,
	// because redrawing it for a constraint would change the odds of its values.
	canonical ref.Val
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
}

var errTooManyTries = fmt.Errorf("no draw satisfied the constraints in %d tries: widen the params' ranges or loosen "+
	"the constraint", expr.MaxTries)

// Values draws the variables of an instance, in addition to the defaults.
func (d *Drawing) Values(salt, id string, version int, seed int64, defaults expr.Values) (expr.Values, error) {
	vals, _, err := d.Draw(salt, id, version, seed, defaults)
	return vals, err
}

// Draw draws the variables of an instance. It also returns the number of draws until the
// constraints were satisfied.
func (d *Drawing) Draw(salt, id string, version int, seed int64, defaults expr.Values) (expr.Values, int, error) {
	key := expr.NewStreamKey(salt, id, version, seed)
	vals := make(expr.Values, len(d.params)+len(defaults)+1)
	maps.Copy(vals, defaults)
	vals[expr.DrawKey] = types.String(key)
	streams := make([]*expr.Stream, len(d.params)) // all tries of a variable use one stream
	for i, p := range d.params {
		switch {
		case p.pair != "":
			streams[i] = expr.NewStreamKey(salt, p.pair, 0, seed).Stream(p.stream)
		case p.stream != "":
			streams[i] = key.Stream(p.stream)
		}
	}
	for try := range expr.MaxTries {
		for i := range d.params {
			if p := &d.params[i]; p.canonical == nil || try == 0 {
				if err := p.set(vals, seed, streams[i]); err != nil {
					return nil, try + 1, err
				}
			}
		}
		failing, err := d.failing(vals)
		if err != nil || failing == nil {
			return vals, try + 1, err
		}
		if try == expr.MaxTries-1 {
			return nil, try + 1, failing.Pos.Errorf("constraint %.120q, seed %d: %w", failing.Text, seed,
				errTooManyTries)
		}
	}
	return vals, expr.MaxTries, nil
}

// set draws the param's value.
func (p *param) set(vals expr.Values, seed int64, s *expr.Stream) error {
	v, err := p.canonical, error(nil)
	if v == nil || seed != 0 {
		v, err = p.draw(vals, s)
	}
	if err != nil {
		return err
	}
	if err := vals.Set(p.name, v); err != nil {
		return fmt.Errorf("%s: param %q: %w", p.pos, p.name, err)
	}
	return nil
}

// failing returns the first constraint that is false, or nil.
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
