package expr

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/scenarios/source"
)

// directCompiler has a variable of each type, which directValues may leave out.
func directCompiler() *Compiler {
	c := NewCompiler(Locales["en"])
	c.Declare("n", cel.IntType)
	c.Declare("m", cel.IntType)
	c.Declare("yes", cel.BoolType)
	c.Declare("name", cel.StringType)
	c.Declare("now", cel.TimestampType)
	c.Declare("person", cel.MapType(cel.StringType, cel.StringType))
	c.Declare("any", cel.DynType)
	return c
}

func directValues(t *rapid.T) Values {
	moment := time.Unix(rapid.Int64Range(1.7e9, 1.8e9).Draw(t, "now"), 0).UTC()
	number := rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64())
	vals := Values{
		DrawKey: types.String("key"), "n": types.Int(number.Draw(t, "n")), "m": types.Int(number.Draw(t, "m")),
		"yes": types.Bool(rapid.Bool().Draw(t, "yes")), "name": types.String(rapid.SampledFrom([]string{"", "3d", "Zoë"}).Draw(t, "name")),
		"now":    types.Timestamp{Time: moment},
		"person": types.DefaultTypeAdapter.NativeToValue(map[string]string{"full": "Ada Byron"}),
	}
	vals["any"] = vals[rapid.SampledFrom([]string{"n", "name", "yes", "now", "person"}).Draw(t, "any")]
	if absent := rapid.SampledFrom([]string{"n", "any", "", "", "", ""}).Draw(t, "absent"); absent != "" {
		delete(vals, absent)
	}
	return vals
}

// grammar are the forms of each type of expression; a word in brackets stands for an expression of
// that type.
var grammar = map[string][]string{
	"int": {"n", "m", "0", "7", "-3", "9223372036854775807", "<int> + <int>", "<int> - <int>", "<int> * <int>", "<int> / <int>",
		"<int> % <int>", "-(<int>)", "<time>.getHours()", "size(<text>)", "usd(<int>)", "<bool> ? <int> : <int>", "sla(<text>)", "any", "int('12')"},
	"bool": {"yes", "true", "!(<bool>)", "<bool> && <bool>", "<bool> || <bool>", "<int> < <int>", "<int> <= <int>", "<int> > <int>",
		"<int> >= <int>", "<int> == <int>", "<int> != <int>", "<text> == <text>", "<text> < <text>", "<time> < <time>", "any == <int>",
		"<text>.startsWith(<text>)", "any"},
	"text": {"name", "'high'", "'-90m'", "person.full", "person.given", "<text> + <text>", "string(<int>)", "money(<int>)", "day(<time>)",
		"clock(<time>)", "<bool> ? <text> : <text>", "id('A{digits:9}', <text>)", "upper(<text>)", "any"},
	"time": {"now", "timestamp('2026-03-14T09:05:00Z')", "timestamp('2026-03-14T09:05:00+02:00')", "date(<time>, <text>)", "date(<time>, '2w')", "at(<time>, '23:59')",
		"workdays(<time>, <int>)", "<bool> ? <time> : <time>"},
}

var kinds = []string{"int", "bool", "text", "time"}

func drawExpression(t *rapid.T, kind string, depth int) string {
	forms := grammar[kind]
	if depth == 0 {
		forms = forms[:2] // those without another expression
	}
	form := rapid.SampledFrom(forms).Draw(t, kind)
	for _, kind := range kinds {
		for hole := "<" + kind + ">"; strings.Contains(form, hole); {
			form = strings.Replace(form, hole, "("+drawExpression(t, kind, depth-1)+")", 1)
		}
	}
	return form
}

// An expression has a value without CEL's interpreter if it has one with it, and that is the same.
func TestDirectFormsAreThoseOfCEL(t *testing.T) {
	forms := 0
	rapid.Check(t, func(t *rapid.T) {
		c, vals := directCompiler(), directValues(t)
		for range 40 {
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			text := drawExpression(t, kind, rapid.IntRange(0, 3).Draw(t, "depth"))
			e := c.Compile(source.Position{}, text)
			if e == nil || e.cost >= maxCost {
				continue // it has a wrong type, or may be costly
			}
			if e.direct == nil {
				if !strings.Contains(text, "any") {
					t.Fatalf("%s has no direct form", text)
				}
				continue
			}
			forms++
			want, _, err := e.Program.Eval(vals)
			got := e.direct.call(vals)
			// A disjunction or conjunction has a value in CEL although one of both has none.
			whole := vals["n"] != nil && !strings.Contains(text, "any") && !strings.Contains(text, "||") &&
				!strings.Contains(text, "&&")
			if whole && err == nil && got == nil {
				t.Fatalf("%s has no direct value, %v with CEL", text, want)
			}
			if got != nil && (err != nil || !same(got, want)) {
				t.Fatalf("%s = %v, with CEL %v, %v", text, got, want, err)
			}
		}
	})
	if forms == 0 {
		t.Error("no expression had a direct form")
	}
}

func same(a, b ref.Val) bool { return fmt.Sprintf("%T %[1]v", a) == fmt.Sprintf("%T %[1]v", b) }

func TestDirectFormsAreEvaluatedOnce(t *testing.T) {
	l, vals := directCompiler(), Values{"n": types.Int(1 << 40)}
	for text, once := range map[string]bool{"usd('12.50') * 3": true, "money(usd(3))": true, "n * usd(3)": false, "usd('x')": false} {
		e := l.Compile(source.Position{}, text)
		if e == nil {
			t.Fatal(l.Errs)
		}
		if allocs := testing.AllocsPerRun(10, func() { _ = e.direct.call(vals) }); (allocs == 0) != once {
			t.Errorf("%s is evaluated once: %v, want %v (%v allocations)", text, !once, once, allocs)
		}
	}
}

func BenchmarkEval(b *testing.B) {
	vals := Values{"n": types.Int(3), "m": types.Int(4), "now": types.Timestamp{Time: time.Unix(1.75e9, 0).UTC()}}
	for _, text := range []string{"n", "now.getHours() >= 8 && now.getHours() < 18", "n * (100 + m) / 100", "date(now, string(-n) + 'd')"} {
		c := directCompiler()
		e := c.Compile(source.Position{}, text)
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				if _, err := e.Eval(vals); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(text+"/CEL", func(b *testing.B) {
			for b.Loop() {
				if _, _, err := e.Program.Eval(vals); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
