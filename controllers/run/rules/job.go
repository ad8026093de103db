package rules

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// stuckDeadline is how long a runner may fail to start for a reason that rarely resolves
	// itself, such as an image that can't be pulled.
	stuckDeadline = 10 * time.Minute
	// lostDeadline is how long after its Job's completion a run waits for summaries that no pod
	// contains. Caches don't lag longer than that.
	lostDeadline = 2 * time.Minute
)

// keepJob makes the Job match the spec. A Job that has completed while shards are missing, or that
// can't go on because of sidecars, is deleted; the next pass creates another, which plays the
// missing ones.
//
// A run in a queue is suspended by deleting its Job, since only the queue may change whether its
// Job is suspended. The run so loses its place in the queue.
func keepJob(d *Decision, s observe.Snapshot) {
	next := nextJob(d, s)
	switch {
	case s.Job == nil:
		if len(s.Taken) == 0 {
			d.CreateJob = next
		}
		if next != nil {
			d.wake(waitDelay)
		}
	case !s.Job.DeletionTimestamp.IsZero():
	case runner.ReadJobAttempt(s.Job) != d.Status.Shards.Rounds, next == nil && runner.IsJobActive(s.Job),
		observe.IsSuspended(s.Run) && runner.IsQueuedJob(s.Job) && runner.IsJobActive(s.Job),
		runner.IsHeldByQueue(s.Job) && runner.ReadRequestedQueue(s.Job) != s.Run.Labels[runner.LabelQueue]:
		// A Job that waits in a queue is replaced when its run's label names another queue or none.
		d.DeleteJob = true
	case runner.HasJobEnded(s.Job):
	case runner.IsBlockedBySidecars(s.Job, keptPods(d, s)):
		d.DeleteJob = true
	default:
		wanted := runner.LimitParallelism(s.Run, ptr.Deref(s.Job.Spec.Completions, 1))
		if ptr.Deref(s.Job.Spec.Parallelism, 0) != wanted {
			d.ChangeJob.Parallelism = &wanted
		}
		if suspend := observe.IsSuspended(s.Run); ptr.Deref(s.Job.Spec.Suspend, false) != suspend && !runner.IsQueuedJob(s.Job) {
			d.ChangeJob.Suspend = &suspend
		}
	}
}

// nextJob is the Job that plays the missing shards, nil while there should be none. None is created
// for a suspended run: admission may put it into a queue, which would start it.
func nextJob(d *Decision, s observe.Snapshot) *runner.JobSpec {
	if observe.IsSuspended(s.Run) && (s.Job == nil || runner.IsQueued(s.Run)) {
		return nil
	}
	return &runner.JobSpec{JobAttempt: d.Status.Shards.Rounds, Shards: d.Tally.Missing(d.Status.Shards.Total), Suspended: runner.IsQueued(s.Run),
		Inputs: plannedInputs(d, s)}
}

// plannedInputs is the digest of what the runners of the next Job read. It is "" if the ConfigMap
// can't be made, which applyPlan reports before a Job is created.
func plannedInputs(d *Decision, s observe.Snapshot) string {
	planMap := s.PlanMap
	if d.CreatePlan != nil {
		made, err := runner.MakePlanMap(s.Run, *d.CreatePlan)
		if err != nil {
			return ""
		}
		planMap = made
	}
	if planMap == nil {
		return ""
	}
	return runner.DigestInputs(planMap)
}

// mayPlayAgain reports whether shards may be played by another Job.
func mayPlayAgain(run *v1alpha1.EvaluationRun) bool {
	return run.Status.Shards.Rounds-run.Status.Shards.RoundsBefore <= runner.ReadBackoffLimit(run)
}

// keptPods are the pods that sidecars keep running.
func keptPods(d *Decision, s observe.Snapshot) []corev1.Pod {
	kept, next := runner.FindOutlived(s.Succeeded, s.Now)
	if next > 0 {
		d.wake(next)
	}
	return kept
}

// jobFailure fails a run whose Job can no longer complete.
func jobFailure(d *Decision, s observe.Snapshot) evaluation.Outcome {
	if s.Job == nil || runner.ReadJobAttempt(s.Job) != d.Status.Shards.Rounds {
		return evaluation.Outcome{}
	}
	if c := runner.FindJobCondition(s.Job, batchv1.JobFailed); c != nil {
		reason, message := whyFailed(s, c)
		return failed(reason, message+runner.QuoteLastFailure(s.Failed)+". Correct that, then "+evaluation.HowToResume(s.Run)+".")
	}
	if why, since := runner.FindStartTrouble(s.Pods, s.Now); why != "" {
		left := since.Add(stuckDeadline).Sub(s.Now)
		if left <= 0 {
			return failed(v1alpha1.ReasonRunnersNotStarted, fmt.Sprintf("A runner could not start for %s: %s. "+
				"Correct that, then %s.", stuckDeadline, why, evaluation.HowToResume(s.Run)))
		}
		d.wake(left)
	}
	for i := range s.Pods {
		if left := pods.CreationPatience - s.Now.Sub(runner.ReadScheduledTime(&s.Pods[i])); left > 0 && runner.IsCreating(&s.Pods[i]) {
			d.wake(left)
		}
	}
	return playedWithout(d, s)
}

