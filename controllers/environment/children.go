package environment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/envvars"
)

const (
	keyVolume   = "ledger-key"
	keyFolder   = "/etc/csenv/ledger-key"
	packsFolder = "/etc/csenv/packs"
	tokenVolume = "token"
	tokenFolder = "/etc/csenv/token" //nolint:gosec // a path
	tokenEntry  = "token"

	// addressVariable holds the server's own address among its peers.
	addressVariable = "POD_IP"

	// appliedHash shows that an applied field is no longer intended, which the live object alone
	// can't show.
	appliedHash = "csenv.dev/applied-hash"
	// templateHash distinguishes pods of the newest template from older ones.
	templateHash = "csenv.dev/template-hash"
	// scenariosAnnotation is the digest of the scenarios for which the servers were last replaced.
	scenariosAnnotation = "csenv.dev/scenarios"

	// exitSeconds is added to the drain timeout, so that a server can end its last sessions and
	// exit by itself.
	exitSeconds = 30

	cpuRequest    = "50m"
	memoryRequest = "64Mi"
	cpuLimit      = "2"
	memoryLimit   = "1Gi"
)

// The kinds of a pool's objects.
const (
	kindDeployment    = "Deployment"
	kindService       = "Service"
	kindBudget        = "PodDisruptionBudget"
	kindNetworkPolicy = "NetworkPolicy"
)

// childID identifies an object of a pool.
type childID struct{ kind, name string }

func (id childID) String() string { return id.kind + " " + id.name }

// child is an intended or obsolete object of a pool.
type child struct {
	id childID
	// config is nil for an object that isn't intended.
	config runtime.ApplyConfiguration
	// obsolete is the object to delete, nil for one to apply.
	obsolete client.Object
}

// children returns the objects of a pool without its key's Secret, which the operator can't read
// (see ensureKey).
func children(d decision) []child {
	env := d.env
	policy := child{id: childID{kindNetworkPolicy, env.Name}}
	if env.Spec.NetworkPolicy != v1alpha1.UnmanagedNetworkPolicy {
		policy.config = networkPolicy(env, d.operator)
	}
	return []child{
		{id: childID{kindService, env.Name}, config: service(env)},
		{id: childID{kindService, v1alpha1.PodsServiceName(env.Name)}, config: podsService(env)},
		{id: childID{kindBudget, env.Name}, config: budget(env)},
		policy,
		{id: childID{kindDeployment, env.Name}, config: deployment(d)},
	}
}

// service selects the servers that accept sessions.
func service(env *v1alpha1.CustomerSupportEnv) *corev1ac.ServiceApplyConfiguration {
	s := corev1ac.Service(env.Name, env.Namespace).
		WithLabels(poolLabels(env.Name)).
		WithAnnotations(env.Spec.Service.Annotations).
		WithOwnerReferences(owner(env)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(serviceType(env)).
			WithSelector(pods.Selector(env.Name)).
			WithPorts(servicePort("http", v1alpha1.EnvironmentPort)))
	return s.WithAnnotations(map[string]string{appliedHash: hash(s)})
}

func serviceType(env *v1alpha1.CustomerSupportEnv) corev1.ServiceType {
	return corev1.ServiceType(cmp.Or(env.Spec.Service.Type, v1alpha1.ClusterIPService))
}

// podsService lists all servers, including full and starting ones: a runner returns to the server
// that holds its shard's ledger.
func podsService(env *v1alpha1.CustomerSupportEnv) *corev1ac.ServiceApplyConfiguration {
	s := corev1ac.Service(v1alpha1.PodsServiceName(env.Name), env.Namespace).
		WithLabels(poolLabels(env.Name)).
		WithOwnerReferences(owner(env)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(pods.Selector(env.Name)).
			WithPorts(servicePort("http", v1alpha1.EnvironmentPort), servicePort("ops", v1alpha1.OperationsPort)))
	return s.WithAnnotations(map[string]string{appliedHash: hash(s)})
}

func servicePort(name string, port int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().WithName(name).WithPort(port).WithProtocol(corev1.ProtocolTCP).WithTargetPort(
		intstr.FromString(name))
}

