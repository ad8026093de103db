package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// AgentType names the kind of an agent.
// +kubebuilder:validation:Enum=Builtin;OpenAI;HTTP;Container;External
type AgentType string

const (
	// BuiltinAgent is a built-in policy.
	BuiltinAgent AgentType = "Builtin"
	// OpenAIAgent is a model behind an OpenAI-compatible endpoint.
	OpenAIAgent AgentType = "OpenAI"
	// HTTPAgent is a policy behind a URL, which answers observations with actions.
	HTTPAgent AgentType = "HTTP"
	// ContainerAgent is an HTTP policy in a container beside each runner.
	ContainerAgent AgentType = "Container"
	// ExternalAgent stands for trainers that tag their sessions with the run's name. The run starts
	// no runners.
	ExternalAgent AgentType = "External"
)

// ActionMode is the way in which a model returns its actions.
// +kubebuilder:validation:Enum=Tools;JSON
type ActionMode string

const (
	// ToolsMode offers the environment's actions to the model as tools.
	ToolsMode ActionMode = "Tools"
	// JSONMode makes the model answer with a JSON object, for endpoints without tools.
	JSONMode ActionMode = "JSON"
)

// BuiltinPolicy names a built-in policy.
// +kubebuilder:validation:Enum=Heuristic;Random;Oracle;Noop;Null
type BuiltinPolicy string

const (
	// HeuristicPolicy reads the observation and follows simple rules.
	HeuristicPolicy BuiltinPolicy = "Heuristic"
	// RandomPolicy draws legal actions from the episode's seed.
	RandomPolicy BuiltinPolicy = "Random"
	// OraclePolicy knows the right answers: the upper bound of a benchmark.
	OraclePolicy BuiltinPolicy = "Oracle"
	// NoopPolicy achieves nothing: the lower bound of a benchmark.
	NoopPolicy BuiltinPolicy = "Noop"
	// NullPolicy is another name of Noop, which YAML reads as no value unless it is quoted.
	NullPolicy BuiltinPolicy = "Null"
)

// Agent chooses the player of a run.
// +kubebuilder:validation:XValidation:rule="self.type == 'Builtin' ? has(self.builtin) : !has(self.builtin)",message="builtin is required when type is Builtin, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'OpenAI' ? has(self.openAI) : !has(self.openAI)",message="openAI is required when type is OpenAI, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'HTTP' ? has(self.http) : !has(self.http)",message="http is required when type is HTTP, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'Container' ? has(self.container) : !has(self.container)",message="container is required when type is Container, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'External' || !has(self.external)",message="external is forbidden unless type is External"
// +union
type Agent struct {
	// type is the kind of the agent: Builtin, OpenAI, HTTP, Container or External.
	// +unionDiscriminator
	// +required
	Type AgentType `json:"type,omitempty"`

	// builtin chooses a built-in policy, if type is Builtin.
	// +optional
	Builtin *BuiltinAgentSpec `json:"builtin,omitempty"`

	// openAI configures a model behind an OpenAI-compatible endpoint, if type is OpenAI.
	// +optional
	OpenAI *OpenAIAgentSpec `json:"openAI,omitempty"`

	// http configures a policy behind a URL, if type is HTTP.
	// +optional
	HTTP *HTTPAgentSpec `json:"http,omitempty"`

	// container configures a policy in a container beside each runner, if type is Container.
	// +optional
	Container *ContainerAgentSpec `json:"container,omitempty"`

	// external configures the collection of trainers' episodes, if type is External.
	// +optional
	External *ExternalAgentSpec `json:"external,omitempty"`
}

// ExternalAgentSpec configures the collection of trainers' episodes. Trainers tag their sessions
// with the run's name: reset(run="NAME"), or reset(run="NAMESPACE/NAME") if the pool is in another
// namespace than the run.
type ExternalAgentSpec struct {
	// episodes is how many episodes the run collects before it is complete, errored ones included,
	// from 1 to 2147483648. The final number may be higher, because servers deliver episodes in
	// batches. If unset, the run ends with activeDeadlineSeconds.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483648
	// +optional
	Episodes *int64 `json:"episodes,omitempty"`
}

