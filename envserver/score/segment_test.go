package score

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawRollout draws an episode that a trainer plays.
func drawRollout(t *rapid.T) (PlannedEpisode, Episode) {
	ep := PlannedEpisode{
		Task:     rapid.SampledFrom([]string{"classify", "queue", "resolve"}).Draw(t, "task"),
		Scenario: rapid.SampledFrom([]string{"A1", "A2", "B1", "C1"}).Draw(t, "scenario"),
		Seed:     rapid.Int64Range(0, MaxSeed).Draw(t, "seed"),
	}
	return ep, drawEpisode(t, ep)
}

func graded() Ledger {
	return Ledger{Run: "uid", PassScore: 700_000, ScenarioDigest: "sha256:00", GraderVersion: "1", Judge: "offline-v1"}
}

// The sums are those of one ledger of all episodes, for any partition into ledgers, any order of
// merging, and a pass score that is known first or last.
func TestMergingInAnyOrderAndPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := graded()
		all.PassScore = rapid.Int64Range(0, One).Draw(t, "pass score")
		tallies := make([]Tally, 3)
		ledgers := make([]*Ledger, 3)
		for i := range ledgers {
			ledgers[i] = new(all)
		}
		for range rapid.IntRange(0, 30).Draw(t, "episodes") {
			ep, e := drawRollout(t)
			at := rapid.IntRange(0, 2).Draw(t, "ledger")
			for _, l := range []*Ledger{&all, ledgers[at]} {
				l.Opened++
				if err := l.Add(ep, e); err != nil {
					t.Fatal(err)
				}
			}
			if err := tallies[at].Add(ep, e); err != nil {
				t.Fatal(err)
			}
		}
		for i := range tallies {
			identity := graded()
			identity.PassScore = all.PassScore
			if diff := cmp.Diff(ledgers[i], tallies[i].Ledger(identity)); diff != "" {
				t.Fatalf("a tally whose pass score is known last (-want +got)\n%s", diff)
			}
		}
		merged := [2]Ledger{graded(), graded()}
		for i := range merged {
			merged[i].PassScore = all.PassScore
			for _, at := range rapid.Permutation([]int{0, 1, 2}).Draw(t, "order") {
				if err := merged[i].Merge(ledgers[at]); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(all, merged[i]); diff != "" {
				t.Fatalf("merged (-want +got)\n%s", diff)
			}
		}
	})
}

// Merging more ledgers doesn't change a merged one.
func TestMergeSharesNothing(t *testing.T) {
	part := graded()
	e := Episode{Outcome: Scored, Score: One / 2, Dimensions: []Dimension{{"reply", 200, 500}}}
	if err := part.Add(PlannedEpisode{Task: "t", Scenario: "s"}, e); err != nil {
		t.Fatal(err)
	}
	before, sums := part.Tasks[0].Dimensions[0], graded()
	for range 2 {
		if err := sums.Merge(&part); err != nil {
			t.Fatal(err)
		}
	}
	if got := part.Tasks[0].Dimensions[0]; got != before || part.Scenarios[0].Tasks[0].Episodes != 1 {
		t.Errorf("the merged ledger has changed to %+v", part)
	}
	if got := sums.Tasks[0].Dimensions[0].Earned; got != 400 {
		t.Errorf("%d points earned, want 400", got)
	}
}

func TestMergeRefusesOtherGraders(t *testing.T) {
	for name, change := range map[string]func(*Ledger){
		"scenarios":  func(l *Ledger) { l.ScenarioDigest = "sha256:01" },
		"grader":     func(l *Ledger) { l.GraderVersion = "2" },
		"judge":      func(l *Ledger) { l.Judge = "model" },
		"pass score": func(l *Ledger) { l.PassScore++ },
	} {
		t.Run(name, func(t *testing.T) {
			sums, other := graded(), graded()
			other.Opened = 1
			change(&other)
			if err := sums.Merge(&other); !errors.Is(err, ErrGrader) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(graded(), sums); diff != "" {
				t.Errorf("a refused ledger changed the sums: %s", diff)
			}
		})
	}
}

