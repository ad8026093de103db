package rules

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
)

// endedJobDeadline, in seconds, has passed for every Job that has begun.
const endedJobDeadline = 1

func convertSeconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// cleanUp releases the pods of a run that has ended, ends its Job, and deletes the run after
// ttlSecondsAfterFinished.
func (p *pass) cleanUp() {
	if evaluation.AwaitsBaseline(p.d.Status.Conditions) {
		p.d.wakeAfter(BaselineInterval)
	}
	p.d.Release = p.s.Pods
	p.endJob()
	ttl := p.s.Run.Spec.TTLSecondsAfterFinished
	if ttl == nil || p.d.Status.CompletionTime == nil || isRetained(p.s.Run.Spec.Retain, p.d.Status.Conditions) {
		return
	}
	if left := p.d.Status.CompletionTime.Add(convertSeconds(*ttl)).Sub(p.s.Now); left > 0 {
		p.d.wakeAfter(left)
		return
	}
	// The end must be in the status first, so that watchers see it.
	if evaluation.HasEnded(p.s.Run.Status.Conditions) {
		p.d.DeleteRun = true
	} else {
		p.d.wakeAfter(time.Second)
	}
}

// endJob deletes the Job of a run whose pods aren't kept. Otherwise a Job that is still active is
// suspended, which stops its pods and keeps those that have ended, with their logs. A queue would
// start it again, so its Job gets a deadline that has passed. The Job of a completed run ends by
// itself, as soon as its controller has seen the same pods as this one, unless sidecars keep them.
func (p *pass) endJob() {
	job := p.s.Job
	if job == nil || !job.DeletionTimestamp.IsZero() {
		return
	}
	if !isRetained(p.s.Run.Spec.Retain, p.d.Status.Conditions) {
		p.d.DeleteJob = true
		return
	}
	failed := meta.IsStatusConditionTrue(p.d.Status.Conditions, v1alpha1.ConditionFailed)
	if !failed {
		_, next := runner.FindOutlived(p.s.Succeeded, p.s.Now)
		p.d.wakeAfter(next)
	}
	isSuspended := ptr.Deref(job.Spec.Suspend, false)
	switch {
	case !failed && len(p.findKept()) == 0, runner.HasJobEnded(job), job.Spec.ActiveDeadlineSeconds != nil:
	case runner.IsQueuedJob(job) && isSuspended:
		p.d.DeleteJob = true // a deadline has no effect on a suspended Job
	case runner.IsQueuedJob(job):
		p.d.ChangeJob.Deadline = new(int64(endedJobDeadline))
	case !isSuspended:
		p.d.ChangeJob.Suspend = new(true)
	}
}

// isRetained reports whether an ended run and its pods are kept.
func isRetained(retain v1alpha1.Retention, conditions []metav1.Condition) bool {
	switch retain {
	case v1alpha1.RetainAlways:
		return true
	case v1alpha1.RetainNever:
		return false
	case v1alpha1.RetainOnFailure, "":
	}
	return !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete) ||
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionThresholdsMet)
}
