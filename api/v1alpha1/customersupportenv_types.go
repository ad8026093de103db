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

// DrainPolicy is what a terminating server does with sessions that exceed the drain timeout.
// +kubebuilder:validation:Enum=Cut;HandOver
type DrainPolicy string

const (
	// CutSessions ends the sessions.
	CutSessions DrainPolicy = "Cut"
	// HandOverSessions moves their episodes to other servers of the pool.
	HandOverSessions DrainPolicy = "HandOver"
)

// RewardMode is the time when an episode's reward is paid.
// +kubebuilder:validation:Enum=Dense;Terminal
type RewardMode string

const (
	// DenseReward pays each step for its change of the score.
	DenseReward RewardMode = "Dense"
	// TerminalReward pays everything on the last step.
	TerminalReward RewardMode = "Terminal"
)

// OperatingMode is whether a pool runs servers.
// +kubebuilder:validation:Enum=Running;Suspended
type OperatingMode string

const (
	// RunningMode runs the number of servers that the spec asks for.
	RunningMode OperatingMode = "Running"
	// SuspendedMode runs no servers. Existing ones end their sessions first.
	SuspendedMode OperatingMode = "Suspended"
)

// NetworkPolicyMode is whether the operator manages the pool's NetworkPolicy.
// +kubebuilder:validation:Enum=Managed;Unmanaged
type NetworkPolicyMode string

const (
	// ManagedNetworkPolicy makes the operator create a NetworkPolicy for the pool.
	ManagedNetworkPolicy NetworkPolicyMode = "Managed"
	// UnmanagedNetworkPolicy creates no NetworkPolicy.
	UnmanagedNetworkPolicy NetworkPolicyMode = "Unmanaged"
)

// ServiceType is the type of a pool's Service.
// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
type ServiceType string

// The types of Services.
const (
	// ClusterIPService is reachable only from the cluster.
	ClusterIPService ServiceType = "ClusterIP"
	// NodePortService is also reachable through a port of every node.
	NodePortService ServiceType = "NodePort"
	// LoadBalancerService is also reachable through a load balancer of the cluster's provider.
	LoadBalancerService ServiceType = "LoadBalancer"
)

// PlayAccess is whose episodes a pool's servers play.
// +kubebuilder:validation:Enum=Open;RunsOnly
type PlayAccess string

const (
	// OpenPlay admits every client of the pool.
	OpenPlay PlayAccess = "Open"
	// RunsOnlyPlay admits the runners of EvaluationRuns only.
	RunsOnlyPlay PlayAccess = "RunsOnly"
)

// NamespacesFrom selects a set of namespaces.
// +kubebuilder:validation:Enum=Same;All;Selector
type NamespacesFrom string

const (
	// SameNamespace selects the object's own namespace.
	SameNamespace NamespacesFrom = "Same"
	// AllNamespaces selects all namespaces of the cluster.
	AllNamespaces NamespacesFrom = "All"
	// SelectedNamespaces selects the object's own namespace and those that match a label selector.
	SelectedNamespaces NamespacesFrom = "Selector"
)