// budget allows one eviction at a time, also of a single server, because a draining server
// continues to serve its sessions. Servers that aren't ready may always be evicted; otherwise full
// ones would block every node drain.
func budget(env *v1alpha1.CustomerSupportEnv) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	b := policyv1ac.PodDisruptionBudget(env.Name, env.Namespace).
		WithLabels(poolLabels(env.Name)).
		WithOwnerReferences(owner(env)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(pods.Selector(env.Name))))
	return b.WithAnnotations(map[string]string{appliedHash: hash(b)})
}

// deployment runs the servers. New ones are ready before old ones drain.
func deployment(d decision) *appsv1ac.DeploymentApplyConfiguration {
	env := d.env
	config := appsv1ac.Deployment(env.Name, env.Namespace).
		WithLabels(poolLabels(env.Name)).
		WithOwnerReferences(owner(env)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(d.scaling.to).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(pods.Selector(env.Name))).
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType("RollingUpdate").
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxSurge(intstr.FromString("25%")).
					WithMaxUnavailable(intstr.FromInt32(0)))).
			WithTemplate(configuration[corev1ac.PodTemplateSpecApplyConfiguration](
				podTemplate(d.snapshot, d.scenarios))))
	return config.WithAnnotations(map[string]string{appliedHash: hash(config)})
}

// configuration converts a Kubernetes type into its apply configuration T, which has the same JSON.
func configuration[T any](value any) *T {
	data, err := json.Marshal(value)
	config := new(T)
	if err == nil {
		err = json.Unmarshal(data, config)
	}
	if err != nil {
		panic(fmt.Sprintf("turning a %T into an apply configuration: %v", value, err))
	}
	return config
}

func podTemplate(s snapshot, scenarios string) *corev1.PodTemplateSpec {
	env := s.env
	base := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: poolLabels(env.Name), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(drainSeconds(env) + exitSeconds),
			Containers:                    []corev1.Container{serverContainer(env, s.image)},
			Volumes:                       volumes(env),
		},
	}
	if _, userSays := userAnnotations(env)[safeToEvict]; !userSays {
		base.Annotations[safeToEvict] = "false"
	}
	if scenarios != "" {
		base.Annotations[scenariosAnnotation] = scenarios
	}
	t := pods.Finish(base, pods.ServerContainer, env.Spec.Template)
	t.Annotations[templateHash] = hash(t)
	return t
}

// volumes returns the server's key, packs and token. Only the key is required: if another object is
// missing, the server reports it at once, whereas the kubelet would wait in silence.
func volumes(env *v1alpha1.CustomerSupportEnv) []corev1.Volume {
	all := []corev1.Volume{{Name: keyVolume, VolumeSource: secretVolume(
		keySecretName(env.Name, env.Status.LedgerPublicKey))}}
	for i, pack := range env.Spec.Scenarios.Packs {
		var source corev1.VolumeSource
		if pack.Secret != nil {
			source = secretVolume(pack.Secret.Name)
			source.Secret.Optional = new(true)
		} else {
			source.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{
				Name: pack.ConfigMap.Name}, Optional: new(true)}
		}
		all = append(all, corev1.Volume{Name: packName(i), VolumeSource: source})
	}
	if token := env.Spec.Access.TokenSecretRef; token != nil {
		source := secretVolume(token.Name)
		source.Secret.Optional = new(true)
		source.Secret.Items = []corev1.KeyToPath{{Key: token.Key, Path: tokenEntry}}
		all = append(all, corev1.Volume{Name: tokenVolume, VolumeSource: source})
	}
	return all
}

// secretVolume is readable by every user of the pod, because the image's user isn't known, and an
// own group would be refused where ranges are assigned.
func secretVolume(secret string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: new(int32(0o444))}}
}

func packName(i int) string { return fmt.Sprintf("pack-%d", i) }

func packFolder(i int) string { return packsFolder + "/" + packName(i) }