func TestTallyLeavesErroredOut(t *testing.T) {
	var tally Tally
	if !tally.Empty() {
		t.Error("an empty tally reports that it isn't empty")
	}
	if err := tally.Add(PlannedEpisode{Task: "t", Scenario: "s"}, Episode{Outcome: Errored, Score: One}); err != nil {
		t.Fatal(err)
	}
	if tally.Empty() || tally.Remembered() != 0 {
		t.Errorf("after an errored episode: empty %t, %d remembered", tally.Empty(), tally.Remembered())
	}
	want := graded()
	want.Opened = 1
	if diff := cmp.Diff(&want, tally.Ledger(graded())); diff != "" {
		t.Error(diff)
	}
	if !tally.Empty() {
		t.Error("the tally still has its sums")
	}
	if err := tally.Add(PlannedEpisode{Task: "t", Scenario: "s"},
		Episode{Outcome: Scored, Score: One + 1}); err == nil || !tally.Empty() {
		t.Errorf("an impossible score is counted: %v", err)
	}
}

// segmentOf returns a segment with one errored episode.
func segmentOf(t *testing.T, run, pod string, number int) Segment {
	t.Helper()
	l := graded()
	l.Run, l.Shard, l.Opened = SegmentRun(run, pod, "i1"), number, 1
	signed, err := l.Sign(testKey())
	if err != nil {
		t.Fatal(err)
	}
	return Segment{Pod: pod, Instance: "i1", Number: int64(number), Ledger: &signed}
}

func TestSegmentVerify(t *testing.T) {
	if l, err := segmentOf(t, "uid", "support-a", 3).Verify("uid", "support-a", publicKey()); err != nil ||
		l.Opened != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	for name, tc := range map[string]struct {
		change func(*Segment)
		want   error
	}{
		"of another run":         {func(s *Segment) { *s = segmentOf(t, "other", "support-a", 3) }, ErrForeign},
		"of another instance":    {func(s *Segment) { s.Instance = "i2" }, ErrForeign},
		"of another pod":         {func(s *Segment) { *s = segmentOf(t, "uid", "support-b", 3) }, ErrForeign},
		"another number":         {func(s *Segment) { s.Number = 4 }, ErrForeign},
		"no number":              {func(s *Segment) { *s = segmentOf(t, "uid", "support-a", 0) }, ErrMalformed},
		"fewer forked than none": {func(s *Segment) { s.Forked = -1 }, ErrMalformed},
		"fewer than none":        {func(s *Segment) { s.Dropped = -1 }, ErrMalformed},
		"a changed digit":        {func(s *Segment) { s.Ledger.Payload[20] ^= 1 }, ErrSignature},
		"more ended than begun": {func(s *Segment) {
			l := graded()
			l.Run, l.Shard = SegmentRun("uid", "support-a", "i1"), 3
			if err := l.Add(PlannedEpisode{Task: "t", Scenario: "s"}, Episode{Outcome: Scored}); err != nil {
				t.Fatal(err)
			}
			signed, err := l.Sign(testKey())
			if err != nil {
				t.Fatal(err)
			}
			s.Ledger = &signed
		}, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			s := segmentOf(t, "uid", "support-a", 3)
			tc.change(&s)
			if _, err := s.Verify("uid", "support-a", publicKey()); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

// The figures of trainers' episodes are the same as those of a plan with the same episodes.
func TestMergedLedgerMakesFigures(t *testing.T) {
	sums := graded()
	for i := range 8 {
		part := graded()
		part.Opened = 1
		ep := PlannedEpisode{Task: "resolve", Scenario: fmt.Sprintf("S%d", i%4)}
		if err := part.Add(ep, Episode{Outcome: Scored, Score: int64(i%2) * One}); err != nil {
			t.Fatal(err)
		}
		if err := sums.Merge(&part); err != nil {
			t.Fatal(err)
		}
	}
	var a Accumulator
	a.Fold(&sums)
	f := a.Figures()
	if f.Episodes != 8 || f.Mean != One/2 || f.PassRate != One/2 || len(f.PassHatK) != 2 ||
		f.PassHatK[1].Value != One/2 || f.Scenarios != 4 {
		t.Errorf("figures %+v", f)
	}
}
