package workswith_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/api/v1alpha1"
)

const (
	envKind = "CustomerSupportEnv"
	runKind = "EvaluationRun"
)

// customization returns an entry of the manifest.
func customization(t *testing.T, of, kind string) string {
	t.Helper()
	text, _, err := unstructured.NestedString(read(t, "argocd/argocd-cm.yaml")[0].Object, "data",
		"resource.customizations."+of+".csenv.dev_"+kind)
	if err != nil || text == "" {
		t.Fatalf("no %s of %s: %v", of, kind, err)
	}
	return text
}

// actionsOf returns the scripts of a kind's actions, and the one that says which are available.
func actionsOf(t *testing.T, kind string) (discovery string, scripts map[string]string) {
	t.Helper()
	var actions struct {
		Discovery   string `json:"discovery.lua"`
		Definitions []struct {
			Name   string `json:"name"`
			Script string `json:"action.lua"`
		} `json:"definitions"`
	}
	if err := yaml.UnmarshalStrict([]byte(customization(t, "actions", kind)), &actions); err != nil {
		t.Fatal(err)
	}
	scripts = map[string]string{}
	for _, action := range actions.Definitions {
		scripts[action.Name] = action.Script
	}
	return actions.Discovery, scripts
}

// evaluate runs a script as Argo CD does: with its libraries and its conversions. The result is
// decoded into the last argument.
func evaluate(t *testing.T, script string, object, into any) {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase,
		lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	value, err := luajson.Decode(state, data)
	if err != nil {
		t.Fatal(err)
	}
	state.SetGlobal("obj", value)
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	data, err = luajson.Encode(state.Get(-1))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
}

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: reason + " in words."}
}

// aPool is a pool whose status describes its spec.
func aPool(mode v1alpha1.OperatingMode, conditions ...metav1.Condition) *v1alpha1.CustomerSupportEnv {
	env := newPool(func(*v1alpha1.CustomerSupportEnv) {})
	env.Generation, env.Status.ObservedGeneration, env.Status.Conditions = 2, 2, conditions
	env.Spec.OperatingMode = mode
	return env
}

// aRun is a run whose status describes its spec.
func aRun(suspended bool, conditions ...metav1.Condition) *v1alpha1.EvaluationRun {
	run := newRun(func(*v1alpha1.EvaluationRun) {})
	run.Generation, run.Status.ObservedGeneration, run.Status.Conditions = 2, 2, conditions
	if suspended {
		run.Spec.Suspend = new(true)
	}
	return run
}

var (
	running   = condition(v1alpha1.ConditionComplete, metav1.ConditionFalse, v1alpha1.ReasonRunning)
	notReady  = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRunning)
	completed = condition(v1alpha1.ConditionComplete, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	hasFailed = condition(v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonShardsFailed)
	runReady  = condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
)