// CustomerSupportEnvSpec is the desired state of a pool.
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || self.replicas == 1",message="replicas can't be combined with autoscaling, which decides the number of servers: remove replicas, or set autoscaling.minReplicas"
type CustomerSupportEnvSpec struct {
	// environment is the software that the pool serves: Ticket (classify, prioritise, reply,
	// resolve or escalate) or Workflow (multi-step tool use over order and payment backends).
	// Defaults to Ticket. Immutable.
	// +kubebuilder:default=Ticket
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="environment is immutable: create another CustomerSupportEnv for the other environment"
	// +optional
	Environment EnvironmentType `json:"environment,omitempty"`

	// scenarios chooses the scenarios to play. Defaults to all built-in scenarios.
	// +optional
	Scenarios PoolScenarios `json:"scenarios,omitzero"`

	// image is the container image of the environment servers. Defaults to the operator's own
	// image, which has the matching version.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[!-~]+$')`,message="name an image in ASCII without blanks"
	// +optional
	Image string `json:"image,omitempty"`

	// operatingMode is Running, or Suspended: no servers, regardless of replicas and autoscaling.
	// Existing servers end their sessions first, within drainTimeoutSeconds. Defaults to Running.
	// +kubebuilder:default=Running
	// +optional
	OperatingMode OperatingMode `json:"operatingMode,omitempty"`

	// replicas is the number of environment servers, from 0 to 1000. Forbidden if autoscaling is
	// set; kubectl scale is then refused too. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// autoscaling adds and removes servers to keep sessions free. If unset, replicas or a
	// HorizontalPodAutoscaler decides. If it is removed while the pool has several servers, set
	// replicas to the number to keep (status.replicas) in the same change: replicas is 1 otherwise,
	// and the API server refuses that change. To keep one server, lower maxReplicas to 1 first.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// sessions limits the sessions of each server.
	// +kubebuilder:default={}
	// +optional
	Sessions SessionLimits `json:"sessions,omitzero"`

	// drainTimeoutSeconds is the time that a terminating server continues to serve its sessions, in
	// seconds, from 0 to 86400. drainPolicy says what becomes of sessions that last longer.
	// Defaults to 3600.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	DrainTimeoutSeconds *int32 `json:"drainTimeoutSeconds,omitempty"`

	// drainPolicy is what a terminating server does with sessions that exceed drainTimeoutSeconds:
	// Cut ends them, HandOver moves their episodes to other servers of the pool and closes their
	// sockets with code 1012, after which csenv's typed clients connect again and continue.
	// Sessions of planned runs, and those without a socket, are always cut. Defaults to Cut.
	// +kubebuilder:default=Cut
	// +optional
	DrainPolicy DrainPolicy `json:"drainPolicy,omitempty"`

	// rewardMode is the reward mode of clients that don't request one: Dense pays each step for its
	// change of the score, Terminal pays everything on the last step. Evaluation runs always use
	// Terminal. Defaults to Terminal.
	// +kubebuilder:default=Terminal
	// +optional
	RewardMode RewardMode `json:"rewardMode,omitempty"`

	// judge configures the judge of replies. Defaults to the offline judge.
	// +kubebuilder:default={type: Offline}
	// +optional
	Judge Judge `json:"judge,omitzero"`

	// access controls who may use the pool.
	// +kubebuilder:default={}
	// +optional
	Access Access `json:"access,omitzero"`

	// runs limits the EvaluationRuns against the pool.
	// +optional
	Runs RunLimits `json:"runs,omitzero"`

	// service configures the pool's Service.
	// +kubebuilder:default={}
	// +optional
	Service PoolService `json:"service,omitzero"`

	// networkPolicy is Managed: port 8000 admits the namespaces that access allows, or every client
	// if the Service has type NodePort or LoadBalancer, and port 9000 admits only the operator's
	// namespace and those with the label metrics=enabled; or Unmanaged: there is no NetworkPolicy.
	// Defaults to Managed.
	// +kubebuilder:default=Managed
	// +optional
	NetworkPolicy NetworkPolicyMode `json:"networkPolicy,omitempty"`

	// template changes the server pods, for example their resources and placement.
	// +optional
	Template *PodOverrides `json:"template,omitempty"`
}

// Autoscaling adds and removes servers to keep sessions free.
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas must not exceed maxReplicas"
type Autoscaling struct {
	// minReplicas is the minimum number of servers, from 0 to 1000. With 0, a pool without sessions
	// is scaled to zero after scaleDownDelaySeconds, and gets a server again when an EvaluationRun
	// waits for it. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the maximum number of servers, from 1 to 1000.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +required
	MaxReplicas int32 `json:"maxReplicas,omitempty"`

	// freeSessions is the number of sessions to keep free, or a share of the capacity, for example
	// "25%". Defaults to "20%".
	// +kubebuilder:default="20%"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000000 : string(self).matches('^[1-9]?[0-9]%$')",message="freeSessions must be a number of sessions or a share from \"0%\" to \"99%\""
	// +optional
	FreeSessions *intstr.IntOrString `json:"freeSessions,omitempty"`

	// scaleDownDelaySeconds is the time that servers must be unneeded before they are removed, in
	// seconds, from 0 to 86400. Defaults to 300.
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	ScaleDownDelaySeconds *int32 `json:"scaleDownDelaySeconds,omitempty"`
}

