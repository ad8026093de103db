package run

import (
	"cmp"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
)

// endedJobDeadline, in seconds, has passed for every Job that has begun.
const endedJobDeadline = 1

// isSuspended reports whether the spec suspends the run.
func isSuspended(run *v1alpha1.EvaluationRun) bool { return ptr.Deref(run.Spec.Suspend, false) }

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
	if resumed := s.run.Status.AttemptTime; resumed != nil && resumed.After(since) {
		since = resumed.Time
	}
	if left := since.Add(seconds32(*deadline)).Sub(s.now); left > 0 {
		d.wake(left)
		return evaluation.Outcome{}
	}
	return failed(v1alpha1.ReasonStartDeadlineExceeded,
		fmt.Sprintf("The run could not begin within %d seconds (startDeadlineSeconds). %s Then %s.",
			*deadline, obstacle.Message, evaluation.HowToResume(s.run)))
}

// noteAdmission notes when the queue first admitted a Job of the run.
func noteAdmission(d *decision, s snapshot) {
	if s.job != nil && queuedJob(s.job) && !ptr.Deref(s.job.Spec.Suspend, false) && d.status.AdmissionTime == nil {
		d.status.AdmissionTime = new(metav1.NewTime(s.now))
	}
}

// unadmitted reports whether a queue has admitted no Job of the attempt yet.
func unadmitted(run *v1alpha1.EvaluationRun, job *batchv1.Job) bool {
	waits := queued(run)
	if job != nil {
		waits = queuedJob(job)
	}
	return waits && run.Status.AdmissionTime == nil
}

// activeDeadline fails a run that has taken longer than activeDeadlineSeconds.
func activeDeadline(d *decision, s snapshot) evaluation.Outcome {
	at, left := deadlineOf(s.run, s.job, s.now)
	switch {
	case at.IsZero():
		return evaluation.Outcome{}
	case left > 0:
		d.wake(left)
		return evaluation.Outcome{}
	}
	return evaluation.DeadlineExceeded(s.run, shardsMessage(d)+fmt.Sprintf(" To allow as much time again, %s.",
		evaluation.HowToResume(s.run)))
}

// deadlineOf returns when activeDeadlineSeconds will have passed, and the time until then. The zero
// time means that there is no deadline, or that the run hasn't begun.
func deadlineOf(run *v1alpha1.EvaluationRun, job *batchv1.Job, now time.Time) (at time.Time, left time.Duration) {
	began := cmp.Or(run.Status.AdmissionTime, run.Status.AttemptTime, run.Status.StartTime)
	if run.Spec.ActiveDeadlineSeconds == nil || began == nil || unadmitted(run, job) {
		return time.Time{}, 0
	}
	at = began.Add(time.Duration(*run.Spec.ActiveDeadlineSeconds) * time.Second)
	return at, at.Sub(now)
}

// deadlineOver reports whether activeDeadlineSeconds have passed.
func deadlineOver(run *v1alpha1.EvaluationRun, job *batchv1.Job, now time.Time) bool {
	at, left := deadlineOf(run, job, now)
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
	compareLate(d, s)
	finish(d, s)
}

// finish releases the pods of a run that has ended, ends its Job, and deletes the run after
// ttlSecondsAfterFinished.
func finish(d *decision, s snapshot) {
	if evaluation.AwaitsBaseline(d.status.Conditions) {
		d.wake(baselineInterval)
	}
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
// itself, as soon as its controller has seen the same pods as this one, unless sidecars keep them.
func endJob(d *decision, s snapshot) {
	switch {
	case s.job == nil || !s.job.DeletionTimestamp.IsZero():
	case !retained(s.run, d.status):
		d.deleteJob = true
	case !meta.IsStatusConditionTrue(d.status.Conditions, v1alpha1.ConditionFailed) && len(keptPods(d, s)) == 0 ||
		jobEnded(s.job) || s.job.Spec.ActiveDeadlineSeconds != nil:
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

// resume opens a failed run again. Shards with errored episodes are played again: their errors may
// be why the run failed. The next pass replaces the Job, whose number is that of an earlier one.
func resume(d *decision, s snapshot) {
	status := &d.status
	status.Attempt, status.AttemptTime = *s.run.Spec.Attempt, new(metav1.NewTime(s.now))
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
	for _, c := range evaluation.Conditions(s.run, *status, d.folding.sums, o) {
		set(d, s, c)
	}
	d.wake(waitDelay)
}

// dropFlawed takes the shards with errored episodes out of the figures.
func dropFlawed(d *decision) error {
	status := &d.status
	kept := ptr.Deref(status.Shards.Flawless, v1alpha1.CountedShards{
		CompletedIndexes: status.Shards.CompletedIndexes, Accumulator: status.Shards.Accumulator})
	sums, done, err := parseCounted(kept)
	if err != nil {
		return err
	}
	status.Score, status.PassRate, status.PassRateCI95, status.PassHatK = nil, "", nil, nil
	status.Tasks, status.Categories, status.Difficulties, status.Languages = nil, nil, nil, nil
	status.Durations, status.ScoresRef, status.Baseline, status.Shards.Flawless = nil, nil, nil, nil
	d.folding.sums, d.folding.completed = sums, done
	evaluation.WriteFigures(status, sums, done)
	return nil
}

// keepFlawless adds the shards without errored episodes that this pass has counted to a second sum,
// which begins with the first shard that has such episodes. It returns nil if the sum stays as it
// was before the pass.
func keepFlawless(before *v1alpha1.Shards, f folding) (*v1alpha1.CountedShards, error) {
	flawed := false
	for _, shard := range f.counted {
		flawed = flawed || shard.flawed()
	}
	if len(f.counted) == 0 || before.Flawless == nil && !flawed {
		return nil, nil
	}
	sums, done, err := parseCounted(ptr.Deref(before.Flawless, v1alpha1.CountedShards{
		CompletedIndexes: before.CompletedIndexes, Accumulator: before.Accumulator}))
	if err != nil {
		return nil, err
	}
	for i, shard := range f.counted {
		if !shard.flawed() {
			sums.FoldSummary(f.ledgers[i], f.summaries[i])
			done.Add(int64(shard.index))
		}
	}
	text, err := sums.MarshalText()
	if err != nil {
		return nil, fmt.Errorf("encoding the sums of shards without errors: %w", err)
	}
	return &v1alpha1.CountedShards{CompletedIndexes: done.String(), Accumulator: string(text)}, nil
}

// parseCounted reads counted shards of the status.
func parseCounted(c v1alpha1.CountedShards) (score.Accumulator, score.IndexSet, error) {
	var sums score.Accumulator
	if err := sums.UnmarshalText([]byte(c.Accumulator)); err != nil {
		return sums, score.IndexSet{}, fmt.Errorf("reading status.shards.accumulator: %w", err)
	}
	done, err := score.ParseIndexSet(c.CompletedIndexes)
	if err != nil {
		return sums, done, fmt.Errorf("reading status.shards.completedIndexes: %w", err)
	}
	return sums, done, nil
}
