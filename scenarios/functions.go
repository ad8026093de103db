package scenarios

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
)

// drawKey is the hidden variable that carries the instance's stream key to id().
const drawKey = "__draw"

// newLanguage makes the CEL environment of one language: the standard library of CEL and the
// functions of scenario files.
func newLanguage(loc *locale) (*cel.Env, error) {
	return cel.NewEnv(
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.Variable(drawKey, cel.StringType),
		cel.Macros(cel.GlobalMacro("id", 1, expandID), cel.GlobalMacro("id", 2, expandID)),
		cel.Function("draw_id", cel.Overload("draw_id_string", []*cel.Type{cel.StringType, cel.StringType,
			cel.StringType}, cel.StringType, cel.FunctionBinding(drawID))),
		cel.Function("usd",
			cel.Overload("usd_int", []*cel.Type{cel.IntType}, cel.IntType,
				cel.UnaryBinding(func(v ref.Val) ref.Val { return v.(types.Int).Multiply(types.Int(100)) })),
			cel.Overload("usd_string", []*cel.Type{cel.StringType}, cel.IntType, unary(parseMoney, toInt))),
		cel.Function("money", cel.Overload("money_int", []*cel.Type{cel.IntType}, cel.StringType,
			unary(infallible(loc.money), toText))),
		cel.Function("number", cel.Overload("number_int", []*cel.Type{cel.IntType}, cel.StringType,
			unary(infallible(loc.number), toText))),
		cel.Function("day", onTime("day", loc.day)),
		cel.Function("weekday", onTime("weekday", loc.weekday)),
		cel.Function("clock", onTime("clock", func(t time.Time) string { return t.Format("15:04") })),
		cel.Function("iso", onTime("iso", func(t time.Time) string { return t.Format(time.DateOnly) })),
		cel.Function("date", cel.Overload("date_string", []*cel.Type{cel.TimestampType, cel.StringType},
			cel.TimestampType, moving(moveTime))),
		cel.Function("at", cel.Overload("at_string", []*cel.Type{cel.TimestampType, cel.StringType}, cel.TimestampType,
			moving(atClock))),
		cel.Function("workdays", cel.Overload("workdays_int", []*cel.Type{cel.TimestampType, cel.IntType},
			cel.TimestampType, moving(addWorkdays))),
		cel.Function("sla", cel.Overload("sla_string", []*cel.Type{cel.StringType}, cel.IntType,
			unary(slaMinutes, toInt))),
		cel.Function("sum", cel.Overload("sum_list", []*cel.Type{cel.ListType(cel.DynType)}, cel.IntType,
			cel.UnaryBinding(sumList))),
		cel.Function("lower", cel.Overload("lower_string", []*cel.Type{cel.StringType}, cel.StringType,
			unary(infallible(strings.ToLower), toText))),
		cel.Function("upper", cel.Overload("upper_string", []*cel.Type{cel.StringType}, cel.StringType,
			unary(infallible(strings.ToUpper), toText))),
	)
}

func toText(s string) ref.Val { return types.String(s) }
func toInt(i int64) ref.Val   { return types.Int(i) }

func infallible[A, B any](f func(A) B) func(A) (B, error) {
	return func(a A) (B, error) { return f(a), nil }
}

// unary binds a Go function of a CEL string, int or timestamp; the checker has made sure of the
// type.
func unary[A, B any](f func(A) (B, error), wrap func(B) ref.Val) cel.OverloadOpt {
	return cel.UnaryBinding(func(v ref.Val) ref.Val {
		out, err := f(native[A](v))
		if err != nil {
			return types.WrapErr(err)
		}
		return wrap(out)
	})
}

// moving binds a Go function that moves a time.
func moving[A any](f func(time.Time, A) (time.Time, error)) cel.OverloadOpt {
	return cel.BinaryBinding(func(t, arg ref.Val) ref.Val {
		out, err := f(native[time.Time](t), native[A](arg))
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Timestamp{Time: out}
	})
}

// native unwraps a CEL string, int or timestamp.
func native[T any](v ref.Val) T {
	out, _ := v.Value().(T)
	return out
}

func onTime(name string, f func(time.Time) string) cel.FunctionOpt {
	return cel.Overload(name+"_timestamp", []*cel.Type{cel.TimestampType}, cel.StringType, unary(infallible(f), toText))
}

var moneyForm = regexp.MustCompile(`^-?[0-9]{1,12}\.[0-9]{2}$`)

// parseMoney reads dollars with two decimals into cents.
func parseMoney(s string) (int64, error) {
	if !moneyForm.MatchString(s) {
		return 0, fmt.Errorf("money is text with two decimals, such as \"49.00\", got %q", s)
	}
	return strconv.ParseInt(strings.Replace(s, ".", "", 1), 10, 64)
}

var spanForm = regexp.MustCompile(`^([+-]?[0-9]{1,6})([mhdw])$`)

