package rules

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runtest"
)

// The deadlines of a resumed run count from the time when it was resumed.
func TestDeadlinesOfAResumedRun(t *testing.T) {
	s, _ := begun(t)
	s.Run.Spec.ActiveDeadlineSeconds = new(int32(60))
	s.Now = runtest.StartTime().Add(61 * time.Second)
	d := DecideRun(s)
	if c := completeOf(d); c.Reason != v1alpha1.ReasonDeadlineExceeded {
		t.Fatalf("%+v", c)
	}
	s.Run.Status, s.Run.Spec.Attempt = d.Status, new(int32(2))
	s.Now = runtest.StartTime().Add(time.Hour)
	s.Run.Status = DecideRun(s).Status
	s.Now = runtest.StartTime().Add(time.Hour + 59*time.Second)
	s.Job = nil
	if c := completeOf(DecideRun(s)); c.Reason != v1alpha1.ReasonRunning {
		t.Errorf("before the deadline: %s: %s", c.Reason, c.Message)
	}
	s.Now = runtest.StartTime().Add(time.Hour + 60*time.Second)
	if c := completeOf(DecideRun(s)); c.Reason != v1alpha1.ReasonDeadlineExceeded {
		t.Errorf("after the deadline: %s: %s", c.Reason, c.Message)
	}
}

// A run that failed before it began waits for its pool again.
func TestResumeBeforeTheBeginning(t *testing.T) {
	s := snap()
	s.Run.Spec.StartDeadlineSeconds = new(int32(60))
	s.Env = nil
	s.Run.Status = DecideRun(s).Status
	s.Now = runtest.StartTime().Add(time.Minute)
	s.Run.Status = DecideRun(s).Status
	c := meta.FindStatusCondition(s.Run.Status.Conditions, v1alpha1.ConditionFailed)
	if c.Status != metav1.ConditionTrue {
		t.Fatalf("%+v", c)
	}
	s.Run.Spec.Attempt = new(int32(2))
	s.Now = runtest.StartTime().Add(time.Hour)
	s.Run.Status = DecideRun(s).Status
	s.Env = runtest.NewPool()
	if d := DecideRun(s); d.CreateJob == nil {
		t.Errorf("the run doesn't begin: %+v", completeOf(d))
	}
}
