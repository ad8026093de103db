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

// endedJobDeadline, in seconds, is over for every Job that has begun.
const endedJobDeadline = 1

func suspended(run *v1alpha1.EvaluationRun) bool { return ptr.Deref(run.Spec.Suspend, false) }

// startDeadline reports whether a run has waited too long for what keeps it from beginning. It
// waits anew each time that it is resumed.
func startDeadline(d *decision, s snapshot, p evaluation.Outcome) (evaluation.Outcome, bool) {
	deadline := s.run.Spec.StartDeadlineSeconds
	if deadline == nil {
		return evaluation.Outcome{}, false
	}
	since := s.now
	if c := meta.FindStatusCondition(s.run.Status.Conditions, v1alpha1.ConditionSuspended); c != nil &&
		c.Status == metav1.ConditionFalse {
		since = c.LastTransitionTime.Time
	}
	if left := since.Add(seconds32(*deadline)).Sub(s.now); left > 0 {
		d.wake(left)
		return evaluation.Outcome{}, false
	}
	return failed(v1alpha1.ReasonStartDeadlineExceeded,
		fmt.Sprintf("The run could not begin within %d seconds (startDeadlineSeconds). %s Then create the run again.",
			*deadline, p.Message)), true
}

// activeDeadline reports whether a run has gone on for too long.
func activeDeadline(d *decision, s snapshot) (evaluation.Outcome, bool) {
	deadline := s.run.Spec.ActiveDeadlineSeconds
	if deadline == nil || s.run.Status.StartTime == nil {
		return evaluation.Outcome{}, false
	}
	if left := s.run.Status.StartTime.Add(seconds32(*deadline)).Sub(s.now); left > 0 {
		d.wake(left)
		return evaluation.Outcome{}, false
	}
	return evaluation.DeadlineExceeded(s.run, shardsMessage(d)), true
}

func seconds32(n int32) time.Duration { return time.Duration(n) * time.Second }

// abortForDeletedNamespace stands aside while the namespace is being deleted: nothing can be
// created there, and the run is about to go. Kubernetes deletes a namespace's pods before its Jobs,
// but the Job controller holds the last failed pod of an index until it has made another, which it
// never can: so the Job has to go first.
func abortForDeletedNamespace(d *decision, s snapshot) {
	d.release = s.pods
	d.deleteJob = stillActive(s.job)
}

// reconcileEnded finishes what the last pass of a run that has ended couldn't, and deletes the run
// when its time is over.
func reconcileEnded(d *decision, s snapshot) {
	for i := range d.status.Conditions {
		d.status.Conditions[i].ObservedGeneration = s.run.Generation
	}
	finish(d, s)
}

// finish lets the pods of a run that has ended go, ends its Job, and deletes the run when its time
// is over.
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
	// The end has to be in the status first, so that watchers see it.
	if ended(s.run.Status.Conditions) {
		d.deleteRun = true
	} else {
		d.wake(time.Second)
	}
}

// endJob deletes the Job of a run whose pods aren't kept. Otherwise a Job that would go on is ended
// by a deadline, which leaves the pods that have ended, with their logs. The Job of a completed run
// ends by itself, as soon as its controller has seen the pods that this one has seen.
func endJob(d *decision, s snapshot) {
	switch {
	case s.job == nil || !s.job.DeletionTimestamp.IsZero():
	case !retained(s.run, d.status):
		d.deleteJob = true
	case !meta.IsStatusConditionTrue(d.status.Conditions, v1alpha1.ConditionFailed) || jobEnded(s.job) ||
		s.job.Spec.ActiveDeadlineSeconds != nil:
	case ptr.Deref(s.job.Spec.Suspend, false):
		// A suspended Job has no deadline. None of its pods runs, and none was asked to stay.
		d.deleteJob = true
	default:
		d.changeJob.deadline = new(int64(endedJobDeadline))
	}
}

// retained reports whether the pods of a run that has ended are kept, and the run itself beyond its
// time.
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
