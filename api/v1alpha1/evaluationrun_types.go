package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Retention says of which runs something is kept.
// +kubebuilder:validation:Enum=Always;OnFailure;Never
type Retention string

const (
	// RetainAlways keeps it, whatever became of the run.
	RetainAlways Retention = "Always"
	// RetainOnFailure keeps it of runs that failed or missed a threshold.
	RetainOnFailure Retention = "OnFailure"
	// RetainNever keeps nothing.
	RetainNever Retention = "Never"
)

// Metric names a figure that a threshold is set for.
// +kubebuilder:validation:Enum=meanScore;meanScoreLow;passRate;passHat1;passHat2;passHat3;passHat4;passHat5;passHat6;passHat7;passHat8
type Metric string

// The metrics that aren't pass^k.
const (
	MeanScoreMetric Metric = "meanScore"
	// MeanScoreLowMetric is the low end of the mean's 95 % interval.
	MeanScoreLowMetric Metric = "meanScoreLow"
	PassRateMetric     Metric = "passRate"
)

// EvaluationRunSpec is the evaluation that is wanted. What a score depends on is immutable: a score
// belongs to one spec.
// +kubebuilder:validation:XValidation:rule="self.environmentRef == oldSelf.environmentRef",message="environmentRef is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.agent == oldSelf.agent",message="agent is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.tasks) == has(oldSelf.tasks) && (!has(self.tasks) || self.tasks == oldSelf.tasks)",message="tasks is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.agent.type == 'External' || has(self.tasks)",message="tasks is required unless agent.type is External"
// +kubebuilder:validation:XValidation:rule="self.agent.type != 'External' || !has(self.tasks)",message="tasks is forbidden when agent.type is External: the run counts whatever trainers play"
// +kubebuilder:validation:XValidation:rule="self.agent.type != 'External' || !has(self.results)",message="results is forbidden when agent.type is External: there are no runners to store episodes, trainers keep their own"
// +kubebuilder:validation:XValidation:rule="self.agent.type != 'External' || !has(self.template)",message="template is forbidden when agent.type is External: there are no runners' pods to change"
// +kubebuilder:validation:XValidation:rule="self.seed == oldSelf.seed",message="seed is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.pressure == oldSelf.pressure",message="pressure is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.concurrency == oldSelf.concurrency",message="concurrency is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.retries == oldSelf.retries",message="retries is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.passScore == oldSelf.passScore",message="passScore is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.thresholds) == has(oldSelf.thresholds) && (!has(self.thresholds) || self.thresholds == oldSelf.thresholds)",message="thresholds is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.baselineRef) == has(oldSelf.baselineRef) && (!has(self.baselineRef) || self.baselineRef == oldSelf.baselineRef)",message="baselineRef is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.results) == has(oldSelf.results) && (!has(self.results) || self.results == oldSelf.results)",message="results is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.startDeadlineSeconds) == has(oldSelf.startDeadlineSeconds) && (!has(self.startDeadlineSeconds) || self.startDeadlineSeconds == oldSelf.startDeadlineSeconds)",message="startDeadlineSeconds is immutable: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="self.agent.type == 'External' || has(self.activeDeadlineSeconds) == has(oldSelf.activeDeadlineSeconds) && (!has(self.activeDeadlineSeconds) || self.activeDeadlineSeconds == oldSelf.activeDeadlineSeconds)",message="activeDeadlineSeconds is immutable unless agent.type is External: create another EvaluationRun"
// +kubebuilder:validation:XValidation:rule="has(self.template) == has(oldSelf.template) && (!has(self.template) || self.template == oldSelf.template)",message="template is immutable: create another EvaluationRun"
type EvaluationRunSpec struct {
	// environmentRef names the pool that the run is played against.
	// +required
	EnvironmentRef EnvironmentReference `json:"environmentRef,omitzero"`

	// agent is who plays: a policy that comes with csenv, a language model behind an endpoint, a
	// program behind a URL or in a container, or trainers from outside. Its type says which, and
	// has a field of its own.
	// +required
	Agent Agent `json:"agent,omitzero"`

	// tasks are what is played: 1 to 16 tasks of the pool. Forbidden when agent.type is External,
	// required otherwise.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Tasks []TaskSelection `json:"tasks,omitempty"`

	// seed fixes every scenario's drawn values, from 0 to 9007199254740991. The same seed gives the
	// same episodes. Defaults to 0. Not used when agent.type is External: trainers choose their
	// seeds.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	Seed *int64 `json:"seed,omitempty"`

	// pressure is ResponseTime: ticket-resolve is played under simulated time, every action takes
	// some of it, and what is late earns less; or None. queue-management always has a clock.
	// Defaults to None. When agent.type is External, trainers' resets decide, and this only says
	// what they ask for.
	// +kubebuilder:default=None
	// +optional
	Pressure Pressure `json:"pressure,omitempty"`

	// parallelism is the number of runner pods that play at the same time, from 1 to 1000. Defaults
	// to 1. It may be changed while the run goes on, which speeds it up only up to the number of
	// shards that it began with. Not used when agent.type is External.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Parallelism *int32 `json:"parallelism,omitempty"`

	// concurrency is the number of episodes that each runner pod has in flight, from 1 to 1024.
	// Defaults to 16. Not used when agent.type is External.
	// +kubebuilder:default=16
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +optional
	Concurrency *int32 `json:"concurrency,omitempty"`

	// retries says how failures of the infrastructure are met. An agent's own failures are scored
	// and never retried. Of its fields only maxErroredPercent is used when agent.type is External.
	// +kubebuilder:default={}
	// +optional
	Retries Retries `json:"retries,omitzero"`

	// passScore is the score from which on an episode passes, a decimal from "0" to "1". Defaults
	// to "0.8".
	// +kubebuilder:default="0.8"
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^(0(\.[0-9]{1,6})?|1(\.0{1,6})?)$`
	// +optional
	PassScore string `json:"passScore,omitempty"`

	// thresholds are what the run's figures have to reach for its condition ThresholdsMet to become
	// True. They decide nothing else: a run that misses them is Complete.
	// +listType=map
	// +listMapKey=metric
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Thresholds []Threshold `json:"thresholds,omitempty"`

	// baselineRef names a run that this one is compared with, scenario by scenario.
	// +optional
	BaselineRef *ObjectReference `json:"baselineRef,omitempty"`

	// results says where every episode is stored, with its actions and verdicts. Without it, the
	// figures alone are kept.
	// +optional
	Results *Results `json:"results,omitempty"`

	// suspend stops the run while it is true: its runners are told to go, and those shards that
	// were not finished are played again when it is false. A run of type External collects nothing
	// while it is true: episodes wait on the servers, as long as those have room and live. Defaults
	// to false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// startDeadlineSeconds is how long the run may wait for its pool before it fails, in seconds,
	// from 1 to 604800; time in which it is suspended doesn't count. Without it, the run waits as
	// long as it takes.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	// +optional
	StartDeadlineSeconds *int32 `json:"startDeadlineSeconds,omitempty"`

	// activeDeadlineSeconds is how long the run may go on after its start before it fails, in
	// seconds, from 1 to 2592000; time in which it is suspended counts as well. Without it, there
	// is no bound. When agent.type is External it completes the run with what was collected, and
	// may be changed: 1 ends the run now.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	ActiveDeadlineSeconds *int32 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished is when the run is deleted after its end, in seconds, from 0 to
	// 31536000. Without it, the run stays.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// retain says which runs outlive ttlSecondsAfterFinished, and of which the runners' pods, with
	// their logs, are kept for as long as the run: Always, OnFailure (those that failed or missed a
	// threshold) or Never. Defaults to OnFailure.
	// +kubebuilder:default=OnFailure
	// +optional
	Retain Retention `json:"retain,omitempty"`

	// template changes the runners' pods: where they run and what they may use.
	// +optional
	Template *PodOverrides `json:"template,omitempty"`
}

// Threshold is what one figure has to reach.
type Threshold struct {
	// metric is meanScore, meanScoreLow (the low end of the mean's 95 % interval), passRate, or
	// passHat1 to passHat8.
	// +required
	Metric Metric `json:"metric,omitempty"`

	// min is the least value with which the threshold is met, a decimal from "0" to "1".
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^(0(\.[0-9]{1,6})?|1(\.0{1,6})?)$`
	// +required
	Min string `json:"min,omitempty"`
}

