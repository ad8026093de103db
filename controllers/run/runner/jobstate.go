package runner

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// ReadJobAttempt returns the number of a Job among its run's, 0 if it isn't annotated.
func ReadJobAttempt(job *batchv1.Job) int32 {
	attempt, err := strconv.ParseInt(job.Annotations[AnnotationJobAttempt], 10, 32)
	if err != nil {
		return 0
	}
	return int32(attempt)
}

// IsQueued reports whether the run's Jobs are created in a queue.
func IsQueued(run *v1alpha1.EvaluationRun) bool { return run.Labels[LabelQueue] != "" }

// IsQueuedJob reports whether a Job is in a queue, which is decided when it is created: by its
// run's label, or by admission if the namespace has a default queue.
func IsQueuedJob(job *batchv1.Job) bool { return job.Labels[LabelQueue] != "" }

// ReadRequestedQueue is the queue that the run's label named when the Job was created, "" for none.
// The Job's own label may differ, because admission may have set it. Jobs of earlier versions have
// the label only.
func ReadRequestedQueue(job *batchv1.Job) string {
	if queue, noted := job.Annotations[AnnotationQueue]; noted {
		return queue
	}
	return job.Labels[LabelQueue]
}

// IsHeldByQueue reports whether the queue hasn't admitted the Job.
func IsHeldByQueue(job *batchv1.Job) bool {
	return job != nil && IsQueuedJob(job) && ptr.Deref(job.Spec.Suspend, false) && !HasJobEnded(job)
}

// ListShards lists the shards of some of a Job's indexes.
func ListShards(job *batchv1.Job, indexes string) string {
	set, err := score.ParseIndexSet(indexes)
	all, allErr := score.ParseIndexSet(job.Annotations[AnnotationShards])
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

// FindJobCondition returns a Job's condition of a type if it is True, else nil.
func FindJobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// ResumeJob resumes a Job and notes that. The Job controller counts no runners that a suspension
// has stopped, and its own condition is missing if a Job was resumed at once.
func ResumeJob(job *batchv1.Job) {
	job.Spec.Suspend = new(false)
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, annotationResumed, "true")
}

// WasResumed reports whether the operator has resumed a Job, nil for none.
func WasResumed(job *batchv1.Job) bool { return job != nil && job.Annotations[annotationResumed] != "" }

// HasJobEnded reports whether a Job is complete or has failed.
func HasJobEnded(job *batchv1.Job) bool {
	return FindJobCondition(job, batchv1.JobComplete) != nil || FindJobCondition(job, batchv1.JobFailed) != nil
}

// IsJobActive reports whether a Job has neither ended nor been deleted.
func IsJobActive(job *batchv1.Job) bool {
	return job != nil && job.DeletionTimestamp.IsZero() && !HasJobEnded(job)
}
