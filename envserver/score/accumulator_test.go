package score

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/score/stats"
)

func text(t interface{ Fatal(...any) }, a *Accumulator) string {
	data, err := a.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFoldingInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPlan(drawPlan(t), rapid.IntRange(1, 8).Draw(t, "parallelism"))
		if err != nil {
			t.Fatal(err)
		}
		var inOrder Accumulator
		ledgers := make([]*Ledger, p.Shards)
		summaries := make([]Summary, p.Shards)
		for i := range ledgers {
			ledgers[i] = drawLedger(t, p, i)
			summaries[i] = drawSummary(t, i)
			inOrder.FoldSummary(ledgers[i], summaries[i])
		}
		order := make([]int, p.Shards)
		for i := range order {
			order[i] = i
		}
		var shuffled Accumulator
		for _, i := range rapid.Permutation(order).Draw(t, "order") {
			// Between folds the controller keeps the text alone.
			saved := text(t, &shuffled)
			shuffled = Accumulator{}
			if err := shuffled.UnmarshalText([]byte(saved)); err != nil {
				t.Fatal(err)
			}
			shuffled.FoldSummary(ledgers[i], summaries[i])
		}
		if diff := cmp.Diff(text(t, &inOrder), text(t, &shuffled)); diff != "" {
			t.Fatalf("the text depends on the order: %s", diff)
		}
		if diff := cmp.Diff(inOrder.Figures(), shuffled.Figures()); diff != "" {
			t.Fatalf("the figures depend on the order: %s", diff)
		}
	})
}

// drawSummary reports more classes of errors, over a run, than figures list.
func drawSummary(t *rapid.T, shard int) Summary {
	s := Summary{
		Retried: 100, RetriedBy: map[string]int64{},
		Tokens: Tokens{Prompt: rapid.Int64Range(0, maxTokens).Draw(t, "prompt"), Completion: int64(shard)},
		Stored: Stored{Episodes: int64(shard), Error: rapid.SampledFrom([]string{"", "full", "gone"}).Draw(t,
			"store error")},
	}
	s.Durations.Observe(int64(shard) << 7)
	for _, i := range rapid.SliceOfN(rapid.IntRange(0, 30), 0, 12).Draw(t, "classes") {
		class := rapid.SampledFrom([]string{stats.OtherGroup, fmt.Sprintf("class_%02d", i)}).Draw(t, "class")
		s.RetriedBy[class]++
		s.Errored = append(s.Errored, ErrorClass{Class: class, Episodes: IndexSet{ranges: []indexRange{{0, int64(i)}}}})
	}
	return s
}

func TestGroupsBeyondTheLimitAreAddedUp(t *testing.T) {
	var a Accumulator
	l := newLedger(plan(), 0)
	for i := range 40 {
		e := Episode{Outcome: Scored, Score: One / 2, Category: fmt.Sprintf("c%02d", i),
			Difficulty: fmt.Sprintf("d%02d", i), Language: fmt.Sprintf("l%02d", i)}
		if err := l.Add(PlannedEpisode{Index: int64(i), Task: "t", Scenario: fmt.Sprintf("S%02d", i)}, e); err != nil {
			t.Fatal(err)
		}
	}
	a.Fold(l)
	f := a.Figures()
	for name, tc := range map[string]struct {
		groups []GroupFigures
		most   int
	}{"categories": {f.Categories, 32}, "difficulties": {f.Difficulties, 16}, "languages": {f.Languages, 16}} {
		var episodes int64
		for _, g := range tc.groups {
			episodes += g.Episodes
		}
		last := tc.groups[len(tc.groups)-1]
		if len(tc.groups) != tc.most || episodes != 40 || last.Name != stats.OtherGroup ||
			last.Episodes != int64(41-tc.most) || last.Mean != One/2 {
			t.Errorf("%d %s with %d episodes, %d of them in %q", len(tc.groups), name, episodes, last.Episodes,
				last.Name)
		}
	}
}

