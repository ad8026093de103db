package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/score"
)

const (
	summaryFinalizer = "csenv.dev/summary" // keeps a runner's pod until its summary is counted
	labelRunUID      = "csenv.dev/run-uid" // distinguishes runs of one name
	// labelQueue names a queue of Kueue, which keeps the Job suspended until it admits it.
	labelQueue  = queuePrefix + "queue-name"
	queuePrefix = "kueue.x-k8s.io/"
	// annotationShards lists the shards that a Job plays: its index i is the i-th of them.
	annotationShards  = "csenv.dev/shards"
	annotationAttempt = "csenv.dev/round" // numbers the Jobs of the run
	annotationQueue   = "csenv.dev/queue" // the run's queue when the Job was created, "" for none

	runnerContainer = "runner"
	agentContainer  = "agent"
	inputsFlag      = "--inputs="
	planKey         = "plan.json"
	agentKey        = "agent.json"
	planFolder      = "/etc/csenv"
	planVolume      = "plan"
	resultsFolder   = "/results"
	resultsVolume   = "results"

	agentStartSeconds = 600   // how long an agent's container may take until it listens
	volumeGroup       = 65532 // may write to the volume of the results, whichever the image's user is
)

// runnerOptions are what the operator gives to every runner.
type runnerOptions struct {
	image            string          // of the runners: the operator's own
	tracingVariables []corev1.EnvVar // are added to those of runners
	traced           bool            // runs have spans, below which runners put theirs
}

// jobSpec is the Job that a run needs next.
type jobSpec struct {
	attempt   int32
	shards    score.IndexSet
	suspended bool
	inputs    string // the digest of the plan and of the agent that runners read
}

func planName(run *v1alpha1.EvaluationRun) string { return run.Name + "-plan" }

// planConfigMap contains the plan and the agent for the runners.
func planConfigMap(run *v1alpha1.EvaluationRun, plan score.Plan) (*corev1.ConfigMap, error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("encoding plan: %w", err)
	}
	agent, err := evaluation.AgentJSON(run.Spec.Agent)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: objectMeta(run, planName(run)),
		Immutable:  new(true),
		Data:       map[string]string{planKey: string(data), agentKey: string(agent)},
	}, nil
}

// inputsOf is the digest of the plan and the agent in a ConfigMap.
func inputsOf(planMap *corev1.ConfigMap) string {
	return score.InputsDigest([]byte(planMap.Data[planKey]), []byte(planMap.Data[agentKey]))
}

// agentChanged returns an error if the ConfigMap's agent is neither the spec's nor the one that the
// Job was created for, which an earlier version may have written differently.
func agentChanged(run *v1alpha1.EvaluationRun, planMap *corev1.ConfigMap, job *batchv1.Job) error {
	agent, err := evaluation.AgentJSON(run.Spec.Agent)
	if err != nil {
		return err
	}
	if planMap.Data[agentKey] == string(agent) {
		return nil
	}
	if job != nil && slices.ContainsFunc(job.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == runnerContainer && slices.Contains(c.Args, inputsFlag+inputsOf(planMap))
	}) {
		return nil
	}
	return errors.New("the agent is not the run's")
}

// objectMeta is that of an object of the run.
func objectMeta(run *v1alpha1.EvaluationRun, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: run.Namespace, Labels: runLabels(run), OwnerReferences: owners(run)}
}

// runnerJob plays some shards of a plan: one index for each. The pool is nil if there is none.
func runnerJob(run *v1alpha1.EvaluationRun, env *v1alpha1.CustomerSupportEnv, o runnerOptions,
	spec jobSpec) *batchv1.Job {
	shards := int32(spec.shards.Len()) //nolint:gosec // at most as many as the pool has scenarios
	annotations := map[string]string{annotationShards: spec.shards.String(),
		annotationAttempt: strconv.Itoa(int(spec.attempt))}
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: runLabels(run), Annotations: maps.Clone(annotations),
			Finalizers: []string{summaryFinalizer}},
		Spec: runnerPod(run, poolToken(run, env), o, spec),
	}
	annotations[annotationQueue] = run.Labels[labelQueue]
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: run.Name, Namespace: run.Namespace, Labels: jobLabels(run), OwnerReferences: owners(run),
			Annotations: annotations,
		},
		Spec: batchv1.JobSpec{
			CompletionMode:       new(batchv1.IndexedCompletion),
			Completions:          new(shards),
			Parallelism:          new(parallelism(run, shards)),
			Suspend:              new(spec.suspended),
			BackoffLimitPerIndex: new(shardBackoffLimit(run)),
			// A run with a missing shard can't complete, so the rest needn't be played.
			MaxFailedIndexes: new(int32(0)),
			PodFailurePolicy: podFailurePolicy(),
			Template:         *pods.Finish(template, runnerContainer, run.Spec.Template),
		},
	}
}

