package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// JudgeType names the judge of replies.
// +kubebuilder:validation:Enum=Offline
type JudgeType string

// OfflineJudge is the deterministic judge that is part of the environment server.
const OfflineJudge JudgeType = "Offline"

// CustomerSupportEnvSpec is the pool that is wanted.
type CustomerSupportEnvSpec struct {
	// environment is what the pool serves: Ticket (classify, prioritise, reply, resolve or escalate) or Workflow (multi-step tool
	// use over order and payment backends). Defaults to Ticket. Immutable.
	// +kubebuilder:default=Ticket
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="environment is immutable: create another CustomerSupportEnv for the other environment"
	// +optional
	Environment EnvironmentType `json:"environment,omitempty"`

	// image is the container image of the environment servers. Defaults to the operator's own image, which fits its version.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// replicas is the number of environment servers, from 0 to 1000. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// sessions bounds what one server carries.
	// +kubebuilder:default={}
	// +optional
	Sessions SessionLimits `json:"sessions,omitzero"`

	// drainTimeoutSeconds is how long a terminating server goes on serving the sessions that it has, in seconds, from 0 to 86400.
	// Sessions that outlive it are cut. Defaults to 3600.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	DrainTimeoutSeconds *int32 `json:"drainTimeoutSeconds,omitempty"`

	// rewardMode is what clients get that don't ask for one: Dense pays each step what it changed, Terminal pays everything on
	// the last step. Evaluation runs are always played with Terminal. Defaults to Dense.
	// +kubebuilder:default=Dense
	// +optional
	RewardMode RewardMode `json:"rewardMode,omitempty"`

	// judge grades replies. Defaults to the offline judge.
	// +kubebuilder:default={type: Offline}
	// +optional
	Judge Judge `json:"judge,omitzero"`
}

// SessionLimits bounds what one environment server carries.
type SessionLimits struct {
	// perPod is the number of sessions that one server accepts at the same time, from 1 to 100000. Defaults to 2000.
	// +kubebuilder:default=2000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	PerPod int32 `json:"perPod,omitempty"`

	// idleTimeoutSeconds ends a session that has sent nothing for so long, in seconds, from 0 (never) to 86400. Defaults to 600.
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"`

	// maxDurationSeconds ends a session of that age, in seconds, from 0 (never) to 604800. Defaults to 7200.
	// +kubebuilder:default=7200
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +optional
	MaxDurationSeconds *int32 `json:"maxDurationSeconds,omitempty"`
}

// Judge chooses who grades replies.
type Judge struct {
	// type is Offline: the deterministic judge inside the environment server, which calls nobody.
	// +kubebuilder:default=Offline
	// +optional
	Type JudgeType `json:"type,omitempty"`
}

// CustomerSupportEnvStatus is the pool as it was last seen.
type CustomerSupportEnvStatus struct {
	// conditions are Available, Progressing and Degraded.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// endpoint is the URL that OpenEnv clients in the cluster connect to, for example ws://support.default.svc:8000.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// replicas is the number of servers that exist, terminating ones left out.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of servers that accept sessions.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// updatedReplicas is the number of servers that run the newest template.
	// +kubebuilder:validation:Minimum=0
	// +optional
	UpdatedReplicas *int32 `json:"updatedReplicas,omitempty"`

	// selector selects the pool's pods, for the scale subresource.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Selector string `json:"selector,omitempty"`

	// sessions are the pool's sessions.
	// +optional
	Sessions *SessionCounts `json:"sessions,omitempty"`

	// episodes are the episodes that the present servers have ended since they started.
	// +optional
	Episodes *PoolEpisodes `json:"episodes,omitempty"`

	// tasks are the tasks that the pool offers.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Tasks []OfferedTask `json:"tasks,omitempty"`

	// image is the container image that the newest template runs.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// scenarioDigest is the digest of the scenarios that the servers play, "sha256:" and 64 hex digits.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ScenarioDigest string `json:"scenarioDigest,omitempty"`

	// graderVersion changes whenever the same episode could get another score.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	GraderVersion string `json:"graderVersion,omitempty"`

	// judge names the scale on which replies are judged.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Judge string `json:"judge,omitempty"`

	// ledgerPublicKey is the Ed25519 key, in base64, that verifies the scores which the servers sign.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LedgerPublicKey string `json:"ledgerPublicKey,omitempty"`
}

// SessionCounts are sessions over all servers of a pool.
type SessionCounts struct {
	// active is the number of open sessions.
	// +kubebuilder:validation:Minimum=0
	// +required
	Active int64 `json:"active"`

	// capacity is the number of sessions that the servers accept at the same time.
	// +kubebuilder:validation:Minimum=0
	// +required
	Capacity int64 `json:"capacity"`
}

// PoolEpisodes counts episodes by outcome.
type PoolEpisodes struct {
	// scored is the number of episodes that ran to their end.
	// +kubebuilder:validation:Minimum=0
	// +required
	Scored int64 `json:"scored"`

	// failed is the number of episodes that ended by the agent's fault, scored as they stood.
	// +kubebuilder:validation:Minimum=0
	// +required
	Failed int64 `json:"failed"`

	// errored is the number of episodes that ended by a failure on our side and have no score.
	// +kubebuilder:validation:Minimum=0
	// +required
	Errored int64 `json:"errored"`

	// meanScore is the mean score of scored and failed episodes, 0 to 1, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	MeanScore string `json:"meanScore,omitempty"`
}

// OfferedTask is a task that a pool offers.
type OfferedTask struct {
	// name is what EvaluationRuns and reset options call the task.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// scenarios is the number of scenarios of the task.
	// +kubebuilder:validation:Minimum=0
	// +required
	Scenarios int32 `json:"scenarios"`
}

// CustomerSupportEnv is a pool of environment servers: AI agents play customer-support episodes there over the OpenEnv protocol, and the servers grade them.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=cse,categories=csenv
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Sessions",type=integer,JSONPath=`.status.sessions.active`
// +kubebuilder:printcolumn:name="Capacity",type=integer,JSONPath=`.status.sessions.capacity`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Endpoint",type=string,priority=1,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name names Services too: at most 50 lower-case letters, digits and '-', beginning with a letter"
type CustomerSupportEnv struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's standard metadata. Its name is at most 50 characters long: it names Services too.
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
