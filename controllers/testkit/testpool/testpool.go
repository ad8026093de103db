// Package testpool builds pools, servers and reports for tests.
package testpool

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// Image is the image of servers.
const Image = "csenv:test"

// Noon is the current time in every test.
var Noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

// MakePool returns a CustomerSupportEnv as the API server returns it, with defaults.
func MakePool(edits ...func(*v1alpha1.CustomerSupportEnv)) *v1alpha1.CustomerSupportEnv {
	env := &v1alpha1.CustomerSupportEnv{
		ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: "shop", UID: "7d0c", Generation: 3},
		Spec: v1alpha1.CustomerSupportEnvSpec{
			Environment: v1alpha1.TicketEnvironment,
			Replicas:    new(int32(2)),
			Sessions: v1alpha1.SessionLimits{
				PerPod: 2000, ClientSharePercent: new(int32(90)), IdleTimeoutSeconds: new(int32(3600)),
				MaxDurationSeconds: new(int32(7200)),
			},
			DrainTimeoutSeconds: new(int32(3600)),
			RewardMode:          v1alpha1.DenseReward,
			Judge:               v1alpha1.Judge{Type: v1alpha1.OfflineJudge},
			Customer:            v1alpha1.Customer{Type: v1alpha1.TemplateCustomer},
		},
		Status: v1alpha1.CustomerSupportEnvStatus{LedgerPublicKey: "public"},
	}
	for _, edit := range edits {
		edit(env)
	}
	return env
}

// EveryOverride returns all overrides that a user may set for the servers' pods.
func EveryOverride() *v1alpha1.PodOverrides {
	return &v1alpha1.PodOverrides{
		Labels:      map[string]string{"team": "helpdesk"},
		Annotations: map[string]string{"example.com/note": "ours"},
		// The API server writes these quantities in another form.
		Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1000m"), corev1.ResourceMemory: resource.MustParse("2048Mi"),
		}},
		Env: []corev1.EnvVar{
			{Name: "HTTPS_PROXY", Value: "http://proxy:3128"},
			{Name: "EMPTY"},
			{Name: "NODE", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		},
		NodeSelector: map[string]string{"disk": "fast"},
		Tolerations:  []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname"},
			}}}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway}},
		PriorityClassName:  "system-cluster-critical",
		RuntimeClassName:   new("gvisor"),
		ServiceAccountName: "puller",
		ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "registry"}},
	}
}

// WithReplicas sets the number of servers.
func WithReplicas(n int32) func(*v1alpha1.CustomerSupportEnv) {
	return func(env *v1alpha1.CustomerSupportEnv) { env.Spec.Replicas = new(n) }
}

// RolledOut returns the Deployment of a healthy pool.
func RolledOut(env *v1alpha1.CustomerSupportEnv, edits ...func(*appsv1.Deployment)) *appsv1.Deployment {
	n := *env.Spec.Replicas
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name, Namespace: env.Namespace, Generation: 1},
		Spec:       appsv1.DeploymentSpec{Replicas: new(n)},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n},
	}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

// NewServer returns a running and ready pod of a template.
func NewServer(template *corev1.PodTemplateSpec, name string, edits ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name), Labels: template.Labels,
			Annotations: maps.Clone(template.Annotations)},
		Spec: *template.Spec.DeepCopy(),
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			PodIP:      "10.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: pods.ServerContainer, Started: new(true),
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}
	for _, edit := range edits {
		edit(&pod)
	}
	return pod
}

// SetUnready makes a server refuse sessions.
func SetUnready(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

// SetTerminating deletes a server.
func SetTerminating(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(Noon)) }

// SetWaiting makes the container of a server wait.
func SetWaiting(reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		SetUnready(pod)
		pod.Status.ContainerStatuses[0].Started = new(false)
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
}

// SetEnded makes the container of a server have ended.
func SetEnded(reason string, code int32, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Message: message},
		}
	}
}