func TestFiguresOfRunners(t *testing.T) {
	p := mustPlan(t, plan(), 2)
	var a Accumulator
	for _, shard := range []int{1, 0} {
		s := Summary{
			Retried: 3, RetriedBy: map[string]int64{"timeout": 2, "agent_rate_limited": 1}, Tokens: Tokens{100, 10},
			Stored:  Stored{Episodes: 2, Error: fmt.Sprintf("shard %d: disk full", shard)},
			Errored: []ErrorClass{{Class: "timeout"}},
		}
		s.Errored[0].Episodes.Add(int64(shard))
		a.FoldSummary(newLedger(p, shard), s)
	}
	f := a.Figures()
	want := Figures{
		Errored: 2, Retried: 6, Tokens: Tokens{200, 20}, Stored: Stored{4, "shard 0: disk full"},
		Errors: []ErrorFigures{{"agent_rate_limited", 2, 0}, {"timeout", 4, 2}},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
}

func TestShardsLeaveNoTraceInTheFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draft := drawPlan(t)
		scores := map[int64]Episode{}
		figures := func(parallelism int) Figures {
			p, err := NewPlan(draft, parallelism)
			if err != nil {
				t.Fatal(err)
			}
			var a Accumulator
			for i := range p.Shards {
				l := newLedger(p, i)
				for ep := range p.Shard(i) {
					if _, ok := scores[ep.Index]; !ok {
						scores[ep.Index] = drawEpisode(t, ep)
					}
					if err := l.Add(ep, scores[ep.Index]); err != nil {
						t.Fatal(err)
					}
				}
				a.Fold(l)
			}
			return a.Figures()
		}
		if diff := cmp.Diff(figures(1), figures(rapid.IntRange(2, 12).Draw(t, "parallelism"))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestEmptyAccumulator(t *testing.T) {
	var a Accumulator
	if got := text(t, &a); got != "" {
		t.Errorf("text %q, want none", got)
	}
	if err := a.UnmarshalText(nil); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(Figures{}, a.Figures()); diff != "" {
		t.Error(diff)
	}
}

func TestAccumulatorTextIsSmall(t *testing.T) {
	var a Accumulator
	draft := plan()
	draft.Tasks = nil
	for _, name := range []string{"queue-management", "ticket-classify", "ticket-resolve"} {
		task := PlanTask{Name: name, Trials: 100}
		for i := range 400 {
			task.Scenarios = append(task.Scenarios, fmt.Sprintf("%c%03d", "ABCDEFGH"[i%8], i))
		}
		draft.Tasks = append(draft.Tasks, task)
	}
	p := mustPlan(t, draft, 1)
	for i := range p.Shards {
		a.Fold(randomLedger(t, p, i))
	}
	if got := len(text(t, &a)); got > 3<<10 {
		t.Errorf("%d bytes for 3 tasks, 8 categories, 400 scenarios and %d episodes, want at most 3 KiB", got,
			p.Episodes())
	} else {
		t.Logf("%d bytes for %d episodes in %d shards", got, p.Episodes(), p.Shards)
	}
}

func TestAccumulatorRefusesOtherText(t *testing.T) {
	a := Accumulator{Plan: "sha256:" + strings.Repeat("ab", 32)}
	a.Fold(playedLedger(t))
	good := text(t, &a)
	var again Accumulator
	if err := again.UnmarshalText([]byte(good)); err != nil || again.Plan != a.Plan {
		t.Errorf("plan %q (%v), want %q", again.Plan, err, a.Plan)
	}
	raw, err := base64.StdEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.StdEncoding.EncodeToString
	otherVersion := append([]byte{9}, raw[1:]...)
	for name, text := range map[string]string{
		"not base64":      "!!",
		"cut":             encode(raw[:len(raw)-3]),
		"longer":          encode(append(bytes.Clone(raw), 0)),
		"another version": encode(otherVersion),
		"half a line":     good[:len(good)-4] + "\n" + good[len(good)-4:],
	} {
		t.Run(name, func(t *testing.T) {
			got := Accumulator{Scored: 77}
			if err := got.UnmarshalText([]byte(text)); err == nil {
				t.Error("it is read")
			}
			if got.Scored != 77 {
				t.Error("a refused text changed the accumulator")
			}
		})
	}
}

func FuzzAccumulatorText(f *testing.F) {
	for _, l := range []*Ledger{playedLedger(f), fullLedger(f, 4)} {
		var a Accumulator
		a.Fold(l)
		f.Add(text(f, &a))
	}
	f.Fuzz(func(t *testing.T, data string) {
		var a Accumulator
		if a.UnmarshalText([]byte(data)) != nil {
			return
		}
		if got := text(t, &a); got != data {
			t.Errorf("%q is read as %q", data, got)
		}
		figures := a.Figures()
		if figures.StandardError != nil && *figures.StandardError < 0 {
			t.Errorf("standard error %d", *figures.StandardError)
		}
	})
}

type played struct {
	scenario, category, task string
	scores                   []int64
}

// fold plays rows, each the trials of one scenario in one task.
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

// estimateOf abbreviates an stats.Estimate in micro-points; low and high are -1 where there is no
// interval.
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
		"none of one": {[]played{{"A", "c", "t", []int64{0, 0, 0, 0}}}, &stats.Interval{Low: 0, High: 793_451}},
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

// The expected numbers come from a Python script that shares nothing with this package: Fractions
// over single episodes grouped by scenario, math.comb for pass^k, and the t quantile by bisection
// on a Simpson integral of the density.
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

func BenchmarkFold(b *testing.B) {
	l := fullLedger(b, 4)
	b.ReportAllocs()
	for b.Loop() {
		var a Accumulator
		a.Fold(l)
	}
}

func BenchmarkFigures(b *testing.B) {
	var a Accumulator
	a.Fold(fullLedger(b, 4))
	b.ReportAllocs()
	for b.Loop() {
		a.Figures()
	}
}
