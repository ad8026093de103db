package score

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/score/stats"
)

type played struct {
	scenario, category, task string
	scores                   []int64
}

// fold plays rows. Each row contains the trials of one scenario in one task.
func fold(t *testing.T, passScore int64, rows []played) *Accumulator {
	t.Helper()
	var index int64
	l := newLedger(plan(), 0)
	l.PassScore = passScore
	for _, r := range rows {
		for trial, points := range r.scores {
			ep := PlannedEpisode{Index: index, Task: r.task, Scenario: r.scenario, Trial: trial}
			if err := l.Add(ep, Episode{Outcome: Scored, Score: points, Category: r.category}); err != nil {
				t.Fatal(err)
			}
			index++
		}
	}
	a := &Accumulator{}
	a.Fold(l)
	return a
}

// estimateOf returns an stats.Estimate in micro-points as a short list. low and high are -1 without
// an interval.
func estimateOf(e stats.Estimate) [4]int64 {
	if e.CI95 == nil {
		return [4]int64{e.Mean, -1, -1, -1}
	}
	return [4]int64{e.Mean, *e.StandardError, e.CI95.Low, e.CI95.High}
}

// The intervals come from statsmodels' proportion_confint(method="wilson") for the pass rate over
// N²/Σn² draws.
func TestPassRateInterval(t *testing.T) {
	cases := map[string]struct {
		rows []played
		want *stats.Interval
	}{
		"all of three scenarios": {[]played{{"A", "c", "t", []int64{One, One}}, {"B", "c", "t", []int64{One, One}},
			{"C", "c", "t", []int64{One, One}}}, &stats.Interval{Low: 438_503, High: One}},
		"no pass of one": {[]played{{"A", "c", "t", []int64{0, 0, 0, 0}}}, &stats.Interval{Low: 0, High: 793_451}},
		"half of two": {[]played{{"A", "c", "t", []int64{One}}, {"B", "c", "t", []int64{0}}},
			&stats.Interval{Low: 94_531, High: 905_469}},
		"unequal trials": {[]played{{"A", "c", "t", []int64{One, One, 0}}, {"B", "c", "t", []int64{0}}},
			&stats.Interval{Low: 79_893, High: 920_107}},
		"none": {nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, fold(t, One, tc.rows).Figures().PassRateCI95); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The expected numbers come from an independent Python script: Fractions over single episodes
// grouped by scenario, math.comb for pass^k, and the t quantile by bisection on a Simpson integral
// of the density.
func TestFiguresAgainstReference(t *testing.T) {
	cases := map[string]struct {
		passScore  int64
		rows       []played
		overall    [4]int64
		passRate   int64
		passHatK   []int64
		tasks      map[string][4]int64
		categories map[string][4]int64
	}{
		"equal trials, one task": {
			passScore: 800_000,
			rows: []played{
				{"A1", "billing", "resolve", []int64{1000000, 800000, 800000, 550000}},
				{"A2", "billing", "resolve", []int64{300000, 300000, 300000, 300000}},
				{"B1", "shipping", "resolve", []int64{850000, 0, 850000, 850000}},
			},
			overall: [4]int64{575000, 144157, 0, 1000000}, passRate: 500000, passHatK: []int64{500000, 333333, 166667,
				0},
			tasks:      map[string][4]int64{"resolve": {575000, 144157, 0, 1000000}},
			categories: map[string][4]int64{"billing": {543750, 243750, 0, 1000000}, "shipping": {637500, -1, -1, -1}},
		},
		"unequal trials, two tasks": {
			passScore: 666_667,
			rows: []played{
				{"A1", "billing", "classify", []int64{1000000, 333333}},
				{"A1", "billing", "resolve", []int64{650000, 700000, 720001}},
				{"A2", "billing", "classify", []int64{666667, 1000000}},
				{"B1", "shipping", "resolve", []int64{0}},
				{"B2", "shipping", "resolve", []int64{925000, 925000, 925000, 925000, 925000, 925000, 925000, 925000,
					925000}},
				{"C1", "general", "classify", []int64{1000000}},
			},
			overall: [4]int64{799722, 94399, 537627, 1000000}, passRate: 833333,
			passHatK: []int64{694444, 583333, 500000, 1000000, 1000000, 1000000, 1000000, 1000000},
			tasks: map[string][4]int64{"classify": {800000, 83267, 441732, 1000000},
				"resolve": {799615, 133931, 223359, 1000000}},
			categories: map[string][4]int64{
				"billing": {724286, 62313, 0, 1000000}, "general": {1000000, -1, -1, -1},
				"shipping": {832500, 166500, 0, 1000000},
			},
		},
		"all equal": {
			passScore: 800_000,
			rows: []played{{"A1", "billing", "resolve", []int64{400000, 400000, 400000}},
				{"A2", "billing", "resolve", []int64{400000, 400000, 400000}}},
			overall: [4]int64{400000, 0, 400000, 400000}, passHatK: []int64{0, 0, 0},
			tasks:      map[string][4]int64{"resolve": {400000, 0, 400000, 400000}},
			categories: map[string][4]int64{"billing": {400000, 0, 400000, 400000}},
		},
		"clamped to one": {
			passScore: One,
			rows: []played{{"A1", "billing", "resolve", []int64{1000000}},
				{"A2", "billing", "resolve", []int64{900000}}},
			overall: [4]int64{950000, 50000, 314690, 1000000}, passRate: 500000, passHatK: []int64{500000},
			tasks:      map[string][4]int64{"resolve": {950000, 50000, 314690, 1000000}},
			categories: map[string][4]int64{"billing": {950000, 50000, 314690, 1000000}},
		},
		"one scenario has no interval": {
			passScore: 800_000,
			rows:      []played{{"A1", "billing", "resolve", []int64{1000000, 0}}},
			overall:   [4]int64{500000, -1, -1, -1}, passRate: 500000, passHatK: []int64{500000, 0},
			tasks:      map[string][4]int64{"resolve": {500000, -1, -1, -1}},
			categories: map[string][4]int64{"billing": {500000, -1, -1, -1}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := fold(t, tc.passScore, tc.rows).Figures()
			tasks, categories := map[string][4]int64{}, map[string][4]int64{}
			for _, g := range f.Tasks {
				tasks[g.Name] = estimateOf(g.Estimate)
			}
			for _, g := range f.Categories {
				categories[g.Name] = estimateOf(g.Estimate)
			}
			var passHatK []int64
			for i, p := range f.PassHatK {
				if p.K != i+1 {
					t.Errorf("entry %d is for k = %d", i, p.K)
				}
				passHatK = append(passHatK, p.Value)
			}
			for what, pair := range map[string][2]any{
				"overall":    {tc.overall, estimateOf(f.Estimate)},
				"passRate":   {tc.passRate, f.PassRate},
				"passHatK":   {tc.passHatK, passHatK},
				"tasks":      {tc.tasks, tasks},
				"categories": {tc.categories, categories},
			} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Errorf("%s: %s", what, diff)
				}
			}
		})
	}
}

