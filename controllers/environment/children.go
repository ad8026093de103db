package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
)

const (
	containerName = "envserver"
	keyVolume     = "ledger-key"
	keyFolder     = "/etc/csenv/ledger-key"
	packsFolder   = "/etc/csenv/packs"

	// judgeKeyVariable is where the server looks for the key of the judge's endpoint.
	judgeKeyVariable = "CSENV_JUDGE_API_KEY"

	// addressVariable is where the server finds its own address among its peers.
	addressVariable = "POD_IP"

	// appliedHash tells when something that used to be wanted no longer is, which the object's content alone can't show.
	appliedHash = "csenv.dev/applied-hash"
	// templateHash tells a pod of the newest template from older ones without a look at ReplicaSets.
	templateHash = "csenv.dev/template-hash"

	// exitSeconds is what a server gets beyond its drain timeout to end the last sessions and exit by itself.
	exitSeconds = 30

	cpuRequest    = "50m"
	memoryRequest = "64Mi"
	cpuLimit      = "2"
	memoryLimit   = "1Gi"
	// goMemoryPercent of the memory limit is the Go runtime's soft limit: the rest is for what it doesn't count.
	goMemoryPercent = 90
)

// The kinds of a pool's objects.
const (
	kindDeployment = "Deployment"
	kindService    = "Service"
	kindBudget     = "PodDisruptionBudget"
)

// childID names one of a pool's objects.
type childID struct{ kind, name string }

func (id childID) String() string { return id.kind + " " + id.name }

// child is an object that a pool wants.
type child struct {
	id     childID
	config runtime.ApplyConfiguration
}

// children are the objects of a pool. Its key's Secret is none of them: the operator can't read that (see ensureKey).
func children(env *v1alpha1.CustomerSupportEnv, image string) []child {
	return []child{
		{childID{kindService, env.Name}, service(env)},
		{childID{kindService, v1alpha1.PodsServiceName(env.Name)}, podsService(env)},
		{childID{kindBudget, env.Name}, budget(env)},
		{childID{kindDeployment, env.Name}, deployment(env, image)},
	}
}

// service is where clients connect: it leads to servers that accept sessions.
func service(env *v1alpha1.CustomerSupportEnv) *corev1ac.ServiceApplyConfiguration {
	s := corev1ac.Service(env.Name, env.Namespace).
		WithLabels(poolLabels(env.Name)).
		WithOwnerReferences(owner(env)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(podSelector(env.Name)).
			WithPorts(servicePort("http", v1alpha1.EnvironmentPort)))
	return s.WithAnnotations(map[string]string{appliedHash: hash(s)})
}

// podsService lists the servers one by one, full and starting ones too: a runner goes back to the server that holds its shard's ledger.
func podsService(env *v1alpha1.CustomerSupportEnv) *corev1ac.ServiceApplyConfiguration {
	s := corev1ac.Service(v1alpha1.PodsServiceName(env.Name), env.Namespace).
		WithLabels(poolLabels(env.Name)).
		WithOwnerReferences(owner(env)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(podSelector(env.Name)).
			WithPorts(servicePort("http", v1alpha1.EnvironmentPort), servicePort("ops", v1alpha1.OperationsPort)))
	return s.WithAnnotations(map[string]string{appliedHash: hash(s)})
}

func servicePort(name string, port int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().WithName(name).WithPort(port).WithProtocol(corev1.ProtocolTCP).WithTargetPort(intstr.FromString(name))
}

// budget lets node drains take one server at a time, a single one too: a draining server goes on serving its sessions.
func budget(env *v1alpha1.CustomerSupportEnv) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	b := policyv1ac.PodDisruptionBudget(env.Name, env.Namespace).
		WithLabels(poolLabels(env.Name)).
		WithOwnerReferences(owner(env)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(podSelector(env.Name))))
	return b.WithAnnotations(map[string]string{appliedHash: hash(b)})
}

// deployment runs the servers. New ones are ready before old ones drain.
func deployment(env *v1alpha1.CustomerSupportEnv, image string) *appsv1ac.DeploymentApplyConfiguration {
	d := appsv1ac.Deployment(env.Name, env.Namespace).
		WithLabels(poolLabels(env.Name)).
		WithOwnerReferences(owner(env)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(wantedReplicas(env)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(podSelector(env.Name))).
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType("RollingUpdate").
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxSurge(intstr.FromString("25%")).
					WithMaxUnavailable(intstr.FromInt32(0)))).
			WithTemplate(podTemplate(env, image)))
	return d.WithAnnotations(map[string]string{appliedHash: hash(d)})
}

