package tally

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

func TestFoldRefuses(t *testing.T) {
	run, plan := runtest.BeginRun(t)
	honest := runtest.SummaryOf(t, plan, 1, runtest.Playing{})
	cases := map[string]struct {
		message string
		want    string
	}{
		"an honest one": {honest, ""},
		"a plain text":  {"error: no pool", RefusedMalformed},
		"two messages":  {honest + honest, RefusedMalformed},
		"episodes said to be unplayed": {runtest.SummaryOf(t, plan, 1, runtest.Playing{Unplayed: 1,
			Change: func(l *score.Ledger) { addEpisode(t, l) }}), RefusedEpisodes},
		"another pool's signature": {runtest.SummaryOf(t, plan, 1, runtest.Playing{Key: runtest.OtherKey()}), RefusedSignature},
		"a changed payload":        {strings.Replace(honest, `"payload":"`, `"payload":"AAAA`, 1), RefusedSignature},
		"another shard's":          {runtest.SummaryOf(t, plan, 2, runtest.Playing{}), RefusedForeign},
		"another run's": {runtest.SummaryOf(t, plan, 1, runtest.Playing{Change: func(l *score.Ledger) { l.Run = "other" }}),
			RefusedForeign},
		"other scenarios": {runtest.SummaryOf(t, plan, 1,
			runtest.Playing{Change: func(l *score.Ledger) { l.ScenarioDigest = "sha256:bb" }}), RefusedGrader},
		"another grader": {runtest.SummaryOf(t, plan, 1,
			runtest.Playing{Change: func(l *score.Ledger) { l.GraderVersion = "2" }}), RefusedGrader},
		"another judge": {runtest.SummaryOf(t, plan, 1, runtest.Playing{Change: func(l *score.Ledger) { l.Judge = "llm" }}),
			RefusedGrader},
		"a lower pass score": {runtest.SummaryOf(t, plan, 1, runtest.Playing{Change: func(l *score.Ledger) { l.PassScore = 1 }}),
			RefusedGrader},
		"other seeds": {runtest.SummaryOf(t, plan, 1,
			runtest.Playing{Change: func(l *score.Ledger) { l.Digest.Add(score.PlannedEpisode{}) }}), RefusedEpisodes},
		"errors of another shard": {runtest.SummaryOf(t, plan, 1, runtest.Playing{Errored: []int64{0}}), RefusedEpisodes},
		"an episode that was lost": {runtest.SummaryOf(t, plan, 1,
			runtest.Playing{Change: func(l *score.Ledger) { *l = *onlyShard(t, plan, 1, 1) }}), RefusedEpisodes},
		"one that wasn't planned": {runtest.SummaryOf(t, plan, 1,
			runtest.Playing{Change: func(l *score.Ledger) { addEpisode(t, l) }}), RefusedEpisodes},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := runtest.EndPod(runtest.RunnerPod(run, 1), corev1.PodSucceeded, tc.message)
			f := FoldSummaries(Expected{Plan: plan, Sessions: 2}, score.Accumulator{}, score.IndexSet{}, []corev1.Pod{*pod})
			if tc.want == "" {
				if len(f.Refused) > 0 || f.Completed.String() != "1" {
					t.Fatalf("refused %v, completed %q", f.Refused, f.Completed)
				}
				return
			}
			if len(f.Refused) != 1 || f.Refused[0].Reason != tc.want || f.Refused[0].Pod.Name != pod.Name {
				t.Fatalf("refused %+v, want reason %s", f.Refused, tc.want)
			}
			if f.Completed.Len() != 0 || len(f.Counted) != 0 {
				t.Error("it is counted anyway")
			}
			if text, err := f.Sums.MarshalText(); err != nil || len(text) != 0 {
				t.Errorf("its figures are in the sums: %s (%v)", text, err)
			}
		})
	}
}

// A message that is empty or was cut accuses nobody: it is neither counted nor refused.
func TestFoldPassesOverLostSummaries(t *testing.T) {
	run, plan := runtest.BeginRun(t)
	honest := runtest.SummaryOf(t, plan, 1, runtest.Playing{})
	for n := range len(honest) {
		pod := runtest.EndPod(runtest.RunnerPod(run, 1), corev1.PodSucceeded, honest[:n])
		f := FoldSummaries(Expected{Plan: plan, Sessions: 2}, score.Accumulator{}, score.IndexSet{}, []corev1.Pod{*pod})
		if !LacksSummary(pod) || len(f.Refused)+len(f.Counted) > 0 {
			t.Fatalf("%d bytes of a summary: lost %v, refused %v, counted %v", n, LacksSummary(pod), f.Refused, f.Counted)
		}
	}
	if LacksSummary(runtest.NewSucceededPod(t, run, plan, 1)) {
		t.Error("a summary is lost that is complete")
	}
}

