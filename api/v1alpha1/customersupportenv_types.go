package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// EnvironmentType names the environment that a pool serves.
// +kubebuilder:validation:Enum=Ticket;Workflow
type EnvironmentType string

const (
	// TicketEnvironment is a support desk: classify, prioritise, reply, resolve or escalate.
	TicketEnvironment EnvironmentType = "Ticket"
	// WorkflowEnvironment is multi-step tool use over order and payment backends.
	WorkflowEnvironment EnvironmentType = "Workflow"
)

// RewardMode says when an episode's reward is paid.
// +kubebuilder:validation:Enum=Dense;Terminal
type RewardMode string

const (
	// DenseReward pays each step what it changed.
	DenseReward RewardMode = "Dense"
	// TerminalReward pays everything on the last step.
	TerminalReward RewardMode = "Terminal"
)

// ScenarioSplit names a part of the scenarios.
// +kubebuilder:validation:Enum=Train;Dev;Test;Private
type ScenarioSplit string

// The splits of the scenarios. Those of packs are mostly Private.
const (
	TrainSplit   ScenarioSplit = "Train"
	DevSplit     ScenarioSplit = "Dev"
	TestSplit    ScenarioSplit = "Test"
	PrivateSplit ScenarioSplit = "Private"
)

// OperatingMode says whether a pool has servers.
// +kubebuilder:validation:Enum=Running;Suspended
type OperatingMode string

const (
	// RunningMode keeps as many servers as the spec asks for.
	RunningMode OperatingMode = "Running"
	// SuspendedMode keeps none: those that run end their sessions and go.
	SuspendedMode OperatingMode = "Suspended"
)

// NetworkPolicyMode says who writes the pool's NetworkPolicy.
// +kubebuilder:validation:Enum=Managed;Unmanaged
type NetworkPolicyMode string

const (
	// ManagedNetworkPolicy has the operator keep a NetworkPolicy for the pool.
	ManagedNetworkPolicy NetworkPolicyMode = "Managed"
	// UnmanagedNetworkPolicy leaves the traffic of the pool's pods to others.
	UnmanagedNetworkPolicy NetworkPolicyMode = "Unmanaged"
)

// ServiceType says how a pool is reached from outside the cluster, if at all.
// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
type ServiceType string

// The types of Services.
const (
	ClusterIPService    ServiceType = "ClusterIP"
	NodePortService     ServiceType = "NodePort"
	LoadBalancerService ServiceType = "LoadBalancer"
)

// NamespacesFrom says which namespaces are meant.
// +kubebuilder:validation:Enum=Same;All;Selector
type NamespacesFrom string

const (
	// SameNamespace is the object's own.
	SameNamespace NamespacesFrom = "Same"
	// AllNamespaces are all of the cluster.
	AllNamespaces NamespacesFrom = "All"
	// SelectedNamespaces are those whose labels a selector selects, the object's own included.
	SelectedNamespaces NamespacesFrom = "Selector"
)

