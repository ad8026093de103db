package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Retention selects the runs whose objects are kept after their end.
// +kubebuilder:validation:Enum=Always;OnFailure;Never
type Retention string

const (
	// RetainAlways keeps the objects of every run.
	RetainAlways Retention = "Always"
	// RetainOnFailure keeps the objects of runs that failed or missed a threshold.
	RetainOnFailure Retention = "OnFailure"
	// RetainNever keeps no objects.
	RetainNever Retention = "Never"
)

// Metric names a figure with a threshold.
// +kubebuilder:validation:Enum=meanScore;meanScoreLow;passRate;coverage;delta;deltaLow;passHat1;passHat2;passHat3;passHat4;passHat5;passHat6;passHat7;passHat8
type Metric string

// The metrics that aren't pass^k.
const (
	// MeanScoreMetric is the mean score of the scored and failed episodes.
	MeanScoreMetric Metric = "meanScore"
	// MeanScoreLowMetric is the lower bound of the mean's 95 % interval.
	MeanScoreLowMetric Metric = "meanScoreLow"
	// PassRateMetric is the share of these episodes whose score is at least the pass score.
	PassRateMetric Metric = "passRate"
	// CoverageMetric is the share of the planned episodes that are scored.
	CoverageMetric Metric = "coverage"
	// DeltaMetric is the mean score minus the baseline's.
	DeltaMetric Metric = "delta"
	// DeltaLowMetric is the lower bound of delta's 95 % interval.
	DeltaLowMetric Metric = "deltaLow"
)

