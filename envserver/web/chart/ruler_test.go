package chart

import (
	"strings"
	"testing"
)

func TestRuler(t *testing.T) {
	r := Ruler{Name: "pass rate", Low: "0.4", High: "0.6", Marks: []Mark{{RunMark, "this run", "0.5"},
		{MissedMark, "threshold, missed", "0.75"}, {BaselineMark, "baseline first", "1"}, {"oracle", "the agent oracle", "1"},
		{"noop", "the agent <noop>", "0"}}}
	got := string(r.SVG())
	for _, want := range []string{
		`role="img" aria-label="pass rate from 0 to 1: this run 0.5, from 0.4 to 0.6; threshold, missed 0.75; baseline ` +
			`first 1; the agent oracle 1; the agent &lt;noop&gt; 0"`,
		`<line class="range" x1="126.00" y1="39" x2="186.00" y2="39"/>`, // three lanes above the line
		`<line class="bound missed" x1="231.00" y1="30" x2="231.00" y2="48"/>`,
		`transform="translate(306.00 26)"`, `transform="translate(306.00 13)"`, `transform="translate(6.00 26)"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a number is missing: %s", got)
	}
	if symbol := string(r.Marks[1].Symbol()); !strings.Contains(symbol, `aria-hidden="true"`) ||
		strings.Contains(symbol, "%!") {
		t.Errorf("the symbol is %s", symbol)
	}
}
