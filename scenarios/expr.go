package scenarios

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"go.yaml.in/yaml/v3"
)

// compiler turns the templates and expressions of one scenario into programs. It collects faults
// rather than stopping at one.
type compiler struct {
	loc     *locale
	env     *cel.Env
	names   []string
	pending []cel.EnvOption
	// moment is env with what predicates see beside; made on first use.
	moment *cel.Env
	cache  map[string]*expression
	// times is how often an instance may evaluate what is being compiled, 0 for once, and cost what
	// all its evaluations may cost.
	times int
	cost  uint64
	errs  []error
}

func newCompiler(base *cel.Env, loc *locale) *compiler {
	return &compiler{env: base, loc: loc, cache: map[string]*expression{}}
}

// declare adds a variable for what is compiled from here on.
func (c *compiler) declare(name string, t *cel.Type) {
	c.names = append(c.names, name)
	c.pending = append(c.pending, cel.Variable(name, t))
}

func (c *compiler) failf(p position, format string, args ...any) {
	c.errs = append(c.errs, p.errorf(format, args...))
}

func (c *compiler) environment() (*cel.Env, error) {
	if len(c.pending) > 0 {
		env, err := c.env.Extend(c.pending...)
		if err != nil {
			return nil, err
		}
		c.env, c.pending = env, nil
	}
	return c.env, nil
}

// expression is a compiled CEL expression.
type expression struct {
	source  string
	pos     position
	program cel.Program
	typ     *cel.Type
	cost    uint64
}

// compile compiles source, nil after a fault.
func (c *compiler) compile(pos position, source string) *expression {
	source = strings.TrimSpace(source)
	if e, ok := c.cache[source]; ok {
		c.spend(e.cost)
		return &expression{source: source, pos: pos, program: e.program, typ: e.typ, cost: e.cost}
	}
	env, err := c.environment()
	if err != nil {
		c.failf(pos, "declaring variables: %v", err)
		return nil
	}
	e := c.compileIn(env, pos, source)
	if e != nil {
		c.cache[source] = e
	}
	return e
}

func (c *compiler) compileIn(env *cel.Env, pos position, source string) *expression {
	if source == "" {
		c.failf(pos, "an empty expression")
		return nil
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		c.failf(pos, "expression %.120q: %s", source, c.explain(issues))
		return nil
	}
	p, cost, err := program(env, ast)
	if err != nil {
		c.failf(pos, "expression %.120q: %v", source, err)
		return nil
	}
	c.spend(cost)
	return &expression{source: source, pos: pos, program: p, typ: ast.OutputType(), cost: cost}
}

// explain shortens CEL's issues to their messages and offers the nearest name for an unknown one.
func (c *compiler) explain(issues *cel.Issues) string {
	msgs := make([]string, 0, len(issues.Errors()))
	for _, e := range issues.Errors() {
		msg := strings.TrimSuffix(e.Message, " (in container '')")
		if _, name, ok := strings.Cut(msg, "undeclared reference to '"); ok {
			msg += suggest(strings.TrimSuffix(name, "'"), c.names)
		}
		msgs = append(msgs, msg)
	}
	return strings.Join(msgs, "; ")
}

// momentNames are the variables of a Moment.
func momentNames() []string {
	return []string{"orders", "payments", "refunds", "cases", "replied", "message", "args"}
}

// inMoment compiles a predicate over the end state or an action.
func (c *compiler) inMoment(pos position, source string) *expression {
	if c.moment == nil {
		env, err := c.environment()
		if err != nil {
			c.failf(pos, "declaring variables: %v", err)
			return nil
		}
		list := cel.ListType(cel.MapType(cel.StringType, cel.DynType))
		c.moment, err = env.Extend(cel.Variable("orders", list), cel.Variable("payments", list),
			cel.Variable("refunds", list), cel.Variable("cases", list),
			cel.Variable("replied", cel.BoolType), cel.Variable("message", cel.StringType), cel.Variable("args",
				cel.MapType(cel.StringType, cel.DynType)))
		if err != nil {
			c.failf(pos, "declaring %s: %v", strings.Join(momentNames(), ", "), err)
			return nil
		}
	}
	return c.boolean(c.compileIn(c.moment, pos, strings.TrimSpace(source)))
}

func (c *compiler) boolean(e *expression) *expression {
	if e != nil && !fits(e.typ, cel.BoolType) {
		c.failf(e.pos, "expression %.120q is %s, want bool", e.source, cel.FormatCELType(e.typ))
	}
	return e
}