// Results says where episodes are stored: a file of JSON lines for each shard.
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.persistentVolumeClaim)",message="results go either to url or to persistentVolumeClaim"
// +kubebuilder:validation:XValidation:rule="has(self.url) || !has(self.credentialsSecretRef)",message="credentialsSecretRef is for results.url"
type Results struct {
	// url is a bucket and a prefix: s3://bucket/prefix, gs://bucket/prefix or
	// azblob://container/prefix, with the parameters of gocloud.dev/blob, for example
	// ?endpoint=https://minio.example:9000&region=us-east-1. It is printable ASCII without @ and #:
	// other characters are percent-encoded.
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^(s3|gs|azblob)://[!"$-?A-~]+$`
	// +optional
	URL string `json:"url,omitempty"`

	// credentialsSecretRef names a Secret of the run's namespace whose keys become the runners'
	// environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, say.
	// +optional
	CredentialsSecretRef *ObjectReference `json:"credentialsSecretRef,omitempty"`

	// persistentVolumeClaim is a volume that all runners can write to.
	// +optional
	PersistentVolumeClaim *VolumeClaimReference `json:"persistentVolumeClaim,omitempty"`
}

// VolumeClaimReference names a PersistentVolumeClaim.
type VolumeClaimReference struct {
	// claimName is the name of a PersistentVolumeClaim in the run's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	ClaimName string `json:"claimName,omitempty"`
}

// EnvironmentReference names a CustomerSupportEnv.
type EnvironmentReference struct {
	// name of a CustomerSupportEnv.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// namespace of the CustomerSupportEnv, which has to allow the run's. Defaults to the run's own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// tokenSecretRef is where the pool's bearer token is, in the run's namespace. Defaults to the
	// pool's own access.tokenSecretRef where pool and run are in one namespace.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`
}

// TaskSelection is a task to play.
type TaskSelection struct {
	// name of a task that the pool offers, as its status.tasks lists them.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name,omitempty"`

	// trials is how often each scenario is played, each time with a seed of its own, from 1 to
	// 1000. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Trials int32 `json:"trials,omitempty"`

	// scenarios narrows the task to some of its scenarios. All of them when unset.
	// +optional
	Scenarios *ScenarioSelection `json:"scenarios,omitempty"`
}

// ScenarioSelection narrows a task. A scenario is played that meets both lists; an empty list asks
// for nothing.
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
	// episodeAttempts is how often an episode is tried before it counts as errored, from 1 to 10.
	// Defaults to 3.
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

	// maxErroredPercent is the share of errored episodes above which the run fails, in percent,
	// from 0 to 100. Defaults to 5.
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
// +kubebuilder:printcolumn:name="Pass",type=string,JSONPath=`.status.passRate`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name names a Job too: at most 50 lower-case letters, digits and '-', beginning with a letter"
type EvaluationRun struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's standard metadata. Its name is at most 50 characters long: it names
	// a Job too.
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