func TestFiguresOfScoresAndDimensions(t *testing.T) {
	l := newLedger(plan(), 0)
	points := []int64{100_000, 400_000, 410_000, 900_000}
	for i, score := range points {
		e := Episode{Outcome: Scored, Score: score, Dimensions: []Dimension{{"reply", score / 2000, 500},
			{"penalty", -100, 0}}}
		if err := l.Add(PlannedEpisode{Index: int64(i), Task: "resolve", Scenario: "A"}, e); err != nil {
			t.Fatal(err)
		}
	}
	var a Accumulator
	s := Summary{Retried: 5, Errored: []ErrorClass{{Class: "timeout"}}}
	s.Errored[0].Episodes.Add(9)
	s.Durations.Observe(1000)
	a.FoldSummary(l, s)
	f := a.Figures()
	if got, want := [3]int64{f.Min, f.P50, f.Max}, [3]int64{100_000, 410_000, 900_000}; got != want {
		t.Errorf("min, median, max = %v, want %v", got, want)
	}
	want := []DimensionFigures{{"penalty", -100_000, 0}, {"reply", 226_250, 500_000}}
	if diff := cmp.Diff(want, f.Tasks[0].Dimensions); diff != "" {
		t.Error(diff)
	}
	if f.Errored != 1 || f.Retried != 5 || f.Episodes != 4 || f.Scored != 4 {
		t.Errorf("counts %+v", f)
	}
	if f.EpisodeP99 != 1024 {
		t.Errorf("99th percentile %d ms, want the upper edge of the bin of 1000 ms, 1024", f.EpisodeP99)
	}
}

func TestMedianIsWithinABinOfTheTrueOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.Int64Range(0, One), 1, 40).Draw(t, "scores")
		sums := TaskSums{Min: One}
		for _, s := range scores {
			sums.add(ScenarioTaskSums{}, Episode{Score: s})
		}
		median := sums.median()
		var below, above int
		for _, s := range scores {
			if s < median-One/Bins {
				below++
			}
			if s > median+One/Bins {
				above++
			}
		}
		if 2*below > len(scores) || 2*above > len(scores) {
			t.Fatalf("median %d of %v", median, scores)
		}
	})
}