func fits(t *cel.Type, want ...*cel.Type) bool {
	return t.IsExactType(cel.DynType) || slices.ContainsFunc(want, t.IsExactType)
}

// values are the variables of one instance.
type values struct {
	byName map[string]ref.Val
}

// ResolveName implements cel.Activation.
func (v *values) ResolveName(name string) (any, bool) {
	val, ok := v.byName[name]
	return val, ok
}

// Parent implements cel.Activation.
func (v *values) Parent() cel.Activation { return nil }

func (e *expression) eval(v *values) (ref.Val, error) {
	out, _, err := e.program.Eval(v)
	if err != nil {
		return nil, e.pos.errorf("expression %.120q: %v", e.source, err)
	}
	return out, nil
}

// template is a scalar in which expressions stand in braces, or a literal.
type template struct {
	raw
	parts []part
}

// part is a literal or, where expr is set, an expression.
type part struct {
	literal string
	expr    *expression
}

// single is the expression of a template that is nothing else.
func (t *template) single() *expression {
	if len(t.parts) == 1 {
		return t.parts[0].expr
	}
	return nil
}

func (t *template) literal() bool { return len(t.parts) == 0 }

// braced reports whether the author wrote an expression, even one that did not compile.
func (t *template) braced() bool { return strings.Contains(t.text, "{{") }

func (c *compiler) template(r raw) template {
	t := template{raw: r}
	rest, offset := r.text, 0
	for {
		start := strings.Index(rest, "{{")
		if start < 0 {
			break
		}
		end := expressionEnd(rest[start+2:])
		if end < 0 {
			c.failf(r.line(offset+start), "{{ without its }}")
			return t
		}
		if strings.Contains(rest[start+2:start+2+end], "{{") {
			c.failf(r.line(offset+start), "{{ within {{ }}: join the pieces with +")
		}
		t.literalPart(c, rest[:start], offset)
		if e := c.compile(r.line(offset+start), rest[start+2:start+2+end]); e != nil {
			t.parts = append(t.parts, part{expr: e})
		}
		offset += start + end + 4
		rest = r.text[offset:]
	}
	if offset > 0 || strings.Contains(rest, "}}") {
		t.literalPart(c, rest, offset)
	}
	return t
}

func (t *template) literalPart(c *compiler, s string, offset int) {
	if i := strings.Index(s, "}}"); i >= 0 {
		c.failf(t.line(offset+i), "}} without its {{")
	}
	if s != "" {
		t.parts = append(t.parts, part{literal: s})
	}
}

// expressionEnd finds the }} that closes an expression, past the quotes and braces within it.
func expressionEnd(s string) int {
	var quote byte
	depth := 0
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case quote != 0:
			switch ch {
			case '\\':
				i++
			case quote:
				quote = 0
			}
		case ch == '\'' || ch == '"':
			quote = ch
		case ch == '{':
			depth++
		case ch == '}' && depth > 0:
			depth--
		case strings.HasPrefix(s[i:], "}}"):
			return i
		}
	}
	return -1
}

// typed compiles a scalar that must be a literal with one of YAML's tags or a single expression of
// one of the types.
func (c *compiler) typed(r raw, tag, name string, want ...*cel.Type) template {
	t := c.template(r)
	switch e := t.single(); {
	case !r.given() || t.braced() && t.literal(): // left out, or already at fault
	case e != nil && !fits(e.typ, want...):
		c.failf(r.pos, "expression %.120q is %s, want %s", e.source, cel.FormatCELType(e.typ), name)
	case e == nil && !t.literal():
		c.failf(r.pos, "want one expression that is %s, got %q", name, r.text)
	case t.literal() && r.tag != tag:
		c.failf(r.pos, "want %s, got %q", name, r.text)
	}
	return t
}

// The field types of scenario files. Each is decoded from a scalar, compiled once, and evaluated by
// an instance.
type (
	// text renders to text.
	text struct{ template }
	// integer is a whole number or one expression.
	integer struct{ template }
	// boolean is true, false or one expression.
	boolean struct{ template }
	// instant is an RFC 3339 time or one expression.
	instant struct{ template }
	// amount is money: "49.00", or one expression in cents.
	amount struct{ template }
	// condition is CEL without braces. The zero condition holds.
	condition struct {
		raw
		expr *expression
	}
	// predicate is CEL without braces over a Moment.
	predicate struct {
		raw
		expr *expression
	}
)