// Access controls who may use a pool.
type Access struct {
	// tokenSecretRef names the key of a Secret that holds the bearer tokens of clients. Each line
	// of the value is a valid token, so that tokens can be rotated without a gap. Only the servers
	// read it, and they follow its changes without a restart. If unset, clients need no token.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`

	// allowedNamespaces are the namespaces whose EvaluationRuns may use the pool. Defaults to the
	// pool's own namespace.
	// +kubebuilder:default={from: Same}
	// +optional
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitzero"`

	// play is Open: every client may play, also outside of runs; or RunsOnly: servers refuse every
	// reset but those of the planned episodes of EvaluationRuns, each until it has been graded, so
	// that nobody can practise on the pool's scenarios. Runs with an agent of type External fail in
	// such a pool, because trainers play them without a run's credential. Defaults to Open.
	// +kubebuilder:default=Open
	// +optional
	Play PlayAccess `json:"play,omitempty"`
}

// RunLimits limits the EvaluationRuns against a pool.
type RunLimits struct {
	// maxErroredPercent is the highest retries.maxErroredPercent that a run may have, in percent,
	// from 0 to 100. A run that allows more fails with InvalidPlan before it is played, because its
	// author could otherwise exclude episodes with bad scores. If unset, there is no limit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxErroredPercent *int32 `json:"maxErroredPercent,omitempty"`

	// maxEpisodeAttempts is the highest retries.episodeAttempts that a run may have, from 1 to 10.
	// A run that asks for more fails with InvalidPlan before it is played. If unset, there is no
	// further limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +optional
	MaxEpisodeAttempts *int32 `json:"maxEpisodeAttempts,omitempty"`

	// scores says where the scores of planned runs are: Everywhere, also in the last observation of
	// each episode, which has the verdicts too, and in stored episodes; or ResultsOnly, in the
	// status and the table of scores of the run alone, and only once it is complete: until then
	// they are encrypted with the pool's key. Episodes of trainers keep theirs. Defaults to
	// Everywhere.
	// +kubebuilder:default=Everywhere
	// +optional
	Scores ScoreDisclosure `json:"scores,omitempty"`
}

// ScoreDisclosure is where the scores of planned runs are.
// +kubebuilder:validation:Enum=Everywhere;ResultsOnly
type ScoreDisclosure string

const (
	// ScoresEverywhere tells them to whoever plays, at the end of each episode.
	ScoresEverywhere ScoreDisclosure = "Everywhere"
	// ScoresInResults tells them to the operator alone, which publishes them in the run.
	ScoresInResults ScoreDisclosure = "ResultsOnly"
)

