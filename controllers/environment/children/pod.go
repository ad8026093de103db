package children

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/envvars"
)

const (
	keyVolume   = "ledger-key"
	keyFolder   = "/etc/csenv/ledger-key"
	packsFolder = "/etc/csenv/packs"
	tokenVolume = "token"

	// TokenFolder has the file TokenEntry with the tokens of the pool's clients.
	TokenFolder = "/etc/csenv/token" //nolint:gosec // a path
	// TokenEntry is the name of the file with the tokens of the pool's clients.
	TokenEntry = "token"

	// addressVariable holds the server's own address among its peers.
	addressVariable = "POD_IP"

	// TemplateHash distinguishes pods of the newest template from older ones.
	TemplateHash = "csenv.dev/template-hash"
	// ScenariosAnnotation is the digest of the scenarios for which the servers were last replaced.
	ScenariosAnnotation = "csenv.dev/scenarios"
	// SafeToEvict is "false" in the template, because the cluster autoscaler ends pods after ten
	// minutes in spite of their grace period. Pods that are idle for long get "true".
	SafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

	// exitSeconds is added to the drain timeout, so that a server can end its last sessions and
	// exit by itself.
	exitSeconds = 30
	// startSeconds is the time within which a started server listens to signals, even on a busy
	// node.
	startSeconds = 2

	cpuRequest    = "50m"
	memoryRequest = "64Mi"
	cpuLimit      = "2"
	memoryLimit   = "1Gi"
)

// BuildPodTemplate returns the template of the servers. scenarios is the digest of the packs for
// which they were last replaced, "" if they never were.
func BuildPodTemplate(p Pool, scenarios string) *corev1.PodTemplateSpec {
	env := p.Env
	base := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: LabelObject(env.Name), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(ptr.Deref(env.Spec.DrainTimeoutSeconds, 0)) + exitSeconds),
			Containers:                    []corev1.Container{buildContainer(env, p.Image)},
			Volumes:                       buildVolumes(env),
		},
	}
	if _, userSays := GetUserAnnotations(env)[SafeToEvict]; !userSays {
		base.Annotations[SafeToEvict] = "false"
	}
	if scenarios != "" {
		base.Annotations[ScenariosAnnotation] = scenarios
	}
	template := pods.FinishTemplate(base, pods.ServerContainer, env.Spec.Template)
	template.Annotations[TemplateHash] = hashJSON(template)
	return template
}

// buildVolumes returns the server's key, packs and token. Only the key is required. The server
// reports the others if they are missing, whereas the kubelet would wait without an error.
func buildVolumes(env *v1alpha1.CustomerSupportEnv) []corev1.Volume {
	key := mountSecret(keyVolume, keys.SecretName(env.Name, env.Status.LedgerPublicKey))
	key.Secret.Optional = nil
	all := []corev1.Volume{key}
	for i, pack := range env.Spec.Scenarios.Packs {
		if pack.Secret != nil {
			all = append(all, mountSecret(namePack(i), pack.Secret.Name))
			continue
		}
		source := &corev1.ConfigMapVolumeSource{Optional: new(true)}
		source.Name = pack.ConfigMap.Name
		all = append(all, corev1.Volume{Name: namePack(i), VolumeSource: corev1.VolumeSource{ConfigMap: source}})
	}
	if token := env.Spec.Access.TokenSecretRef; token != nil {
		volume := mountSecret(tokenVolume, token.Name)
		volume.Secret.Items = []corev1.KeyToPath{{Key: token.Key, Path: TokenEntry}}
		all = append(all, volume)
	}
	return all
}

// mountSecret returns an optional volume that every user of the pod may read: the image's user
// isn't known, and clusters with assigned ranges of IDs refuse an fsGroup.
func mountSecret(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, DefaultMode: new(int32(0o444)), Optional: new(true)}}}
}

func namePack(i int) string { return fmt.Sprintf("pack-%d", i) }

// NamePackFolder returns the folder in which servers find the files of a pack.
func NamePackFolder(i int) string { return packsFolder + "/" + namePack(i) }

func buildMounts(env *v1alpha1.CustomerSupportEnv) []corev1.VolumeMount {
	mount := func(name, path string) corev1.VolumeMount {
		return corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true}
	}
	all := []corev1.VolumeMount{mount(keyVolume, keyFolder)}
	for i := range env.Spec.Scenarios.Packs {
		all = append(all, mount(namePack(i), NamePackFolder(i)))
	}
	if env.Spec.Access.TokenSecretRef != nil {
		all = append(all, mount(tokenVolume, TokenFolder))
	}
	return all
}

func buildVariables(env *v1alpha1.CustomerSupportEnv) []corev1.EnvVar {
	all := []corev1.EnvVar{{Name: addressVariable,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
	addKey := func(variable string, ref *v1alpha1.SecretKeyReference) {
		if ref == nil {
			return
		}
		key := &corev1.SecretKeySelector{Key: ref.Key}
		key.Name = ref.Name
		all = append(all, corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: key}})
	}
	if llm := env.Spec.Judge.LLM; llm != nil {
		addKey(envvars.JudgeKey, llm.APIKeySecretRef)
	}
	if llm := env.Spec.Customer.LLM; llm != nil {
		addKey(envvars.CustomerKey, llm.APIKeySecretRef)
	}
	return all
}

