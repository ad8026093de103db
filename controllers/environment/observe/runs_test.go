package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/objects"
)

// evalRun returns a run that waits for the pool.
func evalRun(edits ...func(*v1alpha1.EvaluationRun)) *v1alpha1.EvaluationRun {
	run := &v1alpha1.EvaluationRun{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "lab"},
		Spec: v1alpha1.EvaluationRunSpec{EnvironmentRef: v1alpha1.EnvironmentReference{Name: "support",
			Namespace: "shop"}},
	}
	told(v1alpha1.ConditionEnvironmentReady, metav1.ConditionFalse, v1alpha1.ReasonEnvironmentNotAvailable)(run)
	for _, edit := range edits {
		edit(run)
	}
	return run
}

func told(kind string, status metav1.ConditionStatus, reason string) func(*v1alpha1.EvaluationRun) {
	return func(run *v1alpha1.EvaluationRun) {
		c := metav1.Condition{Type: kind, Status: status, Reason: reason}
		for i, old := range run.Status.Conditions {
			if old.Type == kind {
				run.Status.Conditions[i] = c
				return
			}
		}
		run.Status.Conditions = append(run.Status.Conditions, c)
	}
}

func TestIsAwaited(t *testing.T) {
	t.Parallel()
	environmentReady := v1alpha1.ConditionEnvironmentReady
	tests := map[string]struct {
		run  *v1alpha1.EvaluationRun
		want bool
	}{
		"waits": {evalRun(), true},
		"plays": {evalRun(told(environmentReady, metav1.ConditionTrue,
			v1alpha1.ReasonEnvironmentAvailable)), true},
		"can't be read": {evalRun(told(environmentReady, metav1.ConditionFalse,
			v1alpha1.ReasonEnvironmentUnreachable)), true},
		"isn't admitted": {evalRun(told(environmentReady, metav1.ConditionFalse,
			v1alpha1.ReasonNamespaceNotAllowed)), false},
		"has no token": {evalRun(told(environmentReady, metav1.ConditionFalse, v1alpha1.ReasonTokenMissing)),
			false},
		"not looked at": {evalRun(func(run *v1alpha1.EvaluationRun) { run.Status.Conditions = nil }), false},
		"complete": {evalRun(told(v1alpha1.ConditionComplete, metav1.ConditionTrue,
			v1alpha1.ReasonCompleted)), false},
		"failed": {evalRun(told(v1alpha1.ConditionFailed, metav1.ConditionTrue,
			v1alpha1.ReasonInvalidPlan)), false},
		"suspended": {evalRun(func(run *v1alpha1.EvaluationRun) { run.Spec.Suspend = new(true) }), false},
		"of another pool": {evalRun(func(run *v1alpha1.EvaluationRun) { run.Spec.EnvironmentRef.Name = "other" }),
			false},
		"of another namespace": {evalRun(func(run *v1alpha1.EvaluationRun) { run.Spec.EnvironmentRef.Namespace = "" }),
			false},
		"of the pool's own namespace": {evalRun(func(run *v1alpha1.EvaluationRun) {
			run.Spec.EnvironmentRef.Namespace,
				run.Namespace = "", "shop"
		}), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(tt.run).
				WithIndex(&v1alpha1.EvaluationRun{}, objects.UnendedField, objects.UnendedIndex).Build()
			for least, want := range map[int32]bool{0: tt.want, 1: false} {
				got, err := isAwaited(t.Context(), reader,
					pool(func(env *v1alpha1.CustomerSupportEnv) { env.Spec.Autoscaling = bounds(least, 5) }))
				if err != nil || got != want {
					t.Errorf("minReplicas %d: awaited is %v, %v, want %v", least, got, err, want)
				}
			}
		})
	}
}

func TestRunsEnqueueTheirPool(t *testing.T) {
	t.Parallel()
	waits, done := evalRun(), evalRun(told(v1alpha1.ConditionComplete, metav1.ConditionTrue, v1alpha1.ReasonCompleted))
	p := SelectWaiting()
	got := map[string]bool{
		"there":          p.Create(event.CreateEvent{Object: waits}),
		"begins":         p.Update(event.UpdateEvent{ObjectOld: done, ObjectNew: waits}),
		"still waits":    p.Update(event.UpdateEvent{ObjectOld: waits, ObjectNew: waits}),
		"ends":           p.Update(event.UpdateEvent{ObjectOld: waits, ObjectNew: done}),
		"there and done": p.Create(event.CreateEvent{Object: done}),
		"deleted":        p.Delete(event.DeleteEvent{Object: waits}),
	}
	want := map[string]bool{"there": true, "begins": true, "still waits": false, "ends": false, "there and done": false,
		"deleted": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("enqueues its pool (-want +got):\n%s", diff)
	}
	requests := FindPoolOfRun(t.Context(), waits)
	if len(requests) != 1 || requests[0].NamespacedName != (client.ObjectKey{Namespace: "shop", Name: "support"}) {
		t.Errorf("wakes %v", requests)
	}
}
