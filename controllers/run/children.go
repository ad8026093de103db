package run

import (
	"encoding/json"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// summaryFinalizer keeps a runner's pod until its summary is counted.
	summaryFinalizer = "csenv.dev/summary"
	// labelRunUID tells runs of one name apart.
	labelRunUID = "csenv.dev/run-uid"

	runnerContainer = "runner"
	planKey         = "plan.json"
	planFolder      = "/etc/csenv"
	planVolume      = "plan"

	cpuRequest    = "50m"
	memoryRequest = "64Mi"
	cpuLimit      = "2"
	memoryLimit   = "512Mi"
	// goMemoryPercent of the memory limit is the Go runtime's soft limit: the rest is for what it doesn't count.
	goMemoryPercent = 90
)

func planName(run *v1alpha1.EvaluationRun) string { return run.Name + "-plan" }

// planConfigMap is the plan as runners read it.
func planConfigMap(run *v1alpha1.EvaluationRun, plan score.Plan) (*corev1.ConfigMap, error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("encoding plan: %w", err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: planName(run), Namespace: run.Namespace, Labels: runLabels(run), OwnerReferences: owners(run)},
		Immutable:  new(true),
		Data:       map[string]string{planKey: string(data)},
	}, nil
}

// runnerJob plays a plan: one index for each shard.
func runnerJob(run *v1alpha1.EvaluationRun, image string, shards int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: run.Name, Namespace: run.Namespace, Labels: runLabels(run), OwnerReferences: owners(run)},
		Spec: batchv1.JobSpec{
			CompletionMode:       new(batchv1.IndexedCompletion),
			Completions:          new(shards),
			Parallelism:          new(parallelism(run, shards)),
			BackoffLimitPerIndex: new(ptr.Deref(run.Spec.Retries.ShardBackoffLimit, 2)),
			// A run with a shard missing can't complete, so there is no use in playing the rest.
			MaxFailedIndexes: new(int32(0)),
			// A runner that a drain or a preemption takes away is none that failed.
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: runLabels(run), Finalizers: []string{summaryFinalizer}},
				Spec:       runnerPod(run, image),
			},
		},
	}
}

// runnerPod meets the restricted Pod Security Standard and has no access to the Kubernetes API.
func runnerPod(run *v1alpha1.EvaluationRun, image string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: []corev1.Volume{{Name: planVolume, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: planName(run)}},
		}}},
		Containers: []corev1.Container{{
			Name:         runnerContainer,
			Image:        image,
			Command:      []string{"/runner"},
			Args:         runnerArgs(run),
			Env:          []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: goMemoryLimit()}},
			VolumeMounts: []corev1.VolumeMount{{Name: planVolume, MountPath: planFolder, ReadOnly: true}},
			Resources:    corev1.ResourceRequirements{Requests: resources(cpuRequest, memoryRequest), Limits: resources(cpuLimit, memoryLimit)},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false),
				ReadOnlyRootFilesystem:   new(true),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			TerminationMessagePath: corev1.TerminationMessagePathDefault,
			// Never from the log: only what the runner wrote on purpose is a summary.
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}},
	}
}

// runnerArgs are the flags of cmd/runner. The Job controller sets JOB_COMPLETION_INDEX.
func runnerArgs(run *v1alpha1.EvaluationRun) []string {
	spec := run.Spec
	return []string{
		"--plan=" + planFolder + "/" + planKey,
		"--shard=$(JOB_COMPLETION_INDEX)",
		fmt.Sprintf("--pool=%s.%s.svc:%d", v1alpha1.PodsServiceName(spec.EnvironmentRef.Name), run.Namespace, v1alpha1.EnvironmentPort),
		"--policy=" + string(ptr.Deref(spec.Agent.Builtin, v1alpha1.BuiltinAgentSpec{}).Policy),
		"--concurrency=" + strconv.Itoa(int(ptr.Deref(spec.Concurrency, 16))),
		"--episode-attempts=" + strconv.Itoa(int(max(spec.Retries.EpisodeAttempts, 1))),
		"--termination-log=" + corev1.TerminationMessagePathDefault,
	}
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// goMemoryLimit is in bytes, as GOMEMLIMIT takes them.
func goMemoryLimit() string {
	limit := resource.MustParse(memoryLimit)
	return strconv.FormatInt(limit.Value()/100*goMemoryPercent, 10)
}

func runLabels(run *v1alpha1.EvaluationRun) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:        v1alpha1.LabelNameValue,
		v1alpha1.LabelInstance:    run.Spec.EnvironmentRef.Name,
		v1alpha1.LabelComponent:   v1alpha1.ComponentRunner,
		v1alpha1.LabelManagedBy:   v1alpha1.LabelManagedByValue,
		v1alpha1.LabelEnvironment: run.Spec.EnvironmentRef.Name,
		v1alpha1.LabelRun:         run.Name,
		labelRunUID:               string(run.UID),
	}
}

func owners(run *v1alpha1.EvaluationRun) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(run, v1alpha1.GroupVersion.WithKind("EvaluationRun"))}
}
