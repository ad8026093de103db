package expr

import (
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/csenv/csenv/scenarios/source"
)

// testCompiler returns an English compiler with a variable of each type that templates use.
func testCompiler(t *testing.T) *Compiler {
	t.Helper()
	loc := Locales["en"]
	c := NewCompiler(loc)
	c.Declare("name", cel.StringType)
	c.Declare("seats", cel.IntType)
	c.Declare("due", cel.TimestampType)
	c.Declare("owes", cel.StringType)
	c.Declare("over", cel.BoolType)
	c.Declare("any", cel.DynType)
	return c
}

func testScope() *Scope {
	return &Scope{Loc: Locales["en"], Vals: Values{
		"name": types.String("Ada"), "seats": types.Int(12), "owes": types.String("9"), "over": types.True, "any": types.True,
		"due": types.Timestamp{Time: time.Date(2026, 3, 14, 9, 5, 0, 0, time.UTC)},
	}, Withheld: []string{"owes"}}
}

func scalar(text, tag string) source.Raw {
	return source.Raw{Text: text, Tag: tag, Pos: source.Position{File: "t.yaml", Line: 7}}
}

// firstError returns the message of the first fault, or "".
func firstError(c *Compiler, in *Scope) string {
	switch {
	case len(c.Errs) > 0:
		return c.Errs[0].Error()
	case in.Err != nil:
		return in.Err.Error()
	}
	return ""
}

func checkError(t *testing.T, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("error %q, want it to contain %q", got, want)
	}
}

