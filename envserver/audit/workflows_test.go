package audit

import (
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
)

// TestSequencesStayBelowTheirFigures plays the sequences at several seeds. The figures are the
// scores at seed 0 or over the drawn seeds, in thousandths, and the number of passes of 20. Scores
// may exceed them by 5; the share of passes may not.
func TestSequencesStayBelowTheirFigures(t *testing.T) {
	figures := map[string]struct{ upper, template Outcome }{
		"A":           {Outcome{0, 0}, Outcome{0, 0}},
		"E A":         {Outcome{0, 0}, Outcome{0, 0}},
		"O A":         {Outcome{243, 4}, Outcome{96, 0}},
		"P A":         {Outcome{145, 2}, Outcome{71, 0}},
		"O P A":       {Outcome{479, 8}, Outcome{197, 0}},
		"O P R A":     {Outcome{267, 2}, Outcome{123, 0}},
		"O P E A":     {Outcome{412, 5}, Outcome{185, 0}},
		"P E R A":     {Outcome{61, 0}, Outcome{25, 0}},
		"O P R E A":   {Outcome{257, 0}, Outcome{137, 0}},
		"O O O O O A": {Outcome{93, 0}, Outcome{0, 0}},
		"junk":        {Outcome{0, 0}, Outcome{0, 0}},
	}
	const tolerance = 5
	c := testkit.Catalog(t)
	for name, seeds := range map[string][]int64{"canonical": {0}, "drawn": {1, 2, 3, 4, 5}} {
		rows, err := PlaySequences(c, offline.New(), seeds...)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			t.Logf("%s %-12s upper bound %4d, %d; template %4d, %d of %d", name, row.Policy, row.UpperBound.Score,
				row.UpperBound.Passed, row.Template.Score, row.Template.Passed, row.Episodes)
			want, ok := figures[row.Policy]
			if !ok || row.Episodes != 20*len(seeds) {
				t.Errorf("%q: %d episodes, figure %v", row.Policy, row.Episodes, ok)
			}
			for column, figure := range map[string][2]Outcome{"upper bound": {row.UpperBound, want.upper},
				"template": {row.Template, want.template}} {
				if got, most := figure[0], figure[1]; got.Score > most.Score+tolerance ||
					got.Passed > most.Passed*len(seeds) {
					t.Errorf("%s, %q, %s: score %d and %d passes of %d, want at most %d and %d of 20", name, row.Policy,
						column, got.Score, got.Passed, row.Episodes, most.Score+tolerance, most.Passed)
				}
			}
		}
	}
}
