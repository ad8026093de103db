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
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/access"
	"github.com/csenv/csenv/controllers/keys"
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
	// scale is the number of servers of a Deployment of which nothing else is applied yet.
	scale *int32
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
	return owned(env, corev1ac.Service(env.Name, env.Namespace).
		WithAnnotations(env.Spec.Service.Annotations).
		WithSpec(corev1ac.ServiceSpec().
			WithType(serviceType(env)).
			WithSelector(pods.Selector(env.Name)).
			WithPorts(servicePort("http", v1alpha1.EnvironmentPort))))
}

func serviceType(env *v1alpha1.CustomerSupportEnv) corev1.ServiceType {
	return corev1.ServiceType(cmp.Or(env.Spec.Service.Type, v1alpha1.ClusterIPService))
}

// podsService lists all servers, including full and starting ones: a runner returns to the server
// that holds its shard's ledger.
func podsService(env *v1alpha1.CustomerSupportEnv) *corev1ac.ServiceApplyConfiguration {
	return owned(env, corev1ac.Service(v1alpha1.PodsServiceName(env.Name), env.Namespace).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(pods.Selector(env.Name)).
			WithPorts(servicePort("http", v1alpha1.EnvironmentPort), servicePort("ops", v1alpha1.OperationsPort))))
}

func servicePort(name string, port int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().WithName(name).WithPort(port).WithProtocol(corev1.ProtocolTCP).
		WithTargetPort(intstr.FromString(name))
}

// budget allows one eviction at a time, also of a single server, because a draining server
// continues to serve its sessions. Servers that aren't ready may always be evicted; otherwise full
// ones would block every node drain.
func budget(env *v1alpha1.CustomerSupportEnv) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return owned(env, policyv1ac.PodDisruptionBudget(env.Name, env.Namespace).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(pods.Selector(env.Name)))))
}

// deployment runs the servers. New ones are ready before old ones drain.
func deployment(d decision) *appsv1ac.DeploymentApplyConfiguration {
	env := d.env
	return owned(env, appsv1ac.Deployment(env.Name, env.Namespace).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(d.scaling.to).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(pods.Selector(env.Name))).
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType("RollingUpdate").
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxSurge(intstr.FromString("25%")).
					WithMaxUnavailable(intstr.FromInt32(0)))).
			WithTemplate(configuration[corev1ac.PodTemplateSpecApplyConfiguration](
				podTemplate(d.snapshot, d.scenarios)))))
}

// configuration converts a Kubernetes type into its apply configuration T, which has the same JSON.
func configuration[T any](value any) *T {
	config := new(T)
	if err := json.Unmarshal(encode(value), config); err != nil {
		panic(fmt.Sprintf("converting a %T into an apply configuration: %v", value, err))
	}
	return config
}

func podTemplate(s snapshot, scenarios string) *corev1.PodTemplateSpec {
	env := s.env
	base := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: poolLabels(env.Name), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(ptr.Deref(env.Spec.DrainTimeoutSeconds, 0)) + exitSeconds),
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
	template := pods.Finish(base, pods.ServerContainer, env.Spec.Template)
	template.Annotations[templateHash] = hash(template)
	return template
}

// volumes returns the server's key, packs and token. Only the key is required. The server reports
// the others if they are missing, whereas the kubelet would wait without an error.
func volumes(env *v1alpha1.CustomerSupportEnv) []corev1.Volume {
	key := secretVolume(keyVolume, keys.SecretName(env.Name, env.Status.LedgerPublicKey))
	key.Secret.Optional = nil
	all := []corev1.Volume{key}
	for i, pack := range env.Spec.Scenarios.Packs {
		if pack.Secret != nil {
			all = append(all, secretVolume(packName(i), pack.Secret.Name))
			continue
		}
		source := &corev1.ConfigMapVolumeSource{Optional: new(true)}
		source.Name = pack.ConfigMap.Name
		all = append(all, corev1.Volume{Name: packName(i), VolumeSource: corev1.VolumeSource{ConfigMap: source}})
	}
	if token := env.Spec.Access.TokenSecretRef; token != nil {
		volume := secretVolume(tokenVolume, token.Name)
		volume.Secret.Items = []corev1.KeyToPath{{Key: token.Key, Path: tokenEntry}}
		all = append(all, volume)
	}
	return all
}

// secretVolume returns an optional volume that every user of the pod may read: the image's user
// isn't known, and clusters with assigned ranges of IDs refuse an fsGroup.
func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, DefaultMode: new(int32(0o444)), Optional: new(true)}}}
}

func packName(i int) string { return fmt.Sprintf("pack-%d", i) }

func packFolder(i int) string { return packsFolder + "/" + packName(i) }

func mounts(env *v1alpha1.CustomerSupportEnv) []corev1.VolumeMount {
	mount := func(name, path string) corev1.VolumeMount {
		return corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true}
	}
	all := []corev1.VolumeMount{mount(keyVolume, keyFolder)}
	for i := range env.Spec.Scenarios.Packs {
		all = append(all, mount(packName(i), packFolder(i)))
	}
	if env.Spec.Access.TokenSecretRef != nil {
		all = append(all, mount(tokenVolume, tokenFolder))
	}
	return all
}

