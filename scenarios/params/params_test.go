package params

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/source"
)

// compile decodes and compiles the params of a scenario. It returns the first fault, or "".
func compile(t *testing.T, text string) (*Drawing, string) {
	t.Helper()
	d := &source.Decoder{File: "t.yaml"}
	drawing := &Drawing{}
	d.Document([]byte(text), drawing)
	if len(d.Errs) > 0 {
		return nil, d.Errs[0].Error()
	}
	names := NewNameList([]string{"Ada"}, []string{"Byron"})
	names.Lists["plans"] = []string{"Basic", "Pro"}
	c := &Compiler{Compiler: expr.NewCompiler(expr.Locales["en"]), Lists: func(id string) *NameList {
		return map[string]*NameList{"en": names}[id]
	}}
	drawing.CompileParams(c)
	if len(c.Errs) > 0 {
		return nil, c.Errs[0].Error()
	}
	return drawing, ""
}

func TestKinds(t *testing.T) {
	within := func(lo, hi, step int64) func(any) bool {
		return func(v any) bool {
			n, ok := v.(int64)
			return ok && n >= lo && n <= hi && (n-lo)%step == 0
		}
	}
	oneOf := func(values ...any) func(any) bool {
		return func(v any) bool { return slices.Contains(values, v) }
	}
	tests := map[string]struct {
		param string
		valid func(any) bool
	}{
		"int":          {param: "int: [2, 9]", valid: within(2, 9, 1)},
		"int by steps": {param: "int: [10, 40], step: 15", valid: within(10, 40, 15)},
		"money":        {param: `money: ["10.00", "12.00"], step: "0.50"`, valid: within(1000, 1200, 50)},
		"id": {param: `id: "A{digits:4}"`, valid: func(v any) bool {
			id, _ := v.(string)
			return len(id) == 5 && id[0] == 'A'
		}},
		"list":        {param: "pick: en/plans", valid: oneOf("Basic", "Pro")},
		"picked text": {param: "pick: [red, blue]", valid: oneOf("red", "blue")},
		"picked int":  {param: "pick: [3, 5]", valid: oneOf(int64(3), int64(5))},
		"picked bool": {param: "pick: [true]", valid: oneOf(true)},
		"branch":      {param: "branch: [yes please, no]", valid: oneOf("yes please", "no")},
		"expression":  {param: "expr: now.getFullYear() - 2000", valid: oneOf(int64(26))},
		"date": {param: `date: ["-2d", "-1d"], step: "1d"`, valid: func(v any) bool {
			at, ok := v.(time.Time)
			days := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC).Sub(at).Hours() / 24
			return ok && (days == 1 || days == 2)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d, fault := compile(t, "now: \"2026-03-14T09:00:00Z\"\nparams:\n  x: {"+tt.param+"}\n")
			if fault != "" {
				t.Fatal(fault)
			}
			for seed := range int64(40) {
				vals, _, err := d.Draw(Request{Salt: "salt", ID: "T1", Version: 1, Seed: seed})
				if err != nil || !tt.valid(vals["x"].Value()) {
					t.Fatalf("seed %d: %v, %v", seed, vals["x"], err)
				}
			}
		})
	}
}

func TestFaultyParams(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"no kind":           {"params: {x: {step: 1}}", `param "x" has no kind`},
		"two kinds":         {"params: {x: {int: [1, 2], person: en}}", `param "x" has both int and person: keep one`},
		"name":              {"params: {X: {int: [1, 2]}}", "a param is named in lower case"},
		"now":               {"params: {now: {int: [1, 2]}}", "and not now"},
		"variant":           {"params: {variant: {int: [1, 2]}}", "query, variant"},
		"pair of an int":    {"params: {x: {int: [1, 2], pair: p}}", "only a branch has a pair"},
		"one end":           {"params: {x: {int: [1]}}", "int requires [lowest, highest]"},
		"downwards":         {"params: {x: {int: [2, 1]}}", "the range must go upwards"},
		"uneven steps":      {"params: {x: {int: [1, 4], step: 2}}", "the range must go upwards in whole steps"},
		"step as text":      {"params: {x: {int: [1, 4], step: a}}", "step is a whole number"},
		"money":             {`params: {x: {money: ["1.00", "2"], step: "0.10"}}`, "money is text with two decimals"},
		"money of one end":  {`params: {x: {money: ["1.00"], step: "0.10"}}`, "money requires [lowest, highest]"},
		"date":              {`params: {x: {date: ["-2d", soon], step: "1d"}}`, "a length of time is"},
		"date of one end":   {`params: {x: {date: ["-2d"], step: "1d"}}`, "date requires [earliest, latest]"},
		"id":                {"params: {x: {id: abc}}", "write groups as {digits:6}"},
		"language":          {"params: {x: {person: it}}", "there is no names/it.yaml"},
		"language of list":  {"params: {x: {pick: it/plans}}", "there is no names/it.yaml"},
		"list":              {"params: {x: {pick: en/cities}}", `names/en.yaml has no list "cities"`},
		"mixed types":       {"params: {x: {pick: [1, a]}}", "the values must be of one type"},
		"template":          {`params: {x: {pick: ["{{ now }}"]}}`, "the values are not rendered"},
		"nothing to pick":   {"params: {x: {pick: []}}", `param "x" has no values to pick from`},
		"branch of one":     {"params: {x: {branch: [a]}}", "a branch has at least 2 values"},
		"expression":        {"params: {x: {expr: y}}", "undeclared reference to 'y'"},
		"time":              {"now: soon", "a time is written as"},
		"span of time":      {"now: {date: [\"2026-03-14T09:00:00Z\"], step: 1h}", "now is a time, or"},
		"later param":       {"params: {x: {expr: y}, y: {int: [1, 2]}}", "undeclared reference to 'y'"},
		"constraint of int": {"params: {x: {int: [1, 2]}}\nconstraints: [x]", "is int, want bool"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, fault := compile(t, tt.text); !strings.Contains(fault, tt.want) {
				t.Errorf("fault %q, want it to contain %q", fault, tt.want)
			}
		})
	}
}

