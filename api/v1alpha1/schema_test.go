package v1alpha1_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/internal/testkit/apiserver"
)

var apiServer apiserver.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	if err := apiServer.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		code = 1
	}
	os.Exit(code)
}

// newClient returns a client of the default namespace.
func newClient(t *testing.T) (client.Client, *rest.Config) {
	t.Helper()
	config := apiServer.Get(t).Config
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, autoscalingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return client.NewNamespacedClient(c, "default"), config
}

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// pool is the manifest of a CustomerSupportEnv with a spec in YAML's flow style.
func pool(name, spec string) string {
	return fmt.Sprintf("{apiVersion: csenv.dev/v1alpha1, kind: CustomerSupportEnv, metadata: {name: %s}, spec: %s}",
		name, spec)
}

// run is the manifest of an EvaluationRun: the least that is allowed, and more fields of the spec.
func run(name string, more ...string) string {
	spec := append([]string{"environmentRef: {name: support}", "agent: {type: Builtin, builtin: {policy: 'Null'}}",
		"tasks: [{name: ticket-resolve}]"}, more...)
	return fmt.Sprintf("{apiVersion: csenv.dev/v1alpha1, kind: EvaluationRun, metadata: {name: %s}, spec: {%s}}", name,
		strings.Join(spec, ", "))
}

// rollouts is the manifest of a run of what trainers bring.
func rollouts(name, agent string, more ...string) string {
	spec := append([]string{"environmentRef: {name: support}", "agent: " + agent}, more...)
	return fmt.Sprintf("{apiVersion: csenv.dev/v1alpha1, kind: EvaluationRun, metadata: {name: %s}, spec: {%s}}", name,
		strings.Join(spec, ", "))
}

// runWith is run with one of its fields put another way.
func runWith(name, field, instead string) string {
	return strings.Replace(run(name), field, instead, 1)
}

