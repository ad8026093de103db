package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/envvars"
)

// Only runs of admitted namespaces get details of a pool of another namespace.
func TestPoolOfAnotherNamespace(t *testing.T) {
	shared := func(change func(*v1alpha1.CustomerSupportEnv)) *v1alpha1.CustomerSupportEnv {
		env := runtest.NewPool()
		env.Namespace = "shared"
		change(env)
		return env
	}
	everybody := func(env *v1alpha1.CustomerSupportEnv) {
		env.Spec.Access.AllowedNamespaces.From = v1alpha1.AllNamespaces
	}
	team := func(env *v1alpha1.CustomerSupportEnv) {
		env.Spec.Access.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.SelectedNamespaces,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}
	}
	locked := func(env *v1alpha1.CustomerSupportEnv) {
		everybody(env)
		env.Spec.Access.TokenSecretRef = &v1alpha1.SecretKeyReference{Name: "tokens", Key: "token"}
	}
	for name, tc := range map[string]struct {
		pool   *v1alpha1.CustomerSupportEnv
		labels map[string]string
		token  *v1alpha1.SecretKeyReference
		reason string // "" if the run begins
	}{
		"it doesn't exist": {nil, nil, nil, v1alpha1.ReasonNamespaceNotAllowed},
		"it admits no other namespace": {shared(func(*v1alpha1.CustomerSupportEnv) {}), nil, nil,
			v1alpha1.ReasonNamespaceNotAllowed},
		"it admits others": {shared(team), map[string]string{"team": "b"}, nil,
			v1alpha1.ReasonNamespaceNotAllowed},
		"it admits the namespace":  {shared(team), map[string]string{"team": "a"}, nil, ""},
		"it admits all namespaces": {shared(everybody), nil, nil, ""},
		"it requires a token":      {shared(locked), nil, nil, v1alpha1.ReasonTokenMissing},
		"it is given the token":    {shared(locked), nil, &v1alpha1.SecretKeyReference{Name: "mine", Key: "token"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run := runtest.NewRun()
			run.Spec.EnvironmentRef.Namespace, run.Spec.EnvironmentRef.TokenSecretRef = "shared", tc.token
			server := runtest.NewServer("support-a", "10.0.0.1")
			server.Namespace = "shared"
			w := newWorld(t, run, server, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: runtest.Namespace,
				Labels: tc.labels}})
			if tc.pool != nil {
				w.create(tc.pool)
			}
			w.mustPass()
			c := meta.FindStatusCondition(w.run().Status.Conditions, v1alpha1.ConditionEnvironmentReady)
			if tc.reason == "" {
				job := w.job()
				if job == nil {
					t.Fatalf("the run doesn't begin: %s: %s", c.Reason, c.Message)
				}
				runner := job.Spec.Template.Spec.Containers[0]
				if !strings.Contains(strings.Join(runner.Args, " "), "--pool=support-pods.shared.svc:8000") {
					t.Errorf("arguments %v", runner.Args)
				}
				secrets := runtest.SecretFiles(job)
				if given := secrets[envvars.PoolToken] == "mine/token"; given != (tc.token != nil) {
					t.Errorf("files %v", secrets)
				}
				return
			}
			if c.Reason != tc.reason || w.job() != nil {
				t.Errorf("%s: %s", c.Reason, c.Message)
			}
			if tc.reason == v1alpha1.ReasonNamespaceNotAllowed && c.Message != "No CustomerSupportEnv support in "+
				"namespace shared admits runs of namespace default. Correct spec.environmentRef, or ask the "+
				"pool's owner to admit the namespace in access.allowedNamespaces." {
				t.Errorf("it reveals more than that it isn't admitted: %s", c.Message)
			}
		})
	}
}

func TestBaseline(t *testing.T) {
	finished := func(t *testing.T, change func(*v1alpha1.EvaluationRun)) *world {
		w := readyWorld(t)
		w.toTheEnd()
		other := w.run()
		other.Name, other.UID, other.ResourceVersion = "last-week", "other-uid", ""
		other.Status.ScoresRef = &v1alpha1.ObjectReference{Name: "last-week-scores"}
		var table corev1.ConfigMap
		if err := w.client.Get(t.Context(), key(runtest.RunName+"-scores"), &table); err != nil {
			t.Fatal(err)
		}
		change(other)
		mine := newWorld(t, runtest.NewPool(), runtest.NewServer("support-a", "10.0.0.1"))
		mine.create(other, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last-week-scores",
			Namespace: runtest.Namespace, OwnerReferences: runner.MakeMeta(other, "").OwnerReferences}, Data: table.Data})
		run := runtest.NewRun()
		run.Spec.BaselineRef = &v1alpha1.ObjectReference{Name: "last-week"}
		mine.create(run)
		return mine
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.EvaluationRun)
		want   string // in the message, "" for a comparison
	}{
		"the same": {func(*v1alpha1.EvaluationRun) {}, ""},
		"another grader": {func(run *v1alpha1.EvaluationRun) { run.Status.Provenance.GraderVersion = "0" },
			"their graders differ: 1 and 0"},
		"another task": {func(run *v1alpha1.EvaluationRun) { run.Spec.Tasks = run.Spec.Tasks[1:] },
			"their tasks differ"},
		"not complete": {func(run *v1alpha1.EvaluationRun) { run.Status.Conditions = nil }, "it is not complete"},
		"another name": {func(run *v1alpha1.EvaluationRun) { run.Name = "long-ago" },
			"it is not in namespace default"},
		"changed sums":      {func(run *v1alpha1.EvaluationRun) { run.Status.Shards.Accumulator = "" }, "was changed"},
		"without its table": {func(run *v1alpha1.EvaluationRun) { run.Status.ScoresRef = nil }, "no table"},
	} {
		t.Run(name, func(t *testing.T) {
			w := finished(t, tc.change)
			got := w.toTheEnd().Baseline
			if got == nil || got.Name != "last-week" || (got.Message == "") != (tc.want == "") ||
				!strings.Contains(got.Message, tc.want) {
				t.Fatalf("baseline %+v, want a message that contains %q", got, tc.want)
			}
			if tc.want == "" && (got.Delta != "0.0000" || got.Scenarios != 4 || got.CI95 == nil) {
				t.Errorf("a run minus itself: %+v", got)
			}
		})
	}
}

