package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
