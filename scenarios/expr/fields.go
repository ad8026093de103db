package expr

import (
	"reflect"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/source"
)

// typed compiles a scalar that must be a literal with one of YAML's tags, or a single expression of
// one of the types.
func (c *Compiler) typed(r source.Raw, tag, name string, want ...*cel.Type) Template {
	t := c.Template(r)
	switch e := t.Single(); {
	case !r.Given() || t.braced() && t.Literal(): // left out, or already reported
	case e != nil && !FitsType(e.Type, want...):
		c.Failf(r.Pos, "expression %.120q is %s, want %s", e.Source, cel.FormatCELType(e.Type), name)
	case e == nil && !t.Literal():
		c.Failf(r.Pos, "want one expression that is %s, got %q", name, r.Text)
	case t.Literal() && r.Tag != tag:
		c.Failf(r.Pos, "want %s, got %q", name, r.Text)
	}
	return t
}

// The field types of scenario files. Each is decoded from a scalar, compiled once, and evaluated
// for each instance.
type (
	// Text renders to text.
	Text struct{ Template }
	// Integer is a whole number or one expression.
	Integer struct{ Template }
	// Boolean is true, false or one expression.
	Boolean struct{ Template }
	// Instant is an RFC 3339 time or one expression.
	Instant struct{ Template }
	// Amount is money: "49.00", or one expression in cents.
	Amount struct{ Template }
	// Condition is CEL without braces. The zero condition is true.
	Condition struct {
		source.Raw
		Expr *Expression
	}
	// Predicate is CEL without braces over a Moment.
	Predicate struct {
		source.Raw
		Expr *Expression
	}
)

type compilable interface {
	Compile(c *Compiler)
}

// Compile compiles the field.
func (t *Text) Compile(c *Compiler) {
	t.Template = c.Template(t.Raw)
	for e := range t.Expressions() {
		if !FitsType(e.Type, cel.StringType, cel.IntType, cel.TimestampType) {
			c.Failf(e.pos, "expression %.120q is %s, which has no unique form as text", e.Source,
				cel.FormatCELType(e.Type))
		}
	}
}

// Compile compiles the field.
func (t *Integer) Compile(c *Compiler) {
	t.Template = c.typed(t.Raw, "!!int", "a whole number", cel.IntType)
}

// Compile compiles the field.
func (t *Boolean) Compile(c *Compiler) {
	t.Template = c.typed(t.Raw, "!!bool", "true or false", cel.BoolType)
}

// Compile compiles the field.
func (t *Instant) Compile(c *Compiler) {
	t.Template = c.typed(t.Raw, "!!str", "a time", cel.TimestampType)
	if t.Given() && t.Literal() && !t.braced() {
		if _, err := time.Parse(time.RFC3339, t.Text); err != nil {
			c.Failf(t.Pos, "a time is written as \"2026-03-14T09:20:00Z\", got %q", t.Text)
		}
	}
}

// Compile compiles the field.
func (t *Amount) Compile(c *Compiler) {
	t.Template = c.typed(t.Raw, "!!str", "money", cel.IntType)
	if t.Given() && t.Literal() && !t.braced() {
		if _, err := ParseMoney(t.Text); err != nil {
			c.Failf(t.Pos, "%v", err)
		}
	}
}

// Compile compiles the field.
func (t *Condition) Compile(c *Compiler) {
	if t.Given() {
		t.Expr = c.boolean(c.Compile(t.Pos, t.Text))
	}
}

// Compile compiles the field.
func (t *Predicate) Compile(c *Compiler) {
	if t.Given() {
		t.Expr = c.inMoment(t.Pos, t.Text)
	}
}

// inMoment compiles a predicate over the end state or an action.
func (c *Compiler) inMoment(pos source.Position, source string) *Expression {
	if c.moment == nil {
		env, err := c.environment()
		if err != nil {
			c.Failf(pos, "declaring variables: %v", err)
			return nil
		}
		list := cel.ListType(cel.MapType(cel.StringType, cel.DynType))
		c.moment, err = env.Extend(cel.Variable("orders", list), cel.Variable("payments", list),
			cel.Variable("refunds", list), cel.Variable("cases", list),
			cel.Variable("replied", cel.BoolType), cel.Variable("message", cel.StringType), cel.Variable("args",
				cel.MapType(cel.StringType, cel.DynType)))
		if err != nil {
			c.Failf(pos, "declaring %s: %v", strings.Join(MomentVariables(), ", "), err)
			return nil
		}
	}
	return c.boolean(c.compileIn(c.moment, pos, strings.TrimSpace(source)))
}

// FromYAML implements source.Unmarshaler.
func (t *Condition) FromYAML(d *source.Decoder, n *yaml.Node) { readBareExpr(d, n, &t.Raw) }

// FromYAML implements source.Unmarshaler.
func (t *Predicate) FromYAML(d *source.Decoder, n *yaml.Node) { readBareExpr(d, n, &t.Raw) }

// readBareExpr reads an expression that is written without braces.
func readBareExpr(d *source.Decoder, n *yaml.Node, into *source.Raw) {
	into.FromYAML(d, n)
	if strings.Contains(into.Text, "{{") {
		d.Failf(n, "this is an expression already: write it without {{ }}")
	}
}

// Item is embedded in list items that an instance may lack.
type Item struct {
	When Condition `yaml:"when,optional"`
}

func (i Item) condition() Condition { return i.When }

type conditional interface {
	condition() Condition
}

// CompileAll compiles every field of a decoded file, in the order of its fields, except those with
// the tag compile:"-".
func CompileAll(c *Compiler, v reflect.Value) {
	if v.CanInterface() { // an embedded struct can't, but its fields can
		if field, ok := reflect.TypeAssert[compilable](v.Addr()); ok {
			field.Compile(c)
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Tag.Get("compile") != "-" && (f.Tag.Get("yaml") != "" || f.Anonymous) {
				CompileAll(c, v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			CompileAll(c, v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			CompileAll(c, v.Elem())
		}
	default: // a plain value
	}
}
