package expr

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/csenv/csenv/scenarios/text"
	"github.com/csenv/csenv/scenarios/triage"
)

// DrawKey is the hidden variable that contains the instance's stream key for id().
const DrawKey = "__draw"

// newEnvironment makes the CEL environment of one language: the standard library of CEL and the
// functions of scenario files.
func newEnvironment(loc *Locale) (*cel.Env, error) {
	return cel.NewEnv(
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.Variable(DrawKey, cel.StringType),
		cel.Macros(cel.GlobalMacro("id", 1, expandID), cel.GlobalMacro("id", 2, expandID)),
		cel.Function("draw_id", cel.Overload("draw_id_string", []*cel.Type{cel.StringType, cel.StringType,
			cel.StringType}, cel.StringType, cel.FunctionBinding(drawID))),
		cel.Function("usd",
			cel.Overload("usd_int", []*cel.Type{cel.IntType}, cel.IntType,
				cel.UnaryBinding(func(v ref.Val) ref.Val { return v.(types.Int).Multiply(types.Int(100)) })),
			cel.Overload("usd_string", []*cel.Type{cel.StringType}, cel.IntType, bindUnary(ParseMoney, toInt))),
		cel.Function("money", cel.Overload("money_int", []*cel.Type{cel.IntType}, cel.StringType,
			bindUnary(withNilError(loc.Money), toText))),
		cel.Function("number", cel.Overload("number_int", []*cel.Type{cel.IntType}, cel.StringType,
			bindUnary(withNilError(loc.number), toText))),
		cel.Function("day", onTime("day", loc.Day)),
		cel.Function("weekday", onTime("weekday", loc.weekday)),
		cel.Function("clock", onTime("clock", func(t time.Time) string { return t.Format("15:04") })),
		cel.Function("iso", onTime("iso", func(t time.Time) string { return t.Format(time.DateOnly) })),
		cel.Function("date", cel.Overload("date_string", []*cel.Type{cel.TimestampType, cel.StringType},
			cel.TimestampType, bindTimeShift(moveTime))),
		cel.Function("at", cel.Overload("at_string", []*cel.Type{cel.TimestampType, cel.StringType}, cel.TimestampType,
			bindTimeShift(atClock))),
		cel.Function("workdays", cel.Overload("workdays_int", []*cel.Type{cel.TimestampType, cel.IntType},
			cel.TimestampType, bindTimeShift(addWorkdays))),
		cel.Function("sla", cel.Overload("sla_string", []*cel.Type{cel.StringType}, cel.IntType,
			bindUnary(triage.SLAMinutes, toInt))),
		cel.Function("sum", cel.Overload("sum_list", []*cel.Type{cel.ListType(cel.DynType)}, cel.IntType,
			cel.UnaryBinding(sumList))),
		cel.Function("lower", cel.Overload("lower_string", []*cel.Type{cel.StringType}, cel.StringType,
			bindUnary(withNilError(strings.ToLower), toText))),
		cel.Function("upper", cel.Overload("upper_string", []*cel.Type{cel.StringType}, cel.StringType,
			bindUnary(withNilError(strings.ToUpper), toText))),
	)
}

func toText(s string) ref.Val { return types.String(s) }
func toInt(i int64) ref.Val   { return types.Int(i) }

func withNilError[A, B any](f func(A) B) func(A) (B, error) {
	return func(a A) (B, error) { return f(a), nil }
}

// bindUnary binds a Go function to a CEL string, int or timestamp. The checker guarantees the type.
func bindUnary[A, B any](f func(A) (B, error), wrap func(B) ref.Val) cel.OverloadOpt {
	return cel.UnaryBinding(func(v ref.Val) ref.Val {
		out, err := f(ToNative[A](v))
		if err != nil {
			return types.WrapErr(err)
		}
		return wrap(out)
	})
}