func variables(env *v1alpha1.CustomerSupportEnv) []corev1.EnvVar {
	all := []corev1.EnvVar{{Name: addressVariable,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
	if llm := env.Spec.Judge.LLM; llm != nil && llm.APIKeySecretRef != nil {
		key := &corev1.SecretKeySelector{Key: llm.APIKeySecretRef.Key}
		key.Name = llm.APIKeySecretRef.Name
		all = append(all, corev1.EnvVar{Name: envvars.JudgeKey, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: key}})
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
	args := []string{
		"--environment", strings.ToLower(string(env.Spec.Environment)),
		"--addr", fmt.Sprintf(":%d", v1alpha1.EnvironmentPort),
		"--ops-addr", fmt.Sprintf(":%d", v1alpha1.OperationsPort),
		"--max-sessions", strconv.Itoa(int(sessions.PerPod)),
		"--client-share", strconv.Itoa(int(ptr.Deref(sessions.ClientSharePercent, 100))),
		"--session-idle-timeout", seconds(sessions.IdleTimeoutSeconds),
		"--session-max-duration", seconds(sessions.MaxDurationSeconds),
		"--drain-timeout", seconds(env.Spec.DrainTimeoutSeconds),
		"--reward-mode", strings.ToLower(string(env.Spec.RewardMode)),
		"--termination-log", corev1.TerminationMessagePathDefault,
		"--ledger-key", keyFolder + "/" + keys.File,
		"--peers", fmt.Sprintf("%s.%s.svc:%d", v1alpha1.PodsServiceName(env.Name), env.Namespace,
			v1alpha1.EnvironmentPort),
	}
	args = slices.Concat(args, scenarioArgs(env.Spec.Scenarios), judgeArgs(env.Spec.Judge))
	if env.Spec.Access.Play == v1alpha1.RunsOnlyPlay {
		args = append(args, "--runs-only")
	}
	if env.Spec.DrainPolicy == v1alpha1.HandOverSessions {
		args = append(args, "--hand-over")
	}
	if env.Spec.Access.TokenSecretRef != nil {
		args = append(args, "--token-file", tokenFolder+"/"+tokenEntry)
	}
	return args
}

func scenarioArgs(s v1alpha1.PoolScenarios) []string {
	var args []string
	if len(s.Splits) > 0 {
		splits := make([]string, 0, len(s.Splits))
		for _, split := range s.Splits {
			splits = append(splits, split.Name())
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

func probe(path, port string, periodSeconds, failures int32) *corev1.Probe {
	p := &corev1.Probe{PeriodSeconds: periodSeconds, TimeoutSeconds: 5, FailureThreshold: failures}
	p.HTTPGet = &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(port)}
	return p
}

func poolLabels(env string) map[string]string {
	labels := pods.Selector(env)
	labels[v1alpha1.LabelInstance] = env
	labels[v1alpha1.LabelManagedBy] = v1alpha1.LabelManagedByValue
	return labels
}

// owned adds the pool's labels, the owner and the hash to an apply configuration.
func owned[T interface {
	WithLabels(labels map[string]string) T
	WithAnnotations(annotations map[string]string) T
	WithOwnerReferences(owners ...*metav1ac.OwnerReferenceApplyConfiguration) T
}](env *v1alpha1.CustomerSupportEnv, config T) T {
	owner := metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind("CustomerSupportEnv").
		WithName(env.Name).
		WithUID(env.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
	config = config.WithLabels(poolLabels(env.Name)).WithOwnerReferences(owner)
	return config.WithAnnotations(map[string]string{appliedHash: hash(config)})
}

// hash returns a digest of a value's JSON, whose order is that of the type's fields.
func hash(value any) string {
	sum := sha256.Sum256(encode(value))
	return hex.EncodeToString(sum[:8])
}

// encode returns the JSON of a Kubernetes object or apply configuration, which can't fail.
func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encoding a %T: %v", value, err))
	}
	return data
}

// metricsLabel marks the namespaces that scrape metrics, by kubebuilder's convention.
const metricsLabel = "metrics"

// networkPolicy admits clients, the operator and Prometheus, each to its port. Egress isn't
// restricted. The kubelet needs no rule, because networks admit a node to its own pods.
func networkPolicy(env *v1alpha1.CustomerSupportEnv, operator string) *networkingv1ac.NetworkPolicyApplyConfiguration {
	spec := networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: pods.Selector(env.Name)},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{
			{Ports: policyPort(v1alpha1.EnvironmentPort), From: clients(env)},
			{Ports: policyPort(v1alpha1.OperationsPort), From: watchers(operator)},
		},
	}
	return owned(env, networkingv1ac.NetworkPolicy(env.Name, env.Namespace).
		WithSpec(configuration[networkingv1ac.NetworkPolicySpecApplyConfiguration](spec)))
}

// clients returns the admitted pods, nil for every client. A Service that is reachable from outside
// admits every client, because many load balancers replace the client's address by a node's.
func clients(env *v1alpha1.CustomerSupportEnv) []networkingv1.NetworkPolicyPeer {
	if serviceType(env) != corev1.ServiceTypeClusterIP {
		return nil
	}
	return access.Peers(env)
}

// watchers returns the readers of statistics and metrics, nil for every client. An operator outside
// of the cluster has no namespace.
func watchers(operator string) []networkingv1.NetworkPolicyPeer {
	if operator == "" {
		return nil
	}
	return []networkingv1.NetworkPolicyPeer{
		{NamespaceSelector: access.Namespace(operator)},
		{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{metricsLabel: "enabled"}}},
	}
}

func policyPort(port int32) []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(port))}}
}
