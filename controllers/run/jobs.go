package run

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
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
func keepJob(d *decision, s snapshot) {
	next := nextJob(d, s)
	switch {
	case s.job == nil:
		if len(s.taken) == 0 {
			d.createJob = next
		}
		if next != nil {
			d.wake(waitDelay)
		}
	case !s.job.DeletionTimestamp.IsZero():
	case jobAttemptOf(s.job) != d.status.Shards.Rounds, next == nil && stillActive(s.job),
		isSuspended(s.run) && queuedJob(s.job) && stillActive(s.job),
		heldByQueue(s.job) && requestedQueue(s.job) != s.run.Labels[labelQueue]:
		// A Job that waits in a queue is replaced when its run's label names another queue or none.
		d.deleteJob = true
	case jobEnded(s.job):
	case blockedBySidecars(s.job, keptPods(d, s)):
		d.deleteJob = true
	default:
		wanted := parallelism(s.run, ptr.Deref(s.job.Spec.Completions, 1))
		if ptr.Deref(s.job.Spec.Parallelism, 0) != wanted {
			d.changeJob.parallelism = &wanted
		}
		if suspend := isSuspended(s.run); ptr.Deref(s.job.Spec.Suspend, false) != suspend && !queuedJob(s.job) {
			d.changeJob.suspend = &suspend
		}
	}
}

// nextJob is the Job that plays the missing shards, nil while there should be none. None is created
// for a suspended run: admission may put it into a queue, which would start it.
func nextJob(d *decision, s snapshot) *jobSpec {
	if isSuspended(s.run) && (s.job == nil || queued(s.run)) {
		return nil
	}
	return &jobSpec{attempt: d.status.Shards.Rounds, shards: d.folding.missing(d.status.Shards.Total), suspended: queued(s.run),
		inputs: plannedInputs(d, s)}
}

// plannedInputs is the digest of what the runners of the next Job read. It is "" if the ConfigMap
// can't be made, which applyPlan reports before a Job is created.
func plannedInputs(d *decision, s snapshot) string {
	planMap := s.planMap
	if d.createPlan != nil {
		made, err := planConfigMap(s.run, *d.createPlan)
		if err != nil {
			return ""
		}
		planMap = made
	}
	if planMap == nil {
		return ""
	}
	return inputsOf(planMap)
}

// jobAttemptOf returns the number of a Job among those of its run, 0 if it isn't annotated.
func jobAttemptOf(job *batchv1.Job) int32 {
	attempt, err := strconv.ParseInt(job.Annotations[annotationAttempt], 10, 32)
	if err != nil {
		return 0
	}
	return int32(attempt)
}

// mayPlayAgain reports whether shards may be played by another Job.
func mayPlayAgain(run *v1alpha1.EvaluationRun) bool {
	return run.Status.Shards.Rounds-run.Status.Shards.RoundsBefore <= shardBackoffLimit(run)
}

func queued(run *v1alpha1.EvaluationRun) bool { return run.Labels[labelQueue] != "" }

// queuedJob reports whether a Job is in a queue, which is decided when it is created: by its run's
// label, or by admission if the namespace has a default queue.
func queuedJob(job *batchv1.Job) bool { return job.Labels[labelQueue] != "" }

// requestedQueue is the queue that the run's label named when the Job was created, "" for none. The
// Job's own label may differ, because admission may have set it. Jobs of earlier versions have the
// label only.
func requestedQueue(job *batchv1.Job) string {
	if queue, noted := job.Annotations[annotationQueue]; noted {
		return queue
	}
	return job.Labels[labelQueue]
}

// heldByQueue reports whether the queue hasn't admitted the Job.
func heldByQueue(job *batchv1.Job) bool {
	return job != nil && queuedJob(job) && ptr.Deref(job.Spec.Suspend, false) && !jobEnded(job)
}

// keptPods are the pods that sidecars keep running.
func keptPods(d *decision, s snapshot) []corev1.Pod {
	kept, next := outlived(s.succeeded, s.now)
	if next > 0 {
		d.wake(next)
	}
	return kept
}

// jobFailure fails a run whose Job can no longer complete.
func jobFailure(d *decision, s snapshot) evaluation.Outcome {
	if s.job == nil || jobAttemptOf(s.job) != d.status.Shards.Rounds {
		return evaluation.Outcome{}
	}
	if c := jobCondition(s.job, batchv1.JobFailed); c != nil {
		reason, message := whyFailed(s, c)
		return failed(reason, message+lastWords(s.failed)+". Correct that, then "+evaluation.HowToResume(s.run)+".")
	}
	if why, since := startTrouble(s.pods, s.now); why != "" {
		left := since.Add(stuckDeadline).Sub(s.now)
		if left <= 0 {
			return failed(v1alpha1.ReasonRunnersNotStarted, fmt.Sprintf("A runner could not start for %s: %s. "+
				"Correct that, then %s.", stuckDeadline, why, evaluation.HowToResume(s.run)))
		}
		d.wake(left)
	}
	for i := range s.pods {
		if left := pods.CreationPatience - s.now.Sub(scheduledAt(&s.pods[i])); left > 0 && creating(&s.pods[i]) {
			d.wake(left)
		}
	}
	return playedWithout(d, s)
}

