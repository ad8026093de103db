package workswith_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

const (
	judges      = "Allowed are: Offline, https://api.openai.com/v1 gpt-4.1-2025-04-14"
	images      = "Images must begin with: registry.example/csenv/, registry.example/agents/"
	servers     = "at most 20 servers"
	budget      = "may be at most 50000000 tokens"
	bounded     = "needs spec.activeDeadlineSeconds, and requestsPerMinute and maxTokens"
	grownTrials = "at most 64 trials"
)

func judgedBy(baseURL, model string) func(*v1alpha1.CustomerSupportEnv) {
	return func(env *v1alpha1.CustomerSupportEnv) {
		env.Spec.Judge = v1alpha1.Judge{Type: v1alpha1.LLMJudge,
			LLM: &v1alpha1.LLMJudgeSpec{BaseURL: baseURL, Model: model}}
	}
}

// poolCases are changes of a pool that the policies allow, or refuse with a message.
var poolCases = map[string]struct {
	change func(*v1alpha1.CustomerSupportEnv)
	want   string
}{
	"the defaults":      {func(*v1alpha1.CustomerSupportEnv) {}, ""},
	"the allowed judge": {judgedBy("https://api.openai.com/v1", "gpt-4.1-2025-04-14"), ""},
	"another model":     {judgedBy("https://api.openai.com/v1", "gpt-4.1"), judges},
	"another endpoint":  {judgedBy("http://judge.default/v1", "gpt-4.1-2025-04-14"), judges},
	"two scales": {func(env *v1alpha1.CustomerSupportEnv) {
		judgedBy("https://api.openai.com/v1", "gpt-4.1-2025-04-14")(env)
		env.Spec.Judge.LLM.OnFailure = v1alpha1.JudgeFailureOffline
	}, "onFailure must be Error"},
	"an allowed image": {func(env *v1alpha1.CustomerSupportEnv) {
		env.Spec.Image = "registry.example/csenv/csenv:v1"
	}, ""},
	"another image": {func(env *v1alpha1.CustomerSupportEnv) {
		env.Spec.Image = "registry.example/csenv-forged:v1"
	}, images},
	"as many servers as allowed": {func(env *v1alpha1.CustomerSupportEnv) {
		env.Spec.Replicas = new(int32(20))
	}, ""},
	"too many servers": {func(env *v1alpha1.CustomerSupportEnv) { env.Spec.Replicas = new(int32(21)) }, servers},
	"autoscaling": {func(env *v1alpha1.CustomerSupportEnv) {
		env.Spec.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 20}
	}, ""},
	"autoscaling without end": {func(env *v1alpha1.CustomerSupportEnv) {
		env.Spec.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 21}
	}, servers},
}

func newPool(change func(*v1alpha1.CustomerSupportEnv)) *v1alpha1.CustomerSupportEnv {
	env := &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Name: "pool", Namespace: corev1.NamespaceDefault}}
	change(env)
	return env
}

func withModel(perMinute, seconds, tokens, attempt int32) func(*v1alpha1.EvaluationRun) {
	return func(run *v1alpha1.EvaluationRun) {
		run.Spec.Agent = v1alpha1.Agent{Type: v1alpha1.OpenAIAgent, OpenAI: &v1alpha1.OpenAIAgentSpec{
			BaseURL: "https://api.openai.com/v1", Model: "gpt-4.1-mini-2025-04-14",
			RequestsPerMinute: &perMinute, MaxTokens: &tokens}}
		run.Spec.ActiveDeadlineSeconds, run.Spec.Attempt = &seconds, &attempt
	}
}

func inContainer(image string) func(*v1alpha1.EvaluationRun) {
	return func(run *v1alpha1.EvaluationRun) {
		run.Spec.Agent = v1alpha1.Agent{Type: v1alpha1.ContainerAgent,
			Container: &v1alpha1.ContainerAgentSpec{Image: image}}
	}
}