// podFailurePolicy ends the Job when a runner reports that the agent's endpoint refuses every
// request, and ignores pods that a drain, a preemption or a suspension stopped.
func podFailurePolicy() *batchv1.PodFailurePolicy {
	exits := func(action batchv1.PodFailurePolicyAction, code int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new(runnerContainer), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn,
				Values: []int32{code},
			}}
	}
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		},
		exits(batchv1.PodFailurePolicyActionIgnore, score.ExitStopped),
		exits(batchv1.PodFailurePolicyActionFailJob, score.ExitAgentRefused),
	}}
}

// runnerPod is completed by pods.Finish.
func runnerPod(run *v1alpha1.EvaluationRun, token *v1alpha1.SecretKeyReference, o runnerOptions,
	job jobSpec) corev1.PodSpec {
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Volumes: []corev1.Volume{{Name: planVolume, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{
				Name: planName(run)}},
		}}},
		Containers: []corev1.Container{{
			Name:                   runnerContainer,
			Image:                  o.image,
			Command:                []string{"/runner"},
			Args:                   runnerArgs(run, job),
			Env:                    append(runnerEnv(run, token), tracingEnv(run, o)...),
			VolumeMounts:           []corev1.VolumeMount{{Name: planVolume, MountPath: planFolder, ReadOnly: true}},
			Resources:              pods.Resources("50m", "128Mi", "2", "512Mi"),
			TerminationMessagePath: corev1.TerminationMessagePathDefault,
			// Not from the log: a summary is only what the runner writes to this file.
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}},
	}
	if agent := run.Spec.Agent.Container; agent != nil {
		spec.InitContainers = []corev1.Container{agentSidecar(agent)}
	}
	storeResults(&spec, run.Spec.Results)
	return spec
}

// agentSidecar is a sidecar: the runner starts when it listens, and Kubernetes stops it when the
// runner has ended, so that it can't keep the pod from succeeding.
func agentSidecar(agent *v1alpha1.ContainerAgentSpec) corev1.Container {
	const defaultPort = 8080
	port := cmp.Or(agent.Port, defaultPort)
	return corev1.Container{
		Name:          agentContainer,
		Image:         agent.Image,
		Command:       agent.Command,
		Args:          agent.Args,
		Env:           agent.Env,
		EnvFrom:       agent.EnvFrom,
		VolumeMounts:  pods.Mounts(agent.VolumeMounts),
		Resources:     ptr.Deref(agent.Resources, corev1.ResourceRequirements{}),
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Ports: []corev1.ContainerPort{{Name: agentContainer, ContainerPort: port,
			Protocol: corev1.ProtocolTCP}},
		StartupProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}},
			PeriodSeconds: 1, FailureThreshold: cmp.Or(agent.StartTimeoutSeconds, agentStartSeconds),
		},
	}
}

// storeResults adds the volume and the credentials of the result store.
func storeResults(spec *corev1.PodSpec, results *v1alpha1.Results) {
	if results == nil {
		return
	}
	runner := &spec.Containers[0]
	if ref := results.CredentialsSecretRef; ref != nil {
		runner.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}}}}
	}
	if claim := results.PersistentVolumeClaim; claim != nil {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: resultsVolume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.ClaimName},
		}})
		runner.VolumeMounts = append(runner.VolumeMounts, corev1.VolumeMount{Name: resultsVolume,
			MountPath: resultsFolder})
		if claim.FSGroup != v1alpha1.UnsetVolumeGroup {
			spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(volumeGroup)),
				FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch)}
		}
	}
}

// resultsURL is where runners store episodes, "" for nowhere: the run's own folder,
// NAMESPACE/RUN-UID8, below the URL of the spec, with its parameters.
func resultsURL(run *v1alpha1.EvaluationRun) string {
	results := ptr.Deref(run.Spec.Results, v1alpha1.Results{})
	base := results.URL
	if results.PersistentVolumeClaim != nil {
		base = "file://" + resultsFolder
	}
	at, err := url.Parse(base)
	if base == "" || err != nil {
		return base // the runner reports an invalid URL
	}
	return at.JoinPath(run.Namespace, fmt.Sprintf("%s-%.8s", run.Name, run.UID)).String()
}

