package evaluation

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/csenv/csenv/api/v1alpha1"
)

// Programs that know only Ready and Stalled wait for a running run, and stop waiting for one that
// has failed or missed its thresholds.
func TestReadiness(t *testing.T) {
	sums, status := played(t)
	for name, tc := range map[string]struct {
		outcome Outcome
		min     string
		want    string
	}{
		"waiting":   {Outcome{Waiting, v1alpha1.ReasonWaitingForEnvironment, "m"}, "", "False/WaitingForEnvironment, stalled false"},
		"running":   {Outcome{Running, v1alpha1.ReasonRunning, "m"}, "1", "False/Running, stalled false"},
		"failed":    {Outcome{Failed, v1alpha1.ReasonShardsFailed, "m"}, "", "False/ShardsFailed, stalled true"},
		"completed": {Outcome{Completed, v1alpha1.ReasonCompleted, "m"}, "", "True/Completed, stalled false"},
		"good":      {Outcome{Completed, v1alpha1.ReasonCompleted, "m"}, "0.85", "True/Completed, stalled false"},
		"bad":       {Outcome{Completed, v1alpha1.ReasonCompleted, "m"}, "0.86", "False/ThresholdsMissed, stalled true"},
	} {
		t.Run(name, func(t *testing.T) {
			run := &v1alpha1.EvaluationRun{}
			if tc.min != "" {
				run.Spec.Thresholds = []v1alpha1.Threshold{{Metric: v1alpha1.MeanScoreMetric,
					Min: v1alpha1.Number{Text: tc.min}}}
			}
			conditions := BuildConditions(run, status, sums, tc.outcome)
			ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
			got := fmt.Sprintf("%s/%s, stalled %v", ready.Status, ready.Reason,
				meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled))
			if got != tc.want {
				t.Errorf("Ready is %s, want %s", got, tc.want)
			}
		})
	}
}