type compilable interface {
	compile(c *compiler)
}

func (t *text) compile(c *compiler) {
	t.template = c.template(t.raw)
	for _, p := range t.parts {
		if p.expr != nil && !fits(p.expr.typ, cel.StringType, cel.IntType, cel.TimestampType) {
			c.failf(p.expr.pos, "expression %.120q is %s, which has no one form as text", p.expr.source,
				cel.FormatCELType(p.expr.typ))
		}
	}
}

func (t *integer) compile(c *compiler) {
	t.template = c.typed(t.raw, "!!int", "a whole number", cel.IntType)
}
func (t *boolean) compile(c *compiler) {
	t.template = c.typed(t.raw, "!!bool", "true or false", cel.BoolType)
}

func (t *instant) compile(c *compiler) {
	t.template = c.typed(t.raw, "!!str", "a time", cel.TimestampType)
	if t.given() && t.literal() && !t.braced() {
		if _, err := time.Parse(time.RFC3339, t.text); err != nil {
			c.failf(t.pos, "a time is written as \"2026-03-14T09:20:00Z\", got %q", t.text)
		}
	}
}

func (t *amount) compile(c *compiler) {
	t.template = c.typed(t.raw, "!!str", "money", cel.IntType)
	if t.given() && t.literal() && !t.braced() {
		if _, err := parseMoney(t.text); err != nil {
			c.failf(t.pos, "%v", err)
		}
	}
}

func (t *condition) compile(c *compiler) {
	if t.given() {
		t.expr = c.boolean(c.compile(t.pos, t.text))
	}
}

func (t *predicate) compile(c *compiler) {
	if t.given() {
		t.expr = c.inMoment(t.pos, t.text)
	}
}

func (t *condition) fromYAML(d *decoder, n *yaml.Node) { bare(d, n, &t.raw) }
func (t *predicate) fromYAML(d *decoder, n *yaml.Node) { bare(d, n, &t.raw) }

// bare reads an expression that stands without braces.
func bare(d *decoder, n *yaml.Node, into *raw) {
	into.fromYAML(d, n)
	if strings.Contains(into.text, "{{") {
		d.failf(n, "this is an expression already: write it without {{ }}")
	}
}

// instance evaluates a scenario's fields over one seed's values. It keeps the first fault; after
// one, every answer is zero.
type instance struct {
	vals *values
	loc  *locale
	err  error
	// rendered counts the bytes of the texts so far.
	rendered int
}

// What an instance may render, in bytes: one text, and all together.
const (
	maxText     = 32 << 10
	maxRendered = 1 << 20
)

// count bounds what is rendered.
func (in *instance) count(pos position, bytes int) {
	in.rendered += bytes
	switch {
	case bytes > maxText:
		in.fail(pos.errorf("this text has %d bytes once it is rendered: at most %d are allowed", bytes, maxText))
	case in.rendered > maxRendered:
		in.fail(pos.errorf("the texts of the scenario have more than %d bytes once they are rendered: write less",
			maxRendered))
	}
}

func (in *instance) eval(e *expression) ref.Val {
	if in.err != nil {
		return types.NullValue
	}
	out, err := e.eval(in.vals)
	if err != nil {
		in.err = err
		return types.NullValue
	}
	return out
}

func (in *instance) text(t text) string {
	s := in.render(&t.template)
	in.count(t.pos, len(s))
	return s
}

func (in *instance) render(t *template) string {
	if t.literal() {
		return t.text
	}
	if e := t.single(); e != nil {
		return in.format(e)
	}
	var b strings.Builder
	b.Grow(min(len(t.text), maxText)) // a value is about as long as the expression for it
	for _, p := range t.parts {
		if p.expr == nil {
			b.WriteString(p.literal)
		} else {
			b.WriteString(in.format(p.expr))
		}
		if b.Len() > maxText {
			break
		}
	}
	return b.String()
}

func (in *instance) format(e *expression) string {
	switch v := in.eval(e).(type) {
	case types.String:
		return string(v)
	case types.Int:
		return strconv.FormatInt(int64(v), 10)
	case types.Timestamp:
		return in.loc.day(v.Time)
	default:
		in.fail(e.pos.errorf("expression %.120q is %s here, which has no one form as text", e.source,
			v.Type().TypeName()))
		return ""
	}
}