// CustomerSupportEnvSpec is the pool that is wanted.
// +kubebuilder:validation:XValidation:rule="!(has(self.environment) && self.environment == 'Workflow' && has(self.judge) && has(self.judge.type) && self.judge.type == 'LLM')",message="judge.type LLM is for environment Ticket: rules alone grade the workflows, so leave judge out"
type CustomerSupportEnvSpec struct {
	// environment is what the pool serves: Ticket (classify, prioritise, reply, resolve or
	// escalate) or Workflow (multi-step tool use over order and payment backends). Defaults to
	// Ticket. Immutable.
	// +kubebuilder:default=Ticket
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="environment is immutable: create another CustomerSupportEnv for the other environment"
	// +optional
	Environment EnvironmentType `json:"environment,omitempty"`

	// scenarios chooses what is played. Defaults to all scenarios that are built into the servers.
	// +optional
	Scenarios PoolScenarios `json:"scenarios,omitzero"`

	// image is the container image of the environment servers. Defaults to the operator's own
	// image, which fits its version.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// operatingMode is Running, or Suspended: no servers, whatever replicas and autoscaling say.
	// Servers that run end their sessions first, for as long as drainTimeoutSeconds. Defaults to
	// Running.
	// +kubebuilder:default=Running
	// +optional
	OperatingMode OperatingMode `json:"operatingMode,omitempty"`

	// replicas is the number of environment servers, from 0 to 1000. Means nothing while
	// autoscaling is set. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// autoscaling keeps some sessions free by adding and removing servers. Without it, replicas or
	// a HorizontalPodAutoscaler decides.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// sessions bounds what one server carries.
	// +kubebuilder:default={}
	// +optional
	Sessions SessionLimits `json:"sessions,omitzero"`

	// drainTimeoutSeconds is how long a terminating server goes on serving the sessions that it
	// has, in seconds, from 0 to 86400. Sessions that outlive it are cut. Defaults to 3600.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	DrainTimeoutSeconds *int32 `json:"drainTimeoutSeconds,omitempty"`

	// rewardMode is what clients get that don't ask for one: Dense pays each step what it changed,
	// Terminal pays everything on the last step. Evaluation runs are always played with Terminal.
	// Defaults to Dense.
	// +kubebuilder:default=Dense
	// +optional
	RewardMode RewardMode `json:"rewardMode,omitempty"`

	// judge grades replies. Defaults to the offline judge.
	// +kubebuilder:default={type: Offline}
	// +optional
	Judge Judge `json:"judge,omitzero"`

	// access says who may use the pool.
	// +kubebuilder:default={}
	// +optional
	Access Access `json:"access,omitzero"`

	// service says how the pool is reached.
	// +kubebuilder:default={}
	// +optional
	Service PoolService `json:"service,omitzero"`

	// networkPolicy is Managed: clients reach port 8000 from the namespaces that access allows, or
	// from anywhere with a Service of type NodePort or LoadBalancer; and only the operator's
	// namespace and those with the label metrics=enabled reach port 9000. Or Unmanaged: no
	// NetworkPolicy is kept. Defaults to Managed.
	// +kubebuilder:default=Managed
	// +optional
	NetworkPolicy NetworkPolicyMode `json:"networkPolicy,omitempty"`

	// template changes the servers' pods: where they run and what they may use.
	// +optional
	Template *PodOverrides `json:"template,omitempty"`
}

// Autoscaling keeps some sessions free.
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas is more than maxReplicas"
type Autoscaling struct {
	// minReplicas is the least number of servers, from 0 to 1000. With 0, a pool without sessions
	// has no server once scaleDownDelaySeconds have passed, and gets one again when an
	// EvaluationRun wants to play. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the greatest number of servers, from 1 to 1000.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +required
	MaxReplicas int32 `json:"maxReplicas,omitempty"`

	// freeSessions is how many sessions the pool is to have free at any time: a number, or a share
	// of its capacity as in "25%". Defaults to "20%".
	// +kubebuilder:default="20%"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000000 : string(self).matches('^[1-9]?[0-9]%$')",message="freeSessions is a number of sessions or a share from \"0%\" to \"99%\""
	// +optional
	FreeSessions *intstr.IntOrString `json:"freeSessions,omitempty"`

	// scaleDownDelaySeconds is how long servers have to be superfluous before they are removed, in
	// seconds, from 0 to 86400. Defaults to 300.
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	ScaleDownDelaySeconds *int32 `json:"scaleDownDelaySeconds,omitempty"`
}

// Access says who may use a pool.
type Access struct {
	// tokenSecretRef is where the bearer token is that every client has to send. Each line of the
	// key's value is a token, so that tokens can be exchanged without a gap. The servers read it,
	// again when it changes, without a restart; the operator never does. Without it, whoever
	// reaches the port may play.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`

	// allowedNamespaces are the namespaces whose EvaluationRuns may use the pool. Defaults to the
	// pool's own.
	// +kubebuilder:default={from: Same}
	// +optional
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitzero"`
}

