package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/csenv/csenv/scenarios/source"
)

// Values are the variables of one instance.
type Values map[string]ref.Val

// ResolveName implements cel.Activation.
func (v Values) ResolveName(name string) (any, bool) {
	val, ok := v[name]
	return val, ok
}

// Parent implements cel.Activation.
func (v Values) Parent() cel.Activation { return nil }

// Eval evaluates the expression. An error contains the expression.
func (e *Expression) Eval(v Values) (ref.Val, error) {
	if e.direct != nil {
		if val := e.direct.call(v); val != nil {
			return val, nil
		}
	}
	out, _, err := e.Program.Eval(v)
	if err != nil {
		return nil, e.pos.Errorf("expression %.120q: %v", e.Source, err)
	}
	return out, nil
}

// Set sets a variable.
func (v Values) Set(name string, val ref.Val) error {
	if n := measureValue(val); n > maxDrawn {
		return fmt.Errorf("the value has %d bytes and items: a param holds at most %d", n, maxDrawn)
	}
	v[name] = val
	return nil
}

// Scope evaluates a scenario's fields with the values of one seed. It keeps the first fault and
// returns zero values after it.
type Scope struct {
	Vals Values
	Loc  *Locale
	Err  error
	// Withheld are the variables without which [[ ]] is left out.
	Withheld []string
	// Rendered counts the bytes of the texts so far.
	Rendered int
}

// The limits of an instance's rendered texts, in bytes: of one text, and of all.
const (
	maxText     = 32 << 10
	maxRendered = 1 << 20
)

// Count adds to the rendered bytes, and fails if they exceed a limit.
func (in *Scope) Count(pos source.Position, bytes int) {
	in.Rendered += bytes
	switch {
	case bytes > maxText:
		in.Fail(pos.Errorf("this text has %d bytes once it is rendered: at most %d are allowed", bytes, maxText))
	case in.Rendered > maxRendered:
		in.Fail(pos.Errorf("the texts of the scenario have more than %d bytes once they are rendered: write less",
			maxRendered))
	}
}

// Eval evaluates an expression.
func (in *Scope) Eval(e *Expression) ref.Val {
	if in.Err != nil {
		return types.NullValue
	}
	out, err := e.Eval(in.Vals)
	if err != nil {
		in.Err = err
		return types.NullValue
	}
	return out
}

// Text renders a text.
func (in *Scope) Text(t Text) string {
	s := in.render(&t.Template)
	in.Count(t.Pos, len(s))
	return s
}

func (in *Scope) render(t *Template) string {
	if t.Literal() {
		return t.Text
	}
	if e := t.Single(); e != nil {
		return in.Format(e)
	}
	var b strings.Builder
	b.Grow(min(len(t.Text), maxText)) // a value is about as long as its expression
	for _, p := range t.parts {
		switch {
		case p.expr != nil:
			b.WriteString(in.Format(p.expr))
		case p.optional == nil:
			b.WriteString(p.literal)
		case !p.optional.uses(in.Withheld):
			b.WriteString(in.render(p.optional))
		}
		if b.Len() > maxText {
			break
		}
	}
	return b.String()
}

// Format formats an expression's value as text.
func (in *Scope) Format(e *Expression) string {
	switch v := in.Eval(e).(type) {
	case types.String:
		return string(v)
	case types.Int:
		return strconv.FormatInt(int64(v), 10)
	case types.Timestamp:
		return in.Loc.Day(v.Time)
	default:
		in.Fail(e.pos.Errorf("expression %.120q is %s here, which has no unique form as text", e.Source,
			v.Type().TypeName()))
		return ""
	}
}

// Fail records the first error.
func (in *Scope) Fail(err error) {
	if in.Err == nil {
		in.Err = err
	}
}

// Texts renders texts.
func (in *Scope) Texts(ts []Text) []string {
	if len(ts) == 0 {
		return nil
	}
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = in.Text(t)
	}
	return out
}

// evalAs evaluates a single expression to a Go value.
func evalAs[T any](in *Scope, t *Template, want string) T {
	v := in.Eval(t.Single())
	out, ok := v.Value().(T)
	if !ok && in.Err == nil {
		in.Fail(t.Pos.Errorf("expression %.120q is %s here, want %s", t.Single().Source, v.Type().TypeName(), want))
	}
	return out
}

// Integer evaluates a whole number.
func (in *Scope) Integer(t Integer) int64 {
	if !t.Given() {
		return 0
	}
	if t.Literal() {
		n, err := t.Int()
		if err != nil {
			in.Fail(err)
		}
		return n
	}
	return evalAs[int64](in, &t.Template, "a whole number")
}

// Boolean evaluates a boolean.
func (in *Scope) Boolean(t Boolean) bool {
	if t.Literal() {
		return t.Text == "true"
	}
	return evalAs[bool](in, &t.Template, "true or false")
}

// Instant evaluates a time. It is zero if it was not given.
func (in *Scope) Instant(t Instant) time.Time {
	if t.Literal() {
		at, err := time.Parse(time.RFC3339, t.Text)
		if err != nil && t.Given() {
			in.Fail(t.Pos.Errorf("reading a time: %v", err))
		}
		return at
	}
	return evalAs[time.Time](in, &t.Template, "a time")
}

// Amount evaluates an amount, in cents.
func (in *Scope) Amount(t Amount) int64 {
	if !t.Given() {
		return 0
	}
	if t.Literal() {
		cents, err := ParseMoney(t.Text)
		if err != nil {
			in.Fail(t.Pos.Errorf("%v", err))
		}
		return cents
	}
	return evalAs[int64](in, &t.Template, "money in cents")
}

// Holds evaluates a condition.
func (in *Scope) Holds(c Condition) bool {
	return c.Expr == nil || in.Eval(c.Expr) == types.True
}

// Filter returns the items whose condition is true.
func Filter[T conditional](in *Scope, items []T) []*T {
	out := make([]*T, 0, len(items))
	for i := range items {
		if in.Holds(items[i].condition()) {
			out = append(out, &items[i])
		}
	}
	return out
}

// FilterMap maps the items whose condition is true.
func FilterMap[T conditional, U any](in *Scope, items []T, f func(T) U) []U {
	if len(items) == 0 {
		return nil
	}
	out := make([]U, 0, len(items))
	for _, item := range items {
		if in.Holds(item.condition()) {
			out = append(out, f(item))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Scalars lists the scalars of a CEL value in the forms that a reply may state.
func (in *Scope) Scalars(v ref.Val, out []string) []string {
	switch v := v.(type) {
	case types.String:
		return append(out, string(v))
	case types.Int:
		return append(out, strconv.FormatInt(int64(v), 10))
	case types.Timestamp:
		return in.TimeForms(v.Time, out)
	case traits.Mapper:
		from := len(out)
		for it := v.Iterator(); it.HasNext() == types.True; {
			out = in.Scalars(v.Get(it.Next()), out)
		}
		slices.Sort(out[from:]) // the order of a map is random
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; {
			out = in.Scalars(it.Next(), out)
		}
	}
	return out
}

// TimeForms appends the accepted forms of a time.
func (in *Scope) TimeForms(t time.Time, out []string) []string {
	return append(out, in.Loc.Day(t), t.Format(time.DateOnly), in.Loc.weekday(t), t.Format("15:04"))
}