// AllowedNamespaces selects namespaces.
// +kubebuilder:validation:XValidation:rule="self.from == 'Selector' ? has(self.selector) : !has(self.selector)",message="selector is required if from is Selector, and forbidden otherwise"
type AllowedNamespaces struct {
	// from is Same (the pool's own namespace), All, or Selector (the pool's own and those that
	// selector matches). Defaults to Same.
	// +kubebuilder:default=Same
	// +optional
	From NamespacesFrom `json:"from,omitempty"`

	// selector matches namespaces by their labels, if from is Selector.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// PoolService configures a pool's Service.
type PoolService struct {
	// type is the type of the Service: ClusterIP (reachable only from the cluster), NodePort or
	// LoadBalancer. Defaults to ClusterIP.
	// +kubebuilder:default=ClusterIP
	// +optional
	Type ServiceType `json:"type,omitempty"`

	// annotations are added to the Service, for example for a load balancer's controller. The
	// prefix csenv.dev/ is reserved.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('csenv.dev/'))",message="the annotation prefix csenv.dev/ is reserved"
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// SessionLimits limits the sessions of one environment server.
type SessionLimits struct {
	// perPod is the number of sessions that one server accepts at the same time, from 1 to 100000.
	// Defaults to 2000.
	// +kubebuilder:default=2000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	PerPod int32 `json:"perPod,omitempty"`

	// clientSharePercent is the share of perPod that one client may have at the same time, from 1
	// to 100, so that no client takes every session of a server. A client is an address and, with
	// access.tokenSecretRef, a token; behind a proxy all clients share its address. With
	// autoscaling, keep it above the share that freeSessions leaves, so that one client can make
	// the pool grow. Defaults to 90.
	// +kubebuilder:default=90
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ClientSharePercent *int32 `json:"clientSharePercent,omitempty"`

	// idleTimeoutSeconds is the idle time after which a session ends, in seconds, from 0 (never) to
	// 86400. Defaults to 3600.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"`

	// maxDurationSeconds is the age at which a session ends, in seconds, from 0 (never) to 604800.
	// An episode that is being played may continue for as long again. Defaults to 7200.
	// +kubebuilder:default=7200
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +optional
	MaxDurationSeconds *int32 `json:"maxDurationSeconds,omitempty"`
}

// PoolScenarios chooses the scenarios to play.
type PoolScenarios struct {
	// splits are the splits of the scenarios to play: Train, Dev, Test and Private. Defaults to
	// all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +optional
	Splits []ScenarioSplit `json:"splits,omitempty"`

	// packs are folders of custom scenarios, played beside the built-in ones; splits [Private]
	// excludes the built-in ones. Running servers validate changed files, and valid changes are
	// rolled out. Invalid ones leave the running servers as they are.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Packs []ScenarioPack `json:"packs,omitempty"`
}

// ScenarioPack is a folder of scenario files. Each key of the object is a file, for example
// B07.yaml, POL-REF.md or names-en.yaml.
// +kubebuilder:validation:XValidation:rule="has(self.configMap) != has(self.secret)",message="exactly one of configMap and secret is required"
type ScenarioPack struct {
	// configMap names a ConfigMap in the pool's namespace that holds the files.
	// +optional
	ConfigMap *ObjectReference `json:"configMap,omitempty"`

	// secret names a Secret in the pool's namespace that holds the files. Only the servers read it.
	// +optional
	Secret *ObjectReference `json:"secret,omitempty"`
}

// ObjectReference names an object in the namespace of the referring object.
type ObjectReference struct {
	// name is the object's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// SecretKeyReference names a key of a Secret in the namespace of the referring object.
type SecretKeyReference struct {
	// name is the Secret's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key is the key of the value.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
}

// CustomerSupportEnv is a pool of environment servers. AI agents play customer-support episodes on
// them over the OpenEnv protocol, and the servers grade the episodes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=cse,categories=csenv
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Sessions",type=integer,JSONPath=`.status.sessions.active`
// +kubebuilder:printcolumn:name="Capacity",type=integer,JSONPath=`.status.sessions.capacity`
// +kubebuilder:printcolumn:name="Endpoint",type=string,priority=1,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name is also the name of Services: use at most 50 lower-case letters, digits and '-', beginning with a letter"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.autoscaling) || has(self.spec.autoscaling) || self.spec.replicas != 1 || !has(self.status) || !has(self.status.replicas) || self.status.replicas <= 1",message="without autoscaling the pool would have the 1 server of replicas, fewer than now: set replicas to the number to keep (status.replicas) in the same change, or lower autoscaling.maxReplicas to 1 first"
type CustomerSupportEnv struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's standard metadata. Its name is at most 50 characters long: it names
	// Services too.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the pool.
	// +kubebuilder:default={}
	// +optional
	Spec CustomerSupportEnvSpec `json:"spec,omitzero"`

	// status is the observed state of the pool.
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
