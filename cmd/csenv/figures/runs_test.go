package figures

import (
	"bytes"
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
)

// Every table of runs says how many answers were no action and how many replies were not judged. A
// table whose runs have no trouble has no column for it, but a file of values has.
func TestTroubleInTables(t *testing.T) {
	well, ill := boardRun("team", "well", "bench/acme", officialKey, "0.5000"),
		boardRun("team", "ill", "bench/acme", officialKey, "0.4000")
	ill.Status.Answers = &v1alpha1.RunAnswers{Total: 40, NoAction: 2, NoActionPercent: "5.0"}
	ill.Status.Replies = &v1alpha1.RunReplies{NotJudged: 3, Provoking: 1}
	const cell, values = "5.0 % no action, 3 not judged, 1 provoking", ",5.0,3,1"
	boards, left := RankRuns(t.Context(), []*source.LoadedRun{well, ill})
	comparison := func(a, b *source.LoadedRun) view.Result {
		return Comparison{score.Comparison{}, a.Name, b.Name,
			[2]Trouble{TroubleOf(a.EvaluationRun), TroubleOf(b.EvaluationRun)}}.result(true, untitled)
	}
	for name, of := range map[string]func(runs ...*source.LoadedRun) view.Result{
		"runs": func(runs ...*source.LoadedRun) view.Result {
			return runList(view.MapItems(runs, newListedRun), 0)
		},
		"leaderboard": func(...*source.LoadedRun) view.Result { return BoardResult(boards, left) },
		"compare":     func(runs ...*source.LoadedRun) view.Result { return comparison(runs[0], runs[1]) },
	} {
		text := func(r view.Result, format string) string {
			var out bytes.Buffer
			if err := (&view.Format{Name: format}).Print(&out, r); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		if got := text(of(well, ill), "markdown"); !strings.Contains(got, cell) || !strings.Contains(got, "answers") {
			t.Errorf("%s doesn't say it:\n%s", name, got)
		}
		if got := text(of(well, ill), "csv"); name != "compare" && !strings.Contains(got, values) {
			t.Errorf("the values of %s:\n%s", name, got)
		}
		if name == "leaderboard" {
			boards, left = RankRuns(t.Context(), []*source.LoadedRun{well})
		}
		if got := text(of(well, well), "markdown"); strings.Contains(got, "answers") {
			t.Errorf("%s without trouble:\n%s", name, got)
		}
	}
	var out bytes.Buffer
	if err := PrintRun(&out, &view.Format{Name: "csv"}, ill.EvaluationRun, nil, ""); err != nil ||
		!strings.Contains(out.String(), values) {
		t.Errorf("the values of a run: %v\n%s", err, out.String())
	}
}