// whyFailed describes the failure of the Job.
func whyFailed(s observe.Snapshot, c *batchv1.JobCondition) (reason, message string) {
	reason, message = v1alpha1.ReasonShardsFailed, fmt.Sprintf("Job %s failed: %s", s.Job.Name,
		strings.TrimSuffix(c.Message, "."))
	if indexes := ptr.Deref(s.Job.Status.FailedIndexes, ""); indexes != "" {
		message = fmt.Sprintf("Shards %s failed more often than retries.shardBackoffLimit allows",
			runner.ListShards(s.Job, indexes))
	}
	if last := runner.FindLastFailure(s.Failed); last != nil {
		switch pods.Terminated(last, runner.Container).ExitCode {
		case score.ExitAgentRefused:
			return v1alpha1.ReasonAgentRefused, "The agent's endpoint refuses every request"
		case score.ExitAgentUnavailable:
			return v1alpha1.ReasonAgentUnavailable, message
		}
	}
	return reason, message
}

// playedWithout handles a Job that completed while shards are missing: their summaries were
// refused, or their pods were removed by force before they were read. They are played again up to
// retries.shardBackoffLimit times. The attempts are counted in the status, before the next Job is
// created, so that a crash in between counts none twice.
func playedWithout(d *Decision, s observe.Snapshot) evaluation.Outcome {
	c := runner.FindJobCondition(s.Job, batchv1.JobComplete)
	if c == nil {
		return evaluation.Outcome{}
	}
	left := d.Tally.Missing(d.Status.Shards.Total)
	lost := runner.CountUnseen(left, s.Job, s.Succeeded)
	if wait := c.LastTransitionTime.Add(lostDeadline).Sub(s.Now); lost > 0 && wait > 0 {
		d.wake(wait)
		return evaluation.Outcome{}
	}
	if !mayPlayAgain(s.Run) {
		return failed(v1alpha1.ReasonSummariesLost, fmt.Sprintf("Job %s is complete, but the summaries of shards %q "+
			"were refused, or their pods were removed before they were read. retries.shardBackoffLimit doesn't allow "+
			"them to be played again. Find out what removes pods and finalizers, then %s.",
			s.Job.Name, left, evaluation.HowToResume(s.Run)))
	}
	d.Status.Shards.Rounds++
	d.announce(corev1.EventTypeWarning, v1alpha1.ReasonShardsPlayedAgain, fmt.Sprintf("Shards %s are played again: "+
		"the summaries of %d of them were refused, and the pods of %d were removed. This is repetition %d of at most "+
		"%d (retries.shardBackoffLimit).", pods.Quote(left.String()), left.Len()-lost, lost,
		d.Status.Shards.Rounds-d.Status.Shards.RoundsBefore-1, runner.ReadBackoffLimit(s.Run)))
	return evaluation.Outcome{}
}

// releasable are the pods whose summary is counted or refused, or that will leave none. A pod that
// is being deleted keeps its finalizer while its runner may still leave a summary.
func releasable(d *Decision, s observe.Snapshot) []corev1.Pod {
	var done []corev1.Pod
	for i := range s.Pods {
		pod := &s.Pods[i]
		shard, err := runner.ReadShard(pod)
		switch {
		case pod.Status.Phase == corev1.PodFailed, d.Tally.Refuses(pod),
			runner.HasSucceeded(pod) && err == nil && d.Tally.Completed.Contains(int64(shard)):
			done = append(done, *pod)
		case runner.HasSucceeded(pod) || pod.DeletionTimestamp.IsZero():
		case pod.Spec.NodeName == "" || !s.Now.Before(pod.DeletionTimestamp.Add(observe.DeleteGrace)):
			done = append(done, *pod)
		default:
			d.wake(pod.DeletionTimestamp.Add(observe.DeleteGrace).Sub(s.Now))
		}
	}
	return done
}

// lostPods are the pods that nothing else ends, because their node doesn't report that they have
// stopped. The Job controller replaces a pod only after it has ended.
func lostPods(d *Decision, s observe.Snapshot) []corev1.Pod {
	var lost []corev1.Pod
	for _, pod := range s.OverduePods() {
		if s.LostNodes[pod.Spec.NodeName] {
			lost = append(lost, pod)
		} else {
			d.wake(waitDelay) // its node may be lost later
		}
	}
	return lost
}
