package runner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tracing"
)

// makePod is completed by pods.FinishTemplate.
func makePod(run *v1alpha1.EvaluationRun, token *v1alpha1.SecretKeyReference, o Options,
	job JobSpec) corev1.PodSpec {
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Volumes:       []corev1.Volume{makeInputsVolume(run, job.Inputs), makeSecretsVolume(run, token)},
		Containers: []corev1.Container{{
			Name:    Container,
			Image:   o.Image,
			Command: []string{"/runner"},
			Args:    makeArgs(run, job),
			Env:     makeTracingEnv(run, o),
			VolumeMounts: []corev1.VolumeMount{{Name: planVolume, MountPath: planFolder, ReadOnly: true},
				{Name: secretsVolume, MountPath: secretsFolder, ReadOnly: true}},
			Resources:              pods.NewResources("50m", "128Mi", "2", "512Mi"),
			TerminationMessagePath: corev1.TerminationMessagePathDefault,
			// Not from the log: a summary is only what the runner writes to this file.
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}},
	}
	if agent := run.Spec.Agent.Container; agent != nil {
		spec.InitContainers = []corev1.Container{makeAgentSidecar(agent)}
	}
	storeResults(&spec, run.Spec.Results)
	return spec
}

// makeTracingEnv returns the operator's variables without those that the run sets itself. A run
// with an exporter of its own gets nothing of the operator's exporter: the run's headers are for
// another endpoint.
func makeTracingEnv(run *v1alpha1.EvaluationRun, o Options) []corev1.EnvVar {
	own, elsewhere := listOwnVariables(run), SendsTracesElsewhere(run)
	if len(o.TracingVariables) == 0 && !slices.ContainsFunc(own, func(v corev1.EnvVar) bool {
		return strings.HasPrefix(v.Name, "OTEL_")
	}) {
		return nil
	}
	env := append(slices.Clone(o.TracingVariables), corev1.EnvVar{Name: "POD_NAME",
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
	if o.Traced && !elsewhere {
		root := tracing.RootSpanContext(string(run.UID))
		env = append(env, corev1.EnvVar{Name: "TRACEPARENT",
			Value: fmt.Sprintf("00-%s-%s-%s", root.TraceID, root.SpanID, root.TraceFlags)})
	}
	return slices.DeleteFunc(env, func(v corev1.EnvVar) bool {
		return elsewhere && strings.HasPrefix(v.Name, tracing.ExporterVariables) ||
			slices.ContainsFunc(own, func(o corev1.EnvVar) bool { return o.Name == v.Name })
	})
}

// makeAgentSidecar is a sidecar: the runner starts when it listens, and Kubernetes stops it when
// the runner has ended, so that it can't keep the pod from succeeding.
func makeAgentSidecar(agent *v1alpha1.ContainerAgentSpec) corev1.Container {
	const defaultPort = 8080
	port := cmp.Or(agent.Port, defaultPort)
	return corev1.Container{
		Name:          AgentContainer,
		Image:         agent.Image,
		Command:       agent.Command,
		Args:          agent.Args,
		Env:           agent.Env,
		EnvFrom:       agent.EnvFrom,
		VolumeMounts:  pods.NewVolumeMounts(agent.VolumeMounts),
		Resources:     ptr.Deref(agent.Resources, corev1.ResourceRequirements{}),
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Ports: []corev1.ContainerPort{{Name: AgentContainer, ContainerPort: port,
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
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: storeVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: ref.Name, DefaultMode: new(secretMode)}}})
		runner.VolumeMounts = append(runner.VolumeMounts, corev1.VolumeMount{Name: storeVolume, MountPath: storeFolder,
			ReadOnly: true})
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

// LocateResults is where runners store episodes, "" for nowhere: the run's own folder,
// NAMESPACE/RUN-UID8, below the URL of the spec, with its parameters.
func LocateResults(run *v1alpha1.EvaluationRun) string {
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

// makeArgs are the flags of cmd/runner. The Job controller sets JOB_COMPLETION_INDEX.
func makeArgs(run *v1alpha1.EvaluationRun, job JobSpec) []string {
	spec := run.Spec
	args := []string{
		"--plan=" + planFolder + "/" + PlanKey,
		"--shards=" + job.Shards.String(),
		"--shard=$(JOB_COMPLETION_INDEX)",
		fmt.Sprintf("--pool=%s.%s.svc:%d", v1alpha1.PodsServiceName(spec.EnvironmentRef.Name),
			evaluation.PoolOf(run).Namespace, v1alpha1.EnvironmentPort),
		"--agent=@" + planFolder + "/" + AgentKey,
		inputsFlag + job.Digest,
		"--secrets=" + secretsFolder,
		"--agent-share=" + strconv.Itoa(int(LimitParallelism(run, int32(job.Shards.Len())))), //nolint:gosec // few
		"--concurrency=" + strconv.Itoa(int(ReadConcurrency(run))),
		"--episode-attempts=" + strconv.Itoa(int(max(spec.Retries.EpisodeAttempts, 1))),
		"--termination-log=" + corev1.TerminationMessagePathDefault,
		"--run=" + run.Namespace + "/" + run.Name,
	}
	if job.Budget != nil {
		args = append(args, encodeBudget(job.Budget))
	}
	if at := LocateResults(run); at != "" {
		// A struct of numbers and strings can always be encoded.
		limits, _ := json.Marshal(evaluation.LimitsOf(run)) //nolint:errchkjson // see above
		// Kubernetes expands $(NAME) otherwise.
		args = append(args, "--results="+strings.ReplaceAll(at, "$(", "$$("), "--limits="+string(limits))
		if run.Spec.Results.CredentialsSecretRef != nil {
			args = append(args, "--store-credentials="+storeFolder)
		}
	}
	return args
}

// encodeBudget is the flag of a budget.
func encodeBudget(budget *score.Budget) string {
	// A struct of numbers and strings can always be encoded.
	text, _ := json.Marshal(budget) //nolint:errchkjson // see above
	return budgetFlag + string(text)
}

// ReadBudget reads the budget of a Job's runners, nil without one.
func ReadBudget(job *batchv1.Job) *score.Budget {
	for _, c := range job.Spec.Template.Spec.Containers {
		for _, arg := range c.Args {
			var budget score.Budget
			text, is := strings.CutPrefix(arg, budgetFlag)
			if c.Name == Container && is && json.Unmarshal([]byte(text), &budget) == nil {
				return &budget
			}
		}
	}
	return nil
}

// makeSecretsVolume has the secrets that runners read as files, which only the runner's container
// mounts. They are not variables: a program's variables reach the programs that it starts, and
// $(NAME) in the variables of a run's author.
func makeSecretsVolume(run *v1alpha1.EvaluationRun, token *v1alpha1.SecretKeyReference) corev1.Volume {
	source := &corev1.ProjectedVolumeSource{DefaultMode: new(secretMode)}
	add := func(file string, ref *v1alpha1.SecretKeyReference) {
		if ref != nil {
			source.Sources = append(source.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name},
				Items:                []corev1.KeyToPath{{Key: ref.Key, Path: file}}}})
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
	add(envvars.RunCredential, &v1alpha1.SecretKeyReference{Name: NameCredential(run), Key: CredentialKey})
	return corev1.Volume{Name: secretsVolume, VolumeSource: corev1.VolumeSource{Projected: source}}
}

// allowVariables leaves out the variables that a run's author may not set, which only a run has
// that was stored before the API server refused them.
func allowVariables(template *v1alpha1.PodOverrides) *v1alpha1.PodOverrides {
	if template == nil {
		return nil
	}
	allowed := *template
	allowed.Env = slices.DeleteFunc(slices.Clone(template.Env), func(v corev1.EnvVar) bool {
		return !v1alpha1.IsRunVariable(v.Name)
	})
	return &allowed
}

// FindPoolToken refers to the pool's token, nil if the run's pods can't read one. Pods can't read
// the Secrets of another namespace.
func FindPoolToken(run *v1alpha1.EvaluationRun, env *v1alpha1.CustomerSupportEnv) *v1alpha1.SecretKeyReference {
	switch ref := run.Spec.EnvironmentRef.TokenSecretRef; {
	case ref != nil:
		return ref
	case env != nil && env.Namespace == run.Namespace:
		return env.Spec.Access.TokenSecretRef
	default:
		return nil
	}
}