func TestText(t *testing.T) {
	tests := map[string]struct {
		text, want, err string
	}{
		"literal":             {text: "Hello", want: "Hello"},
		"variable":            {text: "{{ name }}", want: "Ada"},
		"several":             {text: "{{ name }} has {{ seats }} seats", want: "Ada has 12 seats"},
		"time":                {text: "by {{ due }}", want: "by March 14, 2026"},
		"braces in quotes":    {text: "{{ '}}' + name }}", want: "}}Ada"},
		"escaped quote":       {text: `{{ 'a\'}}' }}`, want: "a'}}"},
		"dynamic text":        {text: "{{ dyn(name) }}", want: "Ada"},
		"optional":            {text: "{{ name }}[[ of {{ seats }}]]!", want: "Ada of 12!"},
		"withheld":            {text: "{{ name }}[[ owes {{ '$' + owes }}]]!", want: "Ada!"},
		"withheld elsewhere":  {text: "{{ owes }}[[ by {{ due }}]]", want: "9 by March 14, 2026"},
		"unclosed option":     {text: "[[ {{ name }}", err: "t.yaml:7: [[ without its ]]"},
		"misspelt option":     {text: "a [[ {{ nam }} ]]", err: `did you mean "name"?`},
		"bool in an option":   {text: "[[{{ over }}]]", err: "is bool, which has no unique form as text"},
		"unclosed":            {text: "{{ name", err: "t.yaml:7: {{ without its }}"},
		"unopened":            {text: "name }}", err: "t.yaml:7: }} without its {{"},
		"nested":              {text: "{{ {{ name }} }}", err: "{{ within {{ }}: join the pieces with +"},
		"empty expression":    {text: "{{ }}", err: "an empty expression"},
		"misspelt variable":   {text: "{{ nam }}", err: `did you mean "name"?`},
		"bool":                {text: "{{ over }}", err: "is bool, which has no unique form as text"},
		"bool of dynamic":     {text: "{{ any }}", err: "is bool here, which has no unique form as text"},
		"division by zero":    {text: "{{ seats / 0 }}", err: "division by zero"},
		"type of an operator": {text: "{{ name + seats }}", err: "no matching overload"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, in := testCompiler(t), testScope()
			f := Text{Template{Raw: scalar(tt.text, "!!str")}}
			f.Compile(c)
			got := ""
			if len(c.Errs) == 0 {
				got = in.Text(f)
			}
			checkError(t, firstError(c, in), tt.err)
			if tt.err == "" && got != tt.want {
				t.Errorf("%q renders %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestTypedFields(t *testing.T) {
	due := time.Date(2026, 3, 14, 9, 5, 0, 0, time.UTC)
	integer := func(c *Compiler, in *Scope, r source.Raw) any {
		f := Integer{Template{Raw: r}}
		if f.Compile(c); len(c.Errs) > 0 {
			return nil
		}
		return in.Integer(f)
	}
	boolean := func(c *Compiler, in *Scope, r source.Raw) any {
		f := Boolean{Template{Raw: r}}
		if f.Compile(c); len(c.Errs) > 0 {
			return nil
		}
		return in.Boolean(f)
	}
	instant := func(c *Compiler, in *Scope, r source.Raw) any {
		f := Instant{Template{Raw: r}}
		if f.Compile(c); len(c.Errs) > 0 {
			return nil
		}
		return in.Instant(f)
	}
	amount := func(c *Compiler, in *Scope, r source.Raw) any {
		f := Amount{Template{Raw: r}}
		if f.Compile(c); len(c.Errs) > 0 {
			return nil
		}
		return in.Amount(f)
	}
	condition := func(c *Compiler, in *Scope, r source.Raw) any {
		f := Condition{Raw: r}
		if f.Compile(c); len(c.Errs) > 0 {
			return nil
		}
		return in.Holds(f)
	}
	tests := map[string]struct {
		eval func(*Compiler, *Scope, source.Raw) any
		raw  source.Raw
		want any
		err  string
	}{
		"int literal":        {eval: integer, raw: scalar("12", "!!int"), want: int64(12)},
		"int expression":     {eval: integer, raw: scalar("{{ seats * 2 }}", "!!str"), want: int64(24)},
		"int left out":       {eval: integer, want: int64(0)},
		"int as text":        {eval: integer, raw: scalar("twelve", "!!str"), err: "want a whole number, got"},
		"int of text":        {eval: integer, raw: scalar("{{ name }}", "!!str"), err: "is string, want a whole number"},
		"int in octal":       {eval: integer, raw: scalar("0o14", "!!int"), err: "want a decimal whole number"},
		"int and text":       {eval: integer, raw: scalar("{{ seats }} seats", "!!str"), err: "want one expression that is"},
		"int of dynamic":     {eval: integer, raw: scalar("{{ any }}", "!!str"), err: "is bool here, want a whole number"},
		"bool literal":       {eval: boolean, raw: scalar("true", "!!bool"), want: true},
		"bool expression":    {eval: boolean, raw: scalar("{{ seats > 20 }}", "!!str"), want: false},
		"bool as text":       {eval: boolean, raw: scalar("yes", "!!str"), err: "want true or false"},
		"time literal":       {eval: instant, raw: scalar("2026-03-14T09:05:00Z", "!!str"), want: due},
		"time expression":    {eval: instant, raw: scalar("{{ due }}", "!!str"), want: due},
		"time left out":      {eval: instant, want: time.Time{}},
		"time of a day":      {eval: instant, raw: scalar("2026-03-14", "!!str"), err: "a time is written as"},
		"money literal":      {eval: amount, raw: scalar("12.50", "!!str"), want: int64(1250)},
		"money expression":   {eval: amount, raw: scalar("{{ usd(seats) }}", "!!str"), want: int64(1200)},
		"money left out":     {eval: amount, want: int64(0)},
		"money of one digit": {eval: amount, raw: scalar("12.5", "!!str"), err: "money is text with two decimals"},
		"condition":          {eval: condition, raw: scalar("seats > 10 && over", "!!str"), want: true},
		"no condition":       {eval: condition, want: true},
		"condition of int":   {eval: condition, raw: scalar("seats", "!!str"), err: "is int, want bool"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, in := testCompiler(t), testScope()
			got := tt.eval(c, in, tt.raw)
			checkError(t, firstError(c, in), tt.err)
			if tt.err == "" && got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestWeight(t *testing.T) {
	tests := map[string]struct {
		value any
		want  int
	}{
		"int":  {value: 12, want: 1},
		"text": {value: "twelve", want: 6},
		"list": {value: []string{"a", "bc"}, want: 5},
		"map":  {value: map[string]string{"a": "bc"}, want: 4},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := types.DefaultTypeAdapter.NativeToValue(tt.value)
			if got := measureValue(v); got != tt.want {
				t.Errorf("weight %d, want %d", got, tt.want)
			}
		})
	}
}
