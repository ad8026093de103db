package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
)

// endedJobDeadline, in seconds, has passed for every Job that has begun.
const endedJobDeadline = 1

// startDeadline fails a run that has waited too long for its pool or its names. The time starts
// again when the run is resumed.
func startDeadline(d *Decision, s observe.Snapshot, obstacle evaluation.Outcome) evaluation.Outcome {
	deadline := s.Run.Spec.StartDeadlineSeconds
	if deadline == nil {
		return evaluation.Outcome{}
	}
	since := s.Now
	if c := meta.FindStatusCondition(s.Run.Status.Conditions, v1alpha1.ConditionSuspended); c != nil &&
		c.Status == metav1.ConditionFalse {
		since = c.LastTransitionTime.Time
	}
	if resumed := s.Run.Status.AttemptTime; resumed != nil && resumed.After(since) {
		since = resumed.Time
	}
	if left := since.Add(seconds32(*deadline)).Sub(s.Now); left > 0 {
		d.wake(left)
		return evaluation.Outcome{}
	}
	return failed(v1alpha1.ReasonStartDeadlineExceeded,
		fmt.Sprintf("The run could not begin within %d seconds (startDeadlineSeconds). %s Then %s.",
			*deadline, obstacle.Message, evaluation.HowToResume(s.Run)))
}

// noteAdmission notes when the queue first admitted a Job of the run.
func noteAdmission(d *Decision, s observe.Snapshot) {
	if s.Job != nil && runner.IsQueuedJob(s.Job) && !ptr.Deref(s.Job.Spec.Suspend, false) && d.Status.AdmissionTime == nil {
		d.Status.AdmissionTime = new(metav1.NewTime(s.Now))
	}
}

// activeDeadline fails a run that has taken longer than activeDeadlineSeconds.
func activeDeadline(d *Decision, s observe.Snapshot) evaluation.Outcome {
	at, left := observe.FindDeadline(s.Run, s.Job, s.Now)
	switch {
	case at.IsZero():
		return evaluation.Outcome{}
	case left > 0:
		d.wake(left)
		return evaluation.Outcome{}
	}
	return evaluation.DeadlineExceeded(s.Run, shardsMessage(d)+fmt.Sprintf(" To allow as much time again, %s.",
		evaluation.HowToResume(s.Run)))
}

func seconds32(n int32) time.Duration { return time.Duration(n) * time.Second }

// abortForDeletedNamespace releases the pods and deletes the Job while the namespace is being
// deleted. Kubernetes deletes a namespace's pods before its Jobs, but the Job controller keeps the
// last failed pod of an index until it has created another, which it no longer can.
func abortForDeletedNamespace(d *Decision, s observe.Snapshot) {
	d.Release = s.Pods
	d.DeleteJob = runner.IsJobActive(s.Job)
}

// reconcileEnded repeats what the last pass of an ended run may not have completed.
func reconcileEnded(d *Decision, s observe.Snapshot) {
	for i := range d.Status.Conditions {
		d.Status.Conditions[i].ObservedGeneration = s.Run.Generation
	}
	compareLate(d, s)
	finish(d, s)
}

// finish releases the pods of a run that has ended, ends its Job, and deletes the run after
// ttlSecondsAfterFinished.
func finish(d *Decision, s observe.Snapshot) {
	if evaluation.AwaitsBaseline(d.Status.Conditions) {
		d.wake(BaselineInterval)
	}
	d.Release = s.Pods
	endJob(d, s)
	ttl := s.Run.Spec.TTLSecondsAfterFinished
	if ttl == nil || d.Status.CompletionTime == nil || retained(s.Run, d.Status) {
		return
	}
	if left := d.Status.CompletionTime.Add(seconds32(*ttl)).Sub(s.Now); left > 0 {
		d.wake(left)
		return
	}
	// The end must be in the status first, so that watchers see it.
	if evaluation.Ended(s.Run.Status.Conditions) {
		d.DeleteRun = true
	} else {
		d.wake(time.Second)
	}
}

// endJob deletes the Job of a run whose pods aren't kept. Otherwise a Job that is still active is
// suspended, which stops its pods and keeps those that have ended, with their logs. A queue would
// start it again, so its Job gets a deadline that has passed. The Job of a completed run ends by
// itself, as soon as its controller has seen the same pods as this one, unless sidecars keep them.
func endJob(d *Decision, s observe.Snapshot) {
	switch {
	case s.Job == nil || !s.Job.DeletionTimestamp.IsZero():
	case !retained(s.Run, d.Status):
		d.DeleteJob = true
	case !meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionFailed) && len(keptPods(d, s)) == 0 ||
		runner.HasJobEnded(s.Job) || s.Job.Spec.ActiveDeadlineSeconds != nil:
	case runner.IsQueuedJob(s.Job) && ptr.Deref(s.Job.Spec.Suspend, false):
		d.DeleteJob = true // a deadline has no effect on a suspended Job
	case runner.IsQueuedJob(s.Job):
		d.ChangeJob.Deadline = new(int64(endedJobDeadline))
	case !ptr.Deref(s.Job.Spec.Suspend, false):
		d.ChangeJob.Suspend = new(true)
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

// resume opens a failed run again. Shards with errored episodes are played again: their errors may
// be why the run failed. The next pass replaces the Job, whose number is that of an earlier one.
func resume(d *Decision, s observe.Snapshot) {
	status := &d.Status
	status.Attempt, status.AttemptTime = *s.Run.Spec.Attempt, new(metav1.NewTime(s.Now))
	status.CompletionTime, status.AdmissionTime = nil, nil
	message := "The run begins again."
	if shards := status.Shards; shards != nil {
		shards.RoundsBefore = shards.Rounds
		shards.Rounds++
		if err := dropFlawed(d); err != nil {
			// The next pass fails the run with the same error.
			message = err.Error()
		} else {
			message = fmt.Sprintf("%s The others are played again.", shardsMessage(d))
		}
	}
	o := running(v1alpha1.ReasonRunning, fmt.Sprintf("This is attempt %d. %s", status.Attempt, message))
	if status.Provenance == nil {
		o.State, o.Reason = evaluation.Waiting, v1alpha1.ReasonWaitingForEnvironment
	}
	d.announce(corev1.EventTypeNormal, v1alpha1.ReasonResumed, o.Message)
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionStalled)
	for _, c := range evaluation.Conditions(s.Run, *status, d.Tally.Sums, o) {
		set(d, s, c)
	}
	d.wake(waitDelay)
}

// dropFlawed takes the shards with errored episodes out of the figures.
func dropFlawed(d *Decision) error {
	status := &d.Status
	kept := ptr.Deref(status.Shards.Flawless, v1alpha1.CountedShards{
		CompletedIndexes: status.Shards.CompletedIndexes, Accumulator: status.Shards.Accumulator})
	sums, done, err := tally.ParseCounted(kept)
	if err != nil {
		return err
	}
	status.Score, status.PassRate, status.PassRateCI95, status.PassHatK = nil, "", nil, nil
	status.Tasks, status.Categories, status.Difficulties, status.Languages = nil, nil, nil, nil
	status.Durations, status.ScoresRef, status.Baseline, status.Shards.Flawless = nil, nil, nil, nil
	d.Tally.Sums, d.Tally.Completed = sums, done
	evaluation.WriteFigures(status, sums, done)
	return nil
}