// whyFailed describes the failure of the Job.
func whyFailed(s snapshot, c *batchv1.JobCondition) (reason, message string) {
	reason, message = v1alpha1.ReasonShardsFailed, fmt.Sprintf("Job %s failed: %s", s.job.Name,
		strings.TrimSuffix(c.Message, "."))
	if indexes := ptr.Deref(s.job.Status.FailedIndexes, ""); indexes != "" {
		message = fmt.Sprintf("Shards %s failed more often than retries.shardBackoffLimit allows",
			shardsOf(s.job, indexes))
	}
	if last := lastFailure(s.failed); last != nil {
		switch pods.Terminated(last, runnerContainer).ExitCode {
		case score.ExitAgentRefused:
			return v1alpha1.ReasonAgentRefused, "The agent's endpoint refuses every request"
		case score.ExitAgentUnavailable:
			return v1alpha1.ReasonAgentUnavailable, message
		}
	}
	return reason, message
}

// shardsOf lists the shards of some of a Job's indexes.
func shardsOf(job *batchv1.Job, indexes string) string {
	set, err := score.ParseIndexSet(indexes)
	all, allErr := score.ParseIndexSet(job.Annotations[annotationShards])
	if err != nil || allErr != nil {
		return indexes
	}
	var shards score.IndexSet
	for n := range all.Len() {
		if shard, ok := all.At(n); ok && set.Contains(n) {
			shards.Add(shard)
		}
	}
	return shards.String()
}

// playedWithout handles a Job that completed while shards are missing: their summaries were
// refused, or their pods were removed by force before they were read. They are played again up to
// retries.shardBackoffLimit times. The attempts are counted in the status, before the next Job is
// created, so that a crash in between counts none twice.
func playedWithout(d *decision, s snapshot) evaluation.Outcome {
	c := jobCondition(s.job, batchv1.JobComplete)
	if c == nil {
		return evaluation.Outcome{}
	}
	left := d.folding.missing(d.status.Shards.Total)
	lost := unseen(left, s.job, s.succeeded)
	if wait := c.LastTransitionTime.Add(lostDeadline).Sub(s.now); lost > 0 && wait > 0 {
		d.wake(wait)
		return evaluation.Outcome{}
	}
	if !mayPlayAgain(s.run) {
		return failed(v1alpha1.ReasonSummariesLost, fmt.Sprintf("Job %s is complete, but the summaries of shards %q "+
			"were refused, or their pods were removed before they were read. retries.shardBackoffLimit doesn't allow "+
			"them to be played again. Find out what removes pods and finalizers, then %s.",
			s.job.Name, left, evaluation.HowToResume(s.run)))
	}
	d.status.Shards.Rounds++
	d.announce(corev1.EventTypeWarning, v1alpha1.ReasonShardsPlayedAgain, fmt.Sprintf("Shards %s are played again: "+
		"the summaries of %d of them were refused, and the pods of %d were removed. This is repetition %d of at most "+
		"%d (retries.shardBackoffLimit).", pods.Quote(left.String()), left.Len()-lost, lost,
		d.status.Shards.Rounds-d.status.Shards.RoundsBefore-1, shardBackoffLimit(s.run)))
	return evaluation.Outcome{}
}

// unseen counts the shards without a pod of the Job that has succeeded.
func unseen(shards score.IndexSet, job *batchv1.Job, succeeded []corev1.Pod) int64 {
	var seen score.IndexSet
	for i := range succeeded {
		if succeeded[i].Annotations[annotationAttempt] != job.Annotations[annotationAttempt] {
			continue
		}
		if shard, err := shardOf(&succeeded[i]); err == nil && shards.Contains(int64(shard)) {
			seen.Add(int64(shard))
		}
	}
	return shards.Len() - seen.Len()
}

// releasable are the pods whose summary is counted or refused, or that will leave none. A pod that
// is being deleted keeps its finalizer while its runner may still leave a summary.
func releasable(d *decision, s snapshot) []corev1.Pod {
	var done []corev1.Pod
	for i := range s.pods {
		pod := &s.pods[i]
		shard, err := shardOf(pod)
		switch {
		case pod.Status.Phase == corev1.PodFailed, d.folding.refuses(pod),
			runnerSucceeded(pod) && err == nil && d.folding.completed.Contains(int64(shard)):
			done = append(done, *pod)
		case runnerSucceeded(pod) || pod.DeletionTimestamp.IsZero():
		case pod.Spec.NodeName == "" || !s.now.Before(pod.DeletionTimestamp.Add(deleteGrace)):
			done = append(done, *pod)
		default:
			d.wake(pod.DeletionTimestamp.Add(deleteGrace).Sub(s.now))
		}
	}
	return done
}

func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func jobEnded(job *batchv1.Job) bool {
	return jobCondition(job, batchv1.JobComplete) != nil || jobCondition(job, batchv1.JobFailed) != nil
}

