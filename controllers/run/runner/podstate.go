package runner

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// ReadShard is the shard that a pod plays: its Job's completion index is a position in
// AnnotationShards.
func ReadShard(pod *corev1.Pod) (int, error) {
	text := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	index, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %q is not an index", batchv1.JobCompletionIndexAnnotation, text)
	}
	shards, err := score.ParseIndexSet(pod.Annotations[AnnotationShards])
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %w", AnnotationShards, err)
	}
	shard, ok := shards.At(index)
	if !ok {
		return 0, fmt.Errorf("annotation %s: %d is beyond the %d shards of annotation %s",
			batchv1.JobCompletionIndexAnnotation, index, shards.Len(), AnnotationShards)
	}
	return int(shard), nil
}

// maxStopped bounds what CountStopped reads in an annotation.
const maxStopped = 1 << 20

// CountStopped counts the runners that played a pod's shard before and left no summary: runners of
// its Job that failed or were stopped, one for each job attempt before, and one of a deleted Job.
func CountStopped(pod *corev1.Pod) (stopped int64) {
	for name, own := range map[string]int64{batchv1.JobIndexFailureCountAnnotation: 0,
		batchv1.JobIndexIgnoredFailureCountAnnotation: 0, AnnotationJobAttempt: 1, annotationContinues: 0} {
		if n, err := strconv.ParseInt(pod.Annotations[name], 10, 64); err == nil {
			stopped += min(max(n-own, 0), maxStopped)
		}
	}
	return stopped
}

// MeasurePlaying is the time that the runner's container took.
func MeasurePlaying(pod *corev1.Pod) time.Duration {
	end := pods.FindTerminatedState(pod, Container)
	return end.FinishedAt.Sub(end.StartedAt.Time)
}

// CountUnseen counts the shards without a pod of the Job that has succeeded.
func CountUnseen(shards score.IndexSet, job *batchv1.Job, succeeded []corev1.Pod) int64 {
	var seen score.IndexSet
	for i := range succeeded {
		if succeeded[i].Annotations[AnnotationJobAttempt] != job.Annotations[AnnotationJobAttempt] {
			continue
		}
		if shard, err := ReadShard(&succeeded[i]); err == nil && shards.Contains(int64(shard)) {
			seen.Add(int64(shard))
		}
	}
	return shards.Len() - seen.Len()
}

// FindLastFailure is the pod that failed last. Those that were stopped come after all others,
// because a failed Job stops its runners.
func FindLastFailure(list []corev1.Pod) *corev1.Pod {
	var last *corev1.Pod
	stopped := func(pod *corev1.Pod) bool {
		return pods.FindTerminatedState(pod, Container).ExitCode == score.ExitStopped
	}
	for i := range list {
		pod := &list[i]
		switch {
		case last == nil, stopped(last) && !stopped(pod),
			stopped(last) == stopped(pod) && ReadFinishedTime(pod).After(ReadFinishedTime(last)):
			last = pod
		}
	}
	return last
}

// QuoteLastFailure quotes the pod that failed last.
func QuoteLastFailure(list []corev1.Pod) string {
	last := FindLastFailure(list)
	if last == nil {
		return ""
	}
	return fmt.Sprintf(". Last message of pod %s: %s", last.Name, describeEnd(last))
}

// describeEnd quotes how a pod's runner ended, and its memory limit if it couldn't start with it or
// exceeded it.
func describeEnd(pod *corev1.Pod) string {
	end := pods.FindTerminatedState(pod, Container)
	limit := ""
	if endsByLimit(end) {
		limit = pods.DescribeMemory(pod, Container)
	}
	words := cmp.Or(strings.TrimSpace(pods.LastWords(end.Message)), pod.Status.Message,
		strings.TrimSpace(fmt.Sprintf("exit code %d %s", end.ExitCode, end.Reason)))
	return strings.TrimSuffix(pods.QuoteMessage(words), ".") + limit
}

// AdviseFailure returns what to do about the pod that failed last, if it did because of what it is
// made of, else "".
func AdviseFailure(list []corev1.Pod) string {
	last := FindLastFailure(list)
	if last == nil || !endsByLimit(pods.FindTerminatedState(last, Container)) {
		return ""
	}
	end := pods.FindTerminatedState(last, Container)
	return pods.Advise(pods.Runner, pods.Kubelet, end.Reason+": "+end.Message)
}

func endsByLimit(end corev1.ContainerStateTerminated) bool {
	return end.Reason == pods.OutOfMemory || pods.HasNotStarted(end)
}

// SelectFailed returns the pods that failed in a Job.
func SelectFailed(list []corev1.Pod, job *batchv1.Job) []corev1.Pod {
	var failed []corev1.Pod
	for i := range list {
		if job != nil && list[i].Annotations[AnnotationJobAttempt] == job.Annotations[AnnotationJobAttempt] {
			failed = append(failed, list[i])
		}
	}
	return failed
}

// ReadScheduledTime is when a pod got its node, or its creation if it has no such condition.
func ReadScheduledTime(pod *corev1.Pod) time.Time {
	if c := pods.FindCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// ReadFinishedTime is when the pod's runner ended, the zero time if it has not.
func ReadFinishedTime(pod *corev1.Pod) time.Time {
	return pods.FindTerminatedState(pod, Container).FinishedAt.Time
}

// HasSucceeded reports whether the pod's runner has ended without an error. Its pod may still
// run, because a sidecar does, for example the proxy of a service mesh.
func HasSucceeded(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning {
		return pod.Status.Phase == corev1.PodSucceeded
	}
	runner := pods.FindContainerStatus(pod, Container)
	return runner != nil && runner.State.Terminated != nil && runner.State.Terminated.ExitCode == 0
}