// OpenAIAgentSpec configures a model behind an OpenAI-compatible endpoint.
type OpenAIAgentSpec struct {
	// baseURL is the URL of the endpoint up to its version, for example https://api.openai.com/v1,
	// without user, password, query (but Azure's ?api-version=...) or fragment.
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^https?://[!"$-.0->A-~]+(/[!"$->@-~]*)?(\?api-version=[0-9A-Za-z.-]+)?$')`,message="write the endpoint's URL up to its version, such as https://api.openai.com/v1: with http:// or https:// and a host, without blanks, user, password, fragment, and query (but Azure's ?api-version=)"
	// +required
	BaseURL string `json:"baseURL,omitempty"`

	// model is the endpoint's name of the model, in printable ASCII without spaces.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[!-~]+$')`,message="name the model in ASCII without blanks"
	// +required
	Model string `json:"model,omitempty"`

	// apiKeySecretRef names the key of a Secret in the run's namespace that holds the endpoint's
	// API key. Only the runners read it. If unset, requests carry no key.
	// +optional
	APIKeySecretRef *SecretKeyReference `json:"apiKeySecretRef,omitempty"`

	// mode is Tools: the model calls tools made from the environment's actions; or JSON: it answers
	// with a JSON object, for endpoints without tools. Defaults to Tools.
	// +kubebuilder:default=Tools
	// +optional
	Mode ActionMode `json:"mode,omitempty"`

	// temperature is the sampling temperature, from 0 to 2 with at most four digits after the
	// point. Defaults to the endpoint's own.
	// +kubebuilder:validation:Type=number
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2
	// +kubebuilder:validation:XValidation:rule="double(int(self * 10000.0 + 0.5)) / 10000.0 == self",message="write at most four digits after the point"
	// +optional
	Temperature Number `json:"temperature,omitzero"`

	// maxTokens is the maximum number of tokens per answer, from 1 to 1048576. Defaults to the
	// endpoint's own limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	// +optional
	MaxTokens *int32 `json:"maxTokens,omitempty"`

	// maxConversationBytes is the size above which the oldest turns of a conversation are shortened
	// until it is half as large, without instructions and tools, from 4096 to 8388608. A
	// conversation that the endpoint refuses as too long is halved whatever the limit. Raise it for
	// models with a long context. Defaults to 98304.
	// +kubebuilder:validation:Minimum=4096
	// +kubebuilder:validation:Maximum=8388608
	// +optional
	MaxConversationBytes *int32 `json:"maxConversationBytes,omitempty"`

	// requestsPerMinute limits the requests of all runners of the run together, from 1 to 1000000.
	// Each runner gets an equal share. If unset, there is no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	RequestsPerMinute *int32 `json:"requestsPerMinute,omitempty"`

	// timeoutSeconds limits the duration of one request, in seconds, from 1 to 3600. Defaults to
	// 120.
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// systemPrompt replaces csenv's description of the job, in at most 32768 characters.
	// Instructions for the form of answers are always added.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	SystemPrompt string `json:"systemPrompt,omitempty"`

	// extraBody is a JSON object whose members are added to every request, for example
	// {"reasoning_effort": "low"}.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	ExtraBody *apiextensionsv1.JSON `json:"extraBody,omitempty"`
}

// HTTPAgentSpec configures a policy behind a URL.
type HTTPAgentSpec struct {
	// url is where the runner asks for each action: it sends observation, history and action schema
	// as JSON by POST, and expects {"action": {...}}.
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^https?://[!"$-.0->A-~]+(/[!"$-~]*)?$')`,message="write a URL like http://policy.team.svc:8080/act: with http:// or https:// and a host, without blanks, user, password and fragment"
	// +required
	URL string `json:"url,omitempty"`

	// tokenSecretRef names the key of a Secret in the run's namespace that holds the policy's
	// bearer token. If unset, requests carry no token.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`

	// timeoutSeconds limits the duration of one request, in seconds, from 1 to 3600. Defaults to
	// 120.
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// ContainerAgentSpec configures a policy in a container beside each runner. It serves the protocol
// of an HTTP policy on localhost.
type ContainerAgentSpec struct {
	// image is the container's image. It must run as a user other than root, with a numeric USER or
	// template.securityContext.runAsUser.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[!-~]+$')`,message="name an image in ASCII without blanks"
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

	// envFrom are Secrets and ConfigMaps whose keys become environment variables.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// volumeMounts are volumes of spec.template.volumes that the container sees.
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=16
	// +optional
	VolumeMounts []PodVolumeMount `json:"volumeMounts,omitempty"`

	// startTimeoutSeconds is how long the container may take to listen on port, in seconds, from 1
	// to 86400; then it is restarted. If it was restarted and ten minutes have passed since the
	// runner was scheduled, the run fails with RunnersNotStarted. Defaults to 600.
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +optional
	StartTimeoutSeconds int32 `json:"startTimeoutSeconds,omitempty"`

	// resources are the requests and limits of the container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// port is the port that the policy listens on, from 1 to 65535. Defaults to 8080.
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// path is the URL path that the policy serves. Defaults to /.
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^/[!"$-~]*$')`,message="begin the path with /, and write it in ASCII without blanks and #"
	// +optional
	Path string `json:"path,omitempty"`

	// timeoutSeconds limits the duration of one request, in seconds, from 1 to 3600. Defaults to
	// 120.
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// BuiltinAgentSpec chooses a built-in policy.
type BuiltinAgentSpec struct {
	// policy is Heuristic (simple rules on observations), Random (legal actions drawn from the
	// episode's seed), Oracle (knows the right answers: the upper bound of a benchmark) or Noop
	// (achieves nothing: the lower bound). "Null" is another name of Noop; YAML reads it as no
	// value unless it is quoted.
	// +required
	Policy BuiltinPolicy `json:"policy,omitempty"`
}