func wantedReplicas(env *v1alpha1.CustomerSupportEnv) int32 { return ptr.Deref(env.Spec.Replicas, 1) }

func podTemplate(env *v1alpha1.CustomerSupportEnv, image string) *corev1ac.PodTemplateSpecApplyConfiguration {
	t := corev1ac.PodTemplateSpec().
		WithLabels(poolLabels(env.Name)).
		WithSpec(corev1ac.PodSpec().
			WithAutomountServiceAccountToken(false).
			WithEnableServiceLinks(false).
			WithTerminationGracePeriodSeconds(drainSeconds(env) + exitSeconds).
			WithSecurityContext(corev1ac.PodSecurityContext().
				WithRunAsNonRoot(true).
				WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
			WithContainers(serverContainer(env, image)).
			WithVolumes(secretVolume(keyVolume, keySecretName(env.Name, env.Status.LedgerPublicKey))).
			WithVolumes(packVolumes(env)...))
	return t.WithAnnotations(map[string]string{templateHash: hash(t)})
}

// secretVolume may be read by any user of the pod: the image's isn't known here, and a group of our choice would be refused where ranges are
// assigned. The pod has no other process that could read it.
func secretVolume(name, secret string) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).WithSecret(corev1ac.SecretVolumeSource().WithSecretName(secret).WithDefaultMode(0o444))
}

func packVolumes(env *v1alpha1.CustomerSupportEnv) []*corev1ac.VolumeApplyConfiguration {
	volumes := make([]*corev1ac.VolumeApplyConfiguration, len(env.Spec.Scenarios.Packs))
	for i, pack := range env.Spec.Scenarios.Packs {
		if pack.Secret != nil {
			volumes[i] = secretVolume(packName(i), pack.Secret.Name)
			continue
		}
		volumes[i] = corev1ac.Volume().WithName(packName(i)).WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(pack.ConfigMap.Name))
	}
	return volumes
}

func packName(i int) string { return fmt.Sprintf("pack-%d", i) }

func packFolder(i int) string { return packsFolder + "/" + packName(i) }

func mounts(env *v1alpha1.CustomerSupportEnv) []*corev1ac.VolumeMountApplyConfiguration {
	mount := func(volume, folder string) *corev1ac.VolumeMountApplyConfiguration {
		return corev1ac.VolumeMount().WithName(volume).WithMountPath(folder).WithReadOnly(true)
	}
	mounts := make([]*corev1ac.VolumeMountApplyConfiguration, len(env.Spec.Scenarios.Packs), len(env.Spec.Scenarios.Packs)+1)
	for i := range env.Spec.Scenarios.Packs {
		mounts[i] = mount(packName(i), packFolder(i))
	}
	return append(mounts, mount(keyVolume, keyFolder))
}

// variables are the server's. The judge's key goes from its Secret to the server: neither the operator nor the pod's arguments see it.
func variables(env *v1alpha1.CustomerSupportEnv) []*corev1ac.EnvVarApplyConfiguration {
	variables := []*corev1ac.EnvVarApplyConfiguration{
		corev1ac.EnvVar().WithName("GOMEMLIMIT").WithValue(goMemoryLimit()),
		corev1ac.EnvVar().WithName(addressVariable).WithValueFrom(corev1ac.EnvVarSource().
			WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath("status.podIP"))),
	}
	if llm := env.Spec.Judge.LLM; llm != nil && llm.APIKeySecretRef != nil {
		variables = append(variables, corev1ac.EnvVar().WithName(judgeKeyVariable).WithValueFrom(corev1ac.EnvVarSource().
			WithSecretKeyRef(corev1ac.SecretKeySelector().WithName(llm.APIKeySecretRef.Name).WithKey(llm.APIKeySecretRef.Key))))
	}
	return variables
}

func serverContainer(env *v1alpha1.CustomerSupportEnv, image string) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().
		WithName(containerName).
		WithImage(image).
		WithCommand("/envserver").
		WithArgs(serverArgs(env)...).
		WithEnv(variables(env)...).
		WithPorts(
			corev1ac.ContainerPort().WithName("http").WithContainerPort(v1alpha1.EnvironmentPort).WithProtocol(corev1.ProtocolTCP),
			corev1ac.ContainerPort().WithName("ops").WithContainerPort(v1alpha1.OperationsPort).WithProtocol(corev1.ProtocolTCP)).
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(resources(cpuRequest, memoryRequest)).
			WithLimits(resources(cpuLimit, memoryLimit))).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		// A server that doesn't start says why on standard error, and the status quotes it.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithVolumeMounts(mounts(env)...).
		WithStartupProbe(probe("/health", "http", 1, 60)).
		WithReadinessProbe(probe("/readyz", "ops", 2, 1)).
		// A restart ends every session of the server, so only a server that has been deaf for a minute is restarted.
		WithLivenessProbe(probe("/health", "http", 10, 6))
}

