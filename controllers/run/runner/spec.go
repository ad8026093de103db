package runner

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// CredentialKey is the key of the run's credential in its Secret.
const CredentialKey = "credential"

// NameCredential names the Secret of a run's credential. It contains a digest of the UID, because
// each run has another credential, and the Secret of an earlier run of the name may still be there.
// The digest is also of the credential's form, which credentials of the release before don't have.
func NameCredential(run *v1alpha1.EvaluationRun) string {
	sum := sha256.Sum256([]byte("plan\n" + run.UID))
	return run.Name + "-credential-" + hex.EncodeToString(sum[:4])
}

// Names on the objects of a run, and in the pods of its runners.
const (
	SummaryFinalizer = v1alpha1.FinalizerSummary
	LabelRunUID      = "csenv.dev/run-uid" // distinguishes runs of one name
	// LabelQueue names a queue of Kueue, which keeps the Job suspended until it admits it.
	LabelQueue  = queuePrefix + "queue-name"
	queuePrefix = "kueue.x-k8s.io/"
	// AnnotationShards lists the shards that a Job plays: its index i is the i-th of them.
	AnnotationShards     = "csenv.dev/shards"
	AnnotationJobAttempt = "csenv.dev/job-attempt" // its number in the run
	AnnotationQueue      = "csenv.dev/queue"       // the run's queue when the Job was created, "" for none
	annotationContinues  = "csenv.dev/continues"
	annotationResumed    = "csenv.dev/resumed"

	Container      = "runner"
	AgentContainer = "agent"
	inputsFlag     = "--inputs="
	budgetFlag     = "--budget="
	PlanKey        = "plan.json"
	AgentKey       = "agent.json"
	planFolder     = "/etc/csenv"
	planVolume     = "plan"
	secretsFolder  = "/etc/csenv-secrets" //nolint:gosec // a folder, not a secret
	secretsVolume  = "secrets"
	storeFolder    = "/etc/csenv-store"
	storeVolume    = "store"
	resultsFolder  = "/results"
	resultsVolume  = "results"

	agentStartSeconds = 600 // how long an agent's container may take until it listens
	secretMode        = int32(0o444)
	volumeGroup       = 65532 // may write to the volume of the results, whichever the image's user is
)

// Options are what the operator gives to every runner.
type Options struct {
	Image            string          // of the runners: the operator's own
	TracingVariables []corev1.EnvVar // which runners get too
	Traced           bool            // runs have spans, below which runners put theirs
}

// JobSpec is the Job that a run needs next.
type JobSpec struct {
	JobAttempt int32
	Shards     score.IndexSet
	Suspended  bool
	Continues  bool              // runners of another Job may have played the shards
	Digest     string            // of the plan and of the agent that runners read
	Budget     *score.Budget     // of the shards, nil without one
	Inputs     map[string]string // which the Job contains, nil if they are in the ConfigMap
}

// ReadBackoffLimit is how often a shard may be played again.
func ReadBackoffLimit(run *v1alpha1.EvaluationRun) int32 {
	return ptr.Deref(run.Spec.Retries.ShardBackoffLimit, 2)
}

// ReadConcurrency is the number of sessions of a runner.
func ReadConcurrency(run *v1alpha1.EvaluationRun) int32 { return ptr.Deref(run.Spec.Concurrency, 16) }

// LimitParallelism is the number of runners at a time that play so many shards.
func LimitParallelism(run *v1alpha1.EvaluationRun, shards int32) int32 {
	return min(ptr.Deref(run.Spec.Parallelism, 1), shards)
}

// PlanName names the ConfigMap of the plan.
func PlanName(run *v1alpha1.EvaluationRun) string { return run.Name + "-plan" }