func TestPoolDefaults(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	object := parse(t, "{apiVersion: csenv.dev/v1alpha1, kind: CustomerSupportEnv, metadata: {name: defaults}}")
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	got := &v1alpha1.CustomerSupportEnv{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), got); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.CustomerSupportEnvSpec{
		Environment:   v1alpha1.TicketEnvironment,
		OperatingMode: v1alpha1.RunningMode,
		Replicas:      new(int32(1)),
		Sessions: v1alpha1.SessionLimits{
			PerPod: 2000, IdleTimeoutSeconds: new(int32(600)), MaxDurationSeconds: new(int32(7200)),
		},
		DrainTimeoutSeconds: new(int32(3600)),
		RewardMode:          v1alpha1.DenseReward,
		Judge:               v1alpha1.Judge{Type: v1alpha1.OfflineJudge},
		Access: v1alpha1.Access{AllowedNamespaces: v1alpha1.AllowedNamespaces{
			From: v1alpha1.SameNamespace}},
		Service:       v1alpha1.PoolService{Type: v1alpha1.ClusterIPService},
		NetworkPolicy: v1alpha1.ManagedNetworkPolicy,
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestRunDefaults(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	object := parse(t, run("run-defaults"))
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	got := &v1alpha1.EvaluationRun{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), got); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.EvaluationRunSpec{
		EnvironmentRef: v1alpha1.EnvironmentReference{Name: "support"},
		Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
			Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.NullPolicy}},
		Tasks:       []v1alpha1.TaskSelection{{Name: "ticket-resolve", Trials: 1}},
		Seed:        new(int64(0)),
		Pressure:    v1alpha1.NoPressure,
		Parallelism: new(int32(1)),
		Concurrency: new(int32(16)),
		Retries: v1alpha1.Retries{EpisodeAttempts: 3, ShardBackoffLimit: new(int32(2)),
			MaxErroredPercent: new(int32(5))},
		PassScore: "0.8",
		Retain:    v1alpha1.RetainOnFailure,
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestSamplesAreValid(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("samples: %v, %v", files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
		if err := strict.Create(t.Context(), parse(t, string(data)), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	tests := map[string]struct{ manifest, wantErr string }{
		"a pool with everything": {pool("everything", "{environment: Workflow, image: 'registry.example/csenv:1', "+
			"replicas: 0, drainTimeoutSeconds: 0, rewardMode: Terminal, "+
			"judge: {type: Offline}, sessions: {perPod: 100000, idleTimeoutSeconds: 0, maxDurationSeconds: 0}}"), ""},
		"a pool of packs, judged by a model": {pool("packs", "{scenarios: {splits: [Test, Private], packs: "+
			"[{configMap: {name: acme}}, {secret: {name: held-out}}]}, judge: {type: LLM, llm: "+
			"{baseURL: 'https://models.example/v1', model: judge-2026-01-01, apiKeySecretRef: {name: models, key: "+
			"token}, maxConcurrency: 1024, timeoutSeconds: 600, onFailure: Offline}}}"), ""},
		"a pool of special pods": {pool("special", "{template: {labels: {team: a}, annotations: "+
			"{prometheus.io/scrape: 'true'}, env: [{name: HTTPS_PROXY, value: x}], resources: {limits: {memory: 4Gi}}, "+
			"nodeSelector: {disk: fast}, tolerations: [{operator: Exists}], priorityClassName: high, "+
			"runtimeClassName: gvisor, serviceAccountName: puller, imagePullSecrets: [{name: registry}], "+
			"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}, "+
			"service: {type: LoadBalancer, annotations: {example.com/internal: 'true'}}, "+
			"networkPolicy: Unmanaged, access: {tokenSecretRef: {name: t, key: k}, allowedNamespaces: {from: "+
			"Selector, selector: {matchLabels: {team: a}}}}}"), ""},
		"a model of a long name at a port": {pool("port", "{judge: {type: LLM, llm: {baseURL: 'http://[::1]:8080', "+
			"model: 'acme/judge@v1:fast~2026-01-01'}}}"), ""},
		"a run with everything": {run("everything", "seed: 9007199254740991", "parallelism: 1000", "concurrency: 1024",
			"pressure: ResponseTime", "passScore: '1.000000'",
			"retries: {episodeAttempts: 10, shardBackoffLimit: 0, maxErroredPercent: 100}"), ""},
		"a run of some scenarios": {runWith("some", "{name: ticket-resolve}",
			"{name: ticket-resolve, trials: 1000, scenarios: {ids: [B01], categories: [billing]}}"), ""},

		"a pool that scales itself": {pool("scales", "{autoscaling: {minReplicas: 0, maxReplicas: 50, freeSessions: "+
			"500, scaleDownDelaySeconds: 0}}"), ""},
		"a pool with a free share": {pool("share", "{autoscaling: {maxReplicas: 3, freeSessions: '25%'}, "+
			"operatingMode: Suspended}"), ""},
		"a shared pool": {pool("shared", "{access: {tokenSecretRef: {name: clients, key: tokens}, allowedNamespaces: "+
			"{from: Selector, selector: {matchLabels: {team: rl}}}}, "+
			"service: {type: LoadBalancer, annotations: {a/b: c}}, networkPolicy: Unmanaged, template: {labels: "+
			"{team: rl}, resources: {limits: {memory: 1Gi}}, env: [{name: A, value: b}], "+
			"nodeSelector: {disk: ssd}, tolerations: [{operator: Exists}], priorityClassName: low, imagePullSecrets: "+
			"[{name: pull}]}}"), ""},
		"a run of a model": {runWith("model", "{type: Builtin, builtin: {policy: 'Null'}}",
			"{type: OpenAI, openAI: {baseURL: 'https://models.example/v1', model: m, apiKeySecretRef: {name: k, key: k}, "+
				"mode: JSON, temperature: '0.7', maxTokens: 512, requestsPerMinute: 60, timeoutSeconds: 30, "+
				"systemPrompt: Help., extraBody: {top_k: 5, nested: {a: [1]}}}}"), ""},
		"a run of a URL": {runWith("url", "{type: Builtin, builtin: {policy: 'Null'}}",
			"{type: HTTP, http: {url: 'http://agent:8080/act?a=b', tokenSecretRef: {name: a, key: t}}}"), ""},
		"a run of a container": {runWith("container", "{type: Builtin, builtin: {policy: 'Null'}}",
			"{type: Container, container: {image: 'agent:1', args: [serve], env: [{name: A, value: b}], port: 9, "+
				"path: /act}}"), ""},
		"a run of what trainers bring": {rollouts("rollouts", "{type: External}"), ""},
		"a run of many of them": {rollouts("many", "{type: External, external: {episodes: 2147483648}}",
			"baselineRef: {name: last}", "thresholds: [{metric: passRate, min: '1'}]"), ""},
		"a run of any number, for now": {rollouts("any", "{type: External, external: {}}", "activeDeadlineSeconds: 60",
			"suspend: true"), ""},
		"a run with a life": {run("life", "suspend: true", "startDeadlineSeconds: 60", "activeDeadlineSeconds: 3600",
			"ttlSecondsAfterFinished: 0", "retain: Never", "baselineRef: {name: last}",
			"thresholds: [{metric: meanScore, min: '0.7'}, {metric: passHat8, min: '0'}]",
			"results: {url: 's3://bucket/prefix?region=eu-west-1', credentialsSecretRef: {name: s3}}"), ""},
		"a run into a bucket of odd letters": {run("odd",
			`results: {url: 'gs://b/!"$%&()*+,-.:;<=>?[]^_{|}~/l%C3%A4ufe'}`), ""},
		"a run into a volume": {run("volume", "results: {persistentVolumeClaim: {claimName: results}}"),
			""},

		"no most of servers": {pool("bad", "{autoscaling: {minReplicas: 1}}"),
			"spec.autoscaling.maxReplicas"},
		"more at least than at most": {pool("bad", "{autoscaling: {minReplicas: 5, maxReplicas: 4}}"),
			"minReplicas must not exceed maxReplicas"},
		"more at least, by default": {pool("bad", "{autoscaling: {maxReplicas: 0}}"),
			"greater than or equal to 1"},
		"a free share of all": {pool("bad", "{autoscaling: {maxReplicas: 5, freeSessions: '100%'}}"),
			"from \"0%\" to \"99%\""},
		"a free share without a sign": {pool("bad", "{autoscaling: {maxReplicas: 5, freeSessions: '5'}}"),
			"from \"0%\" to \"99%\""},
		"fewer than no free sessions": {pool("bad", "{autoscaling: {maxReplicas: 5, freeSessions: -5}}"),
			"a number of sessions or a share"},
		"selected by nothing": {pool("bad", "{access: {allowedNamespaces: {from: Selector}}}"),
			"selector is required if from is Selector"},
		"a selector for all": {pool("bad", "{access: {allowedNamespaces: {from: All, selector: "+
			"{matchLabels: {a: b}}}}}"), "selector is required if from is Selector"},
		"another mode": {pool("bad", "{operatingMode: Paused}"),
			"supported values: \"Running\", \"Suspended\""},
		"another type of Service": {pool("bad", "{service: {type: ExternalName}}"),
			"supported values: \"ClusterIP\""},
		"a model without its part": {runWith("bad", "{type: Builtin, builtin: {policy: 'Null'}}",
			"{type: OpenAI}"), "openAI is required when type is OpenAI"},
		"a model and a policy": {runWith("bad", "type: Builtin", "type: HTTP"),
			"builtin is required when type is Builtin"},
		"a model's URL with a key": {runWith("bad", "{type: Builtin, builtin: {policy: 'Null'}}",
			"{type: OpenAI, openAI: {baseURL: 'https://m.example/v1?key=x', model: m}}"), "should match"},
		"too hot": {runWith("bad", "{type: Builtin, builtin: {policy: 'Null'}}",
			"{type: OpenAI, openAI: {baseURL: 'https://m.example/v1', model: m, temperature: '2.1'}}"), "should match"},
		"another metric": {run("bad", "thresholds: [{metric: median, min: '0.7'}]"),
			"supported values: \"meanScore\""},
		"a threshold twice": {run("bad", "thresholds: [{metric: meanScore, min: '0.7'}, {metric: "+
			"meanScore, min: '0.8'}]"), "Duplicate value"},
		"results in two places": {run("bad", "results: {url: 's3://bucket', persistentVolumeClaim: "+
			"{claimName: a}}"), "exactly one of url and persistentVolumeClaim is required"},
		"results nowhere": {run("bad", "results: {}"),
			"exactly one of url and persistentVolumeClaim is required"},
		"results with a password inside": {run("bad", "results: {url: 's3://me:secret@bucket'}"), "should match"},
		"results with a fragment":        {run("bad", "results: {url: 's3://bucket/a#b'}"), "should match"},
		"results in a space":             {run("bad", "results: {url: 's3://bucket/a b'}"), "should match"},
		"results beyond ASCII":           {run("bad", "results: {url: 's3://bucket/läufe'}"), "should match"},
		"a volume with credentials": {run("bad", "results: {persistentVolumeClaim: {claimName: a}, "+
			"credentialsSecretRef: {name: b}}"), "credentialsSecretRef requires results.url"},

		"another environment": {pool("bad", "{environment: Chess}"),
			"supported values: \"Ticket\", \"Workflow\""},
		"no image":              {pool("bad", "{image: ''}"), "spec.image"},
		"too many servers":      {pool("bad", "{replicas: 1001}"), "less than or equal to 1000"},
		"fewer than no servers": {pool("bad", "{replicas: -1}"), "greater than or equal to 0"},
		"no sessions":           {pool("bad", "{sessions: {perPod: 0}}"), "greater than or equal to 1"},
		"too many sessions":     {pool("bad", "{sessions: {perPod: 100001}}"), "less than or equal to 100000"},
		"an endless drain":      {pool("bad", "{drainTimeoutSeconds: 86401}"), "less than or equal to 86400"},
		"another reward mode":   {pool("bad", "{rewardMode: dense}"), "supported values: \"Dense\", \"Terminal\""},
		"another judge": {pool("bad", "{judge: {type: Oracle}}"),
			"supported values: \"Offline\", \"LLM\""},
		"no model": {pool("bad", "{judge: {type: LLM}}"), "llm is required if type is LLM"},
		"a model for nothing": {pool("bad", "{judge: {llm: {baseURL: 'https://models.example/v1', model: m}}}"),
			"llm is required if type is LLM"},
		"a judge's relative URL": {pool("bad", "{judge: {type: LLM, llm: {baseURL: models.example, model: m}}}"),
			"should match"},
		"a judge with a password": {pool("bad",
			"{judge: {type: LLM, llm: {baseURL: 'https://me:secret@models.example/v1', model: m}}}"), "should match"},
		"a judge with a user": {pool("bad",
			"{judge: {type: LLM, llm: {baseURL: 'https://me@models.example/v1', model: m}}}"), "should match"},
		"a judge's URL with a query": {pool("bad",
			"{judge: {type: LLM, llm: {baseURL: 'https://models.example/v1?key=secret', model: m}}}"), "should match"},
		"a judge's query alone": {pool("bad",
			"{judge: {type: LLM, llm: {baseURL: 'https://models.example?key=secret', model: m}}}"), "should match"},
		"a judge's URL with a part": {pool("bad",
			"{judge: {type: LLM, llm: {baseURL: 'https://models.example/v1#chat', model: m}}}"), "should match"},
		"a judge without host": {pool("bad", "{judge: {type: LLM, llm: {baseURL: 'https:///v1', model: m}}}"),
			"should match"},
		"a model with a space": {pool("bad", "{judge: {type: LLM, llm: {baseURL: 'https://models.example/v1', "+
			"model: 'a b'}}}"), "should match"},
		"a model beyond ASCII": {pool("bad", "{judge: {type: LLM, llm: {baseURL: 'https://models.example/v1', "+
			"model: 'modèle'}}}"), "should match"},
		"workflows and a model": {pool("bad", "{environment: Workflow, judge: {type: LLM, llm: {baseURL: "+
			"'https://models.example/v1', model: m}}}"), "judge.type LLM requires environment Ticket"},
		"a pack of nothing": {pool("bad", "{scenarios: {packs: [{}]}}"), "exactly one of configMap and secret"},
		"a pack of two things": {pool("bad", "{scenarios: {packs: [{configMap: {name: a}, secret: {name: a}}]}}"),
			"exactly one of configMap and secret"},
		"a split that isn't": {pool("bad", "{scenarios: {splits: [Public]}}"),
			"supported values: \"Train\", \"Dev\", \"Test\", \"Private\""},
		"a label of csenv's own": {pool("bad", "{template: {labels: {csenv.dev/environment: other}}}"),
			"label prefixes csenv.dev/ and app.kubernetes.io/ are reserved"},
		"a name of Kubernetes' own": {pool("bad", "{template: {labels: {app.kubernetes.io/component: runner}}}"),
			"are reserved"},
		"an annotation of csenv's": {pool("bad", "{template: {annotations: {csenv.dev/template-hash: '1'}}}"),
			"are reserved"},
		"an unconfined container": {pool("bad", "{template: {annotations: "+
			"{container.apparmor.security.beta.kubernetes.io/envserver: unconfined}}}"),
			"AppArmor and seccomp profiles can't be set"},
		"a variable of csenv's own": {pool("bad", "{template: {env: [{name: CSENV_JUDGE_API_KEY, value: x}]}}"),
			"are reserved"},
		"another memory limit": {pool("bad", "{template: {env: [{name: GOMEMLIMIT, value: '1'}]}}"),
			"set resources.limits.memory"},
		"sessions by a variable": {pool("bad", "{template: {env: [{name: MAX_CONCURRENT_ENVS, value: '1'}]}}"),
			"set sessions.perPod"},
		"a Service's own annotation": {pool("bad", "{service: {annotations: {csenv.dev/applied-hash: '1'}}}"),
			"the annotation prefix csenv.dev/ is reserved"},
		"a pool's name too long":     {pool(strings.Repeat("a", 51), "{}"), "at most 50 lower-case letters"},
		"a pool's name with a dot":   {pool("a.b", "{}"), "at most 50 lower-case letters"},
		"a pool's name with a digit": {pool("'1st'", "{}"), "beginning with a letter"},

		"no environment": {runWith("bad", "environmentRef: {name: support}, ", ""),
			"spec.environmentRef: Required value"},
		"an environment without name": {runWith("bad", "{name: support}", "{}"),
			"spec.environmentRef.name: Required value"},
		"no agent": {runWith("bad", "agent: {type: Builtin, builtin: {policy: 'Null'}}, ", ""),
			"spec.agent: Required value"},
		"no policy": {runWith("bad", "{type: Builtin, builtin: {policy: 'Null'}}",
			"{type: Builtin}"), "builtin is required when type is Builtin"},
		"another policy": {runWith("bad", "'Null'", "Genius"),
			"supported values: \"Heuristic\", \"Random\", \"Oracle\", \"Null\""},
		"another agent": {runWith("bad", "type: Builtin", "type: Human"),
			"supported values: \"Builtin\", \"OpenAI\", \"HTTP\", \"Container\", \"External\""},
		"no tasks": {runWith("bad", "[{name: ticket-resolve}]", "[]"), "at least 1 items"},
		"no word of tasks": {runWith("bad", ", tasks: [{name: ticket-resolve}]", ""),
			"tasks is required unless agent.type is External"},
		"trainers' tasks": {rollouts("bad", "{type: External}", "tasks: [{name: a}]"),
			"tasks is forbidden when agent.type is External"},
		"trainers' results": {rollouts("bad", "{type: External}", "results: {url: 's3://b'}"),
			"results is forbidden when agent.type is External"},
		"trainers' pods": {rollouts("bad", "{type: External}", "template: {labels: {a: b}}"),
			"template is forbidden when agent.type is External"},
		"no rollouts": {rollouts("bad", "{type: External, external: {episodes: 0}}"),
			"greater than or equal to 1"},
		"too many rollouts": {rollouts("bad", "{type: External, external: {episodes: 2147483649}}"),
			"less than or equal to 2147483648"},
		"trainers and a policy": {rollouts("bad", "{type: External, builtin: {policy: 'Null'}}"),
			"builtin is required when type is Builtin, and forbidden otherwise"},
		"a policy and trainers": {runWith("bad", "policy: 'Null'}", "policy: 'Null'}, external: {}"),
			"external is forbidden unless type is External"},
		"17 tasks": {runWith("bad", "[{name: ticket-resolve}]", tasks(17)),
			"must have at most 16 items"},
		"a task twice": {runWith("bad", "[{name: ticket-resolve}]", "[{name: a}, {name: a}]"),
			"Duplicate value"},
		"a task's name in capitals": {runWith("bad", "ticket-resolve", "Resolve"), "should match"},
		"no trials": {runWith("bad", "ticket-resolve", "a, trials: 0"),
			"greater than or equal to 1"},
		"too many trials": {runWith("bad", "ticket-resolve", "a, trials: 1001"),
			"less than or equal to 1000"},
		"a scenario twice": {runWith("bad", "ticket-resolve", "a, scenarios: {ids: [B01, B01]}"),
			"Duplicate value"},
		"a scenario of a long name": {runWith("bad", "ticket-resolve", "a, scenarios: {ids: ["+strings.Repeat("x",
			33)+"]}"), "may not be more than 32"},
		"a negative seed": {run("bad", "seed: -1"), "greater than or equal to 0"},
		"a seed beyond 2^53": {run("bad", "seed: 9007199254740992"),
			"less than or equal to 9007199254740991"},
		"another pressure":             {run("bad", "pressure: true"), "spec.pressure"},
		"no runners":                   {run("bad", "parallelism: 0"), "greater than or equal to 1"},
		"no episodes in flight":        {run("bad", "concurrency: 0"), "greater than or equal to 1"},
		"a pass score above 1":         {run("bad", "passScore: '1.01'"), "should match"},
		"a pass score of seven digits": {run("bad", "passScore: '0.1234567'"), "passScore"},
		"no attempts":                  {run("bad", "retries: {episodeAttempts: 0}"), "greater than or equal to 1"},
		"more than all errored":        {run("bad", "retries: {maxErroredPercent: 101}"), "less than or equal to 100"},
		"a run's name too long":        {run(strings.Repeat("a", 51)), "at most 50 lower-case letters"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.Create(t.Context(), parse(t, tt.manifest), client.DryRunAll)
			expect(t, err, tt.wantErr)
		})
	}
}

func expect(t *testing.T, err error, words string) {
	t.Helper()
	switch {
	case words == "" && err != nil:
		t.Errorf("refused: %v", err)
	case words != "" && err == nil:
		t.Errorf("accepted, want %q", words)
	case words != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), words)):
		t.Errorf("refused with %v, want %q", err, words)
	}
}