// EvaluationRunSpec is the desired evaluation. Fields that affect the score are immutable, so a
// score belongs to one spec.
// +kubebuilder:validation:XValidation:rule="self.environmentRef == oldSelf.environmentRef",message="environmentRef is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.agent == oldSelf.agent",message="agent is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.tasks) == has(oldSelf.tasks) && (!has(self.tasks) || self.tasks == oldSelf.tasks)",message="tasks is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.agent.type == 'External' || has(self.tasks)",message="tasks is required unless agent.type is External"
// +kubebuilder:validation:XValidation:rule="self.agent.type != 'External' || !has(self.tasks)",message="tasks is forbidden when agent.type is External: trainers choose the tasks"
// +kubebuilder:validation:XValidation:rule="self.agent.type != 'External' || !has(self.results)",message="results is forbidden when agent.type is External: there are no runners that store episodes"
// +kubebuilder:validation:XValidation:rule="self.agent.type != 'External' || !has(self.template)",message="template is forbidden when agent.type is External: there are no runner pods"
// +kubebuilder:validation:XValidation:rule="!has(self.agent.container) || !has(self.agent.container.volumeMounts) || has(self.template) && has(self.template.volumes) && self.agent.container.volumeMounts.all(m, self.template.volumes.exists(v, v.name == m.name))",message="agent.container.volumeMounts names a volume that is not in template.volumes"
// +kubebuilder:validation:XValidation:rule="self.seed == oldSelf.seed",message="seed is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.pressure == oldSelf.pressure",message="pressure is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.concurrency == oldSelf.concurrency",message="concurrency is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.retries == oldSelf.retries",message="retries is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.passScore) == has(oldSelf.passScore) && (!has(self.passScore) || self.passScore == oldSelf.passScore)",message="passScore is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.thresholds) == has(oldSelf.thresholds) && (!has(self.thresholds) || self.thresholds == oldSelf.thresholds)",message="thresholds is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.baselineRef) || !has(self.thresholds) || self.thresholds.all(t, !(t.metric in ['delta', 'deltaLow']))",message="a threshold of delta or deltaLow requires baselineRef"
// +kubebuilder:validation:XValidation:rule="has(self.baselineRef) == has(oldSelf.baselineRef) && (!has(self.baselineRef) || self.baselineRef == oldSelf.baselineRef)",message="baselineRef is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.results) == has(oldSelf.results) && (!has(self.results) || self.results == oldSelf.results)",message="results is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="!has(self.budget) || !has(self.budget.maxCost) || has(self.prices)",message="budget.maxCost requires prices"
// +kubebuilder:validation:XValidation:rule="has(self.startDeadlineSeconds) == has(oldSelf.startDeadlineSeconds) && (!has(self.startDeadlineSeconds) || self.startDeadlineSeconds == oldSelf.startDeadlineSeconds)",message="startDeadlineSeconds is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.agent.type == 'External' || has(self.activeDeadlineSeconds) == has(oldSelf.activeDeadlineSeconds) && (!has(self.activeDeadlineSeconds) || self.activeDeadlineSeconds == oldSelf.activeDeadlineSeconds)",message="activeDeadlineSeconds is immutable unless agent.type is External: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.template) == has(oldSelf.template) && (!has(self.template) || self.template == oldSelf.template)",message="template is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.attempt >= oldSelf.attempt",message="attempt can only be raised"
// +kubebuilder:validation:XValidation:rule="self.agent.type != 'External' || self.attempt == 1",message="attempt is forbidden when agent.type is External: create another EvaluationRun"
type EvaluationRunSpec struct {
	// environmentRef names the pool to play against.
	// +required
	EnvironmentRef EnvironmentReference `json:"environmentRef,omitzero"`

	// agent chooses the player: a built-in policy, a language model behind an endpoint, a policy
	// behind a URL or in a container, or external trainers. The field that type selects configures
	// it.
	// +required
	Agent Agent `json:"agent,omitzero"`

	// tasks are the 1 to 16 tasks of the pool to play. Required unless agent.type is External,
	// forbidden otherwise.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Tasks []TaskSelection `json:"tasks,omitempty"`

	// seed determines the values drawn for every scenario, from 0 to 9007199254740991. The same
	// seed gives the same episodes. Defaults to 0. Ignored if agent.type is External, because
	// trainers choose their seeds.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	Seed *int64 `json:"seed,omitempty"`

	// pressure is None, or ResponseTime: ticket-resolve is played under simulated time, in which
	// every action takes time and late work scores less. queue-management always has a clock.
	// Defaults to None. If agent.type is External, the resets of trainers decide, and this field
	// only documents the intent.
	// +kubebuilder:default=None
	// +optional
	Pressure Pressure `json:"pressure,omitempty"`

	// parallelism is how many runner pods play at a time, from 1 to 1000. It can be changed while
	// the run is played; more than status.shards.total has no effect. Defaults to 1. Ignored if
	// agent.type is External.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Parallelism *int32 `json:"parallelism,omitempty"`

	// concurrency is how many episodes each runner plays at a time, from 1 to 1024. parallelism
	// times concurrency sessions must be free in the pool, or runners wait for them. Defaults to
	// 16. Ignored if agent.type is External.
	// +kubebuilder:default=16
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +optional
	Concurrency *int32 `json:"concurrency,omitempty"`

	// retries configures the handling of infrastructure failures. Failures of the agent are scored
	// and never retried. If agent.type is External, only maxErroredPercent is used.
	// +kubebuilder:default={}
	// +optional
	Retries Retries `json:"retries,omitzero"`

	// passScore is the minimum score of an episode that passes, from 0 to 1 with at most six digits
	// after the point. If it is unset, the tasks decide: 0.8 for ticket-classify, 0.75 for
	// ticket-resolve, 0.85 for queue-management, 0.75 for the tasks of workflows, and 0.8 if the
	// tasks differ in it or if agent.type is External. status.passScore has the one in use.
	// +kubebuilder:validation:Type=number
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	// +kubebuilder:validation:XValidation:rule="double(int(self * 1000000.0 + 0.5)) / 1000000.0 == self",message="write at most six digits after the point"
	// +optional
	PassScore Number `json:"passScore,omitzero"`

	// thresholds are the minimum figures of a complete run. If one is missed, the run is Complete,
	// but ThresholdsMet is False, Ready stays False, Stalled is True, and retain OnFailure keeps
	// the run.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.metric == b.metric && (has(a.task) ? a.task : '') == (has(b.task) ? b.task : '') && (has(a.category) ? a.category : '') == (has(b.category) ? b.category : '')))",message="two thresholds limit the same figure"
	// +optional
	Thresholds []Threshold `json:"thresholds,omitempty"`

	// prices are the prices of the model's tokens, from which status.cost is computed. They may be
	// changed until the run has ended. If unset, there is no cost.
	// +optional
	Prices *Prices `json:"prices,omitempty"`

	// customerPrices are the prices of the tokens of the model that is the pool's customer, from
	// which status.customer.cost is computed. They may be changed until the run has ended. If
	// unset, there is no such cost.
	// +optional
	CustomerPrices *Prices `json:"customerPrices,omitempty"`

	// budget fails the run with BudgetExceeded once the agent's model has used more tokens or cost
	// more, if episodes are left. The last request of each shard may exceed it. It may be changed
	// until the run has ended: to go on, raise it and attempt. If unset, there is no limit.
	// +optional
	Budget *Budget `json:"budget,omitempty"`

	// baselineRef names a run in the same namespace. When both have ended, status.baseline shows
	// the difference, paired by scenario, and condition Compared says whether it was possible. If
	// unset, there is no comparison.
	// +optional
	BaselineRef *ObjectReference `json:"baselineRef,omitempty"`

	// results configures where every episode is stored, with its actions and verdicts. If unset,
	// only the figures are kept.
	// +optional
	Results *Results `json:"results,omitempty"`

	// suspend pauses the run while it is true. Its runners are stopped, and unfinished shards are
	// played again after it becomes false. A run of type External collects nothing while it is
	// true; its episodes wait on the servers while those run and have room. Defaults to false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// attempt resumes a failed run when it is raised, from 1 to 1000. Shards that are counted and
	// have no errored episodes stay counted; the others are played again, with new retries and
	// deadlines. It has no effect on a run that hasn't failed. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Attempt *int32 `json:"attempt,omitempty"`

	// startDeadlineSeconds fails the run with StartDeadlineExceeded if no runner could start for
	// this long, in seconds, from 1 to 604800, because of the pool, the queue or a refused Job.
	// Suspended time doesn't count. If unset, the run waits without limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	// +optional
	StartDeadlineSeconds *int32 `json:"startDeadlineSeconds,omitempty"`

	// activeDeadlineSeconds limits the time from the run's start, or from its admission by a queue,
	// before it fails, in seconds, from 1 to 2592000. Time in which it is suspended counts. If
	// unset, there is no limit. If agent.type is External, the run completes with the collected
	// episodes instead, and the field may be changed: 1 ends the run at once.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	ActiveDeadlineSeconds *int32 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished is the time from the run's end to its deletion, in seconds, from 0 to
	// 31536000. Runs that retain keeps aren't deleted: by default those that failed or missed a
	// threshold. If unset, the run is kept.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// retain decides which ended runs outlive ttlSecondsAfterFinished and keep their runner pods
	// with their logs: Always, OnFailure (runs that failed or missed a threshold) or Never.
	// Defaults to OnFailure.
	// +kubebuilder:default=OnFailure
	// +optional
	Retain Retention `json:"retain,omitempty"`

	// template changes the runner pods, for example their resources and placement. env may set
	// HTTP_PROXY, HTTPS_PROXY, NO_PROXY (also in lower case), SSL_CERT_FILE, SSL_CERT_DIR,
	// AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, AZURE_STORAGE_ACCOUNT,
	// AZURE_STORAGE_DOMAIN, TRACEPARENT and names that begin with OTEL_, and nothing else: a runner
	// has secrets that the run's author may not read.
	// +kubebuilder:validation:XValidation:rule="!has(self.env) || self.env.all(v, v.name.startsWith('OTEL_') || v.name in ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'AWS_REGION', 'AWS_DEFAULT_REGION', 'AWS_ENDPOINT_URL', 'AWS_ENDPOINT_URL_S3', 'AZURE_STORAGE_ACCOUNT', 'AZURE_STORAGE_DOMAIN', 'TRACEPARENT'])",message="a run's template.env may set HTTP_PROXY, HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE, SSL_CERT_DIR, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_DOMAIN, TRACEPARENT and names that begin with OTEL_: others could change what the runner executes, reads or logs. Credentials of a store are keys of results.credentialsSecretRef; an agent's variables are in agent.container.env"
	// +optional
	Template *PodOverrides `json:"template,omitempty"`
}

