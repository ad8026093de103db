package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pressure is the time pressure under which episodes are played.
// +kubebuilder:validation:Enum=None;ResponseTime
type Pressure string

const (
	// NoPressure sets no time limits.
	NoPressure Pressure = "None"
	// ResponseTimePressure plays tickets under simulated time.
	ResponseTimePressure Pressure = "ResponseTime"
)

// EvaluationRunStatus is the observed state of a run. Its figures cover exactly the shards in
// shards.completedIndexes, or the episodes collected from servers if agent.type is External.
type EvaluationRunStatus struct {
	// conditions are Ready, EnvironmentReady, Suspended, Complete and Failed; with thresholds
	// ThresholdsMet, with results ResultsStored, with baselineRef Compared, with budget
	// WithinBudget, with a model AgentReady; PlayedOnce and Unedited if they are False; and Stalled
	// if the run can't become Ready. The reason of Ready is the STATE of kubectl get.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// agent is a short name of the agent: the policy, the model, the URL's host, the image, or
	// External.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Agent string `json:"agent,omitempty"`

	// startTime is the time when the plan was fixed and runners were requested, or when collecting
	// began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// admissionTime is the time when the queue that the run's label names first admitted the Job of
	// the present attempt. activeDeadlineSeconds counts from then.
	// +optional
	AdmissionTime *metav1.Time `json:"admissionTime,omitempty"`

	// attempt is the value of spec.attempt that the conditions belong to. Absent before the run is
	// resumed.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// attemptTime is the time when the run was last resumed by spec.attempt. The deadlines count
	// from then.
	// +optional
	AttemptTime *metav1.Time `json:"attemptTime,omitempty"`

	// completionTime is the time when the run completed or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// progress is the number of episodes that have ended, including errored ones, over the total,
	// for example "38/40". A run of type External without a total has the number alone, for example
	// "38".
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Progress string `json:"progress,omitempty"`

	// estimatedCompletionTime extrapolates the time of completion from the progress so far. Unset
	// until there is progress, and after the end.
	// +optional
	EstimatedCompletionTime *metav1.Time `json:"estimatedCompletionTime,omitempty"`

	// episodes counts the run's episodes.
	// +optional
	Episodes *RunEpisodes `json:"episodes,omitempty"`

	// score summarises the scores of all scored and failed episodes.
	// +optional
	Score *Score `json:"score,omitempty"`

	// passScore is the minimum score of an episode that passes: spec.passScore, or the default of
	// the run's tasks. It has up to six decimals. Runs that began before this field existed have
	// the value of their spec.
	// +optional
	PassScore Decimal `json:"passScore,omitempty"`

	// passRate is the share of scored and failed episodes with a score of at least passScore whose
	// decisions, changes and facts are right, 0 to 1, four decimals.
	// +optional
	PassRate Decimal `json:"passRate,omitempty"`

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

	// categories are the figures of each scenario category.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Categories []CategoryResult `json:"categories,omitempty"`

	// difficulties are the figures of each scenario difficulty.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Difficulties []CategoryResult `json:"difficulties,omitempty"`

	// languages are the figures of each scenario language.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Languages []CategoryResult `json:"languages,omitempty"`

	// errors counts the failed attempts by class, including those that a later attempt recovered.
	// +listType=map
	// +listMapKey=class
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Errors []ErrorCount `json:"errors,omitempty"`

	// answers counts the agent's answers in scored and failed episodes. Unset before there are any,
	// and for agents of type External.
	// +optional
	Answers *RunAnswers `json:"answers,omitempty"`

	// replies counts the replies that a model could not judge. Unset if there are none.
	// +optional
	Replies *RunReplies `json:"replies,omitempty"`

	// customer counts what a model did as the customer in scored and failed episodes. Unset unless
	// the pool's customer is a model.
	// +optional
	Customer *RunCustomer `json:"customer,omitempty"`

	// baseline compares this run with spec.baselineRef, paired by scenario.
	// +optional
	Baseline *BaselineResult `json:"baseline,omitempty"`

	// tokens are the tokens that the agent's model used, as reported by its endpoint.
	// +optional
	Tokens *Tokens `json:"tokens,omitempty"`

	// cost is the cost of the tokens by spec.prices, in their currency, as a decimal of four
	// digits.
	// +optional
	Cost Decimal `json:"cost,omitempty"`

	// scoresRef names a ConfigMap in the run's namespace that holds the score of every scenario.
	// +optional
	ScoresRef *ObjectReference `json:"scoresRef,omitempty"`

	// results is where the run's episodes are stored: the location in spec.results, followed by the
	// run's own folder. With a volume it is a file:// path inside the runner.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Results string `json:"results,omitempty"`

	// durations are the durations of episodes, as measured by the runners. Unset until an episode
	// has ended.
	// +optional
	Durations *Durations `json:"durations,omitempty"`

	// provenance describes the versions and inputs behind the score.
	// +optional
	Provenance *Provenance `json:"provenance,omitempty"`

	// shards are the parts of the run, each played by one runner pod. A run of type External has
	// one after its end.
	// +optional
	Shards *Shards `json:"shards,omitempty"`

	// rollouts describe the episodes that a run of type External has collected.
	// +optional
	Rollouts *Rollouts `json:"rollouts,omitempty"`
}