// parseSpan reads a length of time such as "-90m", "2h", "21d" or "2w".
func parseSpan(s string) (time.Duration, error) {
	m := spanForm.FindStringSubmatch(s)
	if m == nil {
		return 0,
			fmt.Errorf("a length of time is a whole number with m, h, d or w, such as \"-90m\" or \"21d\", got %q", s)
	}
	n, err := strconv.Atoi(m[1])
	units := map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
	return time.Duration(n) * units[m[2]], err
}

func moveTime(t time.Time, span string) (time.Time, error) {
	d, err := parseSpan(span)
	return t.Add(d), err
}

func atClock(t time.Time, clock string) (time.Time, error) {
	c, err := time.Parse("15:04", clock)
	if err != nil {
		return t, fmt.Errorf("a time of day is written as \"23:59\", got %q", clock)
	}
	return time.Date(t.Year(), t.Month(), t.Day(), c.Hour(), c.Minute(), 0, 0, time.UTC), nil
}

// addWorkdays moves by days from Monday to Friday.
func addWorkdays(t time.Time, n int64) (time.Time, error) {
	if n < -1000 || n > 1000 {
		return t, fmt.Errorf("workdays moves by at most 1000 days, got %d", n)
	}
	step := 1
	if n < 0 {
		step, n = -1, -n
	}
	// A weekend's days count as the workday before the step, so that whole weeks can be taken at
	// once.
	for t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
		if n == 0 {
			return t, nil
		}
		t = t.AddDate(0, 0, -step)
	}
	t = t.AddDate(0, 0, step*int(n/5*7))
	for n %= 5; n > 0; {
		t = t.AddDate(0, 0, step)
		if t.Weekday() != time.Saturday && t.Weekday() != time.Sunday {
			n--
		}
	}
	return t, nil
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

// expandID hands id() the instance's stream key: id(pattern) is draw_id(__draw, pattern, "") to the
// checker and the interpreter.
func expandID(f cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	label := f.NewLiteral(types.String(""))
	if len(args) == 2 {
		label = args[1]
	}
	return f.NewCall("draw_id", f.NewIdent(drawKey), args[0], label), nil
}

func drawID(args ...ref.Val) ref.Val {
	pattern, label := native[string](args[1]), native[string](args[2])
	p, err := parseIDPattern(pattern)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.String(p.draw(streamKey(native[string](args[0])).stream("id:" + pattern + ":" + label)))
}

// idPattern makes ids: literals, capitals without I and O, and digits. The last digit of the last
// group of digits is a Luhn check digit over all digits of the id.
type idPattern []idPart

type idPart struct {
	literal string
	class   string // digits or letters
	count   int
}

var idGroup = regexp.MustCompile(`\{(digits|letters):([0-9]{1,2})\}`)

// maxIDLength bounds an id, in bytes.
const maxIDLength = 64

func parseIDPattern(pattern string) (idPattern, error) {
	var p idPattern
	rest, digits := pattern, false
	for loc := idGroup.FindStringSubmatchIndex(rest); loc != nil; loc = idGroup.FindStringSubmatchIndex(rest) {
		count, err := strconv.Atoi(rest[loc[4]:loc[5]])
		if err != nil || count == 0 {
			return nil, fmt.Errorf("id pattern %q: a group has at least 1 character", pattern)
		}
		class := rest[loc[2]:loc[3]]
		digits = digits || class == "digits"
		p = append(p, idPart{literal: rest[:loc[0]]}, idPart{class: class, count: count})
		rest = rest[loc[1]:]
	}
	if !digits || strings.ContainsAny(rest, "{}") {
		return nil, fmt.Errorf("id pattern %q: write groups as {digits:6} or {letters:2}, with at least one of digits",
			pattern)
	}
	if p = append(p, idPart{literal: rest}); p.length() > maxIDLength {
		return nil, fmt.Errorf("id pattern %.80q makes ids of %d characters: at most %d are allowed", pattern,
			p.length(), maxIDLength)
	}
	return p, nil
}

func (p idPattern) length() int {
	n := 0
	for _, part := range p {
		n += len(part.literal) + part.count
	}
	return n
}

func (p idPattern) draw(s *stream) string {
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
	var buf [maxIDLength]byte
	b := buf[:0]
	check := -1
	for _, part := range p {
		b = append(b, part.literal...)
		for range part.count {
			if part.class == "letters" {
				b = append(b, letters[s.below(uint64(len(letters)))])
				continue
			}
			check = len(b)
			b = append(b, "0123456789"[s.below(10)])
		}
	}
	b[check] = luhnDigit(b, check)
	return string(b)
}

// luhnDigit is the digit that, at position check, makes the Luhn sum (ISO/IEC 7812-1, annex B) over
// all digits of id divisible by ten. No digit may follow check.
func luhnDigit(id []byte, check int) byte {
	sum, double := 0, true
	for i := check - 1; i >= 0; i-- {
		if id[i] < '0' || id[i] > '9' {
			continue
		}
		d := int(id[i] - '0')
		if double {
			d = d*2/10 + d*2%10
		}
		sum, double = sum+d, !double
	}
	return byte('0' + (10-sum%10)%10)
}
