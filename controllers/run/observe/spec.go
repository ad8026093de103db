package observe

import (
	"cmp"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
)

// IsSuspended reports whether the spec suspends the run.
func IsSuspended(run *v1alpha1.EvaluationRun) bool { return ptr.Deref(run.Spec.Suspend, false) }

// isUnadmitted reports whether a queue has admitted no Job of the attempt yet.
func isUnadmitted(run *v1alpha1.EvaluationRun, job *batchv1.Job) bool {
	waits := runner.IsQueued(run)
	if job != nil {
		waits = runner.IsQueuedJob(job)
	}
	return waits && run.Status.AdmissionTime == nil
}

// FindDeadline returns when activeDeadlineSeconds will have passed, and the time until then. The
// zero time means that there is no deadline, or that the run hasn't begun.
func FindDeadline(run *v1alpha1.EvaluationRun, job *batchv1.Job, now time.Time) (at time.Time, left time.Duration) {
	began := cmp.Or(run.Status.AdmissionTime, run.Status.AttemptTime, run.Status.StartTime)
	if run.Spec.ActiveDeadlineSeconds == nil || began == nil || isUnadmitted(run, job) {
		return time.Time{}, 0
	}
	at = began.Add(time.Duration(*run.Spec.ActiveDeadlineSeconds) * time.Second)
	return at, at.Sub(now)
}

// IsDeadlineOver reports whether activeDeadlineSeconds have passed.
func IsDeadlineOver(run *v1alpha1.EvaluationRun, job *batchv1.Job, now time.Time) bool {
	at, left := FindDeadline(run, job, now)
	return !at.IsZero() && left <= 0
}

// IsExternal reports whether trainers play the run.
func IsExternal(run *v1alpha1.EvaluationRun) bool {
	return run.Spec.Agent.Type == v1alpha1.ExternalAgent
}
