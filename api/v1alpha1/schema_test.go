package v1alpha1_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
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

// run is a minimal manifest of an EvaluationRun with more fields of the spec.
func run(name string, more ...string) string {
	spec := append([]string{"environmentRef: {name: support}", "agent: {type: Builtin, builtin: {policy: Noop}}",
		"tasks: [{name: ticket-resolve}]"}, more...)
	return fmt.Sprintf("{apiVersion: csenv.dev/v1alpha1, kind: EvaluationRun, metadata: {name: %s}, spec: {%s}}", name,
		strings.Join(spec, ", "))
}

// rollouts is the manifest of a run of type External.
func rollouts(name, agent string, more ...string) string {
	spec := append([]string{"environmentRef: {name: support}", "agent: " + agent}, more...)
	return fmt.Sprintf("{apiVersion: csenv.dev/v1alpha1, kind: EvaluationRun, metadata: {name: %s}, spec: {%s}}", name,
		strings.Join(spec, ", "))
}

// runWith is run with one of its fields replaced.
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
			PerPod: 2000, ClientSharePercent: new(int32(90)), IdleTimeoutSeconds: new(int32(3600)), MaxDurationSeconds: new(int32(7200)),
		},
		DrainTimeoutSeconds: new(int32(3600)),
		DrainPolicy:         v1alpha1.CutSessions,
		RewardMode:          v1alpha1.TerminalReward,
		Judge:               v1alpha1.Judge{Type: v1alpha1.OfflineJudge},
		Customer:            v1alpha1.Customer{Type: v1alpha1.TemplateCustomer},
		Access: v1alpha1.Access{AllowedNamespaces: v1alpha1.AllowedNamespaces{From: v1alpha1.SameNamespace},
			Play: v1alpha1.OpenPlay},
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
			Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.NoopPolicy}},
		Tasks:       []v1alpha1.TaskSelection{{Name: "ticket-resolve", Trials: 1}},
		Seed:        new(int64(0)),
		Pressure:    v1alpha1.NoPressure,
		Parallelism: new(int32(1)),
		Concurrency: new(int32(16)),
		Attempt:     new(int32(1)),
		Retries: v1alpha1.Retries{EpisodeAttempts: 3, ShardBackoffLimit: new(int32(2)),
			MaxErroredPercent: new(int32(5))},
		Retain: v1alpha1.RetainOnFailure,
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
	for _, file := range append(files, "../../config/samples/training/pool.yaml") {
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
		"a run's seed":         {run("change-10"), `{"seed": 1}`, "seed is immutable"},
		"a run's concurrency":  {run("change-11"), `{"concurrency": 1}`, "concurrency is immutable"},
		"a run's retries":      {run("change-12"), `{"retries": {"episodeAttempts": 1}}`, "retries is immutable"},
		"a run's pass score":   {run("change-13", "passScore: 0.8"), `{"passScore": 0.9}`, "passScore is immutable"},
		"a default pass score": {run("change-29"), `{"passScore": 0.8}`, "passScore is immutable"},
		"a run's pressure":     {run("change-15"), `{"pressure": "ResponseTime"}`, "pressure is immutable"},
		"a run pauses":         {run("change-16"), `{"suspend": true}`, ""},
		"a run's end of life":  {run("change-17"), `{"ttlSecondsAfterFinished": 5, "retain": "Never"}`, ""},
		"a run's thresholds": {run("change-18"), `{"thresholds": [{"metric": "passRate", "min": 0}]}`,
			"thresholds is immutable"},
		"a run's baseline": {run("change-19", "baselineRef: {name: a}"), `{"baselineRef": null}`,
			"baselineRef is immutable"},
		"a run's store": {run("change-20", "results: {url: 's3://a'}"), `{"results": {"url": "s3://b"}}`,
			"results is immutable"},
		"a run's deadline": {run("change-21"), `{"activeDeadlineSeconds": 5}`,
			"activeDeadlineSeconds is immutable"},
		"a run's pods": {run("change-22"), `{"template": {"labels": {"a": "b"}}}`,
			"template is immutable"},
		"a pool pauses": {pool("change-23", "{}"), `{"operatingMode": "Suspended"}`, ""},
		"a pool scales itself": {pool("change-24", "{replicas: 3}"), `{"autoscaling": {"maxReplicas": 5}}`,
			"replicas can't be combined with autoscaling"},
		"a pool scales itself from now on": {pool("change-28", "{replicas: 3}"),
			`{"replicas": null, "autoscaling": {"maxReplicas": 5}}`, ""},
		"trainers' deadline": {rollouts("change-25", "{type: External}"), `{"activeDeadlineSeconds": 1}`, ""},
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

// Users who may edit a run can't edit its score, because the status is a subresource.
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

	auto := &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Name: "auto"}}
	auto.Spec.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 5}
	if err := c.Create(t.Context(), auto); err != nil {
		t.Fatal(err)
	}
	if err := c.SubResource("scale").Get(t.Context(), auto, scale); err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 3
	err := c.SubResource("scale").Update(t.Context(), auto, client.WithSubResourceBody(scale))
	if err == nil || !strings.Contains(err.Error(), "replicas can't be combined with autoscaling") {
		t.Errorf("scaling a pool that scales itself: %v", err)
	}
}

