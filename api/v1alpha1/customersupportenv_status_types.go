package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CustomerSupportEnvStatus is the observed state of a pool.
type CustomerSupportEnvStatus struct {
	// conditions are Ready, Available, Progressing and Degraded, and with autoscaling
	// ScalingLimited.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// endpoint is the URL for OpenEnv clients in the cluster, for example
	// ws://support.default.svc:8000.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// replicas is the number of servers, without terminating ones.
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

	// drainingReplicas is the number of terminating servers that still serve sessions.
	// +kubebuilder:validation:Minimum=0
	// +optional
	DrainingReplicas *int32 `json:"drainingReplicas,omitempty"`

	// selector selects the pool's pods, for the scale subresource.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Selector string `json:"selector,omitempty"`

	// sessions counts the sessions of all servers.
	// +optional
	Sessions *SessionCounts `json:"sessions,omitempty"`

	// episodes counts the episodes that have ended on the servers that run now. It begins again at
	// 0 when servers are replaced: use EvaluationRuns for results.
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

	// scenarioDigest is the digest of the scenarios that the servers play, "sha256:" and 64 hex
	// digits.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ScenarioDigest string `json:"scenarioDigest,omitempty"`

	// graderVersion is the version of the grading rules, with +customer=llm:MODEL@VERSION if a
	// model is the customer. It changes if the same episode could get another score.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	GraderVersion string `json:"graderVersion,omitempty"`

	// judge is the scale on which replies are judged: facts-v1 (facts compared exactly, the letter
	// not judged), llm:MODEL@RUBRIC (the letter judged by that model), or rules of an earlier
	// release. Runs on different scales can't be compared.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Judge string `json:"judge,omitempty"`

	// ledgerPublicKey is the public half of the pool's signing key (Ed25519, base64), which
	// verifies scores. To replace a lost or leaked key, set the annotation
	// csenv.dev/replace-ledger-key to this value.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LedgerPublicKey string `json:"ledgerPublicKey,omitempty"`

	// runs count the runs of each namespace that have begun on this pool, deleted ones too, so that
	// it can be seen who picked the best of many. After 512 namespaces, further ones share the
	// entry "*".
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=513
	// +optional
	Runs []BegunRuns `json:"runs,omitempty"`
}

// BegunRuns count the runs of a namespace that have begun on a pool.
type BegunRuns struct {
	// namespace is the namespace of the runs, or "*" for the runs of all namespaces without an
	// entry.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace,omitempty"`

	// begun is the number of runs that have begun, deleted ones too.
	// +required
	Begun Count `json:"begun"`

	// latest are the UIDs of the last runs that were counted, so that each is counted once.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	Latest []string `json:"latest,omitempty"`
}

const (
	// OtherNamespaces is the entry of the namespaces that have none of their own.
	OtherNamespaces = "*"
	// maxRunNamespaces and maxLatestRuns bound what a pool's status keeps of its runs.
	maxRunNamespaces, maxLatestRuns = 512, 8
)

// RunsOf is the number of runs of a namespace that have begun on the pool.
func (s *CustomerSupportEnvStatus) RunsOf(namespace string) int64 {
	for _, of := range []string{namespace, OtherNamespaces} {
		for _, counted := range s.Runs {
			if counted.Namespace == of {
				return counted.Begun
			}
		}
	}
	return 0
}

// CountRun counts a run of a namespace that begins, and reports false if it is counted already.
func (s *CustomerSupportEnvStatus) CountRun(namespace, uid string) bool {
	at := slices.IndexFunc(s.Runs, func(r BegunRuns) bool { return r.Namespace == namespace })
	if at < 0 && len(s.Runs) >= maxRunNamespaces {
		namespace = OtherNamespaces
		at = slices.IndexFunc(s.Runs, func(r BegunRuns) bool { return r.Namespace == namespace })
	}
	if at < 0 {
		s.Runs = append(s.Runs, BegunRuns{Namespace: namespace})
		at = len(s.Runs) - 1
	}
	counted := &s.Runs[at]
	if slices.Contains(counted.Latest, uid) {
		return false
	}
	counted.Begun++
	counted.Latest = append(counted.Latest, uid)
	if drop := len(counted.Latest) - maxLatestRuns; drop > 0 {
		counted.Latest = slices.Clone(counted.Latest[drop:])
	}
	return true
}

// SessionCounts counts the sessions of all servers of a pool.
type SessionCounts struct {
	// active is the number of open sessions.
	// +required
	Active Count `json:"active"`

	// capacity is the maximum number of concurrent sessions of the servers that accept new ones.
	// +required
	Capacity Count `json:"capacity"`
}

// PoolEpisodes counts episodes by outcome.
type PoolEpisodes struct {
	// scored is the number of episodes that were played to their end.
	// +required
	Scored Count `json:"scored"`

	// failed is the number of episodes that ended because of the agent. They are scored as they
	// stood.
	// +required
	Failed Count `json:"failed"`

	// errored is the number of episodes that ended with an infrastructure failure. They have no
	// score.
	// +required
	Errored Count `json:"errored"`

	// meanScore is the mean score of scored and failed episodes, 0 to 1, four decimals. It is
	// absent if spec.runs.scores is ResultsOnly.
	// +optional
	MeanScore Decimal `json:"meanScore,omitempty"`
}

// OfferedTask is a task that a pool offers.
type OfferedTask struct {
	// name is the name of the task in EvaluationRuns and reset options.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// scenarios is the number of scenarios of the task.
	// +kubebuilder:validation:Minimum=0
	// +required
	Scenarios int32 `json:"scenarios"`
}