// onlyShard returns an honest ledger of a shard, without its first episodes.
func onlyShard(t *testing.T, plan score.Plan, shard, without int) *score.Ledger {
	t.Helper()
	l := &score.Ledger{Run: plan.Run, Shard: shard, PassScore: plan.PassScore, ScenarioDigest: plan.ScenarioDigest,
		GraderVersion: plan.GraderVersion, Judge: plan.Judge}
	for ep := range plan.Shard(shard) {
		if without--; without >= 0 {
			continue
		}
		if err := l.Add(ep, score.Episode{Outcome: score.Scored}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func addEpisode(t *testing.T, l *score.Ledger) {
	t.Helper()
	if err := l.Add(score.PlannedEpisode{Index: 99, Task: "ticket-resolve", Scenario: "B99"},
		score.Episode{Outcome: score.Scored, Score: score.One}); err != nil {
		t.Fatal(err)
	}
}

func TestFoldRefusesAPodWithoutIndex(t *testing.T) {
	run, plan := runtest.BeginRun(t)
	for name, index := range map[string]string{"none": "", "a word": "one", "beyond the plan": "7",
		"below zero": "-1"} {
		t.Run(name, func(t *testing.T) {
			pod := runtest.NewSucceededPod(t, run, plan, 1)
			pod.Annotations[batchv1.JobCompletionIndexAnnotation] = index
			if f := FoldSummaries(Expected{Plan: plan, Sessions: 2}, score.Accumulator{}, score.IndexSet{}, []corev1.Pod{*pod}); len(f.Refused) != 1 ||
				f.Completed.Len() != 0 {
				t.Errorf("refused %v, completed %q", f.Refused, f.Completed)
			}
		})
	}
}

func TestFoldDoesNotChangeItsArguments(t *testing.T) {
	run, plan := runtest.BeginRun(t)
	var done score.IndexSet
	done.Add(0)
	pods := []corev1.Pod{*runtest.NewSucceededPod(t, run, plan, 0), *runtest.NewSucceededPod(t, run, plan, 1), *runtest.RunnerPod(run, 2)}
	f := FoldSummaries(Expected{Plan: plan, Sessions: 2}, score.Accumulator{}, done, pods)
	if done.String() != "0" {
		t.Errorf("the argument became %q", done)
	}
	want := []Shard{{Index: 1, Duration: 90 * time.Second}}
	if diff := cmp.Diff(want, f.Counted,
		cmpopts.IgnoreFields(Shard{}, "Errored")); diff != "" {
		t.Error(diff)
	}
}

// An honest summary of the suite reports one retry, so one episode may be opened twice.
func TestFoldFlagsUnreportedEpisodes(t *testing.T) {
	run, plan := runtest.BeginRun(t)
	for name, tc := range map[string]struct {
		errored          []int64
		opened, replayed int64 // beyond the planned episodes
		unreported       int64
		suspect          bool
	}{
		"nothing twice":                   {nil, 0, 0, 0, false},
		"the retry that is reported":      {nil, 1, 0, 0, false},
		"an episode that errored":         {[]int64{1}, 1, 0, 0, false},
		"episodes begun and abandoned":    {nil, 4, 0, 3, true},
		"one of them, and an errored one": {[]int64{1}, 2, 0, 1, true},
		"an episode that ended again":     {nil, 1, 1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			message := runtest.SummaryOf(t, plan, 0, runtest.Playing{Errored: tc.errored, Change: func(l *score.Ledger) {
				l.Opened += tc.opened
				l.Replayed += tc.replayed
			}})
			runners := []corev1.Pod{*runtest.EndPod(runtest.RunnerPod(run, 0), corev1.PodSucceeded, message),
				*runtest.NewSucceededPod(t, run, plan, 1)}
			f := FoldSummaries(Expected{Plan: plan, Sessions: 2}, score.Accumulator{}, score.IndexSet{}, runners)
			if len(f.Counted) != 2 || f.Counted[0].Replayed != tc.replayed ||
				f.Counted[0].Unreported != tc.unreported || f.Counted[1].IsSuspect() {
				t.Errorf("counted %+v, refused %v", f.Counted, f.Refused)
			}
			if f.Counted[0].IsSuspect() != tc.suspect {
				t.Errorf("suspect %v, want %v", f.Counted[0].IsSuspect(), tc.suspect)
			}
		})
	}
}

// A suspension stops runners, and the Job controller doesn't count them.
func TestAttemptsBeforeASuspension(t *testing.T) {
	run, plan := runtest.BeginRun(t)
	message := runtest.SummaryOf(t, plan, 0, runtest.Playing{Begun: 3, Change: func(l *score.Ledger) { l.Opened += 3 }})
	for resumed, want := range map[bool]int64{false: 2, true: 0} {
		pod := runtest.EndPod(runtest.RunnerPod(run, 0), corev1.PodSucceeded, message)
		f := FoldSummaries(Expected{Plan: plan, Sessions: 2, Resumed: resumed}, score.Accumulator{}, score.IndexSet{},
			[]corev1.Pod{*pod})
		if len(f.Counted) != 1 || f.Counted[0].Unreported != want {
			t.Errorf("resumed %v: counted %+v, refused %v", resumed, f.Counted, f.Refused)
		}
	}
}

// What runners that were stopped had begun needs no report, within what these could have begun.
func TestAttemptsOfStoppedRunners(t *testing.T) {
	for name, tc := range map[string]struct {
		ended, begun, stopped, unreported int64
	}{
		"no runner was stopped":           {10, 3, 0, 3},
		"one was":                         {10, 3, 1, 0},
		"more than its sessions could":    {10, 25, 1, 5},
		"two were":                        {10, 25, 2, 0},
		"a large shard with many repeats": {1000, 400, 1, 0},
		"more than those":                 {1000, 600, 1, 100},
	} {
		l, s := &score.Ledger{Scored: tc.ended, Opened: tc.ended + tc.begun}, score.Summary{Begun: tc.begun}
		if got := countUnreported(l, s, tc.stopped, 2); got != tc.unreported {
			t.Errorf("%s: %d unreported, want %d", name, got, tc.unreported)
		}
	}
}
