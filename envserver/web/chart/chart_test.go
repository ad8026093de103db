package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/web/template"
)

func TestText(t *testing.T) {
	for name, tt := range map[string]struct{ got, want string }{
		"half a bar":        {Bar{"0.5", "1"}.Text(20), strings.Repeat("█", 10) + strings.Repeat("░", 10)},
		"a bar of nothing":  {Bar{"0", "0"}.Text(20), strings.Repeat("░", 20)},
		"more than offered": {Bar{"3", "2"}.Text(4), "████"},
		"an interval":       {Interval{Low: "0.2", Middle: "0.5", High: "0.8"}.Text(10), "··───●───·"},
		"a point":           {Interval{Middle: "1"}.Text(4), "···●"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", name, tt.got, tt.want)
		}
	}
}

func TestSVG(t *testing.T) {
	histogram := Histogram{}
	histogram.Counts[25], histogram.Counts[49] = 1, 4
	linked := histogram
	linked.Link = func(low, high string) string { return `/e?a="<&low=` + low + "&high=" + high }
	for name, tt := range map[string]struct {
		svg  template.HTML
		want []string
		not  string
	}{
		"an interval": {Interval{Low: "0.25", Middle: "0.5", High: "1"}.SVG(),
			[]string{`aria-label="0.5, 0.25 to 1"`, `x1="56.00" y1="8" x2="206.00"`, `cx="106.00"`}, "NaN"},
		"a point":             {Interval{Middle: "0.5"}.SVG(), []string{`aria-label="0.5"`, `cx="106.00"`}, `"range"`},
		"no figure":           {Interval{}.SVG(), []string{`class="axis"`}, "circle"},
		"beyond the axis":     {Interval{Middle: "7"}.SVG(), []string{`cx="206.00"`}, "1406"},
		"a difference":        {Interval{Middle: "-0.5", Difference: true}.SVG(), []string{`cx="56.00"`}, `"range"`},
		"a hostile figure":    {Interval{Middle: `"><script>`}.SVG(), []string{"&#34;&gt;&lt;script&gt;"}, "<script"},
		"an axis":             {Interval{}.Scale(), []string{">0<", ">0.5<", ">1<"}, "−"},
		"an axis around zero": {Interval{Difference: true}.Scale(), []string{">−1<", ">0<", ">1<"}, "0.5"},
		"a bar":               {Bar{"0.5", "2"}.SVG(), []string{`aria-label="25 %"`, `width="40.00"`}, "NaN"},
		"a bar of nothing":    {Bar{}.SVG(), []string{`aria-label="0 %"`, `width="0.00"`}, "NaN"},
		"a histogram": {histogram.SVG(), []string{`role="img" aria-label="5 episodes by score, at most 4 in a bar"`,
			"1 episode with 0.50 to 0.52", `x="600" y="16.00" width="11" height="120.00"`}, "<a "},
		"an empty histogram": {Histogram{}.SVG(), []string{"0 episodes by score"}, "NaN"},
		"links": {linked.SVG(), []string{`role="group"`, `href="/e?a=&#34;&lt;&amp;low=0.500&amp;high=0.520"`,
			`aria-label="4 episodes with 0.98 to 1.00"`}, `"<&`},
	} {
		t.Run(name, func(t *testing.T) {
			text := string(tt.svg)
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %s in %s", want, text)
				}
			}
			if strings.Contains(text, tt.not) || strings.Contains(text, "style=") {
				t.Errorf("it has %s or a style: %s", tt.not, text)
			}
			for d := xml.NewDecoder(strings.NewReader(text)); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					return
				} else if err != nil {
					t.Fatalf("%v: %s", err, text)
				}
			}
		})
	}
}