// runCases are changes of a run that the policies allow, or refuse with a message.
var runCases = map[string]struct {
	change func(*v1alpha1.EvaluationRun)
	want   string
}{
	"a small run":      {func(*v1alpha1.EvaluationRun) {}, ""},
	"an allowed image": {inContainer("registry.example/agents/a@sha256:0"), ""},
	"another image":    {inContainer("docker.io/library/agent"), images},
	"trials of two tasks": {func(run *v1alpha1.EvaluationRun) {
		run.Spec.Tasks = []v1alpha1.TaskSelection{{Name: "ticket-classify", Trials: 32},
			{Name: "ticket-resolve", Trials: 32}}
	}, ""},
	"too many trials": {func(run *v1alpha1.EvaluationRun) {
		run.Spec.Tasks = []v1alpha1.TaskSelection{{Name: "ticket-classify", Trials: 32},
			{Name: "ticket-resolve", Trials: 33}}
	}, grownTrials},
	"too many runners": {func(run *v1alpha1.EvaluationRun) {
		run.Spec.Parallelism, run.Spec.Concurrency = new(int32(17)), new(int32(1))
	}, "spec.parallelism may be at most 16"},
	"too many episodes at once": {func(run *v1alpha1.EvaluationRun) {
		run.Spec.Parallelism, run.Spec.Concurrency = new(int32(16)), new(int32(17))
	}, "may be at most 256"},
	"collected episodes": {func(run *v1alpha1.EvaluationRun) {
		run.Spec.Agent, run.Spec.Tasks = v1alpha1.Agent{Type: v1alpha1.ExternalAgent}, nil
	}, ""},
	"a model within the budget": {withModel(1000, 3000, 1000, 1), ""},
	"a model beyond the budget": {withModel(1000, 3060, 1000, 1), budget},
	"a second attempt":          {withModel(1000, 3000, 1000, 2), budget},
	"a budget that overflows":   {withModel(1_000_000, 2_592_000, 1_048_576, 1000), "run-ceilings"},
	"a model without a rate": {func(run *v1alpha1.EvaluationRun) {
		withModel(1, 1, 1, 1)(run)
		run.Spec.Agent.OpenAI.RequestsPerMinute = nil
	}, bounded},
	"a model without a length": {func(run *v1alpha1.EvaluationRun) {
		withModel(1, 1, 1, 1)(run)
		run.Spec.Agent.OpenAI.MaxTokens = nil
	}, bounded},
	"a model without a deadline": {func(run *v1alpha1.EvaluationRun) {
		withModel(1, 1, 1, 1)(run)
		run.Spec.ActiveDeadlineSeconds = nil
	}, bounded},
	"kept too long": {func(run *v1alpha1.EvaluationRun) {
		run.Spec.TTLSecondsAfterFinished = new(int32(604801))
	}, "at most 604800"},
	"kept for ever": {func(run *v1alpha1.EvaluationRun) { run.Spec.TTLSecondsAfterFinished = nil }, "at most 604800"},
}

func newRun(change func(*v1alpha1.EvaluationRun)) *v1alpha1.EvaluationRun {
	run := &v1alpha1.EvaluationRun{
		ObjectMeta: metav1.ObjectMeta{Name: "run", Namespace: corev1.NamespaceDefault},
		Spec: v1alpha1.EvaluationRunSpec{
			EnvironmentRef: v1alpha1.EnvironmentReference{Name: "pool"},
			Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
				Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.NoopPolicy}},
			Tasks:                   []v1alpha1.TaskSelection{{Name: "ticket-classify"}},
			TTLSecondsAfterFinished: new(int32(3600)),
		},
	}
	change(run)
	return run
}