// Threshold is the minimum of one figure.
// +kubebuilder:validation:XValidation:rule="self.metric in ['delta', 'deltaLow'] || self.min >= 0.0",message="min must be at least 0, except for delta and deltaLow"
// +kubebuilder:validation:XValidation:rule="!(has(self.task) && has(self.category))",message="task and category can't be combined: a figure is of one task or of one category"
// +kubebuilder:validation:XValidation:rule="!(has(self.task) || has(self.category)) || self.metric in ['meanScore', 'meanScoreLow', 'passRate']",message="a task or a category has only the metrics meanScore, meanScoreLow and passRate"
type Threshold struct {
	// metric is meanScore, meanScoreLow (the lower bound of the mean's 95 % interval), passRate,
	// passHat1 to passHat8, coverage (the share of the planned episodes that are scored), delta
	// (the mean score minus the baseline's) or deltaLow (the lower bound of delta's 95 % interval).
	// +required
	Metric Metric `json:"metric,omitempty"`

	// task limits the metric to the episodes of one of the run's tasks.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Task string `json:"task,omitempty"`

	// category limits the metric to the episodes of one category of scenarios.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Category string `json:"category,omitempty"`

	// min is the minimum value that meets the threshold, from 0 to 1 with at most six digits after
	// the point. For delta and deltaLow it is from -1 to 1.
	// +kubebuilder:validation:Type=number
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=1
	// +kubebuilder:validation:XValidation:rule="double(int(self * 1000000.0 + (self < 0.0 ? -0.5 : 0.5))) / 1000000.0 == self",message="write at most six digits after the point"
	// +required
	Min Number `json:"min,omitzero"`
}

