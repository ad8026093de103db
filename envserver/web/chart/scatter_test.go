package chart

import (
	"strings"
	"testing"
)

// A scatter names few points, escapes their names, and joins those of a history.
func TestScatter(t *testing.T) {
	s := Scatter{Name: "Score against cost", Low: "0", High: "cost 2.00", Points: []Point{
		{Name: `<b>"cheap"`, X: .25, Y: "0.5", At: "0.50"}, {Name: "dear", X: 1, Y: "1.0000", At: "2.00"}}}
	drawn := string(s.SVG())
	for _, want := range []string{`aria-label="Score against cost. &lt;b&gt;&#34;cheap&#34;: 0.5 at 0.50; dear: 1.0000 at 2.00"`,
		`cx="128.0" cy="85.0"`, `cx="428.0" cy="10.0"`, `text-anchor="start">&lt;b&gt;&#34;cheap&#34;</text>`, "cost 2.00</text>"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("no %s in %s", want, drawn)
		}
	}
	s.Joined = true
	if drawn = string(s.SVG()); !strings.Contains(drawn, `points="128.0,85.0 428.0,10.0"`) || strings.Contains(drawn, ">dear<") {
		t.Errorf("the points aren't joined: %s", drawn)
	}
}
