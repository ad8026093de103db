package runner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
)

// makeJob makes a Job that plays all shards.
func makeJob(run *v1alpha1.EvaluationRun, env *v1alpha1.CustomerSupportEnv, attempt int32) *batchv1.Job {
	return runner.MakeJob(run, env, runner.Options{Image: runtest.OperatorImage},
		runner.JobSpec{JobAttempt: attempt, Shards: runtest.AllShards()})
}

// Both names of the policy that does nothing are played.
func TestNoopIsPlayed(t *testing.T) {
	for _, name := range []v1alpha1.BuiltinPolicy{v1alpha1.NoopPolicy, v1alpha1.NullPolicy} {
		data, err := evaluation.AgentJSON(v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
			Builtin: &v1alpha1.BuiltinAgentSpec{Policy: name}})
		if err != nil {
			t.Fatal(err)
		}
		config, err := policy.ParseConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := policy.New(config, policy.Options{Environment: "ticket"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The runner refuses an agent with an unknown field.
func TestRunnersParseTheAgent(t *testing.T) {
	for name, agent := range runtest.ListAgents() {
		t.Run(name, func(t *testing.T) {
			data, err := evaluation.AgentJSON(agent)
			if err != nil {
				t.Fatal(err)
			}
			text := string(data)
			config, err := policy.ParseConfig(data)
			if err != nil {
				t.Fatalf("%v: %.300s", err, text)
			}
			if string(config.Type) != string(agent.Type) || strings.Contains(text, "SecretRef") ||
				strings.Contains(text, "registry.example") {
				t.Errorf("read as %+v from %.300s", config, text)
			}
			if agent.OpenAI != nil && config.OpenAI.SystemPrompt != agent.OpenAI.SystemPrompt {
				t.Error("the system prompt differs")
			}
			if got := evaluation.AgentName(agent); got != name {
				t.Errorf("status.agent is %q, want %q", got, name)
			}
		})
	}
}

func TestKeysReachRunnersAsReferences(t *testing.T) {
	for name, want := range map[string]string{"Heuristic": "", "gpt-x": "models", "agent.example:8443": "agent",
		"registry.example/agent:1": ""} {
		t.Run(name, func(t *testing.T) {
			run, env := runtest.NewRun(), runtest.NewPool()
			run.Spec.Agent = runtest.ListAgents()[name]
			env.Spec.Access.TokenSecretRef = runtest.SecretKey("pool-tokens")
			job := makeJob(run, env, 1)
			got := runtest.SecretFiles(job)
			wanted := map[string]string{envvars.PoolToken: "pool-tokens/key",
				envvars.RunCredential: runner.NameCredential(run) + "/" + runner.CredentialKey}
			if want != "" {
				wanted[envvars.AgentKey] = want + "/key"
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Error(diff)
			}
			pod := job.Spec.Template.Spec
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				if mounts := fmt.Sprint(c.VolumeMounts); strings.Contains(mounts, "csenv-secrets") != (c.Name == runner.Container) {
					t.Errorf("the container %s mounts %s", c.Name, mounts)
				}
				if c.Name == runner.Container && strings.Contains(fmt.Sprint(c.Env, c.EnvFrom), "SecretKeyRef") {
					t.Errorf("secrets are variables: %v", c.Env)
				}
			}
		})
	}
}

// A Secret that is missing shows only as a volume that can't be mounted.
func TestSecretsThatRunnersNeedAreNamed(t *testing.T) {
	run, env := runtest.NewRun(), runtest.NewPool()
	run.Spec.Agent = runtest.ListAgents()["gpt-x"]
	run.Spec.Results = &v1alpha1.Results{URL: "s3://b", CredentialsSecretRef: &v1alpha1.ObjectReference{Name: "aws"}}
	env.Spec.Access.TokenSecretRef = runtest.SecretKey("pool-tokens")
	for what, tt := range map[string]struct {
		run  *v1alpha1.EvaluationRun
		want string
	}{
		"some": {run, "; the runner needs the Secret models with the key key " +
			"(`kubectl create secret generic models -n default --from-literal=key=VALUE`), and pool-tokens with the key key " +
			"(`kubectl create secret generic pool-tokens -n default --from-literal=key=VALUE`), and aws"},
		"none": {runtest.NewRun(), "that the node lacks"},
	} {
		pod := runtest.RunnerWaits(runtest.RunnerPod(run, 0), "ContainerCreating")
		pool := env
		if what == "none" {
			pool = runtest.NewPool()
		}
		pod.Spec.Volumes = makeJob(tt.run, pool, 1).Spec.Template.Spec.Volumes
		trouble := runner.FindStartTrouble([]corev1.Pod{*pod}, nil, runtest.StartTime().Add(time.Hour))
		if !strings.HasSuffix(trouble.Why, tt.want) {
			t.Errorf("%s: %s", what, trouble.Why)
		}
	}
}

// A run that was stored before the API server refused its variables gets none of them.
func TestRunnersGetNoOtherVariables(t *testing.T) {
	run := runtest.NewRun()
	run.Spec.Results = &v1alpha1.Results{URL: "s3://b/$(CSENV_RUN_CREDENTIAL)",
		CredentialsSecretRef: &v1alpha1.ObjectReference{Name: "aws"}}
	run.Spec.Template = &v1alpha1.PodOverrides{}
	for _, name := range []string{"PATH", "LD_PRELOAD", "GODEBUG", "GOTRACEBACK", "AWS_CONFIG_FILE", "AWS_PROFILE",
		"GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "AZURE_TOKEN_CREDENTIALS", "HOME", "HTTPS_PROXY", "OTEL_SDK_DISABLED"} {
		run.Spec.Template.Env = append(run.Spec.Template.Env, corev1.EnvVar{Name: name, Value: "x"})
	}
	container := makeJob(run, runtest.NewPool(), 1).Spec.Template.Spec.Containers[0]
	var got []string
	for _, v := range container.Env {
		got = append(got, v.Name)
	}
	if diff := cmp.Diff([]string{"POD_NAME", "GOMEMLIMIT", "HTTPS_PROXY", "OTEL_SDK_DISABLED"}, got); diff != "" {
		t.Error(diff)
	}
	// Kubernetes expands $(NAME) in arguments.
	if args := strings.Join(container.Args, " "); !strings.Contains(args, "--results=s3://b/$$(CSENV_RUN_CREDENTIAL)/") {
		t.Errorf("arguments %s", args)
	}
}

func TestAgentContainerIsARestrictedSidecar(t *testing.T) {
	run := runtest.NewRun()
	run.Spec.Agent = runtest.ListAgents()["registry.example/agent:1"]
	pod := makeJob(run, runtest.NewPool(), 1).Spec.Template.Spec
	if len(pod.InitContainers) != 1 {
		t.Fatalf("%d init containers, want the agent", len(pod.InitContainers))
	}
	agent := pod.InitContainers[0]
	if *agent.RestartPolicy != corev1.ContainerRestartPolicyAlways ||
		agent.StartupProbe.TCPSocket.Port.IntValue() != 9000 || agent.Image != "registry.example/agent:1" {
		t.Errorf("the agent's container is %+v", agent)
	}
	if c := agent.SecurityContext; c == nil || *c.AllowPrivilegeEscalation || len(c.Capabilities.Drop) != 1 ||
		c.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the agent's container isn't restricted: %+v", c)
	}
	// The name of a user's volume is never that of the run's own.
	if agent.StartupProbe.FailureThreshold != 3600 || agent.EnvFrom[0].SecretRef.Name != "agent" ||
		len(agent.VolumeMounts) != 1 || agent.VolumeMounts[0].Name != "custom-plan" {
		t.Errorf("the agent's container is %+v", agent)
	}
	if diff := cmp.Diff([]corev1.EnvVar{{Name: "MODEL", Value: "x"}}, agent.Env); diff != "" {
		t.Errorf("the agent's variables: %s", diff)
	}
}

func TestResultsReachTheStore(t *testing.T) {
	run := runtest.NewRun()
	run.Spec.Results = &v1alpha1.Results{URL: "s3://bucket/prefix", CredentialsSecretRef: &v1alpha1.ObjectReference{
		Name: "aws"}}
	stored := makeJob(run, runtest.NewPool(), 1).Spec.Template.Spec
	if c := stored.Containers[0]; len(c.EnvFrom) != 0 || stored.Volumes[2].Secret.SecretName != "aws" ||
		c.VolumeMounts[2].MountPath != "/etc/csenv-store" || !slices.Contains(c.Args, "--store-credentials=/etc/csenv-store") {
		t.Errorf("the runner of a store is %+v", c)
	}
	run.Spec.Results = &v1alpha1.Results{PersistentVolumeClaim: &v1alpha1.VolumeClaimReference{ClaimName: "episodes"}}
	pod := makeJob(run, runtest.NewPool(), 1).Spec.Template.Spec
	if pod.Volumes[2].PersistentVolumeClaim.ClaimName != "episodes" ||
		pod.Containers[0].VolumeMounts[2].MountPath != "/results" || *pod.SecurityContext.FSGroup != 65532 {
		t.Errorf("volumes %+v, mounts %+v, security %+v", pod.Volumes, pod.Containers[0].VolumeMounts,
			pod.SecurityContext)
	}
	run.Spec.Results.PersistentVolumeClaim.FSGroup = v1alpha1.UnsetVolumeGroup
	pod = makeJob(run, runtest.NewPool(), 1).Spec.Template.Spec
	if c := pod.SecurityContext; c != nil && c.FSGroup != nil {
		t.Errorf("the volume's group is %d", *c.FSGroup)
	}
}

func TestRunnerJob(t *testing.T) {
	run := runtest.NewRun()
	run.Labels = map[string]string{"team": "a", runner.LabelQueue: "gpus", v1alpha1.LabelRun: "another"}
	wish := runner.JobSpec{JobAttempt: 2, Digest: "sha256:0"}
	for _, shard := range []int64{1, 3, 5} {
		wish.Shards.Add(shard)
	}
	job := runner.MakeJob(run, runtest.NewPool(), runner.Options{Image: runtest.OperatorImage}, wish)
	pod := job.Spec.Template.Spec
	wantArgs := []string{
		"--plan=/etc/csenv/plan.json", "--shards=1,3,5", "--shard=$(JOB_COMPLETION_INDEX)",
		"--pool=support-pods.default.svc:8000", "--agent=@/etc/csenv/agent.json", "--inputs=sha256:0",
		"--secrets=/etc/csenv-secrets", "--agent-share=3", "--concurrency=16", "--episode-attempts=3", "--termination-log=/dev/termination-log", "--run=default/baseline",
	}
	if diff := cmp.Diff(wantArgs, pod.Containers[0].Args); diff != "" {
		t.Error(diff)
	}
	if *job.Spec.Completions != 3 || *job.Spec.Parallelism != 3 || *job.Spec.BackoffLimitPerIndex != 2 ||
		*job.Spec.Suspend {
		t.Errorf("completions %d, parallelism %d, backoff limit %d, suspended %v", *job.Spec.Completions,
			*job.Spec.Parallelism, *job.Spec.BackoffLimitPerIndex, *job.Spec.Suspend)
	}
	if diff := cmp.Diff([]string{runner.SummaryFinalizer}, job.Spec.Template.Finalizers); diff != "" {
		t.Error(diff)
	}
	if *pod.AutomountServiceAccountToken || pod.RestartPolicy != corev1.RestartPolicyNever {
		t.Error("a runner has a token, or is restarted in place")
	}
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		if labels[v1alpha1.LabelManagedBy] != v1alpha1.LabelManagedByValue || labels[v1alpha1.LabelRun] != runtest.RunName ||
			labels[runner.LabelRunUID] != "run-uid" {
			t.Errorf("labels %v: the operator's cache would omit it", labels)
		}
	}
	for label, want := range map[string]string{runner.LabelQueue: "gpus", "team": "a"} {
		if got, pods := job.Labels[label], job.Spec.Template.Labels[label]; got != want || pods != "" {
			t.Errorf("label %s of the Job is %q, of its pods %q: they would wait in a queue, or a Service selects them",
				label, got, pods)
		}
	}
	if runner.ReadJobAttempt(job) != 2 {
		t.Errorf("job attempt %d, want 2", runner.ReadJobAttempt(job))
	}
	if diff := cmp.Diff(job, runner.MakeJob(run, runtest.NewPool(), runner.Options{Image: runtest.OperatorImage}, wish)); diff != "" {
		t.Errorf("two Jobs of one run differ: %s", diff)
	}
}