func tasks(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("{name: task-%d}", i)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func TestChanges(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	tests := map[string]struct{ manifest, patch, wantErr string }{
		"a pool scales":  {pool("change-1", "{}"), `{"replicas": 5}`, ""},
		"a pool's image": {pool("change-2", "{}"), `{"image": "csenv:2"}`, ""},
		"a pool's limits": {pool("change-3", "{}"),
			`{"sessions": {"perPod": 5}, "drainTimeoutSeconds": 1, "rewardMode": "Terminal"}`, ""},
		"a pool's environment": {pool("change-4", "{}"), `{"environment": "Workflow"}`,
			"environment is immutable"},
		"a run's parallelism": {run("change-5"), `{"parallelism": 7}`, ""},
		"a run's environment": {run("change-6"), `{"environmentRef": {"name": "other"}}`,
			"environmentRef is immutable"},
		"a run's agent": {run("change-7"), `{"agent": {"builtin": {"policy": "Oracle"}}}`,
			"agent is immutable"},
		"a run's tasks": {run("change-8"), `{"tasks": [{"name": "ticket-classify"}]}`,
			"tasks is immutable"},
		"a run's trials": {run("change-9"), `{"tasks": [{"name": "ticket-resolve", "trials": 2}]}`,
			"tasks is immutable"},
		"a run's seed":        {run("change-10"), `{"seed": 1}`, "seed is immutable"},
		"a run's concurrency": {run("change-11"), `{"concurrency": 1}`, "concurrency is immutable"},
		"a run's retries":     {run("change-12"), `{"retries": {"episodeAttempts": 1}}`, "retries is immutable"},
		"a run's pass score":  {run("change-13"), `{"passScore": "0.9"}`, "passScore is immutable"},
		"a run's pressure":    {run("change-15"), `{"pressure": "ResponseTime"}`, "pressure is immutable"},
		"a run pauses":        {run("change-16"), `{"suspend": true}`, ""},
		"a run's end of life": {run("change-17"), `{"ttlSecondsAfterFinished": 5, "retain": "Never"}`, ""},
		"a run's thresholds": {run("change-18"), `{"thresholds": [{"metric": "passRate", "min": "0"}]}`,
			"thresholds is immutable"},
		"a run's baseline": {run("change-19", "baselineRef: {name: a}"), `{"baselineRef": null}`,
			"baselineRef is immutable"},
		"a run's store": {run("change-20", "results: {url: 's3://a'}"), `{"results": {"url": "s3://b"}}`,
			"results is immutable"},
		"a run's deadline": {run("change-21"), `{"activeDeadlineSeconds": 5}`,
			"activeDeadlineSeconds is immutable"},
		"a run's pods": {run("change-22"), `{"template": {"labels": {"a": "b"}}}`,
			"template is immutable"},
		"a pool pauses":        {pool("change-23", "{}"), `{"operatingMode": "Suspended"}`, ""},
		"a pool scales itself": {pool("change-24", "{replicas: 3}"), `{"autoscaling": {"maxReplicas": 5}}`, ""},
		"trainers' deadline":   {rollouts("change-25", "{type: External}"), `{"activeDeadlineSeconds": 1}`, ""},
		"trainers' goal": {rollouts("change-26", "{type: External}"),
			`{"agent": {"external": {"episodes": 5}}}`, "agent is immutable"},
		"a run's tasks, to none":    {run("change-27"), `{"tasks": null}`, "tasks is immutable"},
		"a run's seed back to none": {run("change-14", "seed: 5"), `{"seed": null}`, "seed is immutable"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := parse(t, tt.manifest)
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			err := c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"spec": `+tt.patch+`}`)))
			expect(t, err, tt.wantErr)
		})
	}
}

// A user who may edit a run may not edit its score: the status is a resource of its own.
func TestStatusIsApart(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	object := parse(t, run("status-apart"))
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType,
		[]byte(`{"status": {"progress": "40/40", "score": {"mean": "1.0000"}}}`))
	if err := c.Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
	if status, exists := object.Object["status"]; exists {
		t.Errorf("a write to the run set its status: %v", status)
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	object := &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Name: "scaled"}}
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	setStatus(t, c, object, `{"replicas": 1, "selector": "csenv.dev/environment=scaled"}`)
	scale := &autoscalingv1.Scale{}
	if err := c.SubResource("scale").Get(t.Context(), object, scale); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(autoscalingv1.ScaleStatus{Replicas: 1, Selector: "csenv.dev/environment=scaled"},
		scale.Status); diff != "" {
		t.Errorf("scale (-want +got):\n%s", diff)
	}
	scale.Spec.Replicas = 3
	if err := c.SubResource("scale").Update(t.Context(), object, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	got := &v1alpha1.CustomerSupportEnv{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), got); err != nil {
		t.Fatal(err)
	}
	if *got.Spec.Replicas != 3 {
		t.Errorf("replicas = %d, want 3", *got.Spec.Replicas)
	}
}

func setStatus(t *testing.T, c client.Client, object client.Object, status string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status": `+status+`}`))
	if err := c.Status().Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
}