func buildContainer(env *v1alpha1.CustomerSupportEnv, image string) corev1.Container {
	return corev1.Container{
		Name:    pods.ServerContainer,
		Image:   image,
		Command: []string{"/envserver"},
		Args:    buildArgs(env),
		Env:     buildVariables(env),
		Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: v1alpha1.EnvironmentPort, Protocol: corev1.ProtocolTCP},
			{Name: "ops", ContainerPort: v1alpha1.OperationsPort, Protocol: corev1.ProtocolTCP},
		},
		Resources: pods.NewResources(cpuRequest, memoryRequest, cpuLimit, memoryLimit),
		// The status quotes the standard error of a server that doesn't start.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             buildMounts(env),
		StartupProbe:             buildProbe("/health", "http", 1, 60),
		ReadinessProbe:           buildProbe("/readyz", "ops", 2, 1),
		// A restart ends every session, so a server is restarted only after a minute without an
		// answer.
		LivenessProbe: buildProbe("/health", "http", 10, 6),
		// The kubelet sends SIGTERM once. A process without a handler yet, which a starting server
		// is, ignores it as PID 1, and would stay for the whole grace period.
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Sleep: &corev1.SleepAction{Seconds: startSeconds}}},
	}
}

// buildArgs returns the flags of cmd/envserver.
func buildArgs(env *v1alpha1.CustomerSupportEnv) []string {
	sessions := env.Spec.Sessions
	args := []string{
		"--environment", strings.ToLower(string(env.Spec.Environment)),
		"--addr", fmt.Sprintf(":%d", v1alpha1.EnvironmentPort),
		"--ops-addr", fmt.Sprintf(":%d", v1alpha1.OperationsPort),
		"--max-sessions", strconv.Itoa(int(sessions.PerPod)),
		"--client-share", strconv.Itoa(int(ptr.Deref(sessions.ClientSharePercent, 100))),
		"--session-idle-timeout", formatSeconds(sessions.IdleTimeoutSeconds),
		"--session-max-duration", formatSeconds(sessions.MaxDurationSeconds),
		"--drain-timeout", formatSeconds(env.Spec.DrainTimeoutSeconds),
		"--reward-mode", strings.ToLower(string(env.Spec.RewardMode)),
		"--termination-log", corev1.TerminationMessagePathDefault,
		"--ledger-key", keyFolder + "/" + keys.File,
		"--peers", fmt.Sprintf("%s.%s.svc:%d", v1alpha1.PodsServiceName(env.Name), env.Namespace,
			v1alpha1.EnvironmentPort),
	}
	args = slices.Concat(args, selectScenarios(env.Spec.Scenarios), configureJudge(env.Spec.Judge),
		configureCustomer(env.Spec.Customer))
	if env.Spec.Access.Play == v1alpha1.RunsOnlyPlay {
		args = append(args, "--runs-only")
	}
	if env.Spec.Runs.Scores == v1alpha1.ScoresInResults {
		args = append(args, "--withhold-scores")
	}
	if env.Spec.DrainPolicy == v1alpha1.HandOverSessions {
		args = append(args, "--hand-over")
	}
	if env.Spec.Access.TokenSecretRef != nil {
		args = append(args, "--token-file", TokenFolder+"/"+TokenEntry)
	}
	return args
}

func selectScenarios(s v1alpha1.PoolScenarios) []string {
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
		args = append(args, "--pack", NamePackFolder(i))
	}
	return args
}

func configureJudge(judge v1alpha1.Judge) []string {
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

func configureCustomer(customer v1alpha1.Customer) []string {
	llm := customer.LLM
	if llm == nil {
		return nil
	}
	return []string{
		"--customer", "llm",
		"--customer-base-url", llm.BaseURL,
		"--customer-model", llm.Model,
		"--customer-max-concurrency", strconv.Itoa(int(llm.MaxConcurrency)),
		"--customer-timeout", fmt.Sprintf("%ds", llm.TimeoutSeconds),
	}
}

func formatSeconds(n *int32) string { return fmt.Sprintf("%ds", ptr.Deref(n, 0)) }

func buildProbe(path, port string, periodSeconds, failures int32) *corev1.Probe {
	p := &corev1.Probe{PeriodSeconds: periodSeconds, TimeoutSeconds: 5, FailureThreshold: failures}
	p.HTTPGet = &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(port)}
	return p
}

// GetUserAnnotations returns the annotations that the pool's spec gives to the servers' pods.
func GetUserAnnotations(env *v1alpha1.CustomerSupportEnv) map[string]string {
	if env.Spec.Template == nil {
		return nil
	}
	return env.Spec.Template.Annotations
}
