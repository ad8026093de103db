// Package snapshot has the values that a pass over a run reads, decides by and writes from. It has
// no client.
package snapshot

import (
	"cmp"
	"crypto/cipher"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// PoolState is what a run finds of its pool.
type PoolState int

// The states in the order in which they are looked for.
const (
	PoolForbidden    PoolState = iota + 1 // no pool of another namespace admits the run
	PoolMissing                           // there is no pool in the run's namespace
	PoolNeedsToken                        // the runners can't read the pool's token
	PoolNew                               // it has no status
	PoolNotAvailable                      // it accepts no sessions
	PoolUnreachable                       // its report can't be read
	PoolWithoutKey                        // it has not reported its scenarios and ledger key
	PoolReady
)

// PoolState doesn't tell a missing pool from one that doesn't admit the run's namespace.
func (s Snapshot) PoolState() PoolState {
	switch {
	case s.Env == nil && evaluation.PoolOf(s.Run).Namespace != s.Run.Namespace:
		return PoolForbidden
	case s.Env == nil:
		return PoolMissing
	case s.Env.Spec.Access.TokenSecretRef != nil && runner.FindPoolToken(s.Run, s.Env) == nil &&
		!evaluation.IsExternal(s.Run):
		return PoolNeedsToken
	}
	available := meta.FindStatusCondition(s.Env.Status.Conditions, v1alpha1.ConditionAvailable)
	switch {
	case available == nil:
		return PoolNew
	case available.Status != metav1.ConditionTrue:
		return PoolNotAvailable
	case s.ReportErr != nil:
		return PoolUnreachable
	}
	if _, err := score.ParsePublicKey(s.Env.Status.LedgerPublicKey); err != nil || s.Env.Status.ScenarioDigest == "" {
		return PoolWithoutKey
	}
	return PoolReady
}

// PublicKey is the pool's public key, "" while there is no pool.
func (s Snapshot) PublicKey() string {
	if s.Env == nil {
		return ""
	}
	return s.Env.Status.LedgerPublicKey
}

// FindChange finds what the pool's status says of its scenarios, grader, judge and key that differs
// from when the run began, "" if nothing does. Whoever may write that status can make it differ, so
// it counts only with a Report.
func (s Snapshot) FindChange() (what, began, now string) {
	made := s.Run.Status.Provenance
	if made == nil || s.Env == nil {
		return "", "", ""
	}
	key := made.LedgerKey
	if collects := s.Run.Status.Rollouts; key == "" && collects != nil {
		key = collects.LedgerKey
	}
	is := s.Env.Status
	for _, field := range []struct{ what, began, now string }{
		{"scenarios", made.ScenarioDigest, is.ScenarioDigest},
		{"grader", made.GraderVersion, is.GraderVersion},
		{"judge", made.Judge, is.Judge},
		{"ledger key", cmp.Or(key, is.LedgerPublicKey), is.LedgerPublicKey},
	} {
		if field.now != "" && field.now != field.began {
			return field.what, field.began, field.now
		}
	}
	return "", "", ""
}

// Snapshot is what one pass has read. It is not written to.
type Snapshot struct {
	Run     *v1alpha1.EvaluationRun      // nil if it doesn't exist or is being deleted
	Env     *v1alpha1.CustomerSupportEnv // nil unless the run may use it
	Revoked bool                         // there is a pool, but it doesn't admit the run's namespace
	PlanMap *corev1.ConfigMap            // nil unless the run has created it, for what its Job doesn't contain
	Job     *batchv1.Job                 // nil unless the run has created it
	Taken   []string                     // objects of others with names that the run needs
	Closing bool                         // the namespace is being deleted
	// NoCredential means that a runner is being created and that the run's Secret doesn't exist.
	NoCredential bool
	Version      string // of the operator
	Now          time.Time

	// Pods are ordered by name. Failed and Succeeded include those without the finalizer.
	Pods      []corev1.Pod // of this run that carry the finalizer
	Failed    []corev1.Pod // of this run
	Succeeded []corev1.Pod // of this run, whose runner has succeeded: a sidecar may keep them running
	Stopping  []corev1.Pod // of this run that are being deleted without the finalizer
	Foreign   []corev1.Pod // that carry the finalizer and the run's name, but are not this run's

	Scores         *corev1.ConfigMap       // the table of scenarios, nil unless the run has created it
	ScoresTaken    bool                    // something else has the name of the table
	ScoresGone     bool                    // the table of a complete run was deleted
	ScoresKept     *corev1.ConfigMap       // what is known of a deleted table, nil for nothing
	Baseline       *v1alpha1.EvaluationRun // the run to compare with, or nil
	BaselineScores *corev1.ConfigMap       // its table
	Live           *Live                   // the servers' counts of the run's episodes, nil while not polled
	Token          string                  // of the servers' operations port, read with the segments
	Segments       []tally.Reply           // the servers' replies to a run that collects, ordered by pod
	Gone           []string                // pods of status.rollouts.servers that no longer exist
	Lost           []LostServer            // that ended without their last episodes

	Pools     []v1alpha1.CustomerSupportEnv // of the run's namespace, read only until the run begins
	LostNodes map[string]bool               // nodes of overdue pods, true for those that don't answer

	PodsRefused string // why the API server refuses the Job's pods, "" if it has pods

	Withheld    bool        // the run's scores are sealed until it has ended
	SealedTable bool        // the table is stored sealed
	Cipher      cipher.AEAD // of sealed scores, nil until the run begins and if the pool's key is gone

	// Report is what a server of the pool offers, as the pool's status has it. It is read only
	// while the run has no plan, and to confirm that the pool has changed.
	Report    *score.Report
	ReportErr error // why Report is nil, if it could not be read
	// ImageDigests are of the servers that were ready when Report was read.
	ImageDigests []string
}

// Offer requires that the report was read.
func (s Snapshot) Offer() evaluation.Offer {
	return evaluation.Offer{Pool: s.Env.Name, Image: s.Env.Status.Image, ImageDigests: s.ImageDigests,
		Version: s.Version, LedgerKey: s.Env.Status.LedgerPublicKey, Report: *s.Report, Limits: s.Env.Spec.Runs}
}

// NameScores names the ConfigMap of the run's table of scenarios.
func NameScores(run *v1alpha1.EvaluationRun) string { return run.Name + "-scores" }

// DeleteGrace is how long a pod that is being deleted may exceed its own deadline and still leave a
// summary. After that its node is considered lost.
const DeleteGrace = time.Minute

// isOverdue reports whether a pod should have stopped by now: it is being deleted, and its own
// deadline passed DeleteGrace ago.
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

// isUnadmitted reports whether a queue has admitted no Job of the attempt yet.
func (s Snapshot) isUnadmitted() bool {
	waits := runner.IsQueued(s.Run)
	if s.Job != nil {
		waits = runner.IsQueuedJob(s.Job)
	}
	return waits && s.Run.Status.AdmissionTime == nil
}

// Deadline returns when activeDeadlineSeconds will have passed, and the time until then. The zero
// time means that there is no deadline, or that the run hasn't begun.
func (s Snapshot) Deadline() (at time.Time, left time.Duration) {
	status := s.Run.Status
	began := cmp.Or(status.AdmissionTime, status.AttemptTime, status.StartTime)
	if s.Run.Spec.ActiveDeadlineSeconds == nil || began == nil || s.isUnadmitted() {
		return time.Time{}, 0
	}
	at = began.Add(time.Duration(*s.Run.Spec.ActiveDeadlineSeconds) * time.Second)
	return at, at.Sub(s.Now)
}

// IsDeadlineOver reports whether activeDeadlineSeconds have passed.
func (s Snapshot) IsDeadlineOver() bool {
	at, left := s.Deadline()
	return !at.IsZero() && left <= 0
}

// StoredPlan reads the plan in the run's ConfigMap, or else in its Job or one of its pods. Any user
// of the namespace may write to them, so the plan must have the fingerprint in the status, and the
// agent must be the run's.
func (s Snapshot) StoredPlan() (score.Plan, error) {
	inputs := s.FindInputs()
	if inputs == nil {
		return score.Plan{}, errors.New("neither a ConfigMap nor the Job has it")
	}
	sums, _, err := tally.ReadCounted(s.Run)
	if err != nil {
		return score.Plan{}, err
	}
	data := []byte(inputs[runner.PlanKey])
	if err := MatchFingerprint(score.FingerprintOf(data), sums.Plan); err != nil {
		return score.Plan{}, err
	}
	plan, err := score.ParsePlan(data)
	if err != nil {
		return plan, err
	}
	return plan, runner.CheckAgent(s.Run, inputs, s.Job)
}

// FindInputs finds what the run's runners read, nil if nothing has it.
func (s Snapshot) FindInputs() map[string]string {
	if s.PlanMap != nil {
		return s.PlanMap.Data
	}
	if s.Job != nil {
		if inputs := runner.ReadInputs(&s.Job.Spec.Template); inputs != nil {
			return inputs
		}
	}
	for i := range s.Pods {
		if inputs := runner.ReadInputs(&s.Pods[i]); inputs != nil {
			return inputs
		}
	}
	return nil
}

// MatchFingerprint returns an error if a plan has another fingerprint.
func MatchFingerprint(got, fingerprint string) error {
	if got != fingerprint {
		return fmt.Errorf("the plan's fingerprint is %s, not %s", got, fingerprint)
	}
	return nil
}
