package rules

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

func TestThresholds(t *testing.T) {
	s, plan := begun(t)
	for shard := range plan.Shards {
		addPods(&s, runtest.NewSucceededPod(t, s.Run, plan, shard))
	}
	f := tally.FoldSummaries(tally.Expected{Plan: plan, Sessions: 2}, score.Accumulator{}, score.IndexSet{}, s.Pods)
	figures := f.Sums.Figures()
	if figures.CI95 == nil {
		t.Fatal("the figures of the test have no interval")
	}
	for name, tc := range map[string]struct {
		threshold v1alpha1.Threshold
		want      string
	}{
		"reached": {v1alpha1.Threshold{Metric: v1alpha1.MeanScoreMetric,
			Min: v1alpha1.Number{Text: score.FormatDecimal(figures.Mean - 100)}}, "True"},
		"missed": {v1alpha1.Threshold{Metric: v1alpha1.MeanScoreMetric,
			Min: v1alpha1.Number{Text: score.FormatDecimal(figures.Mean + 100)}}, "False"},
		"the low end": {v1alpha1.Threshold{Metric: v1alpha1.MeanScoreLowMetric,
			Min: v1alpha1.Number{Text: score.FormatDecimal(figures.Mean)}}, "False"},
		"the pass rate":      {v1alpha1.Threshold{Metric: v1alpha1.PassRateMetric, Min: v1alpha1.Number{Text: "0"}}, "True"},
		"pass^2":             {v1alpha1.Threshold{Metric: "passHat2", Min: v1alpha1.Number{Text: "1"}}, "False"},
		"pass^8, never play": {v1alpha1.Threshold{Metric: "passHat8", Min: v1alpha1.Number{Text: "0"}}, "False"},
	} {
		t.Run(name, func(t *testing.T) {
			run := runtest.NewRun()
			run.Spec.Thresholds = []v1alpha1.Threshold{tc.threshold}
			at := func(state evaluation.State) metav1.Condition {
				return *meta.FindStatusCondition(evaluation.BuildConditions(run, s.Run.Status, f.Sums,
					evaluation.Outcome{State: state}), v1alpha1.ConditionThresholdsMet)
			}
			if c := at(evaluation.Completed); string(c.Status) != tc.want || c.Message == "" {
				t.Errorf("%+v", c)
			}
			if c := at(evaluation.Running); c.Status != metav1.ConditionUnknown {
				t.Errorf("before the end of the run: %+v", c)
			}
		})
	}
	s.Run.Spec.Thresholds = []v1alpha1.Threshold{{Metric: v1alpha1.PassRateMetric, Min: v1alpha1.Number{Text: "1"}}}
	d := DecideRun(s)
	want := runtest.EnvReady + "Complete=True/Completed" + runtest.NotFailed + " ThresholdsMet=False/ThresholdsMissed"
	if got := runtest.FormatConditions(d.Status.Conditions); got != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
	if got := told(d, v1alpha1.ReasonThresholdsMissed); len(got) != 1 ||
		!strings.HasPrefix(got[0], "Warning passRate is ") {
		t.Errorf("told %q", got)
	}
	s.Run.Spec.Thresholds[0].Min.Text = "0"
	if got := told(DecideRun(s), v1alpha1.ReasonThresholdsReached); len(got) > 0 {
		t.Errorf("events %q of a run that meets its thresholds", got)
	}
	early := snap()
	early.Run.Spec.Thresholds = []v1alpha1.Threshold{{Metric: "passHat4", Min: v1alpha1.Number{Text: "1"}}}
	if got := runtest.FormatConditions(DecideRun(early).Status.Conditions); !strings.Contains(got, "Failed=True/InvalidPlan") {
		t.Errorf("a run with an unreachable threshold begins: %s", got)
	}
}
