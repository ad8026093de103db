package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentType names what plays a run.
// +kubebuilder:validation:Enum=Builtin;OpenAI;HTTP;Container;External
type AgentType string

const (
	// BuiltinAgent is a policy that comes with csenv.
	BuiltinAgent AgentType = "Builtin"
	// OpenAIAgent is a model behind an OpenAI-compatible endpoint.
	OpenAIAgent AgentType = "OpenAI"
	// HTTPAgent is a policy behind a URL: it is sent observations and answers with actions.
	HTTPAgent AgentType = "HTTP"
	// ContainerAgent is such a policy in a container beside each runner.
	ContainerAgent AgentType = "Container"
	// ExternalAgent is whoever tags sessions with the run's name: nobody plays on the run's behalf,
	// trainers bring the episodes.
	ExternalAgent AgentType = "External"
)

// ActionMode names how a model says its action.
// +kubebuilder:validation:Enum=Tools;JSON
type ActionMode string

const (
	// ToolsMode has the model call tools that the environment's action schema becomes.
	ToolsMode ActionMode = "Tools"
	// JSONMode has the model answer with a JSON object, for endpoints without tools.
	JSONMode ActionMode = "JSON"
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

// Agent is who plays a run.
// +kubebuilder:validation:XValidation:rule="self.type == 'Builtin' ? has(self.builtin) : !has(self.builtin)",message="builtin is required when type is Builtin, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'OpenAI' ? has(self.openAI) : !has(self.openAI)",message="openAI is required when type is OpenAI, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'HTTP' ? has(self.http) : !has(self.http)",message="http is required when type is HTTP, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'Container' ? has(self.container) : !has(self.container)",message="container is required when type is Container, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'External' || !has(self.external)",message="external is forbidden unless type is External"
// +union
type Agent struct {
	// type of the agent: Builtin, OpenAI, HTTP, Container or External.
	// +unionDiscriminator
	// +required
	Type AgentType `json:"type,omitempty"`

	// builtin is a policy that comes with csenv, when type is Builtin.
	// +optional
	Builtin *BuiltinAgentSpec `json:"builtin,omitempty"`

	// openAI is a model behind an OpenAI-compatible endpoint, when type is OpenAI.
	// +optional
	OpenAI *OpenAIAgentSpec `json:"openAI,omitempty"`

	// http is a policy behind a URL, when type is HTTP.
	// +optional
	HTTP *HTTPAgentSpec `json:"http,omitempty"`

	// container is a policy in a container beside each runner, when type is Container.
	// +optional
	Container *ContainerAgentSpec `json:"container,omitempty"`

	// external says how much trainers bring, when type is External.
	// +optional
	External *ExternalAgentSpec `json:"external,omitempty"`
}

// ExternalAgentSpec says how much of what trainers bring is wanted. They tag their sessions with
// the run's name: reset(run="NAME"), or reset(run="NAMESPACE/NAME") where the pool is in another
// namespace than the run.
type ExternalAgentSpec struct {
	// episodes is the number of episodes, errored ones too, with which the run is complete, from 1
	// to 2147483648. Servers hand over what they have, so there may be more in the end. Without it,
	// the run goes on until activeDeadlineSeconds is over.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483648
	// +optional
	Episodes *int64 `json:"episodes,omitempty"`
}

// OpenAIAgentSpec is a model behind an OpenAI-compatible endpoint.
type OpenAIAgentSpec struct {
	// baseURL is the endpoint up to its version, for example https://api.openai.com/v1: without a
	// user, a password, a query or a fragment.
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern="^https?://[^\\s@/?#]+(/[^\\s?#]*)?$"
	// +required
	BaseURL string `json:"baseURL,omitempty"`

	// model is what the endpoint calls the model, in printable ASCII without spaces.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern="^[!-~]+$"
	// +required
	Model string `json:"model,omitempty"`

	// apiKeySecretRef is where the key of the endpoint is, in the run's namespace. The runners read
	// it; the operator never does.
	// +optional
	APIKeySecretRef *SecretKeyReference `json:"apiKeySecretRef,omitempty"`

	// mode is Tools: the model calls tools made of the environment's actions; or JSON: it answers
	// with a JSON object, for endpoints without tools. Defaults to Tools.
	// +kubebuilder:default=Tools
	// +optional
	Mode ActionMode `json:"mode,omitempty"`

	// temperature of sampling, a decimal from "0" to "2". The endpoint's own default when unset.
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^([01](\.[0-9]{1,4})?|2(\.0{1,4})?)$`
	// +optional
	Temperature string `json:"temperature,omitempty"`

	// maxTokens is the most that one answer may have, from 1 to 1048576. The endpoint's own default
	// when unset.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	// +optional
	MaxTokens *int32 `json:"maxTokens,omitempty"`

	// requestsPerMinute bounds what all runners of the run send together, from 1 to 1000000. Each
	// of them gets an equal share. Without it, only the endpoint's answers slow them down.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	RequestsPerMinute *int32 `json:"requestsPerMinute,omitempty"`

	// timeoutSeconds bounds one request, in seconds, from 1 to 3600. Defaults to 120.
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// systemPrompt replaces the instructions that csenv gives.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	SystemPrompt string `json:"systemPrompt,omitempty"`

	// extraBody is a JSON object whose members are added to every request, for what the endpoint
	// has beyond the standard.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	ExtraBody *apiextensionsv1.JSON `json:"extraBody,omitempty"`
}

// HTTPAgentSpec is a policy behind a URL.
type HTTPAgentSpec struct {
	// url is sent the observation, the history and the action schema by POST, and answers with an
	// action.
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern="^https?://[^\\s@/?#]+(/[^\\s#]*)?$"
	// +required
	URL string `json:"url,omitempty"`

	// tokenSecretRef is where the bearer token is that the policy asks for, in the run's namespace.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`

	// timeoutSeconds bounds one request, in seconds, from 1 to 3600. Defaults to 120.
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// ContainerAgentSpec is a policy in a container beside each runner. It serves what an HTTP policy
// serves, on localhost.
type ContainerAgentSpec struct {
	// image of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Image string `json:"image,omitempty"`

	// command replaces the image's entry point.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +optional
	Command []string `json:"command,omitempty"`

	// args are the arguments of the command.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +optional
	Args []string `json:"args,omitempty"`

	// env are the container's environment variables.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// resources of the container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// port that the policy listens on, from 1 to 65535. Defaults to 8080.
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// path that the policy answers on. Defaults to /.
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern="^/[^\\s#]*$"
	// +optional
	Path string `json:"path,omitempty"`

	// timeoutSeconds bounds one request, in seconds, from 1 to 3600. Defaults to 120.
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// BuiltinAgentSpec chooses a policy that comes with csenv.
type BuiltinAgentSpec struct {
	// policy is Heuristic (simple rules over what it observes), Random (legal actions drawn by the
	// episode's seed), Oracle (knows the right answers: a benchmark's upper bound) or Null
	// (achieves nothing: the lower bound).
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

// BaselineResult compares a run with another, paired by scenario: each scenario's mean of this run
// less that of the other.
type BaselineResult struct {
	// name of the other run.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// scenarios is the number of scenarios that both runs played.
	// +kubebuilder:validation:Minimum=0
	// +required
	Scenarios int64 `json:"scenarios"`

	// delta is the mean difference, a decimal of four digits. Positive where this run is better.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Delta string `json:"delta,omitempty"`

	// standardError of delta.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	StandardError string `json:"standardError,omitempty"`

	// ci95 is the 95 % t-interval of delta.
	// +optional
	CI95 *Interval `json:"ci95,omitempty"`

	// message says why the runs can't be compared. Unset where they can.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
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
