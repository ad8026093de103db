package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentType names what plays a run.
// +kubebuilder:validation:Enum=Builtin
type AgentType string

// BuiltinAgent is a policy that comes with csenv.
const BuiltinAgent AgentType = "Builtin"

// BuiltinPolicy names a policy that comes with csenv.
// +kubebuilder:validation:Enum=Heuristic;Random;Oracle;Null
type BuiltinPolicy string

const (
	// HeuristicPolicy reads the observation and follows simple rules.
	HeuristicPolicy BuiltinPolicy = "Heuristic"
	// RandomPolicy draws legal actions from the episode's seed.
	RandomPolicy BuiltinPolicy = "Random"
	// OraclePolicy knows the right answers: the upper bound of a benchmark.
	OraclePolicy BuiltinPolicy = "Oracle"
	// NullPolicy achieves nothing: the lower bound of a benchmark.
	NullPolicy BuiltinPolicy = "Null"
)

// EvaluationRunSpec is the evaluation that is wanted. All of it but parallelism is immutable: a score belongs to one spec.
// +kubebuilder:validation:XValidation:rule="self.environmentRef == oldSelf.environmentRef",message="environmentRef is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.agent == oldSelf.agent",message="agent is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.tasks == oldSelf.tasks",message="tasks is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.seed == oldSelf.seed",message="seed is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.pressure == oldSelf.pressure",message="pressure is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.concurrency == oldSelf.concurrency",message="concurrency is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.retries == oldSelf.retries",message="retries is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.passScore == oldSelf.passScore",message="passScore is immutable: create another EvaluationRun"
type EvaluationRunSpec struct {
	// environmentRef names the pool that the run is played against.
	// +required
	EnvironmentRef EnvironmentReference `json:"environmentRef,omitzero"`

	// agent is who plays.
	// +required
	Agent Agent `json:"agent,omitzero"`

	// tasks are what is played: 1 to 16 tasks of the pool.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	Tasks []TaskSelection `json:"tasks,omitempty"`

	// seed fixes every scenario's drawn values, from 0 to 9007199254740991. The same seed gives the same episodes. Defaults to 0.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	Seed *int64 `json:"seed,omitempty"`

	// pressure is ResponseTime: ticket-resolve is played under simulated time, every action takes some of it, and what is late earns less;
	// or None. queue-management always has a clock. Defaults to None.
	// +kubebuilder:default=None
	// +optional
	Pressure Pressure `json:"pressure,omitempty"`

	// parallelism is the number of runner pods that play at the same time, from 1 to 1000. Defaults to 1. It may be changed while the
	// run goes on, which speeds it up only up to the number of shards that it began with.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Parallelism *int32 `json:"parallelism,omitempty"`

	// concurrency is the number of episodes that each runner pod has in flight, from 1 to 1024. Defaults to 16.
	// +kubebuilder:default=16
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +optional
	Concurrency *int32 `json:"concurrency,omitempty"`

	// retries says how failures of the infrastructure are met. An agent's own failures are scored and never retried.
	// +kubebuilder:default={}
	// +optional
	Retries Retries `json:"retries,omitzero"`

	// passScore is the score from which on an episode passes, a decimal from "0" to "1". Defaults to "0.8".
	// +kubebuilder:default="0.8"
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^(0(\.[0-9]{1,6})?|1(\.0{1,6})?)$`
	// +optional
	PassScore string `json:"passScore,omitempty"`
}

// Pressure says under which pressure episodes are played.
// +kubebuilder:validation:Enum=None;ResponseTime
type Pressure string

const (
	// NoPressure leaves agents all the time that they want.
	NoPressure Pressure = "None"
	// ResponseTimePressure plays tickets under simulated time.
	ResponseTimePressure Pressure = "ResponseTime"
)

// EnvironmentReference names a CustomerSupportEnv.
type EnvironmentReference struct {
	// name of a CustomerSupportEnv in the run's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`
}

// Agent is who plays a run.
// +kubebuilder:validation:XValidation:rule="self.type == 'Builtin' ? has(self.builtin) : !has(self.builtin)",message="builtin is required when type is Builtin, and forbidden otherwise"
// +union
type Agent struct {
	// type of the agent: Builtin.
	// +unionDiscriminator
	// +required
	Type AgentType `json:"type,omitempty"`

	// builtin is a policy that comes with csenv, when type is Builtin.
	// +optional
	Builtin *BuiltinAgentSpec `json:"builtin,omitempty"`
}

