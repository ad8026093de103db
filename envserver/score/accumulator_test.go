package score

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/score/bitstream"
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
			// Between folds the controller keeps only the text.
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

// drawSummary draws more classes of errors, over a run, than figures list.
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

func TestFiguresDoNotDependOnShards(t *testing.T) {
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
				t.Error("no error")
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
			t.Errorf("%q decodes to %q", data, got)
		}
		figures := a.Figures()
		if figures.StandardError != nil && *figures.StandardError < 0 {
			t.Errorf("standard error %d", *figures.StandardError)
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

// Runs outlive a release: the next one reads the sums of this one, and writes them in its encoding.
func TestSumsOutliveTheirRelease(t *testing.T) {
	var sums Accumulator
	sums.Fold(fullLedger(t, 2))
	sums.Plan = FingerprintOf([]byte("{}"))
	plain := text(t, &sums)
	sums.Mute = 1
	stored := text(t, &sums)
	before := accumulatorVersions
	t.Cleanup(func() { accumulatorVersions = before })
	accumulatorVersions.Newest++
	var read, again Accumulator
	if err := read.UnmarshalText([]byte(stored)); err != nil {
		t.Fatal(err)
	}
	newer := text(t, &read)
	if err := again.UnmarshalText([]byte(newer)); err != nil || newer == stored {
		t.Fatalf("the next release's encoding: %v, equal %v", err, newer == stored)
	}
	read.Fold(fullLedger(t, 2))
	again.Fold(fullLedger(t, 2))
	if text(t, &read) != text(t, &again) {
		t.Error("the sums of two encodings differ")
	}
	accumulatorVersions = before
	if err := again.UnmarshalText([]byte(newer)); err == nil {
		t.Error("an older release reads what it doesn't know")
	} else if _, other := errors.AsType[*bitstream.VersionError](err); !other {
		t.Errorf("error %v, want a VersionError", err)
	}
	accumulatorVersions.Newest = accumulatorVersions.Oldest
	if err := again.UnmarshalText([]byte(plain)); err != nil {
		t.Errorf("the release before can't read sums without what it doesn't know: %v", err)
	}
}
