package run

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

// When a run has completed, its figures are compared with what the pool's servers have graded, and
// the attempts that they began with those that the runners report. Servers that are gone, and
// runners that were stopped and played on, are no reason to doubt a run.
func TestRunsWithRepeatedEpisodesSaySo(t *testing.T) {
	for name, tc := range map[string]struct {
		graded        []int64 // by each server
		opened, begun int64   // beyond what is usual, in shard 2
		stopped       string  // runners of shard 2
		want          string
	}{
		"each episode once":                     {graded: []int64{10, 4}},
		"a server that is gone":                 {graded: []int64{10}},
		"an episode on two servers":             {graded: []int64{14, 1}, want: v1alpha1.ReasonGradedAgain},
		"attempts that no runner reports":       {graded: []int64{14}, opened: 3, want: v1alpha1.ReasonUnreportedAttempts},
		"attempts of a runner that was stopped": {graded: []int64{14}, opened: 3, begun: 3, stopped: "1"},
		"attempts before the only runner": {graded: []int64{14}, opened: 3, begun: 3,
			want: v1alpha1.ReasonUnreportedAttempts},
		"more than one runner could have made": {graded: []int64{14}, opened: 900, begun: 900, stopped: "1",
			want: v1alpha1.ReasonUnreportedAttempts},
		"a server that doesn't answer at first": {graded: []int64{14, silent}, want: v1alpha1.ReasonGradedAgain},
	} {
		t.Run(name, func(t *testing.T) {
			w := completePlayed(t, tc.graded, tc.opened, tc.begun, tc.stopped)
			status := w.run().Status
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPlayedOnce)
			if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionComplete) {
				t.Fatalf("conditions %s", runtest.FormatConditions(status.Conditions))
			}
			repeated := status.Episodes.GradedAgain + status.Episodes.Unreported
			if tc.want == "" && (c != nil || repeated != 0) {
				t.Errorf("%d repeated: %+v", repeated, c)
			}
			if tc.want != "" && (c == nil || c.Reason != tc.want || c.Status != "False" || repeated == 0 ||
				!strings.Contains(strings.Join(w.events(), "\n"), "Warning "+tc.want)) {
				t.Errorf("%d repeated: %+v, want reason %s and an event", repeated, c, tc.want)
			}
		})
	}
}

// silent is what a server has graded that answers half a minute after the run's end: one episode.
const silent = -1

// completePlayed completes a run whose servers have graded so many episodes, and passes over it
// until their counts are read.
func completePlayed(t *testing.T, graded []int64, opened, begun int64, stopped string) *world {
	t.Helper()
	w := readyWorld(t)
	w.mustPass()
	plan := w.plan()
	reports := w.r.reader.Pools.(runtest.FakePool)
	for i, n := range graded {
		pod := runtest.NewServer("support-"+string(rune('x'+i)), "10.0.1."+string(rune('1'+i)))
		pod.Status.Phase = corev1.PodRunning
		w.create(pod)
		if n != silent {
			reports[pod.Status.PodIP] = reportOf(w, n)
		}
	}
	w.r.reader.Live = observe.NewLivePoller(reports, func(ctx context.Context, _ types.NamespacedName,
		requests func(context.Context)) {
		requests(ctx)
	})
	w.events()
	for shard := range plan.Shards {
		p := runtest.Playing{}
		if shard == 2 {
			p.Begun = begun
			p.Change = func(l *score.Ledger) { l.Opened += opened }
		}
		pod := runtest.EndPod(runtest.RunnerPod(w.run(), shard), corev1.PodSucceeded, runtest.SummaryOf(t, plan, shard, p))
		if shard == 2 && stopped != "" {
			pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = stopped
		}
		w.create(pod)
	}
	for range 5 {
		w.mustPass()
		w.clock.SetTime(w.clock.Now().Add(6 * time.Second))
	}
	if i := slices.Index(graded, silent); i >= 0 {
		reports["10.0.1."+string(rune('1'+i))] = reportOf(w, 1)
	}
	for range 2 {
		w.mustPass()
		w.clock.SetTime(w.clock.Now().Add(6 * time.Second))
	}
	return w
}

// reportOf is the report of a server that has graded so many episodes of the run.
func reportOf(w *world, graded int64) score.Report {
	report := runtest.NewReport()
	report.Runs = []score.RunReport{{Run: string(w.run().UID), Scored: graded}}
	return report
}