// EnvironmentReference names a CustomerSupportEnv.
type EnvironmentReference struct {
	// name is the name of a CustomerSupportEnv, of at most 50 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +required
	Name string `json:"name,omitempty"`

	// namespace is the pool's namespace. The pool must admit the run's namespace in
	// access.allowedNamespaces; until then the run waits with NamespaceNotAllowed. Defaults to the
	// run's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// tokenSecretRef selects the entry of a Secret in the run's namespace that contains the pool's
	// bearer token. Defaults to the pool's access.tokenSecretRef if pool and run are in the same
	// namespace.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`
}

// TaskSelection is a task to play.
type TaskSelection struct {
	// name is the name of a task in the pool's status.tasks.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message="name a task in lower-case letters, digits and hyphens, such as ticket-resolve"
	// +required
	Name string `json:"name,omitempty"`

	// trials is the number of times that each scenario is played, each with its own seed, from 1 to
	// 1000. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Trials int32 `json:"trials,omitempty"`

	// scenarios restricts the task to some of its scenarios. If unset, all are played.
	// +optional
	Scenarios *ScenarioSelection `json:"scenarios,omitempty"`
}

// Difficulty is the difficulty of a scenario, with its name in scenarios and figures.
// +kubebuilder:validation:Enum=easy;medium;hard;simple;complex
type Difficulty string