// Removing autoscaling must not remove servers that the user did not mean to remove: replicas is 1
// if it isn't set.
func TestRemovingAutoscaling(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	for name, tt := range map[string]struct{ status, patch, wantErr string }{
		"twenty":         {`{"replicas": 20}`, `{"autoscaling": null}`, "set replicas to the number to keep"},
		"twenty-to-keep": {`{"replicas": 20}`, `{"autoscaling": null, "replicas": 20}`, ""},
		"twenty-to-none": {`{"replicas": 20}`, `{"autoscaling": null, "replicas": 0}`, ""},
		"one":            {`{"replicas": 1}`, `{"autoscaling": null}`, ""},
		"new":            {`{}`, `{"autoscaling": null}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Name: name}}
			object.Spec.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 20}
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			setStatus(t, c, object, tt.status)
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": `+tt.patch+`}`))
			expect(t, c.Patch(t.Context(), object, patch), tt.wantErr)
		})
	}
}

func setStatus(t *testing.T, c client.Client, object client.Object, status string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status": `+status+`}`))
	if err := c.Status().Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
}

// The columns of kubectl get, without the age.
func TestPrintedColumns(t *testing.T) {
	t.Parallel()
	c, config := newClient(t)
	condition := func(kind, status, reason string) string {
		return fmt.Sprintf(`{"type": %q, "status": %q, "reason": %q, "message": "m", `+
			`"lastTransitionTime": "2026-01-02T12:00:00Z"}`, kind, status, reason)
	}
	tests := map[string]struct{ manifest, status, plural, want string }{
		"a new pool": {pool("printed-new", "{}"), `{}`, "customersupportenvs",
			"printed-new Ticket <nil> <nil> <nil> <nil> <nil> <nil>"},
		"a pool": {pool("printed", "{environment: Workflow, replicas: 3}"),
			`{"replicas": 3, "readyReplicas": 2, "sessions": {"active": 31, "capacity": 4000}, "conditions": [` +
				condition("Available", "True", "ServersReady") + "," + condition("Ready", "False", "ImagePullFailed") + `]}`,
			"customersupportenvs", "printed Workflow True ImagePullFailed 2 3 31 4000"},
		"a new run": {run("printed-new"), `{}`, "evaluationruns", "printed-new support <nil> <nil> <nil> <nil> <nil> <nil>"},
		"a run": {run("printed"),
			`{"agent": "Noop", "progress": "38/40", "score": {"mean": "0.7312"}, "passRate": "0.5000", ` +
				`"conditions": [` + condition("Complete", "True", "Completed") + `,` +
				condition("ThresholdsMet", "False", "ThresholdsMissed") + `,` +
				condition("Ready", "False", "ThresholdsMissed") + `]}`,
			"evaluationruns", "printed support Noop 38/40 0.7312 0.5000 False ThresholdsMissed"},
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

// printed returns a row of kubectl's table, without the age and the columns of -o wide.
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
