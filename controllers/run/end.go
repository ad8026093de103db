package run

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
)

// endedJobDeadline, in seconds, has passed for every Job that has begun.
const endedJobDeadline = 1

func suspended(run *v1alpha1.EvaluationRun) bool { return ptr.Deref(run.Spec.Suspend, false) }

// startDeadline fails a run that has waited too long for its pool or its names. The time starts
// again when the run is resumed.
func startDeadline(d *decision, s snapshot, obstacle evaluation.Outcome) evaluation.Outcome {
	deadline := s.run.Spec.StartDeadlineSeconds
	if deadline == nil {
		return evaluation.Outcome{}
	}
	since := s.now
	if c := meta.FindStatusCondition(s.run.Status.Conditions, v1alpha1.ConditionSuspended); c != nil &&
		c.Status == metav1.ConditionFalse {
		since = c.LastTransitionTime.Time
	}
	if left := since.Add(seconds32(*deadline)).Sub(s.now); left > 0 {
		d.wake(left)
		return evaluation.Outcome{}
	}
	return failed(v1alpha1.ReasonStartDeadlineExceeded,
		fmt.Sprintf("The run could not begin within %d seconds (startDeadlineSeconds). %s Then create the run again.",
			*deadline, obstacle.Message))
}

// activeDeadline fails a run that has taken longer than activeDeadlineSeconds.
func activeDeadline(d *decision, s snapshot) evaluation.Outcome {
	at, left := deadlineOf(s)
	switch {
	case at.IsZero():
		return evaluation.Outcome{}
	case left > 0:
		d.wake(left)
		return evaluation.Outcome{}
	}
	return evaluation.DeadlineExceeded(s.run, shardsMessage(d))
}

// deadlineOf returns when activeDeadlineSeconds will have passed, and the time until then. The zero
// time means that there is no deadline, or that the run hasn't begun.
func deadlineOf(s snapshot) (at time.Time, left time.Duration) {
	if s.run.Spec.ActiveDeadlineSeconds == nil || s.run.Status.StartTime == nil {
		return time.Time{}, 0
	}
	at = s.run.Status.StartTime.Add(seconds32(*s.run.Spec.ActiveDeadlineSeconds))
	return at, at.Sub(s.now)
}

func deadlineOver(s snapshot) bool {
	at, left := deadlineOf(s)
	return !at.IsZero() && left <= 0
}

func seconds32(n int32) time.Duration { return time.Duration(n) * time.Second }

// abortForDeletedNamespace releases the pods and deletes the Job while the namespace is being
// deleted. Kubernetes deletes a namespace's pods before its Jobs, but the Job controller keeps the
// last failed pod of an index until it has created another, which it no longer can.
func abortForDeletedNamespace(d *decision, s snapshot) {
	d.release = s.pods
	d.deleteJob = stillActive(s.job)
}

// reconcileEnded repeats what the last pass of an ended run may not have completed.
func reconcileEnded(d *decision, s snapshot) {
	for i := range d.status.Conditions {
		d.status.Conditions[i].ObservedGeneration = s.run.Generation
	}
	finish(d, s)
}

// finish releases the pods of a run that has ended, ends its Job, and deletes the run after
// ttlSecondsAfterFinished.
func finish(d *decision, s snapshot) {
	d.release = s.pods
	endJob(d, s)
	ttl := s.run.Spec.TTLSecondsAfterFinished
	if ttl == nil || d.status.CompletionTime == nil || retained(s.run, d.status) {
		return
	}
	if left := d.status.CompletionTime.Add(seconds32(*ttl)).Sub(s.now); left > 0 {
		d.wake(left)
		return
	}
	// The end must be in the status first, so that watchers see it.
	if evaluation.Ended(s.run.Status.Conditions) {
		d.deleteRun = true
	} else {
		d.wake(time.Second)
	}
}

// endJob deletes the Job of a run whose pods aren't kept. Otherwise a Job that is still active is
// suspended, which stops its pods and keeps those that have ended, with their logs. A queue would
// start it again, so its Job gets a deadline that has passed. The Job of a completed run ends by
// itself, as soon as its controller has seen the same pods as this one.
func endJob(d *decision, s snapshot) {
	switch {
	case s.job == nil || !s.job.DeletionTimestamp.IsZero():
	case !retained(s.run, d.status):
		d.deleteJob = true
	case !meta.IsStatusConditionTrue(d.status.Conditions, v1alpha1.ConditionFailed) || jobEnded(s.job) ||
		s.job.Spec.ActiveDeadlineSeconds != nil:
	case queuedJob(s.job) && ptr.Deref(s.job.Spec.Suspend, false):
		d.deleteJob = true // a deadline has no effect on a suspended Job
	case queuedJob(s.job):
		d.changeJob.deadline = new(int64(endedJobDeadline))
	case !ptr.Deref(s.job.Spec.Suspend, false):
		d.changeJob.suspend = new(true)
	}
}

// retained reports whether an ended run and its pods are kept.
func retained(run *v1alpha1.EvaluationRun, status v1alpha1.EvaluationRunStatus) bool {
	switch run.Spec.Retain {
	case v1alpha1.RetainAlways:
		return true
	case v1alpha1.RetainNever:
		return false
	case v1alpha1.RetainOnFailure, "":
	}
	return !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionComplete) ||
		meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionThresholdsMet)
}