func mounts(env *v1alpha1.CustomerSupportEnv) []corev1.VolumeMount {
	all := []corev1.VolumeMount{{Name: keyVolume, MountPath: keyFolder, ReadOnly: true}}
	for i := range env.Spec.Scenarios.Packs {
		all = append(all, corev1.VolumeMount{Name: packName(i), MountPath: packFolder(i), ReadOnly: true})
	}
	if env.Spec.Access.TokenSecretRef != nil {
		all = append(all, corev1.VolumeMount{Name: tokenVolume, MountPath: tokenFolder, ReadOnly: true})
	}
	return all
}

// variables returns the server's environment. The judge's key is read from its Secret by the
// kubelet, not by the operator.
func variables(env *v1alpha1.CustomerSupportEnv) []corev1.EnvVar {
	all := []corev1.EnvVar{{Name: addressVariable,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
	if llm := env.Spec.Judge.LLM; llm != nil && llm.APIKeySecretRef != nil {
		all = append(all, corev1.EnvVar{Name: envvars.JudgeKey,
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: llm.APIKeySecretRef.Name},
				Key:                  llm.APIKeySecretRef.Key,
			}}})
	}
	return all
}

func serverContainer(env *v1alpha1.CustomerSupportEnv, image string) corev1.Container {
	return corev1.Container{
		Name:    pods.ServerContainer,
		Image:   image,
		Command: []string{"/envserver"},
		Args:    serverArgs(env),
		Env:     variables(env),
		Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: v1alpha1.EnvironmentPort, Protocol: corev1.ProtocolTCP},
			{Name: "ops", ContainerPort: v1alpha1.OperationsPort, Protocol: corev1.ProtocolTCP},
		},
		Resources: pods.Resources(cpuRequest, memoryRequest, cpuLimit, memoryLimit),
		// The status quotes the standard error of a server that doesn't start.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             mounts(env),
		StartupProbe:             probe("/health", "http", 1, 60),
		ReadinessProbe:           probe("/readyz", "ops", 2, 1),
		// A restart ends every session, so a server is restarted only after a minute without an
		// answer.
		LivenessProbe: probe("/health", "http", 10, 6),
	}
}

// serverArgs returns the flags of cmd/envserver.
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
		"--termination-log", corev1.TerminationMessagePathDefault,
		"--ledger-key", keyFolder + "/" + keyFile,
		"--peers", fmt.Sprintf("%s.%s.svc:%d", v1alpha1.PodsServiceName(env.Name), env.Namespace,
			v1alpha1.EnvironmentPort),
	}, scenarioArgs(env.Spec.Scenarios), judgeArgs(env.Spec.Judge), accessArgs(env.Spec.Access))
}

func accessArgs(a v1alpha1.Access) []string {
	if a.TokenSecretRef == nil {
		return nil
	}
	return []string{"--token-file", tokenFolder + "/" + tokenEntry}
}

func scenarioArgs(s v1alpha1.PoolScenarios) []string {
	var args []string
	if len(s.Splits) > 0 {
		splits := make([]string, len(s.Splits))
		for i, split := range s.Splits {
			splits[i] = splitNames[split]
		}
		// The order of a set is arbitrary and must not restart the servers.
		slices.Sort(splits)
		args = append(args, "--split", strings.Join(splits, ","))
	}
	for i := range s.Packs {
		args = append(args, "--pack", packFolder(i))
	}
	return args
}

// splitNames are the servers' names of splits.
var splitNames = map[v1alpha1.ScenarioSplit]string{
	v1alpha1.TrainSplit: "public-train", v1alpha1.DevSplit: "public-dev", v1alpha1.TestSplit: "public-test",
	v1alpha1.PrivateSplit: "private",
}

// judgeArgs returns nothing for the offline judge.
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

func probe(path, port string, periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path,
			Port: intstr.FromString(port)}},
		PeriodSeconds:    periodSeconds,
		TimeoutSeconds:   5,
		FailureThreshold: failures,
	}
}

func poolLabels(env string) map[string]string {
	labels := pods.Selector(env)
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

// hash returns a digest of an apply configuration. Its JSON is stable: fields are in the order of
// the type, keys of maps are sorted.
func hash(config any) string {
	data, err := json.Marshal(config)
	if err != nil {
		// No apply configuration holds anything that JSON can't.
		panic(fmt.Sprintf("encoding an apply configuration: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