// bindTimeShift binds a Go function that shifts a time.
func bindTimeShift[A any](f func(time.Time, A) (time.Time, error)) cel.OverloadOpt {
	return cel.BinaryBinding(func(t, arg ref.Val) ref.Val {
		out, err := f(ToNative[time.Time](t), ToNative[A](arg))
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Timestamp{Time: out}
	})
}

// ToNative unwraps a CEL string, int or timestamp.
func ToNative[T any](v ref.Val) T {
	out, _ := v.Value().(T)
	return out
}

func onTime(name string, f func(time.Time) string) cel.FunctionOpt {
	return cel.Overload(name+"_timestamp", []*cel.Type{cel.TimestampType}, cel.StringType,
		bindUnary(withNilError(f), toText))
}

var moneyForm = regexp.MustCompile(`^-?[0-9]{1,12}\.[0-9]{2}$`)

// ParseMoney reads dollars with two decimals into cents.
func ParseMoney(s string) (int64, error) {
	if !moneyForm.MatchString(s) {
		return 0, fmt.Errorf("money is text with two decimals, such as \"49.00\", got %q", s)
	}
	return strconv.ParseInt(strings.Replace(s, ".", "", 1), 10, 64)
}

// ParseSpan reads a length of time such as "-90m", "2h", "21d" or "2w".
func ParseSpan(s string) (time.Duration, error) {
	if digits := strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+"); len(digits) >= 2 && len(digits) <= 7 {
		last := len(s) - 1
		n, err := strconv.Atoi(s[:last])
		if unit := spanUnit(s[last]); err == nil && unit > 0 {
			return time.Duration(n) * unit, nil
		}
	}
	return 0, fmt.Errorf("a length of time is a whole number with m, h, d or w, such as \"-90m\" or \"21d\", got %q", s)
}

// spanUnit returns the unit of a letter, 0 for others.
func spanUnit(letter byte) time.Duration {
	switch letter {
	case 'm':
		return time.Minute
	case 'h':
		return time.Hour
	case 'd':
		return 24 * time.Hour
	case 'w':
		return 7 * 24 * time.Hour
	}
	return 0
}

func moveTime(t time.Time, span string) (time.Time, error) {
	d, err := ParseSpan(span)
	return t.Add(d), err
}

func atClock(t time.Time, clock string) (time.Time, error) {
	c, err := time.Parse("15:04", clock)
	if err != nil {
		return t, fmt.Errorf("a time of day is written as \"23:59\", got %q", clock)
	}
	return time.Date(t.Year(), t.Month(), t.Day(), c.Hour(), c.Minute(), 0, 0, time.UTC), nil
}

// addWorkdays adds days, counting Monday to Friday.
func addWorkdays(t time.Time, n int64) (time.Time, error) {
	if n < -1000 || n > 1000 {
		return t, fmt.Errorf("workdays moves by at most 1000 days, got %d", n)
	}
	return text.AddBusinessDays(t, int(n)), nil
}

func sumList(v ref.Val) ref.Val {
	var total ref.Val = types.IntZero
	for it := v.(traits.Iterable).Iterator(); it.HasNext() == types.True; {
		n, ok := it.Next().(types.Int)
		if !ok {
			return types.NewErr("sum adds whole numbers")
		}
		total = n.Add(total)
	}
	return total
}

// expandID passes the instance's stream key to id(): the checker and the interpreter read
// id(pattern) as draw_id(__draw, pattern, "").
func expandID(f cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	label := f.NewLiteral(types.String(""))
	if len(args) == 2 {
		label = args[1]
	}
	return f.NewCall("draw_id", f.NewIdent(DrawKey), args[0], label), nil
}

func drawID(args ...ref.Val) ref.Val {
	pattern, label := ToNative[string](args[1]), ToNative[string](args[2])
	p, err := ParseIDPattern(pattern)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.String(p.Draw(StreamKey(ToNative[string](args[0])).Stream("id:" + pattern + ":" + label)))
}
