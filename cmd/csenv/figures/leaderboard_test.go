package figures

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
)

// A run whose episodes were graded again, or tried out, is named and not ranked.
func TestRepeatedRunsAreNotRanked(t *testing.T) {
	run := &source.LoadedRun{EvaluationRun: &v1alpha1.EvaluationRun{Status: v1alpha1.EvaluationRunStatus{
		Score: &v1alpha1.Score{Mean: "1.0000"},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue},
			{Type: v1alpha1.ConditionPlayedOnce, Status: metav1.ConditionFalse, Message: "graded 1 episode more"}}}}}
	boards, left := RankRuns(t.Context(), []*source.LoadedRun{run})
	if len(boards) != 0 || len(left) != 1 || !strings.Contains(left[0].Reason, "graded 1 episode more") {
		t.Errorf("boards %+v, left %+v", boards, left)
	}
}
