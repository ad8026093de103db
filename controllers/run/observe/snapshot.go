package observe

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// PublicKey is that of the pool, "" while there is no pool.
func (s Snapshot) PublicKey() string {
	if s.Env == nil {
		return ""
	}
	return s.Env.Status.LedgerPublicKey
}

// Snapshot is what one pass has read. It is not written to.
type Snapshot struct {
	Run     *v1alpha1.EvaluationRun      // nil if it doesn't exist or is being deleted
	Env     *v1alpha1.CustomerSupportEnv // nil unless the run may use it
	Revoked bool                         // there is a pool, but it doesn't admit the run's namespace
	PlanMap *corev1.ConfigMap            // nil unless the run has created it
	Job     *batchv1.Job                 // nil unless the run has created it
	Taken   []string                     // objects of others with names that the run needs
	Closing bool                         // the namespace is being deleted
	Version string                       // of the operator
	Now     time.Time

	// Pods are ordered by name. failed and succeeded list them with the finalizer or without.
	Pods      []corev1.Pod // of this run that carry the finalizer
	Failed    []corev1.Pod // of this run
	Succeeded []corev1.Pod // of this run, whose runner has succeeded: a sidecar may keep them running
	Stopping  []corev1.Pod // of this run that are being deleted without the finalizer
	Foreign   []corev1.Pod // that carry the finalizer and the run's name, but are not this run's

	Scores         *corev1.ConfigMap       // the table of scenarios, nil unless the run has created it
	ScoresTaken    bool                    // something else has the name of the table
	Baseline       *v1alpha1.EvaluationRun // the run to compare with, or nil
	BaselineScores *corev1.ConfigMap       // its table
	Live           *Live                   // the servers' counts of the run's episodes, nil while not polled
	Token          string                  // of the servers' operations port, read with the segments
	Segments       []tally.Reply           // the servers' replies to a run that collects, ordered by pod
	Gone           []string                // pods of status.rollouts.servers that no longer exist

	Pools     []v1alpha1.CustomerSupportEnv // of the run's namespace, read only until the run begins
	LostNodes map[string]bool               // nodes of overdue pods, true for those that don't answer

	PodsRefused string // why the API server refuses the Job's pods, "" if it has pods

	Report    *score.Report // the pool's offer, read only while the run has no plan
	ReportErr error         // why report couldn't be read
	// ImageDigests are those of the servers that were ready then.
	ImageDigests []string
}

// Offer requires that the report was read.
func (s Snapshot) Offer() evaluation.Offer {
	return evaluation.Offer{Pool: s.Env.Name, Image: s.Env.Status.Image, ImageDigests: s.ImageDigests,
		Version: s.Version, LedgerKey: s.Env.Status.LedgerPublicKey, Report: *s.Report, Limits: s.Env.Spec.Runs}
}

// DeleteGrace is how long a pod that is being deleted may exceed its own deadline and still leave a
// summary. After that its node is considered lost.
const DeleteGrace = time.Minute

// isOverdue reports whether a pod should have stopped by now: it is being deleted, and its own
// deadline passed deleteGrace ago.
func isOverdue(pod *corev1.Pod, now time.Time) bool {
	return !pods.HasEnded(pod) && pod.Spec.NodeName != "" && !pod.DeletionTimestamp.IsZero() &&
		!now.Before(pod.DeletionTimestamp.Add(DeleteGrace))
}

// OverduePods are the pods of the run that should have stopped.
func (s Snapshot) OverduePods() []corev1.Pod {
	var list []corev1.Pod
	for _, part := range [][]corev1.Pod{s.Pods, s.Stopping} {
		for i := range part {
			if isOverdue(&part[i], s.Now) {
				list = append(list, part[i])
			}
		}
	}
	return list
}