func (in *instance) fail(err error) {
	if in.err == nil {
		in.err = err
	}
}

func (in *instance) texts(ts []text) []string {
	if len(ts) == 0 {
		return nil
	}
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = in.text(t)
	}
	return out
}

// evalAs evaluates a single expression to a Go value.
func evalAs[T any](in *instance, t *template, want string) T {
	v := in.eval(t.single())
	out, ok := v.Value().(T)
	if !ok && in.err == nil {
		in.fail(t.pos.errorf("expression %.120q is %s here, want %s", t.single().source, v.Type().TypeName(), want))
	}
	return out
}

func (in *instance) integer(t integer) int64 {
	if !t.given() {
		return 0
	}
	if t.literal() {
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			in.fail(t.pos.errorf("reading a whole number: %v", err))
		}
		return n
	}
	return evalAs[int64](in, &t.template, "a whole number")
}

func (in *instance) boolean(t boolean) bool {
	if t.literal() {
		return t.text == "true"
	}
	return evalAs[bool](in, &t.template, "true or false")
}

func (in *instance) instant(t instant) time.Time {
	if t.literal() {
		at, err := time.Parse(time.RFC3339, t.text)
		if err != nil && t.given() {
			in.fail(t.pos.errorf("reading a time: %v", err))
		}
		return at
	}
	return evalAs[time.Time](in, &t.template, "a time")
}

// maybeInstant is nil for a time that was not given.
func (in *instance) maybeInstant(t instant) *time.Time {
	if !t.given() {
		return nil
	}
	at := in.instant(t)
	return &at
}

func (in *instance) amount(t amount) int64 {
	if !t.given() {
		return 0
	}
	if t.literal() {
		cents, err := parseMoney(t.text)
		if err != nil {
			in.fail(t.pos.errorf("%v", err))
		}
		return cents
	}
	return evalAs[int64](in, &t.template, "money in cents")
}

func (in *instance) holds(c condition) bool {
	return c.expr == nil || in.eval(c.expr) == types.True
}

// item is embedded in list items that may be left out of an instance.
type item struct {
	When condition `yaml:"when,optional"`
}

func (i item) condition() condition { return i.When }

type conditional interface {
	condition() condition
}

// compileAll compiles every field of a decoded file, in the order of its fields. The drawing is
// compiled before, because its expressions may see only earlier variables.
func compileAll(c *compiler, v reflect.Value) {
	if v.Type() == reflect.TypeFor[drawing]() {
		return
	}
	if v.CanInterface() { // an embedded struct can't, but its fields can
		if field, ok := reflect.TypeAssert[compilable](v.Addr()); ok {
			field.compile(c)
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("yaml") != "" || v.Type().Field(i).Anonymous {
				compileAll(c, v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			compileAll(c, v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			compileAll(c, v.Elem())
		}
	default: // a plain value
	}
}

// kept maps the items whose condition holds.
func kept[T conditional, U any](in *instance, items []T, f func(T) U) []U {
	out := make([]U, 0, len(items))
	for _, item := range items {
		if in.holds(item.condition()) {
			out = append(out, f(item))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// scalars lists the scalars of a CEL value as a reply may state them.
func (in *instance) scalars(v ref.Val, out []string) []string {
	switch v := v.(type) {
	case types.String:
		return append(out, string(v))
	case types.Int:
		return append(out, strconv.FormatInt(int64(v), 10))
	case types.Timestamp:
		return in.timeForms(v.Time, out)
	case traits.Mapper:
		from := len(out)
		for it := v.Iterator(); it.HasNext() == types.True; {
			out = in.scalars(v.Get(it.Next()), out)
		}
		slices.Sort(out[from:]) // a map's own order is random
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; {
			out = in.scalars(it.Next(), out)
		}
	}
	return out
}

func (in *instance) timeForms(t time.Time, out []string) []string {
	return append(out, in.loc.day(t), t.Format(time.DateOnly), in.loc.weekday(t), t.Format("15:04"))
}

var errTooManyTries = errors.New("no draw satisfied the constraints in 100 tries: widen the params' ranges or loosen " +
	"the constraint")

func (v *values) set(name string, val ref.Val) error {
	if n := weight(val); n > maxDrawn {
		return fmt.Errorf("the value has %d bytes and items: a param holds at most %d", n, maxDrawn)
	}
	v.byName[name] = val
	return nil
}