func TestRunnerJobFollowsTheSpec(t *testing.T) {
	run, wish := runtest.NewRun(), runner.JobSpec{JobAttempt: 1, Shards: runtest.AllShards()}
	run.Spec.Parallelism, run.Spec.Retries.ShardBackoffLimit = ptr.To[int32](2), ptr.To[int32](0)
	if job := runner.MakeJob(run, runtest.NewPool(), runner.Options{Image: runtest.OperatorImage}, wish); *job.Spec.Parallelism != 2 || *job.Spec.BackoffLimitPerIndex != 0 {
		t.Errorf("parallelism %d, backoff limit %d, want 2 and 0", *job.Spec.Parallelism,
			*job.Spec.BackoffLimitPerIndex)
	}
}

// Repeated reports of a runner don't count as failures, except those that only a user can resolve.
func TestJobEndsWhenTheAgentIsRefused(t *testing.T) {
	actions := map[int32]batchv1.PodFailurePolicyAction{}
	for _, rule := range runner.MakeJob(runtest.NewRun(), runtest.NewPool(), runner.Options{}, runner.JobSpec{}).Spec.PodFailurePolicy.Rules {
		if rule.OnExitCodes != nil {
			for _, code := range rule.OnExitCodes.Values {
				actions[code] = rule.Action
			}
		}
	}
	if actions[score.ExitAgentRefused] != batchv1.PodFailurePolicyActionFailJob ||
		actions[score.ExitStopped] != batchv1.PodFailurePolicyActionIgnore {
		t.Errorf("actions %v", actions)
	}
}