// AllowedNamespaces are namespaces.
// +kubebuilder:validation:XValidation:rule="self.from == 'Selector' ? has(self.selector) : !has(self.selector)",message="selector says which namespaces are meant: give it with from Selector, and only then"
type AllowedNamespaces struct {
	// from is Same: the pool's own namespace; All; or Selector: the pool's own and those that
	// selector selects.
	// +kubebuilder:default=Same
	// +optional
	From NamespacesFrom `json:"from,omitempty"`

	// selector selects namespaces by their labels, with from Selector.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// PoolService says how a pool is reached.
type PoolService struct {
	// type of the Service: ClusterIP (from inside the cluster alone), NodePort or LoadBalancer.
	// Defaults to ClusterIP.
	// +kubebuilder:default=ClusterIP
	// +optional
	Type ServiceType `json:"type,omitempty"`

	// annotations are added to the Service, for a load balancer's controller, say. Those of
	// csenv.dev/ are csenv's own.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('csenv.dev/'))",message="annotations of csenv.dev/ are csenv's own"
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// SessionLimits bounds what one environment server carries.
type SessionLimits struct {
	// perPod is the number of sessions that one server accepts at the same time, from 1 to 100000.
	// Defaults to 2000.
	// +kubebuilder:default=2000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	PerPod int32 `json:"perPod,omitempty"`

	// idleTimeoutSeconds ends a session that has sent nothing for so long, in seconds, from 0
	// (never) to 86400. Defaults to 600.
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"`

	// maxDurationSeconds ends a session of that age, in seconds, from 0 (never) to 604800. Defaults
	// to 7200.
	// +kubebuilder:default=7200
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +optional
	MaxDurationSeconds *int32 `json:"maxDurationSeconds,omitempty"`
}

// PoolScenarios chooses what is played.
type PoolScenarios struct {
	// splits are the parts of the scenarios that are played: Train, Dev, Test and Private. Defaults
	// to all of them.
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +optional
	Splits []ScenarioSplit `json:"splits,omitempty"`

	// packs are scenarios of your own, played beside those that are built in: splits [Private]
	// leaves the built-in ones out. A change of their files is tried by the servers that run and
	// rolled out if nothing is wrong with it; a pack at fault leaves the running servers as they
	// are.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Packs []ScenarioPack `json:"packs,omitempty"`
}

// ScenarioPack is a folder of scenario files, a key of the object each: B07.yaml, POL-REF.md,
// names-en.yaml.
// +kubebuilder:validation:XValidation:rule="has(self.configMap) != has(self.secret)",message="a pack is either a configMap or a secret"
type ScenarioPack struct {
	// configMap holds the files of a pack that anybody may read.
	// +optional
	ConfigMap *ObjectReference `json:"configMap,omitempty"`

	// secret holds the files of a pack that only the servers may read.
	// +optional
	Secret *ObjectReference `json:"secret,omitempty"`
}

// ObjectReference names an object in the namespace of what refers to it.
type ObjectReference struct {
	// name is the object's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// SecretKeyReference names a key of a Secret in the namespace of what refers to it.
type SecretKeyReference struct {
	// name is the Secret's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key is the key whose value is meant.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
}

// CustomerSupportEnv is a pool of environment servers: AI agents play customer-support episodes
// there over the OpenEnv protocol, and the servers grade them.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=cse,categories=csenv
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Sessions",type=integer,JSONPath=`.status.sessions.active`
// +kubebuilder:printcolumn:name="Capacity",type=integer,JSONPath=`.status.sessions.capacity`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Endpoint",type=string,priority=1,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name names Services too: at most 50 lower-case letters, digits and '-', beginning with a letter"
type CustomerSupportEnv struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's standard metadata. Its name is at most 50 characters long: it names
	// Services too.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the pool that is wanted.
	// +kubebuilder:default={}
	// +optional
	Spec CustomerSupportEnvSpec `json:"spec,omitzero"`

	// status is the pool as it was last seen.
	// +optional
	Status CustomerSupportEnvStatus `json:"status,omitzero"`
}

// CustomerSupportEnvList is a list of CustomerSupportEnvs.
// +kubebuilder:object:root=true
type CustomerSupportEnvList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CustomerSupportEnv `json:"items"`
}