// A constraint redraws params, but not branches: that would change the odds of their values.
func TestConstraintsRedrawParamsOnly(t *testing.T) {
	d, fault := compile(t, "params:\n  over: {branch: [true, false]}\n  sum: {int: [1, 100]}\n"+
		"constraints: [\"over == (sum > 90)\"]\n")
	if fault != "" {
		t.Fatal(fault)
	}
	over := 0
	for seed := range int64(200) {
		vals, _, err := d.Draw(Request{Salt: "salt", ID: "T1", Version: 1, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if (vals["over"] == types.True) != (vals["sum"].(types.Int) > 90) {
			t.Fatalf("seed %d breaks the constraint: %v", seed, vals)
		}
		if vals["over"] == types.True {
			over++
		}
	}
	if over < 70 || over > 130 {
		t.Errorf("of 200 seeds %d take the first value, want about 100", over)
	}
}

func TestImpossibleConstraint(t *testing.T) {
	d, fault := compile(t, "params: {x: {int: [1, 2]}}\nconstraints: [x > 2]\n")
	if fault != "" {
		t.Fatal(fault)
	}
	_, _, err := d.Draw(Request{Salt: "salt", ID: "T1", Version: 1, Seed: 5})
	if err == nil || !strings.Contains(err.Error(), `constraint "x > 2", seed 5: no draw satisfied`) {
		t.Errorf("error %v", err)
	}
}

// Fixed values are taken if the scenario could draw them. What can't be redrawn isn't tried again.
func TestFixed(t *testing.T) {
	const params = "params: {x: {int: [2, 8], step: 2}, y: {pick: [3, 5]}, z: {expr: x + 1}, b: {branch: [1, 2]}, " +
		"d: {date: [\"-2d\", \"-1d\"], step: \"1d\"}}\n"
	noon := types.Timestamp{Time: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)}
	tests := map[string]struct {
		fixed       expr.Values
		constraints string
		fits        bool
		tries       int
	}{
		"nothing":                  {fits: true, tries: 1},
		"a number":                 {fixed: expr.Values{"x": types.Int(6)}, fits: true, tries: 1},
		"a number off the steps":   {fixed: expr.Values{"x": types.Int(5)}, tries: 1},
		"a number out of range":    {fixed: expr.Values{"x": types.Int(10)}, tries: 1},
		"a picked value":           {fixed: expr.Values{"y": types.Int(5)}, fits: true, tries: 1},
		"another value":            {fixed: expr.Values{"y": types.Int(4)}, tries: 1},
		"a branch":                 {fixed: expr.Values{"b": types.Int(2)}, fits: true, tries: 1},
		"no branch":                {fixed: expr.Values{"b": types.Int(3)}, tries: 1},
		"what follows from others": {fixed: expr.Values{"x": types.Int(4), "z": types.Int(5)}, fits: true, tries: 1},
		"what doesn't follow":      {fixed: expr.Values{"x": types.Int(4), "z": types.Int(6)}, tries: 1},
		"text for a number":        {fixed: expr.Values{"x": types.String("4")}, tries: 1},
		"a time":                   {fixed: expr.Values{"now": noon}, fits: true, tries: 1},
		"a time off the steps":     {fixed: expr.Values{"now": types.Timestamp{Time: noon.Time.Add(time.Minute)}}, tries: 1},
		"a time out of range":      {fixed: expr.Values{"now": types.Timestamp{Time: noon.AddDate(1, 0, 0)}}, tries: 1},
		"a false constraint": {fixed: expr.Values{"now": noon, "x": types.Int(4)},
			constraints: "now.getHours() < 9 && z > 4", tries: 1},
		"a constraint that may become true": {fixed: expr.Values{"now": noon},
			constraints: "d.getDate() == 13 && x == 8", fits: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := params
			if tt.constraints != "" {
				text += "constraints: [\"" + tt.constraints + "\"]\n"
			}
			d, fault := compile(t, text)
			if fault != "" {
				t.Fatal(fault)
			}
			vals, tries, err := d.Draw(Request{Salt: "salt", ID: "T1", Seed: 7, Fixed: tt.fixed})
			if (err == nil) != tt.fits || tt.tries > 0 && tries != tt.tries {
				t.Fatalf("%d tries, error %v", tries, err)
			}
			for name, want := range tt.fixed {
				if tt.fits && vals[name].Equal(want) != types.True {
					t.Errorf("%s is %v, want %v", name, vals[name], want)
				}
			}
		})
	}
}

// Further rounds draw other values, but the same branches.
func TestRounds(t *testing.T) {
	d, fault := compile(t, "params: {x: {int: [1, 1000000]}, b: {branch: [1, 2]}}\n")
	if fault != "" {
		t.Fatal(fault)
	}
	seen := map[any]bool{}
	for round := range 20 {
		vals, _, err := d.Draw(Request{Salt: "salt", ID: "T1", Seed: 7, Round: round})
		if err != nil {
			t.Fatal(err)
		}
		seen[vals["x"].Value()], seen[vals["b"]] = true, true
	}
	if len(seen) != 21 {
		t.Errorf("20 rounds draw %v, want 20 numbers and one branch", seen)
	}
}