// SetScheduled says whether a node runs a server.
func SetScheduled(status corev1.ConditionStatus, reason, message string, ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: status, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(Noon.Add(-ago)),
		})
	}
}

// NewReport returns the report of a ticket server with that many of ten sessions open.
func NewReport(active int64) score.Report {
	return score.Report{
		Environment: "ticket", ScenarioDigest: "sha256:new", GraderVersion: "1", Judge: "offline-v1",
		Sessions: score.Sessions{Active: active, Capacity: 10},
		Episodes: score.Episodes{Scored: 3, Failed: 1, Errored: 2, ScoreSum: 3 * score.One},
		Tasks: []score.Task{{Name: "ticket-resolve", Scenarios: make([]score.Scenario, 2)},
			{Name: "ticket-classify", Scenarios: make([]score.Scenario, 3)}},
	}
}

// NewAutoscaling returns autoscaling between two numbers of servers, with the API server's
// defaults.
func NewAutoscaling(least, most int32, edits ...func(*v1alpha1.Autoscaling)) *v1alpha1.Autoscaling {
	a := &v1alpha1.Autoscaling{
		MinReplicas: new(least), MaxReplicas: most, FreeSessions: new(intstr.FromString("20%")),
		ScaleDownDelaySeconds: new(int32(300)),
	}
	for _, edit := range edits {
		edit(a)
	}
	return a
}

// DecodeConfig writes what the API server would store for an apply configuration, without defaults,
// into an object.
func DecodeConfig(t testing.TB, config, object any) {
	t.Helper()
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, object); err != nil {
		t.Fatal(err)
	}
}

// RequireToken requires a token of clients.
func RequireToken(env *v1alpha1.CustomerSupportEnv) {
	env.Spec.Access.TokenSecretRef = &v1alpha1.SecretKeyReference{Name: "clients", Key: "tokens"}
}

// SpokenByModel makes a model the customer of conversations.
func SpokenByModel(env *v1alpha1.CustomerSupportEnv) {
	env.Spec.Environment = v1alpha1.WorkflowEnvironment
	env.Spec.Customer = v1alpha1.Customer{Type: v1alpha1.LLMCustomer, LLM: &v1alpha1.LLMCustomerSpec{
		BaseURL: "https://models.example/v1", Model: "customer-2026-01-01", MaxConcurrency: 8, TimeoutSeconds: 10,
		APIKeySecretRef: &v1alpha1.SecretKeyReference{Name: "models", Key: "customer"},
	}}
}

// JudgedByModel makes a model judge replies.
func JudgedByModel(env *v1alpha1.CustomerSupportEnv) {
	env.Spec.Judge = v1alpha1.Judge{Type: v1alpha1.LLMJudge, LLM: &v1alpha1.LLMJudgeSpec{
		BaseURL: "https://models.example/v1", Model: "judge-2026-01-01", MaxConcurrency: 8, TimeoutSeconds: 30,
		OnFailure:       v1alpha1.JudgeFailureError,
		APIKeySecretRef: &v1alpha1.SecretKeyReference{Name: "models", Key: "token"},
	}}
}

// WithPacks adds a pack of a ConfigMap and one of a Secret.
func WithPacks(env *v1alpha1.CustomerSupportEnv) {
	env.Spec.Scenarios = v1alpha1.PoolScenarios{
		Splits: []v1alpha1.ScenarioSplit{v1alpha1.TestSplit, v1alpha1.PrivateSplit},
		Packs: []v1alpha1.ScenarioPack{
			{ConfigMap: &v1alpha1.ObjectReference{Name: "acme"}}, {Secret: &v1alpha1.ObjectReference{Name: "held-out"}},
		},
	}
}

// NewPacksReport returns the report of a server that plays one digest and has mounted another.
func NewPacksReport(loaded, mounted, fault string) score.Report {
	r := NewReport(0)
	r.ScenarioDigest, r.Packs = loaded, &score.Packs{Digest: mounted, Error: fault}
	return r
}
