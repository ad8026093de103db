package environment

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/testkit/testpool"
)

// admitting returns a world whose admission changes Deployments: another registry, less memory, no
// CPU request, and a sidecar.
func admitting(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, pool(keyless))
	store := w.store
	w.reconciler.use(interceptor.NewClient(w, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			if err := c.Apply(ctx, config, opts...); err != nil {
				return err
			}
			var applied appsv1.Deployment
			if err := json.Unmarshal(children.EncodeJSON(config), &applied); err != nil || applied.Kind != children.KindDeployment {
				return err
			}
			spec := &applied.Spec.Template.Spec
			spec.Containers[0].Image = "mirror.example/" + testpool.Image
			spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("512Mi")
			delete(spec.Containers[0].Resources.Requests, corev1.ResourceCPU)
			if len(spec.Containers) == 1 {
				spec.Containers = append(spec.Containers, corev1.Container{Name: "mesh", Image: "mesh:1"})
			}
			if err := store.Update(ctx, &applied); err != nil {
				return err
			}
			applied.APIVersion, applied.Kind = "apps/v1", children.KindDeployment // the client clears these fields
			return json.Unmarshal(children.EncodeJSON(applied), config)
		},
	}))
	return w
}

func TestReconcileAcceptsWhatAdmissionChanges(t *testing.T) {
	t.Parallel()
	w := admitting(t)
	settles := func(when string, passes int) {
		t.Helper()
		for range passes {
			w.mustReconcile(t)
		}
		for range 3 {
			if w.mustReconcile(t); len(w.writes) > 0 {
				t.Fatalf("%s: writes to a pool at rest: %v", when, w.writes)
			}
		}
	}
	settles("created", 2)
	w.rolledOut(t)
	settles("rolled out", 1)
	if c := w.condition(t, v1alpha1.ConditionProgressing); c.Reason != v1alpha1.ReasonRolledOut {
		t.Errorf("Progressing is %+v", c)
	}

	w.edit(t, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil:latest" })
	if w.mustReconcile(t); !cmp.Equal(w.writes[:1], []string{"apply"}) {
		t.Errorf("writes after a manual change: %v", w.writes)
	}
	settles("changed by hand", 1)
	w.edit(t, func(d *appsv1.Deployment) {
		if got := d.Spec.Template.Spec.Containers[0].Image; got != "mirror.example/"+testpool.Image {
			t.Errorf("image = %s", got)
		}
		d.Annotations["others"] = "own this"
	})
	settles("annotated by others", 0)

	w.reconciler.memories.forgetPool(client.ObjectKeyFromObject(pool()))
	settles("the operator restarted", 2)
}

// rolledOut sets the Deployment's status to a complete rolling update.
func (w *world) rolledOut(t *testing.T) {
	t.Helper()
	var d appsv1.Deployment
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(pool()), &d); err != nil {
		t.Fatal(err)
	}
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n,
		ReadyReplicas: n, AvailableReplicas: n}
	if err := w.store.Status().Update(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
}

// edit changes the Deployment, bypassing admission.
func (w *world) edit(t *testing.T, change func(*appsv1.Deployment)) {
	t.Helper()
	var d appsv1.Deployment
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(pool()), &d); err != nil {
		t.Fatal(err)
	}
	change(&d)
	if err := w.store.Update(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
}