// runnerArgs are the flags of cmd/runner. The Job controller sets JOB_COMPLETION_INDEX.
func runnerArgs(run *v1alpha1.EvaluationRun, job jobSpec) []string {
	spec := run.Spec
	args := []string{
		"--plan=" + planFolder + "/" + planKey,
		"--shards=" + job.shards.String(),
		"--shard=$(JOB_COMPLETION_INDEX)",
		fmt.Sprintf("--pool=%s.%s.svc:%d", v1alpha1.PodsServiceName(spec.EnvironmentRef.Name),
			evaluation.PoolOf(run).Namespace, v1alpha1.EnvironmentPort),
		"--agent=@" + planFolder + "/" + agentKey,
		inputsFlag + job.inputs,
		"--agent-share=" + strconv.Itoa(int(parallelism(run, int32(job.shards.Len())))), //nolint:gosec // few
		"--concurrency=" + strconv.Itoa(int(ptr.Deref(spec.Concurrency, 16))),
		"--episode-attempts=" + strconv.Itoa(int(max(spec.Retries.EpisodeAttempts, 1))),
		"--termination-log=" + corev1.TerminationMessagePathDefault,
		"--run=" + run.Namespace + "/" + run.Name,
	}
	if at := resultsURL(run); at != "" {
		// A struct of numbers and strings can always be encoded.
		limits, _ := json.Marshal(evaluation.LimitsOf(run)) //nolint:errchkjson // see above
		args = append(args, "--results="+at, "--limits="+string(limits))
	}
	return args
}

// runnerEnv refers to the Secrets that runners read. The agent's container gets none of them.
func runnerEnv(run *v1alpha1.EvaluationRun, token *v1alpha1.SecretKeyReference) []corev1.EnvVar {
	var env []corev1.EnvVar
	add := func(name string, ref *v1alpha1.SecretKeyReference) {
		if ref != nil {
			env = append(env, corev1.EnvVar{Name: name,
				ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}, Key: ref.Key,
				}}})
		}
	}
	agent := run.Spec.Agent
	if agent.OpenAI != nil {
		add(envvars.AgentKey, agent.OpenAI.APIKeySecretRef)
	}
	if agent.HTTP != nil {
		add(envvars.AgentKey, agent.HTTP.TokenSecretRef)
	}
	add(envvars.PoolToken, token)
	add(envvars.RunCredential, &v1alpha1.SecretKeyReference{Name: credentialName(run), Key: credentialKey})
	return env
}

func shardBackoffLimit(run *v1alpha1.EvaluationRun) int32 {
	return ptr.Deref(run.Spec.Retries.ShardBackoffLimit, 2)
}

func parallelism(run *v1alpha1.EvaluationRun, shards int32) int32 {
	return min(ptr.Deref(run.Spec.Parallelism, 1), shards)
}

// runLabels are csenv's own labels, which select the objects of a run.
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

// jobLabels include the run's, so that the Job is queued and selected like its run. Pods have the
// labels of runLabels and of spec.template only, because Services select pods by any label.
func jobLabels(run *v1alpha1.EvaluationRun) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, run.Labels)
	maps.Copy(labels, runLabels(run))
	return labels
}

func owners(run *v1alpha1.EvaluationRun) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(run, v1alpha1.GroupVersion.WithKind("EvaluationRun"))}
}

// credentialKey is the key of the run's credential in its Secret.
const credentialKey = "credential"

// credentialName names the Secret of a run's credential. It contains a digest of the UID, because
// each run has another credential, and the Secret of an earlier run of the name may still be there.
func credentialName(run *v1alpha1.EvaluationRun) string {
	sum := sha256.Sum256([]byte(run.UID))
	return run.Name + "-credential-" + hex.EncodeToString(sum[:4])
}

// credentialSecret contains the credential with which the run's runners, and nobody else, open
// ledgers on the pool's servers.
func credentialSecret(run *v1alpha1.EvaluationRun, credential string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: objectMeta(run, credentialName(run)),
		Immutable:  new(true),
		Data:       map[string][]byte{credentialKey: []byte(credential)},
	}
}

// createCredential creates the Secret of the run's credential. One that exists is left as it is:
// the operator made it for an earlier Job of the run, or somebody else did, whose runners are
// refused.
func (r *Reconciler) createCredential(ctx context.Context, s snapshot) error {
	secrets, err := r.reader.keys.Secrets(ctx, evaluation.PoolOf(s.run), s.publicKey())
	if err != nil {
		return err
	}
	secret := credentialSecret(s.run, secrets.RunCredential(string(s.run.UID)))
	if err := r.client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Secret %s with the run's credential: %w", types.NamespacedName{
			Namespace: secret.Namespace, Name: secret.Name}, err)
	}
	return nil
}

// publicKey is that of the pool, "" while there is no pool.
func (s snapshot) publicKey() string {
	if s.env == nil {
		return ""
	}
	return s.env.Status.LedgerPublicKey
}
