package environment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/rules"
	"github.com/csenv/csenv/controllers/testkit/testpool"
	"github.com/csenv/csenv/envserver/score"
)

// scaledDown returns a world whose pool has three servers, two of them with sessions, and should
// have one.
func scaledDown(t *testing.T) *world {
	t.Helper()
	env := pool(replicas(3))
	objects := []client.Object{env}
	template := children.BuildPodTemplate(children.Pool{Env: env, Image: testpool.Image}, "")
	for i, name := range []string{"support-a", "support-b", "support-c"} {
		pod := server(name)
		pod.Labels, pod.Annotations, pod.Status.PodIP = template.Labels, maps.Clone(template.Annotations), fmt.Sprintf(
			"10.0.0.%d", i)
		objects = append(objects, &pod)
	}
	w := newWorld(t, objects...)
	w.reconciler.reader.Stats = statsFunc(func(_ context.Context, podIP string) (score.Report, error) {
		return report(map[string]int64{"10.0.0.0": 4, "10.0.0.1": 0, "10.0.0.2": 2}[podIP]), nil
	})
	w.mustReconcile(t)
	w.announced()
	env = w.pool(t)
	env.Spec.Replicas = new(int32(1))
	if err := w.store.Update(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) replicas(t *testing.T) int32 {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(pool()), d); err != nil {
		t.Fatal(err)
	}
	return *d.Spec.Replicas
}

func TestReconcileWritesCostsBeforeTheNumber(t *testing.T) {
	t.Parallel()
	w := scaledDown(t)
	w.mustReconcile(t)
	slices.Sort(w.writes[:2])
	if diff := cmp.Diff([]string{"patch support-a", "patch support-c", "apply", "status"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	events := w.announced()
	if want := "Normal ScaledDown Scaled down from 3 to 1 servers: spec.replicas is 1."; !slices.Contains(events,
		want) {
		t.Errorf("events %q, want %q", events, want)
	}
	if got := testutil.ToFloat64(w.reconciler.metrics.decisions.WithLabelValues("shop", "support", "down",
		"SpecReplicas")); got != 1 {
		t.Errorf("%v decisions were counted", got)
	}
	w.mustReconcile(t)
	if len(w.writes) > 0 {
		t.Errorf("costs are written again: %v", w.writes)
	}
}

func TestReconcileRetriesCosts(t *testing.T) {
	t.Parallel()
	pods := corev1.Resource("pods")
	tests := map[string]struct {
		faults  faults
		wantErr string
		stays   bool
	}{
		"the pod was deleted": {faults{patch: apierrors.NewNotFound(pods, "support-a")}, "", false},
		"refused": {faults{patch: apierrors.NewForbidden(pods, "support-a",
			errors.New("refused by a webhook"))}, "annotating Pod support-", true},
		"conflict": {faults{patch: apierrors.NewConflict(pods, "support-a", errors.New("modified"))},
			"annotating Pod support-", true},
		"timeout after success": {faults{patchAfterSuccess: apierrors.NewTimeoutError("gave up waiting", 1)},
			"gave up waiting", true},
		"the number is refused": {faults{apply: apierrors.NewForbidden(pods, "support", errors.New("quota"))},
			"applying Deployment support", true},
		"the status write loses only": {faults{status: conflict()}, "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scaledDown(t)
			w.faults = tt.faults
			_, err := w.reconcile(t)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" &&
				(err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Fatalf("error = %v, want it to contain %q", err, tt.wantErr)
			}
			if got := w.replicas(t); (got == 3) != tt.stays {
				t.Errorf("%d servers, want 3: %v", got, tt.stays)
			}
			w.faults = faults{}
			w.mustReconcile(t)
			w.mustReconcile(t)
			if got := w.replicas(t); got != 1 {
				t.Errorf("%d servers after the faults", got)
			}
			w.mustReconcile(t)
			if len(w.writes) > 0 {
				t.Errorf("unexpected writes: %v", w.writes)
			}
		})
	}
}

// A full server isn't ready, so it would be removed before the idle ones. Scaling down waits for
// it, but not forever.
func TestReconcileWaitsForAFullServer(t *testing.T) {
	t.Parallel()
	w := scaledDown(t)
	now := clocktesting.NewFakePassiveClock(noon)
	w.reconciler.reader.Clock = now
	full := &corev1.Pod{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "support-a"}, full); err != nil {
		t.Fatal(err)
	}
	unready(full)
	if err := w.Status().Update(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	w.reconciler.reader.Stats = statsFunc(func(_ context.Context, podIP string) (score.Report, error) {
		return report(map[string]int64{"10.0.0.0": 10, "10.0.0.1": 0, "10.0.0.2": 2}[podIP]), nil
	})
	for range 3 {
		result := w.mustReconcile(t)
		if got := w.replicas(t); got != 3 {
			t.Fatalf("%d servers although the full one would be removed first", got)
		}
		if result.RequeueAfter > scalePollInterval*12/10 {
			t.Errorf("requeued after %s", result.RequeueAfter)
		}
	}
	if c := w.condition(t, v1alpha1.ConditionProgressing); c.Status != metav1.ConditionTrue {
		t.Errorf("Progressing is %+v", c)
	}
	now.SetTime(noon.Add(time.Minute))
	w.mustReconcile(t)
	if got := w.replicas(t); got != 1 {
		t.Errorf("%d servers after %s", got, time.Minute)
	}
}

func TestReconcileSuspends(t *testing.T) {
	t.Parallel()
	w := scaledDown(t)
	env := w.pool(t)
	env.Spec.OperatingMode = v1alpha1.SuspendedMode
	if err := w.store.Update(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	w.mustReconcile(t)
	if diff := cmp.Diff([]string{"apply", "status"}, w.writes); diff != "" || w.replicas(t) != 0 {
		t.Errorf("%d servers; writes: no cost, because all servers are removed (-want +got):\n%s", w.replicas(t), diff)
	}
	if c := w.condition(t, v1alpha1.ConditionAvailable); c.Reason != v1alpha1.ReasonSuspended {
		t.Errorf("Available is %+v", c)
	}
}

// A server that misses its end is deleted once more, for the time that it has left.
func TestReconcileEndsAnUndrainedServerAgain(t *testing.T) {
	t.Parallel()
	pod := server("support-a")
	pod.UID = "pod-a"
	var got string
	c := interceptor.NewClient(fake.NewFakeClient(&pod), interceptor.Funcs{Delete: func(_ context.Context,
		_ client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
		o := (&client.DeleteOptions{}).ApplyOptions(opts)
		got = fmt.Sprintf("%s %s %d", object.GetName(), *o.Preconditions.UID, *o.GracePeriodSeconds)
		return apierrors.NewNotFound(corev1.Resource("pods"), object.GetName())
	}})
	undrained := []rules.Undrained{{Pod: &pod, Grace: 10}}
	if err := (writer{c}).endAgain(t.Context(), undrained); err != nil || got != "support-a pod-a 10" {
		t.Errorf("deleted %q, %v", got, err)
	}
}