// serverArgs are the flags of cmd/envserver.
func serverArgs(env *v1alpha1.CustomerSupportEnv) []string {
	sessions := env.Spec.Sessions
	return slices.Concat([]string{
		"--environment", strings.ToLower(string(env.Spec.Environment)),
		"--addr", fmt.Sprintf(":%d", v1alpha1.EnvironmentPort),
		"--ops-addr", fmt.Sprintf(":%d", v1alpha1.OperationsPort),
		"--max-sessions", strconv.Itoa(int(sessions.PerPod)),
		"--session-idle-timeout", seconds(sessions.IdleTimeoutSeconds),
		"--session-max-duration", seconds(sessions.MaxDurationSeconds),
		"--drain-timeout", seconds(env.Spec.DrainTimeoutSeconds),
		"--reward-mode", strings.ToLower(string(env.Spec.RewardMode)),
		"--ledger-key", keyFolder + "/" + keyFile,
		"--peers", fmt.Sprintf("%s.%s.svc:%d", v1alpha1.PodsServiceName(env.Name), env.Namespace, v1alpha1.EnvironmentPort),
	}, scenarioArgs(env.Spec.Scenarios), judgeArgs(env.Spec.Judge))
}

func scenarioArgs(s v1alpha1.PoolScenarios) []string {
	var args []string
	if len(s.Splits) > 0 {
		splits := make([]string, len(s.Splits))
		for i, split := range s.Splits {
			splits[i] = splitNames[split]
		}
		// The order in a set means nothing, and must not restart the servers.
		slices.Sort(splits)
		args = append(args, "--split", strings.Join(splits, ","))
	}
	for i := range s.Packs {
		args = append(args, "--pack", packFolder(i))
	}
	return args
}

// splitNames are those of the servers.
var splitNames = map[v1alpha1.ScenarioSplit]string{
	v1alpha1.TrainSplit: "public-train", v1alpha1.DevSplit: "public-dev", v1alpha1.TestSplit: "public-test", v1alpha1.PrivateSplit: "private",
}

// judgeArgs are empty for the servers' own judge.
func judgeArgs(judge v1alpha1.Judge) []string {
	llm := judge.LLM
	if llm == nil {
		return nil
	}
	return []string{
		"--judge", "llm",
		"--judge-base-url", llm.BaseURL,
		"--judge-model", llm.Model,
		"--judge-max-concurrency", strconv.Itoa(int(llm.MaxConcurrency)),
		"--judge-timeout", fmt.Sprintf("%ds", llm.TimeoutSeconds),
		"--judge-on-failure", strings.ToLower(string(llm.OnFailure)),
	}
}

func seconds(n *int32) string { return fmt.Sprintf("%ds", ptr.Deref(n, 0)) }

func drainSeconds(env *v1alpha1.CustomerSupportEnv) int64 {
	return int64(ptr.Deref(env.Spec.DrainTimeoutSeconds, 0))
}

func probe(path, port string, periodSeconds, failures int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString(port))).
		WithPeriodSeconds(periodSeconds).
		WithTimeoutSeconds(5).
		WithFailureThreshold(failures)
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// goMemoryLimit is in bytes, as GOMEMLIMIT takes them.
func goMemoryLimit() string {
	limit := resource.MustParse(memoryLimit)
	return strconv.FormatInt(limit.Value()/100*goMemoryPercent, 10)
}

// podSelector is immutable in a Deployment: it holds what no version will want to change.
func podSelector(env string) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:        v1alpha1.LabelNameValue,
		v1alpha1.LabelComponent:   v1alpha1.ComponentEnvServer,
		v1alpha1.LabelEnvironment: env,
	}
}

func poolLabels(env string) map[string]string {
	labels := podSelector(env)
	labels[v1alpha1.LabelInstance] = env
	labels[v1alpha1.LabelManagedBy] = v1alpha1.LabelManagedByValue
	return labels
}

func owner(env *v1alpha1.CustomerSupportEnv) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind("CustomerSupportEnv").
		WithName(env.Name).
		WithUID(env.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}

// hash tells apply configurations apart. Their JSON is stable: fields in the order of the type, keys of maps sorted.
func hash(config any) string {
	data, err := json.Marshal(config)
	if err != nil {
		// No apply configuration holds anything that JSON can't.
		panic(fmt.Sprintf("encoding an apply configuration: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