// stillActive reports whether a Job has neither ended nor been deleted.
func stillActive(job *batchv1.Job) bool {
	return job != nil && job.DeletionTimestamp.IsZero() && !jobEnded(job)
}

// lastFailure is the pod that failed last. Those that were stopped come after all others, because a
// failed Job stops its runners.
func lastFailure(list []corev1.Pod) *corev1.Pod {
	var last *corev1.Pod
	stopped := func(pod *corev1.Pod) bool { return pods.Terminated(pod, runnerContainer).ExitCode == score.ExitStopped }
	for i := range list {
		pod := &list[i]
		switch {
		case last == nil, stopped(last) && !stopped(pod),
			stopped(last) == stopped(pod) && finishedAt(pod).After(finishedAt(last)):
			last = pod
		}
	}
	return last
}

// lastWords quotes the pod that failed last.
func lastWords(list []corev1.Pod) string {
	last := lastFailure(list)
	if last == nil {
		return ""
	}
	end := pods.Terminated(last, runnerContainer)
	words := cmp.Or(strings.TrimSpace(pods.LastWords(end.Message)), last.Status.Message,
		strings.TrimSpace(fmt.Sprintf("exit code %d %s", end.ExitCode, end.Reason)))
	return fmt.Sprintf(". Last message of pod %s: %s", last.Name, strings.TrimSuffix(pods.Quote(words), "."))
}

// startTrouble returns why a runner can't start, "" if each can, and since when: the oldest trouble
// of a kind that rarely resolves itself.
func startTrouble(list []corev1.Pod, now time.Time) (why string, since time.Time) {
	for i := range list {
		trouble := podTrouble(&list[i], now)
		if began := scheduledAt(&list[i]); trouble != "" && (why == "" || began.Before(since)) {
			why, since = fmt.Sprintf("pod %s: %s", list[i].Name, trouble), began
		}
	}
	return why, since
}

// podTrouble returns why a pod's runner can't start: its own container, or the agent's, which
// starts first.
func podTrouble(pod *corev1.Pod, now time.Time) string {
	runner := pods.Container(pod, runnerContainer)
	if runner != nil && runner.State.Waiting == nil {
		return "" // later failures of the agent are errors of episodes
	}
	if creating(pod) && now.Sub(scheduledAt(pod)) >= pods.CreationPatience {
		return fmt.Sprintf("its containers haven't been created for more than %s. `kubectl describe pod -n %s %s` "+
			"shows the cause, such as a volume whose Secret or ConfigMap doesn't exist", pods.CreationPatience,
			pod.Namespace, pod.Name)
	}
	if trouble := waitingTrouble(pod, runner); trouble != "" {
		return trouble
	}
	agent := pods.Container(pod, agentContainer)
	if trouble := waitingTrouble(pod, agent); trouble != "" {
		return "the agent's container: " + trouble
	}
	return agentTrouble(pod, agent)
}

// creating reports whether the kubelet is still preparing the pod's containers.
func creating(pod *corev1.Pod) bool {
	return pods.Waiting(pods.Container(pod, runnerContainer)).Reason == pods.ContainerCreating ||
		pods.Waiting(pods.Container(pod, agentContainer)).Reason == pods.ContainerCreating
}

// waitingTrouble returns the kubelet's message on a container that waits for a user to act, and how
// to create a missing object.
func waitingTrouble(pod *corev1.Pod, c *corev1.ContainerStatus) string {
	waiting := pods.Waiting(c)
	if !pods.ImagePullFailed(waiting) && !pods.CreationFailed(waiting) {
		return ""
	}
	if waiting.Message == "" {
		return waiting.Reason
	}
	trouble := waiting.Reason + ": " + pods.Quote(waiting.Message)
	if create := pods.HowToCreate(pod, waiting.Message); create != "" {
		trouble += ". " + create
	}
	return trouble
}

// agentTrouble describes an agent's container that ended before it listened, which isn't known
// during its first start: an agent may take agentStartSeconds. The text is the same in each of the
// container's states, so that the status doesn't change with every restart.
func agentTrouble(pod *corev1.Pod, c *corev1.ContainerStatus) string {
	if c == nil || ptr.Deref(c.Started, false) {
		return ""
	}
	if w := c.State.Waiting; c.RestartCount == 0 && (w == nil || w.Reason != "CrashLoopBackOff") {
		return ""
	}
	why := fmt.Sprintf("the agent's container doesn't listen on port %d", portOfAgent(pod))
	if end := pods.LastTerminated(c); end != nil {
		why += fmt.Sprintf(", and ended with exit code %d", end.ExitCode)
	}
	return why
}

func portOfAgent(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == agentContainer && len(c.Ports) > 0 {
			return c.Ports[0].ContainerPort
		}
	}
	return 0
}

// scheduledAt is when a pod got its node, or its creation if it has no such condition.
func scheduledAt(pod *corev1.Pod) time.Time {
	if c := pods.Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

func finishedAt(pod *corev1.Pod) time.Time {
	return pods.Terminated(pod, runnerContainer).FinishedAt.Time
}