func TestHealth(t *testing.T) {
	stale := aPool(v1alpha1.RunningMode, condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "ServersReady"))
	stale.Generation++
	scored := aRun(false, completed, runReady)
	scored.Status.Score = &v1alpha1.Score{Mean: "0.7500"}
	for name, tt := range map[string]struct {
		kind   string
		object any
		want   string
	}{
		"a new pool": {envKind, newPool(func(*v1alpha1.CustomerSupportEnv) {}),
			"Progressing: The operator has not seen"},
		"a changed pool": {envKind, stale, "Progressing: The operator has not seen"},
		"a pool that starts": {envKind, aPool(v1alpha1.RunningMode, condition(v1alpha1.ConditionReady,
			metav1.ConditionFalse, v1alpha1.ReasonNoServerReady)), "Progressing: NoServerReady in words."},
		"a ready pool": {envKind, aPool(v1alpha1.RunningMode, condition(v1alpha1.ConditionReady, metav1.ConditionTrue,
			v1alpha1.ReasonServersReady)), "Healthy: ServersReady in words."},
		"a pool with a fault": {envKind, aPool(v1alpha1.RunningMode, condition(v1alpha1.ConditionReady,
			metav1.ConditionTrue, v1alpha1.ReasonServersReady), condition(v1alpha1.ConditionDegraded,
			metav1.ConditionTrue, v1alpha1.ReasonInvalidPack)), "Degraded: InvalidPack: InvalidPack in words."},
		"a suspended pool": {envKind, aPool(v1alpha1.SuspendedMode, condition(v1alpha1.ConditionReady,
			metav1.ConditionTrue, v1alpha1.ReasonSuspended)), "Suspended: "},
		"a new run":                        {runKind, newRun(func(*v1alpha1.EvaluationRun) {}), "Progressing: The operator has not seen"},
		"a run that is played":             {runKind, aRun(false, running, notReady), "Progressing: Running: Running in words."},
		"a suspended run":                  {runKind, aRun(true, running, notReady), "Suspended: "},
		"a complete run":                   {runKind, scored, "Healthy: Score 0.7500. Completed in words."},
		"a complete run that is suspended": {runKind, aRun(true, completed, runReady), "Healthy: "},
		"a failed run": {runKind, aRun(false, hasFailed, condition(v1alpha1.ConditionStalled, metav1.ConditionTrue,
			v1alpha1.ReasonShardsFailed)), "Degraded: ShardsFailed: ShardsFailed in words."},
		"a run below its thresholds": {runKind, aRun(false, completed, condition(v1alpha1.ConditionStalled,
			metav1.ConditionTrue, v1alpha1.ReasonThresholdsMissed)), "Degraded: ThresholdsMissed"},
	} {
		t.Run(name, func(t *testing.T) {
			var health struct{ Status, Message string }
			evaluate(t, customization(t, "health", tt.kind), tt.object, &health)
			if got := health.Status + ": " + health.Message; !strings.HasPrefix(got, tt.want) {
				t.Errorf("health is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestActions(t *testing.T) {
	for name, tt := range map[string]struct {
		kind   string
		object any
		want   string
	}{
		"a pool":               {envKind, aPool(v1alpha1.RunningMode), "suspend"},
		"a suspended pool":     {envKind, aPool(v1alpha1.SuspendedMode), "resume"},
		"a new run":            {runKind, newRun(func(*v1alpha1.EvaluationRun) {}), "suspend"},
		"a run that is played": {runKind, aRun(false, running), "suspend"},
		"a suspended run":      {runKind, aRun(true, running), "resume"},
		"a failed run":         {runKind, aRun(false, hasFailed), "play-again retry"},
		"a complete run":       {runKind, aRun(true, completed), "play-again"},
	} {
		t.Run(name, func(t *testing.T) {
			discovery, scripts := actionsOf(t, tt.kind)
			var actions map[string]struct{ Disabled bool }
			evaluate(t, discovery, tt.object, &actions)
			if got, want := slices.Sorted(maps.Keys(actions)), slices.Sorted(maps.Keys(scripts)); !slices.Equal(got, want) {
				t.Errorf("offers the actions %v, has %v", got, want)
			}
			maps.DeleteFunc(actions, func(_ string, a struct{ Disabled bool }) bool { return a.Disabled })
			if got := strings.Join(slices.Sorted(maps.Keys(actions)), " "); got != tt.want {
				t.Errorf("available are %q, want %q", got, tt.want)
			}
		})
	}
}

// actions runs the actions on objects of the API server, and applies what they return.
func (c cluster) actions(t *testing.T) {
	env := newPool(func(env *v1alpha1.CustomerSupportEnv) { env.Name = "acted" })
	run := newRun(func(run *v1alpha1.EvaluationRun) {
		inContainer("registry.example/agents/a:1")(run)
		run.Name, run.Labels = "acted", map[string]string{"kueue.x-k8s.io/queue-name": "gpus", "team": "a"}
		run.Spec.Seed = new(int64(9007199254740991))
		run.Spec.Template = &v1alpha1.PodOverrides{Volumes: []v1alpha1.PodVolume{
			{Name: "weights", Secret: &v1alpha1.ObjectReference{Name: "weights"}}}, Env: []corev1.EnvVar{}}
	})
	for _, object := range []client.Object{env, run} {
		if err := c.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, act := range []struct{ kind, name, want string }{
		{envKind, "suspend", `"operatingMode":"Suspended"`}, {envKind, "resume", `"operatingMode":"Running"`},
		{runKind, "suspend", `"suspend":true`}, {runKind, "resume", `"suspend":false`}, {runKind, "retry", `"attempt":2`},
	} {
		before, after := c.live(t, act.kind), c.live(t, act.kind)
		_, scripts := actionsOf(t, act.kind)
		evaluate(t, scripts[act.name], before.Object, &after.Object)
		unlist(after.Object, before.Object)
		if err := c.client.Update(t.Context(), after, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Errorf("%s %s: %v", act.name, act.kind, err)
		}
		if data, err := json.Marshal(c.live(t, act.kind).Object["spec"]); !strings.Contains(string(data), act.want) {
			t.Errorf("%s %s: the spec is %s, %v", act.name, act.kind, data, err)
		}
	}
	c.playAgain(t)
}

// playAgain creates another run with the spec of one.
func (c cluster) playAgain(t *testing.T) {
	var results []struct {
		Operation string
		Resource  map[string]any
	}
	first := c.live(t, runKind)
	_, scripts := actionsOf(t, runKind)
	evaluate(t, scripts["play-again"], first.Object, &results)
	if len(results) != 1 || results[0].Operation != "create" {
		t.Fatalf("play-again returns %v", results)
	}
	again := &unstructured.Unstructured{Object: results[0].Resource}
	if err := c.client.Create(t.Context(), again, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
		t.Fatal(err)
	}
	for _, edited := range []string{"attempt", "suspend"} {
		unstructured.RemoveNestedField(first.Object, "spec", edited)
		unstructured.RemoveNestedField(again.Object, "spec", edited)
	}
	if diff := cmp.Diff(first.Object["spec"], again.Object["spec"]); diff != "" {
		t.Errorf("the spec of the second run (+) differs: %s", diff)
	}
	if diff := cmp.Diff(map[string]string{"kueue.x-k8s.io/queue-name": "gpus"}, again.GetLabels()); diff != "" {
		t.Errorf("labels of the second run: %s", diff)
	}
	if owners := again.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != first.GetUID() ||
		!strings.HasPrefix(again.GetName(), "acted-") {
		t.Errorf("the second run is %s, of %v", again.GetName(), owners)
	}
}

// live is the pool or run of the actions.
func (c cluster) live(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "acted"},
		object); err != nil {
		t.Fatal(err)
	}
	return object
}

// unlist makes the empty lists of an object that a script changed the empty objects that they were,
// as Argo CD does: Lua has one type for both.
func unlist(after, before map[string]any) {
	for key, was := range before {
		old, isObject := was.(map[string]any)
		if !isObject {
			continue
		}
		switch now := after[key].(type) {
		case map[string]any:
			unlist(now, old)
		case []any:
			after[key] = map[string]any{}
		}
	}
}
