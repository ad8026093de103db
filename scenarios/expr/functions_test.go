package expr

import (
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/scenarios/source"
)

// evaluate compiles and evaluates one text template in a language.
func evaluate(language, template string) (string, error) {
	loc := Locales[language]
	c := NewCompiler(loc)
	t := Text{}
	t.Raw = source.Raw{Text: template, Tag: "!!str", Pos: source.Position{File: "t.yaml", Line: 1}}
	t.Compile(c)
	if len(c.Errs) > 0 {
		return "", c.Errs[0]
	}
	vals := Values{DrawKey: types.String(NewStreamKey("csenv/public", "X", 1, 7))}
	in := &Scope{Vals: vals, Loc: loc}
	out := in.Text(t)
	return out, in.Err
}

const saturday = "timestamp('2026-03-14T09:05:00Z')"

func TestFunctions(t *testing.T) {
	tests := map[string]struct {
		language, template, want string
		err                      string
	}{
		"money, English":     {"en", "{{ money(148200) }}", "$1,482.00", ""},
		"money, German":      {"de", "{{ money(148200) }}", "1.482,00\u00a0$", ""},
		"money, Spanish":     {"es", "{{ money(123456789) }}", "1.234.567,89\u00a0$", ""},
		"money, French":      {"fr", "{{ money(148205) }}", "1\u00a0482,05\u00a0$", ""},
		"money below zero":   {"en", "{{ money(-5) }}", "-$0.05", ""},
		"money of a literal": {"en", "{{ money(usd('12.50')) }}", "$12.50", ""},
		"usd of ints":        {"en", "{{ usd(200) }}", "20000", ""},
		"usd too large":      {"en", "{{ usd(9223372036854775807) }}", "", "overflow"},
		"usd of no money":    {"en", "{{ usd('12.5') }}", "", "two decimals"},
		"number": {"en", "{{ number(999) }} {{ number(-1000) }} {{ number(1234567) }}",
			"999 -1,000 1,234,567", ""},
		"day, English":   {"en", "{{ day(" + saturday + ") }}", "March 14, 2026", ""},
		"day, German":    {"de", "{{ day(" + saturday + ") }}", "14. März 2026", ""},
		"day, Spanish":   {"es", "{{ day(" + saturday + ") }}", "14 de marzo de 2026", ""},
		"day, French":    {"fr", "{{ day(" + saturday + ") }}", "14 mars 2026", ""},
		"a time as text": {"en", "on {{ " + saturday + " }}", "on March 14, 2026", ""},
		"weekday":        {"fr", "{{ weekday(" + saturday + ") }}", "samedi", ""},
		"clock and iso": {"en", "{{ clock(" + saturday + ") }} {{ iso(" + saturday + ") }}", "09:05 2026-03-14",
			""},
		"date": {"en", "{{ iso(date(" + saturday + ", '2w')) }} {{ clock(date(" + saturday +
			", '-90m')) }}", "2026-03-28 07:35", ""},
		"date of no span":    {"en", "{{ date(" + saturday + ", 'soon') }}", "", "a length of time is"},
		"at":                 {"en", "{{ clock(at(" + saturday + ", '23:59')) }}", "23:59", ""},
		"at no time":         {"en", "{{ at(" + saturday + ", '25:00') }}", "", "a time of day is written as"},
		"workdays forwards":  {"en", "{{ iso(workdays(" + saturday + ", 5)) }}", "2026-03-20", ""},
		"workdays backwards": {"en", "{{ iso(workdays(" + saturday + ", -1)) }}", "2026-03-13", ""},
		"too many workdays":  {"en", "{{ workdays(" + saturday + ", 1000000000) }}", "", "at most 1000 days"},
		"sla": {"en", "{{ sla('urgent') }} {{ sla('high') }} {{ sla('medium') }} {{ sla('low') }}",
			"60 240 1440 4320", ""},
		"sla of nothing": {"en", "{{ sla('top') }}", "", `"top" is not a priority`},
		"sum":            {"en", "{{ sum([1, 2, 3]) }} {{ sum([]) }}", "6 0", ""},
		"sum of text":    {"en", "{{ sum(['a']) }}", "", "sum adds whole numbers"},
		"case":           {"en", "{{ lower('ÀB') }}{{ upper('ß') }}", "àbß", ""},
		"the same id":    {"en", "{{ id('A{digits:9}') == id('A{digits:9}') ? 'same' : 'other' }}", "same", ""},
		"a second id": {"en", "{{ id('A{digits:9}') == id('A{digits:9}', '2') ? 'same' : 'other' }}", "other",
			""},
		"id of no pattern":     {"en", "{{ id('A') }}", "", "write groups as"},
		"braces in an literal": {"en", "{{ {'a': {'b': '}}'}}['a']['b'] }}.", "}}.", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := evaluate(tt.language, tt.template)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%s: error %v, want it to contain %q", tt.template, err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("%s = %q, %v; want %q", tt.template, got, err, tt.want)
			}
		})
	}
}

func luhnValid(id string) bool {
	sum, double := 0, false
	for i := len(id) - 1; i >= 0; i-- {
		if id[i] < '0' || id[i] > '9' {
			continue
		}
		d := int(id[i] - '0')
		if double {
			d *= 2
			if d > 9 {
				d -= 9
			}
		}
		sum, double = sum+d, !double
	}
	return sum%10 == 0
}

func TestIDsHaveACheckDigit(t *testing.T) {
	patterns := []string{"LD-{digits:6}", "{digits:1}", "A{letters:2}{digits:3}-{digits:4}X", "9{digits:12}"}
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SampledFrom(patterns).Draw(t, "pattern")
		p, err := ParseIDPattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		id := p.Draw(&Stream{state: rapid.Uint64().Draw(t, "state")})
		if !luhnValid(id) {
			t.Fatalf("%s of %s has a wrong check digit", id, pattern)
		}
		if strings.ContainsAny(id, "IO") {
			t.Fatalf("%s contains a letter similar to a digit", id)
		}
	})
}

func TestAddWorkdays(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		from := start.AddDate(0, 0, rapid.IntRange(0, 400).Draw(t, "day"))
		n := rapid.Int64Range(1, 30).Draw(t, "n")
		to, err := addWorkdays(from, n)
		if err != nil {
			t.Fatal(err)
		}
		counted := int64(0)
		for d := from.AddDate(0, 0, 1); !d.After(to); d = d.AddDate(0, 0, 1) {
			if d.Weekday() != time.Saturday && d.Weekday() != time.Sunday {
				counted++
			}
		}
		if counted != n || to.Weekday() == time.Saturday || to.Weekday() == time.Sunday {
			t.Fatalf("%s + %d workdays = %s, %d workdays on", from, n, to, counted)
		}
	})
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{"-90m": -90 * time.Minute, "+2h": 2 * time.Hour, "21d": 504 * time.Hour,
		"2w": 336 * time.Hour, "000001m": time.Minute, "-999999m": -999999 * time.Minute} {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("%q = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "-m", "--1m", "+-1m", "-+1m", "1", "1s", "1_0m", " 1m", "1m ", "0x1m", "1.5h", "1000000m", "１m"} {
		if got, err := ParseSpan(text); err == nil {
			t.Errorf("%q = %v, want an error", text, got)
		}
	}
}