// Runners find their inputs as the same files, whether the Job or a ConfigMap contains them.
func TestInputsOfRunners(t *testing.T) {
	inputs := map[string]string{runner.PlanKey: `{"run":"run-uid"}`, runner.AgentKey: `{"prompt":"$(HOME)\u0001"}`}
	run := runtest.NewRun()
	job := runner.MakeJob(run, nil, runner.Options{}, runner.JobSpec{Inputs: inputs})
	if diff := cmp.Diff(inputs, runner.ReadInputs(&job.Spec.Template)); diff != "" {
		t.Error(diff)
	}
	if runner.ReadInputs(job) != nil {
		t.Error("the Job has another copy in its own annotations")
	}
	files := map[string]string{}
	for _, item := range job.Spec.Template.Spec.Volumes[0].DownwardAPI.Items {
		files[item.Path] = item.FieldRef.FieldPath
	}
	if diff := cmp.Diff(map[string]string{"plan.json": "metadata.annotations['csenv.dev/plan.json']",
		"agent.json": "metadata.annotations['csenv.dev/agent.json']"}, files); diff != "" {
		t.Error(diff)
	}
	job = makeJob(run, nil, 1)
	if job.Spec.Template.Spec.Volumes[0].ConfigMap.Name != runner.PlanName(run) ||
		runner.ReadInputs(&job.Spec.Template) != nil {
		t.Errorf("volumes %+v", job.Spec.Template.Spec.Volumes)
	}
	if inputs[runner.AgentKey] = strings.Repeat("x", 8<<10); runner.FitsJob(inputs) {
		t.Error("each pod would have a copy of large inputs")
	}
}

// The author of a run can't have its pods say that runners before them were stopped, whose attempts
// need no report.
func TestAnnotationsOfTheJobControllerAreItsOwn(t *testing.T) {
	run := runtest.NewRun()
	run.Spec.Template = &v1alpha1.PodOverrides{Annotations: map[string]string{
		batchv1.JobIndexIgnoredFailureCountAnnotation: "1000", batchv1.JobIndexFailureCountAnnotation: "1000",
		runner.AnnotationJobAttempt: "1000", "csenv.dev/continues": "1000"}}
	job := runner.MakeJob(run, nil, runner.Options{}, runner.JobSpec{JobAttempt: 1, Shards: runtest.AllShards()})
	pod := &corev1.Pod{ObjectMeta: job.Spec.Template.ObjectMeta}
	if got := runner.CountStopped(pod); got != 0 {
		t.Errorf("%d runners were stopped", got)
	}
	pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = "2"
	pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = "1"
	pod.Annotations[runner.AnnotationJobAttempt] = "2"
	if got := runner.CountStopped(pod); got != 4 {
		t.Errorf("%d runners were stopped, want 4", got)
	}
}