// BuiltinAgentSpec chooses a policy that comes with csenv.
type BuiltinAgentSpec struct {
	// policy is Heuristic (simple rules over what it observes), Random (legal actions drawn by the episode's seed), Oracle (knows the right
	// answers: a benchmark's upper bound) or Null (achieves nothing: the lower bound).
	// +required
	Policy BuiltinPolicy `json:"policy,omitempty"`
}

// TaskSelection is a task to play.
type TaskSelection struct {
	// name of a task that the pool offers, as its status.tasks lists them.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name,omitempty"`

	// trials is how often each scenario is played, each time with a seed of its own, from 1 to 1000. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Trials int32 `json:"trials,omitempty"`

	// scenarios narrows the task to some of its scenarios. All of them when unset.
	// +optional
	Scenarios *ScenarioSelection `json:"scenarios,omitempty"`
}

// ScenarioSelection narrows a task. A scenario is played that meets both lists; an empty list asks for nothing.
type ScenarioSelection struct {
	// ids of scenarios, at most 256.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +optional
	IDs []string `json:"ids,omitempty"`

	// categories of scenarios, at most 16, for example billing.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Categories []string `json:"categories,omitempty"`
}

// Retries says how failures of the infrastructure are met.
type Retries struct {
	// episodeAttempts is how often an episode is tried before it counts as errored, from 1 to 10. Defaults to 3.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +optional
	EpisodeAttempts int32 `json:"episodeAttempts,omitempty"`

	// shardBackoffLimit is how often a failed shard is played again, from 0 to 20. Defaults to 2.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20
	// +optional
	ShardBackoffLimit *int32 `json:"shardBackoffLimit,omitempty"`

	// maxErroredPercent is the share of errored episodes above which the run fails, in percent, from 0 to 100. Defaults to 5.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxErroredPercent *int32 `json:"maxErroredPercent,omitempty"`
}

// EvaluationRunStatus is the run as it was last seen. Its figures hold exactly the shards that shards.completedIndexes lists.
type EvaluationRunStatus struct {
	// conditions are EnvironmentReady, Complete and Failed.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// startTime is when the plan was fixed and runners were asked for.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the run completed or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// progress is the number of episodes that have ended, errored ones too, over the total, as in "38/40".
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Progress string `json:"progress,omitempty"`

	// episodes counts the run's episodes.
	// +optional
	Episodes *RunEpisodes `json:"episodes,omitempty"`

	// score is over all scored and failed episodes.
	// +optional
	Score *Score `json:"score,omitempty"`

	// passRate is the share of scored and failed episodes with a score of at least passScore, 0 to 1, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	PassRate string `json:"passRate,omitempty"`

	// passHatK is, for each k up to the number of trials and at most 8, the probability that all of k trials of a scenario pass: the unbiased estimate
	// C(c,k)/C(n,k) for c passes in n trials, averaged over tasks and scenarios (arXiv:2406.12045).
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

	// durations are how long episodes took, as runners measured them. Unset while none has ended.
	// +optional
	Durations *Durations `json:"durations,omitempty"`

	// provenance is what the score was made with.
	// +optional
	Provenance *Provenance `json:"provenance,omitempty"`

	// shards are the parts of the run, each played by one runner pod.
	// +optional
	Shards *Shards `json:"shards,omitempty"`
}

// RunEpisodes counts a run's episodes.
type RunEpisodes struct {
	// total is the number of episodes that the run plans.
	// +kubebuilder:validation:Minimum=0
	// +required
	Total int64 `json:"total"`

	// scored is the number of episodes that ran to their end.
	// +kubebuilder:validation:Minimum=0
	// +required
	Scored int64 `json:"scored"`

	// failed is the number of episodes that ended by the agent's fault (invalid actions, out of steps), scored as they stood.
	// +kubebuilder:validation:Minimum=0
	// +required
	Failed int64 `json:"failed"`

	// errored is the number of episodes that ended by a failure of the infrastructure. They are in no figure.
	// +kubebuilder:validation:Minimum=0
	// +required
	Errored int64 `json:"errored"`

	// retried is the number of episodes that were begun again after a failure of the infrastructure.
	// +kubebuilder:validation:Minimum=0
	// +required
	Retried int64 `json:"retried"`
}

