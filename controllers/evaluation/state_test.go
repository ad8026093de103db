package evaluation_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
)

// The state of a complete run is what isn't as it should be. The state of others is why they aren't
// complete.
func TestTheStateNamesAFlaw(t *testing.T) {
	t.Parallel()
	of := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: reason + "."}
	}
	ready := of(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	for name, tt := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"complete": {[]metav1.Condition{ready, of(v1alpha1.ConditionCompared, metav1.ConditionTrue, "Compared")}, "Completed"},
		"graded again": {[]metav1.Condition{of(v1alpha1.ConditionResultsStored, metav1.ConditionFalse, "StoreFailed"), ready,
			of(v1alpha1.ConditionPlayedOnce, metav1.ConditionFalse, "GradedAgain")}, "GradedAgain"},
		"not stored": {[]metav1.Condition{ready, of(v1alpha1.ConditionResultsStored, metav1.ConditionFalse, "StoreFailed")},
			"StoreFailed"},
		"not compared yet": {[]metav1.Condition{ready, of(v1alpha1.ConditionCompared, metav1.ConditionUnknown,
			"BaselineNotFound")}, "BaselineNotFound"},
		"playing": {[]metav1.Condition{of(v1alpha1.ConditionReady, metav1.ConditionFalse, "Running"),
			of(v1alpha1.ConditionResultsStored, metav1.ConditionUnknown, "StorePending")}, "Running"},
		"of an earlier release": {[]metav1.Condition{of(v1alpha1.ConditionComplete, metav1.ConditionTrue, "Completed")},
			"Completed"},
	} {
		evaluation.NameFlaw(tt.conditions)
		if got := evaluation.FindState(tt.conditions); got == nil || got.Reason != tt.want || got.Message != tt.want+"." {
			t.Errorf("%s: %+v, want %s", name, got, tt.want)
		}
	}
	if got := evaluation.FindState(nil); got != nil {
		t.Errorf("a new run: %+v", got)
	}
}
