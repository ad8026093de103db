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
// +kubebuilder:validation:XValidation:rule="!has(self.customer) || !has(self.customer.llm) || self.environment == 'Workflow'",message="a model can be the customer of conversations alone, which environment Workflow has: remove customer, or choose that environment"
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

	// drainTimeoutSeconds is how long a server that is being removed keeps serving its open
	// sessions, in seconds, from 0 to 86400. In the second half of that time, sessions end between
	// two episodes. drainPolicy decides about those that are left. Defaults to 3600.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	DrainTimeoutSeconds *int32 `json:"drainTimeoutSeconds,omitempty"`

	// drainPolicy decides about sessions that are open after drainTimeoutSeconds: Cut ends them;
	// HandOver moves their episodes to other servers with free sessions and closes their sockets
	// with code 1012, after which csenv's typed clients connect again and continue. Sessions of a
	// run's runners, and those without a socket, are always cut. Defaults to Cut.
	// +kubebuilder:default=Cut
	// +optional
	DrainPolicy DrainPolicy `json:"drainPolicy,omitempty"`

	// rewardMode is when rewards are paid to clients that don't request a mode: Dense pays each
	// step the change of the score, Terminal pays the whole score with the last step. Evaluation
	// runs always use Terminal. Defaults to Terminal.
	// +kubebuilder:default=Terminal
	// +optional
	RewardMode RewardMode `json:"rewardMode,omitempty"`

	// judge grades the replies to customers. Defaults to the offline judge. A change replaces the
	// servers; if it changes the scale (type, model or onFailure), runs that are being played fail
	// with EnvironmentChanged.
	// +kubebuilder:default={type: Offline}
	// +optional
	Judge Judge `json:"judge,omitzero"`

	// customer is the customer of conversations, the tasks talk-*. Defaults to the template's. A
	// change replaces the servers; if it changes type or model, runs that are being played fail
	// with EnvironmentChanged.
	// +kubebuilder:default={type: Template}
	// +optional
	Customer Customer `json:"customer,omitzero"`

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

	// networkPolicy is Managed: the operator restricts port 8000 to the namespaces that access
	// allows (not at all if the Service has type NodePort or LoadBalancer), and port 9000 to its
	// own namespace and those with the label metrics=enabled; or Unmanaged: there is no
	// NetworkPolicy. It needs a network plugin that enforces policies. Defaults to Managed.
	// +kubebuilder:default=Managed
	// +optional
	NetworkPolicy NetworkPolicyMode `json:"networkPolicy,omitempty"`

	// template changes the servers' pods: labels, annotations, resources, env, placement, priority,
	// image pull secrets, users and volumes. A change replaces the servers, which drain first.
	// Security settings beyond users and groups can't be changed.
	// +optional
	Template *PodOverrides `json:"template,omitempty"`
}

// Autoscaling adds and removes servers to keep sessions free.
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas must not exceed maxReplicas"
type Autoscaling struct {
	// minReplicas is the minimum number of servers, from 0 to 1000. With 0, an idle pool has no
	// server after scaleDownDelaySeconds, and only an EvaluationRun starts one: other clients can't
	// connect until then. Defaults to 1.
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

	// freeSessions is how many sessions the operator keeps free: a number from 0 to 100000000, or a
	// share of the capacity from "0%" to "99%". It adds servers within seconds if fewer are free.
	// Defaults to "20%".
	// +kubebuilder:default="20%"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000000 : string(self).matches('^[1-9]?[0-9]%$')",message="freeSessions must be a number of sessions or a share from \"0%\" to \"99%\""
	// +optional
	FreeSessions *intstr.IntOrString `json:"freeSessions,omitempty"`

	// scaleDownDelaySeconds is how long a server must be unneeded without interruption before it is
	// removed, in seconds, from 0 to 86400. The time starts again when the operator restarts.
	// Defaults to 300.
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	ScaleDownDelaySeconds *int32 `json:"scaleDownDelaySeconds,omitempty"`
}

// Access controls who may use a pool.
type Access struct {
	// tokenSecretRef selects the entry of a Secret in the pool's namespace that contains the bearer
	// tokens of clients, one in each line. To rotate a token, add the new line, wait two minutes,
	// then remove the old one. Only the servers read it. If unset, clients need no token.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`

	// allowedNamespaces are the namespaces whose EvaluationRuns may use the pool. Defaults to the
	// pool's own namespace.
	// +kubebuilder:default={from: Same}
	// +optional
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitzero"`

	// play is Open: every client may play; or RunsOnly: only runners of EvaluationRuns may, each
	// planned episode until it has been graded, so that nobody can practise on the pool's
	// scenarios. Runs with an agent of type External then fail with TrainersNotAllowed. Defaults to
	// Open.
	// +kubebuilder:default=Open
	// +optional
	Play PlayAccess `json:"play,omitempty"`
}

// RunLimits limits the EvaluationRuns against a pool.
type RunLimits struct {
	// maxErroredPercent is the highest retries.maxErroredPercent that a run against this pool may
	// set, in percent, from 0 to 100. Runs that set more fail with InvalidPlan. Use it in
	// benchmarks: errored episodes don't count, so a high limit lets an author exclude episodes
	// with bad scores. If unset, there is no limit.
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

	// scores decides who sees the scores of planned runs: Everywhere, also in the last observation
	// of each episode, with the verdicts, and in stored episodes; or ResultsOnly, in the run's
	// status and table of scores alone, and only once it is complete: until then they are encrypted
	// with the pool's key. Episodes of trainers keep theirs. Defaults to Everywhere.
	// +kubebuilder:default=Everywhere
	// +optional
	Scores ScoreDisclosure `json:"scores,omitempty"`
}

// ScoreDisclosure is where the scores of planned runs are.
// +kubebuilder:validation:Enum=Everywhere;ResultsOnly
type ScoreDisclosure string

const (
	// ScoresEverywhere shows them to whoever plays, at the end of each episode.
	ScoresEverywhere ScoreDisclosure = "Everywhere"
	// ScoresInResults gives them to the operator alone, which publishes them in the run.
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
	// perPod is how many sessions one server accepts at a time, from 1 to 100000. If servers run
	// out of memory (reason CrashLoop), lower it or raise template.resources.limits.memory.
	// Defaults to 2000.
	// +kubebuilder:default=2000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	PerPod int32 `json:"perPod,omitempty"`

	// clientSharePercent is the largest share of a server's sessions that one client may hold, from
	// 1 to 100. A client is an address and, with access.tokenSecretRef, a token. Behind a proxy all
	// clients share one address: set 100. With autoscaling, keep it above 100 % minus freeSessions,
	// so that one client can make the pool grow. Defaults to 90.
	// +kubebuilder:default=90
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ClientSharePercent *int32 `json:"clientSharePercent,omitempty"`

	// idleTimeoutSeconds ends a session that had no reset, step or tool call for this long, in
	// seconds, from 0 (never) to 86400, also while the connection that created it is open. Raise it
	// if agents think for longer. Defaults to 3600.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"`

	// maxDurationSeconds is the age at which a session ends, in seconds, from 0 (never) to 604800.
	// It ends between two episodes, at the latest when it is twice this old. Defaults to 7200.
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

	// packs are ConfigMaps or Secrets in the pool's namespace, each with the files of one folder of
	// scenarios, which are played beside the built-in ones (splits [Private] plays only yours). If
	// changed files are valid, the servers are replaced, and runs that are being played fail with
	// EnvironmentChanged; if not, servers keep the old files, and Degraded names file and line.
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

	// key is the entry of the Secret whose value is used.
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