// Score describes scores from 0 to 1, as decimals of four digits.
type Score struct {
	// mean over the episodes.
	// +kubebuilder:validation:MaxLength=16
	// +required
	Mean string `json:"mean,omitempty"`

	// standardError of the mean, clustered by scenario. Unset with fewer than two scenarios.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	StandardError string `json:"standardError,omitempty"`

	// ci95 is the 95 % t-interval of the mean over scenarios. Unset with fewer than two scenarios.
	// +optional
	CI95 *Interval `json:"ci95,omitempty"`

	// min is the lowest score of an episode.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Min string `json:"min,omitempty"`

	// p50 is the median, from a histogram of 50 bins.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	P50 string `json:"p50,omitempty"`

	// max is the highest score of an episode.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Max string `json:"max,omitempty"`
}

// Durations are quantiles of what episodes took, in seconds, as decimals of three digits. Each is the upper edge of a bin of a logarithmic histogram, so it is too
// long by at most a factor of the square root of two.
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

// Interval is an interval of scores.
type Interval struct {
	// low end of the interval.
	// +kubebuilder:validation:MaxLength=16
	// +required
	Low string `json:"low,omitempty"`

	// high end of the interval.
	// +kubebuilder:validation:MaxLength=16
	// +required
	High string `json:"high,omitempty"`
}

// PassHat is pass^k for one k.
type PassHat struct {
	// k is the number of trials that must all pass.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	// +required
	K int32 `json:"k,omitempty"`

	// value is the estimate, 0 to 1, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +required
	Value string `json:"value,omitempty"`
}

// TaskResult are the figures of one task.
type TaskResult struct {
	// name of the task.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// episodes is the number of scored and failed episodes of the task.
	// +kubebuilder:validation:Minimum=0
	// +required
	Episodes int64 `json:"episodes"`

	// score of the task's episodes.
	// +optional
	Score *Score `json:"score,omitempty"`

	// passRate of the task's episodes, 0 to 1, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	PassRate string `json:"passRate,omitempty"`

	// dimensions are the parts of the task's rubric.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Dimensions []DimensionResult `json:"dimensions,omitempty"`
}

// DimensionResult is what one part of a rubric earned on average.
type DimensionResult struct {
	// name of the dimension.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// mean points earned by an episode, four decimals. Negative for penalties.
	// +kubebuilder:validation:MaxLength=16
	// +required
	Mean string `json:"mean,omitempty"`

	// max is the mean of the points that the episodes offered, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +required
	Max string `json:"max,omitempty"`
}

// CategoryResult are the figures of one category of scenarios.
type CategoryResult struct {
	// name of the category.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// episodes is the number of scored and failed episodes of the category.
	// +kubebuilder:validation:Minimum=0
	// +required
	Episodes int64 `json:"episodes"`

	// score of the category's episodes.
	// +optional
	Score *Score `json:"score,omitempty"`

	// passRate of the category's episodes, 0 to 1, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	PassRate string `json:"passRate,omitempty"`
}

// Provenance is what a score was made with. Scores compare only where scenarioDigest, graderVersion and judge agree.
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

	// completedIndexes lists the shards whose summaries are in the figures, as in "0-12,14".
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	CompletedIndexes string `json:"completedIndexes,omitempty"`

	// accumulator holds the exact sums behind the figures, for the controller to add the next shard to. Its format may change.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Accumulator string `json:"accumulator,omitempty"`
}

// EvaluationRun is an evaluation: an agent plays episodes against a pool, and the scores are aggregated into the status.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=evalrun,categories=csenv
// +kubebuilder:printcolumn:name="Env",type=string,JSONPath=`.spec.environmentRef.name`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.spec.agent.builtin.policy`
// +kubebuilder:printcolumn:name="Done",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Score",type=string,JSONPath=`.status.score.mean`
// +kubebuilder:printcolumn:name="Low",type=string,priority=1,JSONPath=`.status.score.ci95.low`
// +kubebuilder:printcolumn:name="High",type=string,priority=1,JSONPath=`.status.score.ci95.high`
// +kubebuilder:printcolumn:name="Pass",type=string,JSONPath=`.status.passRate`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name names a Job too: at most 50 lower-case letters, digits and '-', beginning with a letter"
type EvaluationRun struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's standard metadata. Its name is at most 50 characters long: it names a Job too.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the evaluation that is wanted.
	// +required
	Spec EvaluationRunSpec `json:"spec,omitzero"`

	// status is the run as it was last seen.
	// +optional
	Status EvaluationRunStatus `json:"status,omitzero"`
}

// EvaluationRunList is a list of EvaluationRuns.
// +kubebuilder:object:root=true
type EvaluationRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EvaluationRun `json:"items"`
}