// policies applies the admission policies and then pools and runs.
func (c cluster) policies(t *testing.T) {
	old := newPool(func(env *v1alpha1.CustomerSupportEnv) {
		judgedBy("http://judge.default/v1", "old")(env)
		env.Name, env.Spec.Image, env.Spec.Replicas = "old", "docker.io/old", new(int32(30))
	})
	if err := c.client.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"limits", "judges", "images", "ceilings"} {
		c.create(t, "admission/"+file+".yaml")
	}
	c.awaitPolicies(t)
	for name, tt := range poolCases {
		t.Run("a pool with "+name, func(t *testing.T) {
			expect(t, c.client.Create(t.Context(), newPool(tt.change), client.DryRunAll), tt.want)
		})
	}
	for name, tt := range runCases {
		t.Run("a run: "+name, func(t *testing.T) {
			expect(t, c.client.Create(t.Context(), newRun(tt.change), client.DryRunAll), tt.want)
		})
	}
	t.Run("changes", func(t *testing.T) { c.changes(t, old) })
}

// changes changes objects, also one that is older than the policies.
func (c cluster) changes(t *testing.T, old *v1alpha1.CustomerSupportEnv) {
	update := func(object client.Object, change func(), want string) {
		t.Helper()
		if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		change()
		expect(t, c.client.Update(t.Context(), object, client.DryRunAll), want)
	}
	update(old, func() { old.Spec.OperatingMode = v1alpha1.SuspendedMode }, "")
	update(old, func() { old.Spec.Replicas = new(int32(25)) }, "")
	update(old, func() { old.Spec.Replicas = new(int32(31)) }, servers)
	update(old, func() { old.Spec.Judge.LLM.Model = "other" }, judges)
	update(old, func() { old.Spec.Image = "docker.io/other" }, images)

	scaled := newPool(func(*v1alpha1.CustomerSupportEnv) {})
	run := newRun(func(*v1alpha1.EvaluationRun) {})
	for _, object := range []client.Object{scaled, run} {
		if err := c.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for replicas, want := range map[int32]string{20: "", 21: servers} {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
		expect(t, c.client.SubResource("scale").Update(t.Context(), scaled, client.WithSubResourceBody(scale),
			client.DryRunAll), want)
	}
	update(run, func() { run.Spec.Parallelism = new(int32(17)) }, "spec.parallelism may be at most 16")
	update(run, func() { run.Spec.TTLSecondsAfterFinished = nil }, "at most 604800")
	update(run, func() { run.Spec.Suspend = new(true) }, "")

	// A policy whose ConfigMap is missing refuses everything.
	if err := c.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "csenv-system",
		Name: "csenv-limits"}}); err != nil {
		t.Fatal(err)
	}
	wire.AwaitCondition(t, "a missing ConfigMap has an effect", func() bool {
		err := c.client.Create(t.Context(), newRun(func(run *v1alpha1.EvaluationRun) { run.Name = "other" }), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "no params found")
	})
}

// expect compares an error with part of its text, "" for no error.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// awaitPolicies waits until the API server follows its policies and has checked their types.
func (c cluster) awaitPolicies(t *testing.T) {
	t.Helper()
	for name, probe := range map[string]client.Object{
		"csenv-judges":        newPool(judgedBy("http://judge.default/v1", "probe")),
		"csenv-images":        newRun(inContainer("docker.io/probe")),
		"csenv-pool-ceilings": newPool(func(env *v1alpha1.CustomerSupportEnv) { env.Spec.Replicas = new(int32(21)) }),
		"csenv-run-ceilings":  newRun(func(run *v1alpha1.EvaluationRun) { run.Spec.Parallelism = new(int32(17)) }),
	} {
		wire.AwaitCondition(t, name+" has an effect", func() bool {
			err := c.client.Create(t.Context(), probe, client.DryRunAll)
			return err != nil && strings.Contains(err.Error(), name)
		})
	}
	var list admissionv1.ValidatingAdmissionPolicyList
	wire.AwaitCondition(t, "the types of the policies are checked", func() bool {
		if err := c.client.List(t.Context(), &list); err != nil {
			return false
		}
		for _, policy := range list.Items {
			if policy.Status.TypeChecking == nil {
				return false
			}
		}
		return len(list.Items) == 4
	})
	for _, policy := range list.Items {
		for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
			t.Errorf("%s %s: %s", policy.Name, warning.FieldRef, warning.Warning)
		}
	}
}