// A run and its baseline may be applied at once: the comparison, and the thresholds on it, wait.
func TestBaselineIsAwaited(t *testing.T) {
	w := readyWorld(t)
	run := w.run()
	run.Spec.BaselineRef = &v1alpha1.ObjectReference{Name: "last-week"}
	run.Spec.Thresholds = []v1alpha1.Threshold{{Metric: v1alpha1.DeltaMetric, Min: v1alpha1.Number{Text: "0.1"}}}
	if err := w.client.Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	w.toTheEnd()
	check := func(compared, thresholds string) {
		t.Helper()
		status := w.run().Status
		for kind, want := range map[string]string{v1alpha1.ConditionCompared: compared,
			v1alpha1.ConditionThresholdsMet: thresholds} {
			c := meta.FindStatusCondition(status.Conditions, kind)
			if c == nil || string(c.Status)+"/"+c.Reason != want {
				t.Errorf("%s is %+v, want %s", kind, c, want)
			}
		}
	}
	check("Unknown/BaselineNotFound", "Unknown/ThresholdsPending")
	if got := w.events(); !slices.Contains(got, "Warning BaselineNotFound") {
		t.Errorf("events %q", got)
	}

	var table corev1.ConfigMap
	if err := w.client.Get(t.Context(), key(runtest.RunName+"-scores"), &table); err != nil {
		t.Fatal(err)
	}
	other := w.run()
	ended := other.Status.Conditions
	other.Name, other.UID, other.ResourceVersion = "last-week", "other-uid", ""
	other.Status.ScoresRef, other.Status.Conditions = &v1alpha1.ObjectReference{Name: "last-week-scores"}, nil
	other.Spec.BaselineRef = nil
	w.create(other, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last-week-scores", Namespace: runtest.Namespace,
		OwnerReferences: runner.MakeMeta(other, "").OwnerReferences}, Data: table.Data})
	if result := w.mustPass(); result.RequeueAfter != rules.BaselineInterval {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	check("Unknown/WaitingForBaseline", "Unknown/ThresholdsPending")

	other.Status.Conditions = ended
	if err := w.client.Status().Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if result := w.mustPass(); result.RequeueAfter != 0 {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	check("True/Compared", "False/ThresholdsMissed")
	if b := w.run().Status.Baseline; b.Delta != "0.0000" || b.Message != "" {
		t.Errorf("baseline %+v", b)
	}
}

// A run that names the pool's key is refused before its pods could read it.
func TestForbiddenReference(t *testing.T) {
	run := runtest.NewRun()
	run.Spec.Template = &v1alpha1.PodOverrides{Env: []corev1.EnvVar{{Name: "OTEL_EXPORTER_OTLP_HEADERS", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "tokens"},
			Key: "token"}}}}}
	guarded := runtest.NewPool()
	guarded.Name, guarded.UID = "other", "other-uid"
	guarded.Spec.Access.TokenSecretRef = &v1alpha1.SecretKeyReference{Name: "tokens", Key: "token"}
	w := newWorld(t, runtest.NewPool(), guarded, runtest.NewServer("support-a", "10.0.0.1"), run)
	w.mustPass()
	want := runtest.EnvReady + "Complete=False/ForbiddenReference Failed=True/ForbiddenReference"
	if got := runtest.FormatConditions(w.run().Status.Conditions); got != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
	c := meta.FindStatusCondition(w.run().Status.Conditions, v1alpha1.ConditionFailed)
	if !strings.Contains(c.Message, "spec.template.env names Secret tokens, which is the token of pool other") {
		t.Error(c.Message)
	}
	if w.job() != nil || w.run().Status.StartTime != nil {
		t.Errorf("the run was started: %+v", w.job())
	}
	if diff := cmp.Diff([]string{"Warning ForbiddenReference"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
}
