package score

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/score/stats"
)

func TestCompare(t *testing.T) {
	row := func(task, scenario string, mean int64) ScenarioScore {
		return ScenarioScore{Task: task, Scenario: scenario, Episodes: 4, Mean: mean}
	}
	cases := map[string]struct {
		a, b []ScenarioScore
		want Comparison
	}{
		"nothing in common": {
			[]ScenarioScore{row("t", "A", One)}, []ScenarioScore{row("t", "B", One), row("u", "A", One)},
			Comparison{OnlyA: 1, OnlyB: 2},
		},
		"one scenario has no interval": {
			[]ScenarioScore{row("t", "A", 700_000)}, []ScenarioScore{row("t", "A", 400_000)},
			Comparison{Pairs: 1, Scenarios: 1, Delta: 300_000, Better: 1,
				Changes: []Change{{"t", "A", 700_000, 400_000, 300_000}}},
		},
		// scipy.stats.ttest_rel([1, .5, .25, .5], [.5, .5, .5, 0]): statistic 1.0, and its
		// confidence_interval().
		"a paired t-test": {
			[]ScenarioScore{row("t", "A", One), row("t", "B", 500_000), row("t", "C", 250_000), row("t", "D", 500_000)},
			[]ScenarioScore{row("t", "A", 500_000), row("t", "B", 500_000), row("t", "C", 500_000), row("t", "D", 0)},
			Comparison{
				Pairs: 4, Scenarios: 4, Delta: 187_500, StandardError: new(int64(187_500)),
				CI95: &stats.Interval{Low: -409_209, High: 784_209}, Better: 2, Worse: 1, Same: 1,
				Changes: []Change{{"t", "A", One, 500_000, 500_000}, {"t", "D", 500_000, 0, 500_000},
					{"t", "C", 250_000, 500_000, -250_000}},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Compare(tc.a, tc.b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func drawScores(t *rapid.T, label string) []ScenarioScore {
	var table ScenarioTable
	for range rapid.IntRange(0, 30).Draw(t, label) {
		table.Put(ScenarioScore{
			Task:     rapid.SampledFrom([]string{"t", "u"}).Draw(t, "task"),
			Scenario: fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "scenario")),
			Episodes: 1, Mean: rapid.Int64Range(0, One).Draw(t, "mean"),
		})
	}
	return table.Rows()
}

func TestComparisonIsAntisymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawScores(t, "a"), drawScores(t, "b")
		forth, back := Compare(a, b), Compare(rapid.Permutation(b).Draw(t, "order of b"),
			rapid.Permutation(a).Draw(t, "order of a"))
		want := forth
		want.OnlyA, want.OnlyB, want.Delta = forth.OnlyB, forth.OnlyA, -forth.Delta
		want.Better, want.Worse = forth.Worse, forth.Better
		if forth.CI95 != nil {
			want.CI95 = &stats.Interval{Low: -forth.CI95.High, High: -forth.CI95.Low}
		}
		want.Changes = slices.Clone(forth.Changes)
		for i, c := range want.Changes {
			want.Changes[i] = Change{c.Task, c.Scenario, c.B, c.A, -c.Delta}
		}
		if diff := cmp.Diff(want, back); diff != "" {
			t.Fatal(diff)
		}
		if same := Compare(a, a); same.Delta != 0 || same.Same != int64(len(a)) || same.CI95 != nil &&
			*same.CI95 != (stats.Interval{}) {
			t.Fatalf("a run compared with itself: %+v", same)
		}
	})
}

func TestComparable(t *testing.T) {
	base := Basis{ScenarioDigest: "sha256:1", GraderVersion: "3", Judge: "offline", PassScore: 800_000,
		Tasks: []string{"b", "a"}}
	cases := map[string]struct {
		change func(*Basis)
		want   string
	}{
		"the same": {func(b *Basis) { b.Tasks = []string{"a", "b"} }, ""},
		"other scenarios": {func(b *Basis) { b.ScenarioDigest = "sha256:2" },
			"their scenarios differ: sha256:1 and sha256:2"},
		"another grader": {func(b *Basis) { b.GraderVersion = "4" }, "their graders differ: 3 and 4"},
		"another judge":  {func(b *Basis) { b.Judge = "llm" }, "their judges differ: offline and llm"},
		"another pass":   {func(b *Basis) { b.PassScore = One }, "their pass scores differ: 0.8000 and 1.0000"},
		"pressure":       {func(b *Basis) { b.Pressure = true }, "one is played under pressure: false and true"},
		"other tasks":    {func(b *Basis) { b.Tasks = []string{"a"} }, "their tasks differ: a, b and a"},
		"judge and grader": {func(b *Basis) { b.Judge, b.GraderVersion = "x", "y" },
			"their graders differ: 3 and y; their judges differ: offline and x"},
		"nothing in common": {func(b *Basis) { *b = Basis{} }, "their scenarios differ: sha256:1 and ; their graders " +
			"differ: 3 and ; their judges differ: offline and ; their pass scores differ: 0.8000 and 0.0000; their " +
			"tasks differ: a, b and "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			other := base
			tc.change(&other)
			err := CheckComparable(base, other)
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var refused *IncomparableError
			if !errors.As(err, &refused) || err.Error() != "the runs can't be compared: "+tc.want {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
