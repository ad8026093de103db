package rules

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
)

// Trainers have no run's credential, so their run fails instead of waiting for episodes.
func TestTrainersOfAPoolForRunsOnly(t *testing.T) {
	s := snap()
	s.Run.Spec.Agent = v1alpha1.Agent{Type: v1alpha1.ExternalAgent}
	s.Env.Spec.Access.Play = v1alpha1.RunsOnlyPlay
	d := DecideRun(s)
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionFailed)
	if c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonTrainersNotAllowed ||
		!strings.Contains(c.Message, "access.play Open") {
		t.Errorf("Failed is %+v", c)
	}
}
