package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pressure says under which pressure episodes are played.
// +kubebuilder:validation:Enum=None;ResponseTime
type Pressure string

const (
	// NoPressure leaves agents all the time that they want.
	NoPressure Pressure = "None"
	// ResponseTimePressure plays tickets under simulated time.
	ResponseTimePressure Pressure = "ResponseTime"
)

// EvaluationRunStatus is the run as it was last seen. Its figures hold exactly the shards that
// shards.completedIndexes lists, or the episodes that servers have handed over of those that
// trainers bring.
type EvaluationRunStatus struct {
	// conditions are EnvironmentReady, Suspended, Complete, Failed, and, where the spec asks for
	// them, ThresholdsMet and ResultsStored.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// agent is who plays, in a word: the policy, the model, the URL's host, the image, or External.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Agent string `json:"agent,omitempty"`

	// startTime is when the plan was fixed and runners were asked for, or when collecting began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the run completed or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// progress is the number of episodes that have ended, errored ones too, over the total, as in
	// "38/40"; or without one, as in "38", where trainers bring as many as they like.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Progress string `json:"progress,omitempty"`

	// estimatedCompletionTime is when the run will be complete if it goes on as it has so far.
	// Unset before there is anything to go by, and at the end.
	// +optional
	EstimatedCompletionTime *metav1.Time `json:"estimatedCompletionTime,omitempty"`

	// episodes counts the run's episodes.
	// +optional
	Episodes *RunEpisodes `json:"episodes,omitempty"`

	// score is over all scored and failed episodes.
	// +optional
	Score *Score `json:"score,omitempty"`

	// passRate is the share of scored and failed episodes with a score of at least passScore, 0 to
	// 1, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	PassRate string `json:"passRate,omitempty"`

	// passRateCI95 is the 95 % Wilson interval of passRate, over scenarios as independent draws.
	// +optional
	PassRateCI95 *Interval `json:"passRateCI95,omitempty"`

	// passHatK is, for each k up to the number of trials and at most 8, the probability that all of
	// k trials of a scenario pass: the unbiased estimate C(c,k)/C(n,k) for c passes in n trials,
	// averaged over tasks and scenarios (arXiv:2406.12045).
	// +listType=map
	// +listMapKey=k
	// +kubebuilder:validation:MaxItems=8
	// +optional
	PassHatK []PassHat `json:"passHatK,omitempty"`

	// tasks are the figures of each task.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Tasks []TaskResult `json:"tasks,omitempty"`

	// categories are the figures of each category of scenarios.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Categories []CategoryResult `json:"categories,omitempty"`

	// difficulties are the figures of each difficulty of scenarios.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Difficulties []CategoryResult `json:"difficulties,omitempty"`

	// languages are the figures of each language of scenarios.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Languages []CategoryResult `json:"languages,omitempty"`

	// errors counts the attempts that failed by class, those that were mended by another attempt
	// too.
	// +listType=map
	// +listMapKey=class
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Errors []ErrorCount `json:"errors,omitempty"`

	// baseline compares this run with spec.baselineRef, paired by scenario.
	// +optional
	Baseline *BaselineResult `json:"baseline,omitempty"`

	// tokens are what the agent's model used, as its endpoint counts them.
	// +optional
	Tokens *Tokens `json:"tokens,omitempty"`

	// scoresRef names a ConfigMap of the run's namespace that holds the score of every scenario.
	// +optional
	ScoresRef *ObjectReference `json:"scoresRef,omitempty"`

	// results is where the episodes are stored, as a URL: that of the spec with the run's own
	// folder.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Results string `json:"results,omitempty"`

	// durations are how long episodes took, as runners measured them. Unset while none has ended.
	// +optional
	Durations *Durations `json:"durations,omitempty"`

	// provenance is what the score was made with.
	// +optional
	Provenance *Provenance `json:"provenance,omitempty"`

	// shards are the parts of the run, each played by one runner pod. A run of type External has
	// one, from its end on.
	// +optional
	Shards *Shards `json:"shards,omitempty"`

	// rollouts are what a run of type External has collected.
	// +optional
	Rollouts *Rollouts `json:"rollouts,omitempty"`
}

// Rollouts are what a run of type External has collected: episodes that trainers tagged with its
// name. The pool's servers hand them over in segments, each signed and counted once.
type Rollouts struct {
	// tag is what trainers give as run in their resets.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Tag string `json:"tag,omitempty"`

	// dropped is the number of episodes that ended with the tag and are in no figure: their servers
	// had no room left for them before they were collected.
	// +kubebuilder:validation:Minimum=0
	// +required
	Dropped int64 `json:"dropped"`

	// ledgerKey is the pool's public key when collecting began. Segments are signed with it.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LedgerKey string `json:"ledgerKey,omitempty"`

	// ledger holds the exact sums behind the figures, for the controller to add the next segments
	// to. Its format may change. Unset at the end, when shards.accumulator has what is needed.
	// +kubebuilder:validation:MaxLength=87384
	// +optional
	Ledger string `json:"ledger,omitempty"`

	// servers are those whose segments are in the figures, as long as they live. Unset at the end.
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=2048
	// +optional
	Servers []RolloutServer `json:"servers,omitempty"`
}