// Rollouts describe the episodes that a run of type External has collected from trainers. The
// pool's servers deliver them in signed segments, each counted once.
type Rollouts struct {
	// tag is the value that trainers pass as run in their resets.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Tag string `json:"tag,omitempty"`

	// dropped is the number of tagged episodes that are in no figure, because their servers ran out
	// of room before they were collected.
	// +required
	Dropped Count `json:"dropped"`

	// forked is the number of tagged episodes that ended and are in no figure, because they were
	// forked, saved or restored: their trainers may have chosen the best of several continuations.
	// +optional
	Forked Count `json:"forked,omitempty"`

	// lost bounds the number of tagged episodes that are in no figure, because their servers ended
	// before they were collected: those that were being played when a server last replied, and as
	// many as it has ever returned at a time.
	// +optional
	Lost Count `json:"lost,omitempty"`

	// ledgerKey is the pool's public key at the start of collecting. It verifies the segments.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LedgerKey string `json:"ledgerKey,omitempty"`

	// ledger holds the exact sums behind the figures, to which the controller adds the next
	// segments. Its format may change. Unset after the end, when shards.accumulator replaces it.
	// +kubebuilder:validation:MaxLength=87384
	// +optional
	Ledger string `json:"ledger,omitempty"`

	// servers are the running servers whose segments are in the figures. Unset after the end.
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=2048
	// +optional
	Servers []RolloutServer `json:"servers,omitempty"`
}

// RolloutServer records the last segment of a server that is in the figures.
type RolloutServer struct {
	// pod is the name of the server's pod.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Pod string `json:"pod,omitempty"`

	// instance is the random id of the server's collection for the tag. It changes when the
	// container restarts.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Instance string `json:"instance,omitempty"`

	// segment is the number of the last segment in the figures, starting at 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483648
	// +required
	Segment int64 `json:"segment,omitempty"`
}

// RunEpisodes counts a run's episodes.
type RunEpisodes struct {
	// total is the number of episodes that the run plans, or requests from trainers. If trainers
	// have played more, or there is no limit, it is the number that they have played.
	// +required
	Total Count `json:"total"`

	// scored is the number of episodes that were played to their end.
	// +required
	Scored Count `json:"scored"`

	// failed is the number of episodes that ended because of the agent (invalid actions, out of
	// steps). They are scored as they stood.
	// +required
	Failed Count `json:"failed"`

	// errored is the number of episodes that ended with an infrastructure failure. They are in no
	// figure.
	// +required
	Errored Count `json:"errored"`

	// active is the number of episodes that are being played, as last reported by the servers.
	// +optional
	Active *Count `json:"active,omitempty"`

	// retried is the number of episodes that were started again after an infrastructure failure.
	// +required
	Retried Count `json:"retried"`

	// gradedAgain is the number of episodes that servers have graded beyond those in the figures.
	// See the condition PlayedOnce.
	// +optional
	GradedAgain Count `json:"gradedAgain,omitempty"`

	// unreported is the number of attempts that servers have begun and no runner reports. See the
	// condition PlayedOnce.
	// +optional
	Unreported Count `json:"unreported,omitempty"`
}

// RunAnswers counts the answers of the agent.
type RunAnswers struct {
	// total is the number of answers.
	// +required
	Total Count `json:"total"`

	// noAction is the number of those that the environment refused as no valid action.
	// +required
	NoAction Count `json:"noAction"`

	// noActionPercent is the share of those in all answers, in percent with one decimal.
	// +kubebuilder:validation:MaxLength=5
	// +optional
	NoActionPercent string `json:"noActionPercent,omitempty"`
}

// RunReplies counts the replies to customers that a model could not judge.
type RunReplies struct {
	// notJudged is the number of episodes that are errored because their reply could not be judged.
	// They are in no figure.
	// +required
	NotJudged Count `json:"notJudged"`

	// provoking is the number of replies in scored and failed episodes that alone made their
	// judgement fail, twice, while a harmless reply was judged. Their facts were compared, and they
	// earned at most 0.15 points.
	// +required
	Provoking Count `json:"provoking"`
}

// RunCustomer counts what a model did as the customer.
type RunCustomer struct {
	// answers is the number of the customer's answers.
	// +required
	Answers Count `json:"answers"`

	// replaced is the number of answers in the words of a template, because the model worded none
	// that holds.
	// +required
	Replaced Count `json:"replaced"`

	// refused is the number of wordings that code refused: they left something out or added
	// something.
	// +required
	Refused Count `json:"refused"`

	// dropped is the number of acts that the model read into messages which don't have them.
	// +required
	Dropped Count `json:"dropped"`

	// failed is the number of messages that the model didn't read and answers that it didn't word,
	// because its endpoint failed.
	// +required
	Failed Count `json:"failed"`

	// tokens are the tokens that the customer's model used, which are not among the agent's.
	// +optional
	Tokens *Tokens `json:"tokens,omitempty"`

	// cost is the cost of these tokens by spec.customerPrices, in their currency, as a decimal of
	// four digits. It is no part of the run's cost and of its budget.
	// +optional
	Cost Decimal `json:"cost,omitempty"`
}

