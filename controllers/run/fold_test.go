package run

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/envserver/score"
)

func TestFoldRefuses(t *testing.T) {
	run, plan := beginRun(t)
	honest := summaryOf(t, plan, 1, playing{})
	cases := map[string]struct {
		message string
		want    string
	}{
		"an honest one":            {honest, ""},
		"nothing":                  {"", refusedMalformed},
		"a plain text":             {"error: no pool", refusedMalformed},
		"a message that was cut":   {honest[:len(honest)-9], refusedMalformed},
		"another pool's signature": {summaryOf(t, plan, 1, playing{key: otherKey()}), refusedSignature},
		"a changed payload":        {strings.Replace(honest, `"payload":"`, `"payload":"AAAA`, 1), refusedSignature},
		"another shard's":          {summaryOf(t, plan, 2, playing{}), refusedForeign},
		"another run's": {summaryOf(t, plan, 1, playing{change: func(l *score.Ledger) { l.Run = "other" }}),
			refusedForeign},
		"other scenarios": {summaryOf(t, plan, 1,
			playing{change: func(l *score.Ledger) { l.ScenarioDigest = "sha256:bb" }}), refusedGrader},
		"another grader": {summaryOf(t, plan, 1,
			playing{change: func(l *score.Ledger) { l.GraderVersion = "2" }}), refusedGrader},
		"another judge": {summaryOf(t, plan, 1, playing{change: func(l *score.Ledger) { l.Judge = "llm" }}),
			refusedGrader},
		"a lower pass score": {summaryOf(t, plan, 1, playing{change: func(l *score.Ledger) { l.PassScore = 1 }}),
			refusedGrader},
		"other seeds": {summaryOf(t, plan, 1,
			playing{change: func(l *score.Ledger) { l.Digest.Add(score.PlannedEpisode{}) }}), refusedEpisodes},
		"errors of another shard": {summaryOf(t, plan, 1, playing{errored: []int64{0}}), refusedEpisodes},
		"an episode that was lost": {summaryOf(t, plan, 1,
			playing{change: func(l *score.Ledger) { *l = *onlyShard(t, plan, 1, 1) }}), refusedEpisodes},
		"one that wasn't planned": {summaryOf(t, plan, 1,
			playing{change: func(l *score.Ledger) { addEpisode(t, l) }}), refusedEpisodes},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := ends(runnerPodOf(run, 1), corev1.PodSucceeded, tc.message)
			f := fold(plan, score.Accumulator{}, score.IndexSet{}, []corev1.Pod{*pod})
			if tc.want == "" {
				if len(f.refused) > 0 || f.completed.String() != "1" {
					t.Fatalf("refused %v, completed %q", f.refused, f.completed)
				}
				return
			}
			if len(f.refused) != 1 || f.refused[0].reason != tc.want || f.refused[0].pod.Name != pod.Name {
				t.Fatalf("refused %+v, want reason %s", f.refused, tc.want)
			}
			if f.completed.Len() != 0 || len(f.counted) != 0 {
				t.Error("it is counted anyway")
			}
			if text, err := f.sums.MarshalText(); err != nil || len(text) != 0 {
				t.Errorf("its figures are in the sums: %s (%v)", text, err)
			}
		})
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
	run, plan := beginRun(t)
	for name, index := range map[string]string{"none": "", "a word": "one", "beyond the plan": "7",
		"below zero": "-1"} {
		t.Run(name, func(t *testing.T) {
			pod := succeeded(t, run, plan, 1)
			pod.Annotations[batchv1.JobCompletionIndexAnnotation] = index
			if f := fold(plan, score.Accumulator{}, score.IndexSet{}, []corev1.Pod{*pod}); len(f.refused) != 1 ||
				f.completed.Len() != 0 {
				t.Errorf("refused %v, completed %q", f.refused, f.completed)
			}
		})
	}
}

func TestFoldDoesNotChangeItsArguments(t *testing.T) {
	run, plan := beginRun(t)
	var done score.IndexSet
	done.Add(0)
	pods := []corev1.Pod{*succeeded(t, run, plan, 0), *succeeded(t, run, plan, 1), *runnerPodOf(run, 2)}
	f := fold(plan, score.Accumulator{}, done, pods)
	if done.String() != "0" {
		t.Errorf("the argument became %q", done)
	}
	want := []countedShard{{index: 1, duration: 90 * time.Second}}
	if diff := cmp.Diff(want, f.counted, cmp.AllowUnexported(countedShard{}),
		cmpopts.IgnoreFields(countedShard{}, "errored")); diff != "" {
		t.Error(diff)
	}
}

// An honest summary of the suite reports one retry, so one episode may be opened twice.
func TestFoldFlagsUnreportedEpisodes(t *testing.T) {
	run, plan := beginRun(t)
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
		"an episode that ended again":     {nil, 1, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			message := summaryOf(t, plan, 0, playing{errored: tc.errored, change: func(l *score.Ledger) {
				l.Opened += tc.opened
				l.Replayed += tc.replayed
			}})
			runners := []corev1.Pod{*ends(runnerPodOf(run, 0), corev1.PodSucceeded, message),
				*succeeded(t, run, plan, 1)}
			f := fold(plan, score.Accumulator{}, score.IndexSet{}, runners)
			if len(f.counted) != 2 || f.counted[0].replayed != tc.replayed ||
				f.counted[0].unreported != tc.unreported || f.counted[1].suspect() {
				t.Errorf("counted %+v, refused %v", f.counted, f.refused)
			}
			if f.counted[0].suspect() != tc.suspect {
				t.Errorf("suspect %v, want %v", f.counted[0].suspect(), tc.suspect)
			}
		})
	}
}
