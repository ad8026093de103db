package environment

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

const testImage = "csenv:test"

// noon is the current time in every test.
var noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

// pool returns a CustomerSupportEnv as the API server returns it, with defaults.
func pool(edits ...func(*v1alpha1.CustomerSupportEnv)) *v1alpha1.CustomerSupportEnv {
	env := &v1alpha1.CustomerSupportEnv{
		ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: "shop", UID: "7d0c", Generation: 3},
		Spec: v1alpha1.CustomerSupportEnvSpec{
			Environment: v1alpha1.TicketEnvironment,
			Replicas:    new(int32(2)),
			Sessions: v1alpha1.SessionLimits{
				PerPod: 2000, ClientSharePercent: new(int32(90)), IdleTimeoutSeconds: new(int32(3600)), MaxDurationSeconds: new(int32(7200)),
			},
			DrainTimeoutSeconds: new(int32(3600)),
			RewardMode:          v1alpha1.DenseReward,
			Judge:               v1alpha1.Judge{Type: v1alpha1.OfflineJudge},
		},
		Status: v1alpha1.CustomerSupportEnvStatus{LedgerPublicKey: "public"},
	}
	for _, edit := range edits {
		edit(env)
	}
	return env
}

// everyOverride returns all overrides that a user may set for the servers' pods.
func everyOverride() *v1alpha1.PodOverrides {
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

func replicas(n int32) func(*v1alpha1.CustomerSupportEnv) {
	return func(env *v1alpha1.CustomerSupportEnv) { env.Spec.Replicas = new(n) }
}

// rolledOut returns the Deployment of a healthy pool.
func rolledOut(env *v1alpha1.CustomerSupportEnv, edits ...func(*appsv1.Deployment)) *appsv1.Deployment {
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

// server returns a running and ready pod of the newest template.
func server(name string, edits ...func(*corev1.Pod)) corev1.Pod {
	template := podTemplate(snapshot{env: pool(), image: testImage}, "")
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name), Labels: template.Labels,
			Annotations: template.Annotations},
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

func unready(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(noon)) }

func outdated(pod *corev1.Pod) { pod.Annotations = map[string]string{templateHash: "older"} }

func waiting(reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		unready(pod)
		pod.Status.ContainerStatuses[0].Started = new(false)
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
}

func ended(reason string, code int32, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Message: message},
		}
	}
}

func scheduled(status corev1.ConditionStatus, reason, message string, ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: status, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(noon.Add(-ago)),
		})
	}
}

// report returns the report of a ticket server with that many of ten sessions open.
func report(active int64) score.Report {
	return score.Report{
		Environment: "ticket", ScenarioDigest: "sha256:new", GraderVersion: "1", Judge: "offline-v1",
		Sessions: score.Sessions{Active: active, Capacity: 10},
		Episodes: score.Episodes{Scored: 3, Failed: 1, Errored: 2, ScoreSum: 3 * score.One},
		Tasks: []score.Task{{Name: "ticket-resolve", Scenarios: make([]score.Scenario, 2)},
			{Name: "ticket-classify", Scenarios: make([]score.Scenario, 3)}},
	}
}

// healthy returns the snapshot of a pool of two servers at rest.
func healthy(edits ...func(*decision)) decision {
	env := pool()
	s := decision{scaling: scaling{from: 2, to: 2}, snapshot: snapshot{
		env: env, image: testImage, now: noon,
		live:    map[childID]client.Object{{kindDeployment, env.Name}: rolledOut(env)},
		pods:    []corev1.Pod{server("support-a"), server("support-b")},
		reports: map[string]score.Report{"support-a": report(1), "support-b": report(2)},
	}}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func withDeployment(edit func(*appsv1.Deployment)) func(*decision) {
	return func(s *decision) {
		s.live[childID{kindDeployment, s.env.Name}] = rolledOut(s.env, edit)
	}
}

func withPod(pod corev1.Pod) func(*decision) {
	return func(s *decision) { s.pods = append(s.pods, pod) }
}