// ErrorCount counts failed attempts of one class.
type ErrorCount struct {
	// class is why attempts failed: env_* or capacity (the pool), judge_* (the judge's endpoint),
	// agent_* (the agent's endpoint), policy_error, timeout, or other.
	// +kubebuilder:validation:MaxLength=32
	// +required
	Class string `json:"class,omitempty"`

	// retried is the number of failed attempts that were followed by another attempt.
	// +required
	Retried Count `json:"retried"`

	// errored is the number of episodes that were given up because of this class.
	// +required
	Errored Count `json:"errored"`
}

// Tokens are the tokens that a model used.
type Tokens struct {
	// prompt is the number of input tokens.
	// +required
	Prompt Count `json:"prompt"`

	// completion is the number of output tokens.
	// +required
	Completion Count `json:"completion"`
}

// Durations are quantiles of the durations of episodes, in seconds, as decimals of three digits.
// Each is the upper edge of a bin of a logarithmic histogram, so it is too high by at most a factor
// of the square root of two.
type Durations struct {
	// episodeP50 is the median.
	// +required
	EpisodeP50 Decimal `json:"episodeP50,omitempty"`

	// episodeP99 is the 99th percentile.
	// +required
	EpisodeP99 Decimal `json:"episodeP99,omitempty"`
}

// Provenance describes the versions and inputs behind a score. Scores are comparable only if
// scenarioDigest, graderVersion and judge agree.
type Provenance struct {
	// image is the image of the environment servers.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// imageDigests are the digests of that image on the nodes of the servers that were ready when
	// the run began: one, unless nodes have pulled different images of the same tag.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +optional
	ImageDigests []string `json:"imageDigests,omitempty"`

	// agentImageDigests are the digests of the agent's container image in the runners that were
	// counted. Absent unless agent.type is Container.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +optional
	AgentImageDigests []string `json:"agentImageDigests,omitempty"`

	// operatorVersion is the version of the operator that aggregated the score.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	OperatorVersion string `json:"operatorVersion,omitempty"`

	// scenarioDigest is the digest of the played scenarios.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ScenarioDigest string `json:"scenarioDigest,omitempty"`

	// graderVersion is the version of the grading rules, with +customer=llm:MODEL@VERSION if a
	// model was the customer of conversations.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	GraderVersion string `json:"graderVersion,omitempty"`

	// judge names the scale on which replies were judged: rules or facts-v1, facts compared exactly
	// and the letter not judged; or llm:MODEL@RUBRIC, letter judged by that model.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Judge string `json:"judge,omitempty"`

	// ledgerKey is the public key of the pool with which its servers signed the scores: its
	// status.ledgerPublicKey when the run began. Absent from runs that began before this field
	// existed.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LedgerKey string `json:"ledgerKey,omitempty"`

	// agentDigest is the digest of spec.agent, "sha256:" and 64 hex digits: equal for equal agents.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	AgentDigest string `json:"agentDigest,omitempty"`

	// seed is the seed of the run.
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
	// total is the number of shards. All trials of a scenario are in the same shard.
	// +kubebuilder:validation:Minimum=0
	// +required
	Total int32 `json:"total"`

	// jobAttempts is the number of Jobs of the run: one for each attempt, and one more each time
	// that shards were played again because their summaries were refused or lost.
	// retries.shardBackoffLimit bounds these in each attempt.
	// +kubebuilder:validation:Minimum=0
	// +optional
	JobAttempts int32 `json:"jobAttempts,omitempty"`

	// jobAttemptsBefore is internal: the number of Jobs that retries.shardBackoffLimit no longer
	// counts, of earlier attempts and those that were nobody's fault.
	// +kubebuilder:validation:Minimum=0
	// +optional
	JobAttemptsBefore int32 `json:"jobAttemptsBefore,omitempty"`

	// completedIndexes lists the shards whose summaries are in the figures, for example "0-12,14".
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	CompletedIndexes string `json:"completedIndexes,omitempty"`

	// accumulator holds the exact sums behind the figures, to which the controller adds the next
	// shard. Its format may change.
	// +kubebuilder:validation:MaxLength=49152
	// +optional
	Accumulator string `json:"accumulator,omitempty"`

	// flawless is internal: the counted shards without errored episodes, which stay counted when
	// spec.attempt is raised. Absent while that is all of them.
	// +optional
	Flawless *CountedShards `json:"flawless,omitempty"`
}

// CountedShards are some of the counted shards.
type CountedShards struct {
	// completedIndexes lists the shards, for example "0-12,14".
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	CompletedIndexes string `json:"completedIndexes,omitempty"`

	// accumulator holds their exact sums. Its format may change.
	// +kubebuilder:validation:MaxLength=49152
	// +optional
	Accumulator string `json:"accumulator,omitempty"`
}