// RolloutServer says how far a server's rollouts are in the figures.
type RolloutServer struct {
	// pod is the name of the server's pod.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Pod string `json:"pod,omitempty"`

	// instance is the random id of what the server keeps of the tag: a container that is started
	// again has another.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Instance string `json:"instance,omitempty"`

	// segment is the number of the last segment that is in the figures, from 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483648
	// +required
	Segment int64 `json:"segment,omitempty"`
}

// RunEpisodes counts a run's episodes.
type RunEpisodes struct {
	// total is the number of episodes that the run plans, or wants of trainers. If those have
	// brought more, or may bring any number, it is what they have brought.
	// +kubebuilder:validation:Minimum=0
	// +required
	Total int64 `json:"total"`

	// scored is the number of episodes that ran to their end.
	// +kubebuilder:validation:Minimum=0
	// +required
	Scored int64 `json:"scored"`

	// failed is the number of episodes that ended by the agent's fault (invalid actions, out of
	// steps), scored as they stood.
	// +kubebuilder:validation:Minimum=0
	// +required
	Failed int64 `json:"failed"`

	// errored is the number of episodes that ended by a failure of the infrastructure. They are in
	// no figure.
	// +kubebuilder:validation:Minimum=0
	// +required
	Errored int64 `json:"errored"`

	// active is the number of episodes that are being played, as the servers last told.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Active *int64 `json:"active,omitempty"`

	// retried is the number of episodes that were begun again after a failure of the
	// infrastructure.
	// +kubebuilder:validation:Minimum=0
	// +required
	Retried int64 `json:"retried"`
}

// ErrorCount counts failed attempts of one class.
type ErrorCount struct {
	// class of the failure, for example env_unreachable or judge_timeout.
	// +kubebuilder:validation:MaxLength=32
	// +required
	Class string `json:"class,omitempty"`

	// retried is the number of attempts that failed so and were made again.
	// +kubebuilder:validation:Minimum=0
	// +required
	Retried int64 `json:"retried"`

	// errored is the number of episodes that were given up for it.
	// +kubebuilder:validation:Minimum=0
	// +required
	Errored int64 `json:"errored"`
}

// Tokens are what a model used.
type Tokens struct {
	// prompt is the number of tokens that the model read.
	// +kubebuilder:validation:Minimum=0
	// +required
	Prompt int64 `json:"prompt"`

	// completion is the number of tokens that the model wrote.
	// +kubebuilder:validation:Minimum=0
	// +required
	Completion int64 `json:"completion"`
}

// Durations are quantiles of what episodes took, in seconds, as decimals of three digits. Each is
// the upper edge of a bin of a logarithmic histogram, so it is too long by at most a factor of the
// square root of two.
type Durations struct {
	// episodeP50 is the median.
	// +kubebuilder:validation:MaxLength=16
	// +required
	EpisodeP50 string `json:"episodeP50,omitempty"`

	// episodeP99 is the 99th percentile.
	// +kubebuilder:validation:MaxLength=16
	// +required
	EpisodeP99 string `json:"episodeP99,omitempty"`
}

// Provenance is what a score was made with. Scores compare only where scenarioDigest, graderVersion
// and judge agree.
type Provenance struct {
	// image of the environment servers.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// operatorVersion is the version of the operator that aggregated the score.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	OperatorVersion string `json:"operatorVersion,omitempty"`

	// scenarioDigest is the digest of the scenarios that were played.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ScenarioDigest string `json:"scenarioDigest,omitempty"`

	// graderVersion is the version of the rules that graded.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	GraderVersion string `json:"graderVersion,omitempty"`

	// judge names the scale on which replies were judged.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Judge string `json:"judge,omitempty"`

	// agentDigest is the digest of spec.agent, "sha256:" and 64 hex digits: equal for equal agents.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	AgentDigest string `json:"agentDigest,omitempty"`

	// seed of the run.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Seed *int64 `json:"seed,omitempty"`

	// specHash is the digest of the immutable part of the spec, "sha256:" and 64 hex digits.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	SpecHash string `json:"specHash,omitempty"`
}

// Shards are the parts of a run.
type Shards struct {
	// total is the number of shards. All trials of a scenario lie in one.
	// +kubebuilder:validation:Minimum=0
	// +required
	Total int32 `json:"total"`

	// rounds is the number of Jobs that the run has needed: 1, and another for each time that
	// shards had to be played again because their summaries were refused or lost. At most one more
	// than retries.shardBackoffLimit.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Rounds int32 `json:"rounds,omitempty"`

	// completedIndexes lists the shards whose summaries are in the figures, as in "0-12,14".
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	CompletedIndexes string `json:"completedIndexes,omitempty"`

	// accumulator holds the exact sums behind the figures, for the controller to add the next shard
	// to. Its format may change.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Accumulator string `json:"accumulator,omitempty"`
}