// What kubectl get prints, but for the age.
func TestPrintedColumns(t *testing.T) {
	t.Parallel()
	c, config := newClient(t)
	condition := func(kind, status, reason string) string {
		return fmt.Sprintf(
			`{"type": %q, "status": %q, "reason": %q, "message": "m", "lastTransitionTime": "2026-01-02T12:00:00Z"}`, kind, status, reason)
	}
	tests := map[string]struct{ manifest, status, plural, want string }{
		"a new pool": {pool("printed-new", "{}"), `{}`, "customersupportenvs",
			"printed-new Ticket <nil> <nil> <nil> <nil> <nil>"},
		"a pool": {pool("printed", "{environment: Workflow, replicas: 3}"),
			`{"replicas": 3, "readyReplicas": 2, "sessions": {"active": 31, "capacity": 4000}, "conditions": [` +
				condition("Available", "True", "ServersReady") + `]}`,
			"customersupportenvs", "printed Workflow 2 3 31 4000 ServersReady"},
		"a new run": {run("printed-new"), `{}`, "evaluationruns", "printed-new support <nil> <nil> <nil> <nil> <nil>"},
		"a run": {run("printed"),
			`{"agent": "Null", "progress": "38/40", "score": {"mean": "0.7312"}, "passRate": "0.5000", "conditions": [` + condition("Complete", "False", "Running") + `]}`,
			"evaluationruns", "printed support Null 38/40 0.7312 0.5000 Running"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := parse(t, tt.manifest)
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			setStatus(t, c, object, tt.status)
			if diff := cmp.Diff(tt.want, printed(t, config, tt.plural, object.GetName())); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
		})
	}
}

// printed is a row as kubectl asks for it, the age and columns of -o wide left out.
func printed(t *testing.T, config *rest.Config, plural, name string) string {
	t.Helper()
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := c.RESTClient().Get().AbsPath("/apis", v1alpha1.GroupVersion.String(), "namespaces", "default", plural,
		name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := yaml.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	var cells []string
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 && column.Name != "Age" {
			cells = append(cells, fmt.Sprint(table.Rows[0].Cells[i]))
		}
	}
	return strings.Join(cells, " ")
}