// ScenarioSelection restricts a task to the scenarios that match all of the lists. An empty list
// matches every scenario.
type ScenarioSelection struct {
	// ids are the ids of at most 256 scenarios.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +optional
	IDs []string `json:"ids,omitempty"`

	// categories are at most 32 categories of scenarios, for example billing. The category of a
	// generated case is its family, for example return.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Categories []string `json:"categories,omitempty"`

	// modifiers are at most 64 modifiers of generated cases, for example plus. A scenario matches
	// if it has at least one of them. Other scenarios have no modifiers.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Modifiers []string `json:"modifiers,omitempty"`

	// difficulties are the difficulties of the scenarios: easy, medium and hard, or simple, medium
	// and complex for order-inquiry, refund and payment-exception.
	// +listType=set
	// +kubebuilder:validation:MaxItems=5
	// +optional
	Difficulties []Difficulty `json:"difficulties,omitempty"`

	// splits are the splits of the scenarios: Train, Dev, Test and Private. The pool's
	// scenarios.splits limits them.
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +optional
	Splits []ScenarioSplit `json:"splits,omitempty"`
}

// Retries configures the handling of infrastructure failures.
type Retries struct {
	// episodeAttempts is the maximum number of attempts of an episode before it counts as errored,
	// from 1 to 10. Defaults to 3.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +optional
	EpisodeAttempts int32 `json:"episodeAttempts,omitempty"`

	// shardBackoffLimit is how often a shard may be played again after its runner failed, or after
	// its summary was refused or lost, from 0 to 20. Then the run fails; raising spec.attempt gives
	// a new allowance. Defaults to 2.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20
	// +optional
	ShardBackoffLimit *int32 `json:"shardBackoffLimit,omitempty"`

	// maxErroredPercent is the largest share of episodes that may stay without a score because the
	// infrastructure failed, in percent, from 0 to 100. Above it the run fails with TooManyErrored.
	// The pool can limit it (runs.maxErroredPercent). Defaults to 5.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxErroredPercent *int32 `json:"maxErroredPercent,omitempty"`
}

// EvaluationRun is an evaluation: an agent plays episodes against a pool, and the scores are
// aggregated into the status.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=evalrun,categories=csenv
// +kubebuilder:selectablefield:JSONPath=`.spec.environmentRef.name`
// +kubebuilder:printcolumn:name="Env",type=string,JSONPath=`.spec.environmentRef.name`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.status.agent`
// +kubebuilder:printcolumn:name="Done",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Score",type=string,JSONPath=`.status.score.mean`
// +kubebuilder:printcolumn:name="Low",type=string,priority=1,JSONPath=`.status.score.ci95.low`
// +kubebuilder:printcolumn:name="High",type=string,priority=1,JSONPath=`.status.score.ci95.high`
// +kubebuilder:printcolumn:name="Cost",type=string,priority=1,JSONPath=`.status.cost`
// +kubebuilder:printcolumn:name="Pass",type=string,JSONPath=`.status.passRate`
// +kubebuilder:printcolumn:name="No-Action-%",type=string,priority=1,JSONPath=`.status.answers.noActionPercent`
// +kubebuilder:printcolumn:name="Not-Judged",type=integer,priority=1,JSONPath=`.status.replies.notJudged`
// +kubebuilder:printcolumn:name="Provoking",type=integer,priority=1,JSONPath=`.status.replies.provoking`
// +kubebuilder:printcolumn:name="Met",type=string,JSONPath=`.status.conditions[?(@.type=="ThresholdsMet")].status`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name is also the name of a Job: use at most 50 lower-case letters, digits and '-', beginning with a letter, for example gpt-4-1-mini"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.spec.baselineRef) || self.spec.baselineRef.name != self.metadata.name",optionalOldSelf=true,message="baselineRef names this run itself: name an earlier run of the namespace"
type EvaluationRun struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's standard metadata. Its name is at most 50 characters long: it names
	// a Job too.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired evaluation.
	// +required
	Spec EvaluationRunSpec `json:"spec,omitzero"`

	// status is the observed state of the run.
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
