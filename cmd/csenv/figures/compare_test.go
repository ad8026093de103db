package figures

import (
	"encoding/json"
	"testing"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/stats"
)

func TestComparisonText(t *testing.T) {
	interval := func(low, high int64) score.Comparison {
		deviation := int64(1000)
		return score.Comparison{Scenarios: 3, Pairs: 3, Delta: 100_000, Better: 2, Same: 1, StandardError: &deviation,
			CI95: &stats.Interval{Low: low, High: high}}
	}
	for name, tt := range map[string]struct {
		comparison score.Comparison
		want       string
	}{
		"no interval": {
			comparison: score.Comparison{Scenarios: 1, Delta: -250_000, Worse: 1, OnlyA: 2},
			want: "a minus b: -0.2500 over 1 scenario: too few scenarios for an interval. 0 better, 1 worse, 0 the " +
				"same. Excluded: 2 played only by a, 0 played only by b.",
		},
		"the first is better": {
			comparison: interval(50_000, 150_000),
			want: "a minus b: +0.1000 over 3 scenarios: a is better (95 % interval +0.0500 to +0.1500). 2 better, 0 " +
				"worse, 1 the same.",
		},
		"the second is better": {
			comparison: interval(-150_000, -50_000),
			want: "a minus b: +0.1000 over 3 scenarios: b is better (95 % interval -0.1500 to -0.0500). 2 better, 0 " +
				"worse, 1 the same.",
		},
		"neither": {
			comparison: interval(-50_000, 50_000),
			want: "a minus b: +0.1000 over 3 scenarios: no significant difference (95 % interval -0.0500 to " +
				"+0.0500). 2 better, 0 worse, 1 the same.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Comparison{tt.comparison, "a", "b", [2]Trouble{}}).String(); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

func untitled(score.Change) string { return "" }

func TestComparisonEncoding(t *testing.T) {
	c := Comparison{score.Comparison{Pairs: 2, Scenarios: 1, Delta: 100_000, Better: 1}, "a", "b", [2]Trouble{{NoAction: "5.0"}, {}}}
	want := `{"a":"a","b":"b","pairs":2,"scenarios":1,"onlyA":0,"onlyB":0,"delta":"0.1000","better":1,"worse":0,` +
		`"same":0,"troubleA":{"noActionPercent":"5.0","notJudged":0,"provoking":0},` +
		`"troubleB":{"notJudged":0,"provoking":0},"changes":[]}`
	if data, err := json.Marshal(c.encode(untitled)); err != nil || string(data) != want {
		t.Errorf("%s (%v), want %s", data, err, want)
	}
}

func TestCutsLongComparisons(t *testing.T) {
	c := Comparison{score.Comparison{Changes: make([]score.Change, maxRows+2)}, "a", "b", [2]Trouble{}}
	for name, tt := range map[string]struct {
		everything bool
		rows       int
		note       string
	}{
		"by default": {everything: false, rows: maxRows, note: "and 2 more: --all lists them"},
		"--all":      {everything: true, rows: maxRows + 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.result(tt.everything, untitled)
			if s := r.Document.Sections[0]; len(s.Rows) != tt.rows || s.Note != tt.note || len(r.Rows) != maxRows+2 {
				t.Errorf("%d rows, %q; %d rows of CSV", len(s.Rows), s.Note, len(r.Rows))
			}
		})
	}
}
