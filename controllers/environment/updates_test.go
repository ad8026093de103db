package environment

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/testkit/testpool"
)

// runningWorld has a pool whose servers run.
func runningWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, pool(keyless))
	w.mustReconcile(t)
	w.rolledOut(t)
	w.mustReconcile(t)
	return w
}

// Another release of the operator must not replace the servers of all pools at the same time.
func TestUpdatesOfTheOperatorReachFewPoolsAtATime(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	other, mine := types.NamespacedName{Namespace: "lab", Name: "other"}, client.ObjectKeyFromObject(pool())
	w.reconciler.reader.Image, w.reconciler.updates = "csenv:next", newUpdates(1)
	w.reconciler.updates.updated[other] = true
	image := func() (got string, replicas int32) {
		w.edit(t, func(d *appsv1.Deployment) {
			got, replicas = d.Spec.Template.Spec.Containers[0].Image, *d.Spec.Replicas
		})
		return got, replicas
	}

	w.edit(t, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(9)) })
	for range 2 {
		w.mustReconcile(t)
	}
	if got, replicas := image(); got != testpool.Image || replicas != 2 {
		t.Errorf("while another pool is updated: image %s, %d replicas", got, replicas)
	}
	if c := w.condition(t, v1alpha1.ConditionProgressing); c.Reason != v1alpha1.ReasonUpdatePostponed ||
		w.pool(t).Status.Image != testpool.Image {
		t.Errorf("Progressing is %+v, status.image %s", c, w.pool(t).Status.Image)
	}

	w.reconciler.updates.freePlace(other)
	w.mustReconcile(t)
	if got, _ := image(); got != "csenv:next" {
		t.Errorf("after the other pool: image %s", got)
	}
	w.edit(t, func(d *appsv1.Deployment) { d.Generation++ }) // by the API server
	w.mustReconcile(t)
	if !w.reconciler.updates.updated[mine] {
		t.Error("the pool gave up its place before its servers were replaced")
	}
	w.rolledOut(t)
	w.mustReconcile(t)
	if len(w.reconciler.updates.updated) > 0 {
		t.Error("the pool keeps its place")
	}
}

func TestChangesOfTheSpecAreNotPostponed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool(keyless))
	w.mustReconcile(t)
	w.reconciler.updates = newUpdates(1)
	w.reconciler.updates.updated[types.NamespacedName{Name: "other"}] = true
	env := w.pool(t)
	env.Generation++
	env.Spec.Image = "csenv:mine"
	if err := w.store.Update(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	w.mustReconcile(t)
	w.edit(t, func(d *appsv1.Deployment) {
		if got := d.Spec.Template.Spec.Containers[0].Image; got != "csenv:mine" {
			t.Errorf("image %s", got)
		}
	})
}

// An operator that has just started knows which pools another one updates.
func TestRestartedOperatorCountsRunningUpdates(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.reconciler.reader.Image = "csenv:next"
	cluster := w.store
	var mine appsv1.Deployment
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(pool()), &mine); err != nil {
		t.Fatal(err)
	}
	other := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "other", Labels: mine.Labels,
		Generation: 2}, Spec: mine.Spec}
	if err := cluster.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for name, step := range map[string]struct {
		status appsv1.DeploymentStatus
		image  string
	}{
		"not yet seen": {appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2}, testpool.Image},
		"rolling":      {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1}, testpool.Image},
		"stuck": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse,
				Reason: "ProgressDeadlineExceeded"}}}, "csenv:next"},
		"scaled": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2}, "csenv:next"},
	} {
		other.Status = step.status
		if err := cluster.Status().Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		w.edit(t, func(d *appsv1.Deployment) { d.Spec, d.Annotations = mine.Spec, mine.Annotations })
		w.rolledOut(t)
		w.reconciler.updates = newUpdates(1)
		w.mustReconcile(t)
		w.edit(t, func(d *appsv1.Deployment) {
			if got := d.Spec.Template.Spec.Containers[0].Image; got != step.image {
				t.Errorf("%s: image %s, want %s", name, got, step.image)
			}
		})
	}
}
