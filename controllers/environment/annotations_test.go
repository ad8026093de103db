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
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Annotations = maps.Clone(pod.Annotations)
		pod.Annotations[key] = value
	}
}

// costs returns the deletion costs that the marks write; "-" removes one.
func costs(all []mark) map[string]string {
	got := map[string]string{}
	for _, m := range all {
		if cost, set := m.annotations[deletionCost]; set {
			got[m.pod] = "-"
			if cost != nil {
				got[m.pod] = *cost
			}
		}
	}
	return got
}

func TestDeletionCosts(t *testing.T) {
	t.Parallel()
	pods := []corev1.Pod{
		server("busy"), server("busier"), server("idle"), server("silent"), server("going", terminating),
		server("starting", waiting("ContainerCreating", "")),
		server("as before", annotated(deletionCost, "3")), server("less than before", annotated(deletionCost, "9")),
		server("idle now", annotated(deletionCost, "9")),
	}
	reports := map[string]score.Report{
		"busy": report(3), "busier": report(7), "idle": report(0), "going": report(5), "as before": report(3),
		"less than before": report(2), "idle now": report(0),
	}
	all := map[string]string{"busy": "3", "busier": "7", "silent": "100000", "less than before": "2", "idle now": "-"}
	tests := map[string]struct {
		from, to int32
		pods     []corev1.Pod
		want     map[string]string
	}{
		"fewer servers":   {8, 3, pods, all},
		"as many servers": {8, 8, pods, map[string]string{}},
		"more servers":    {3, 8, pods, map[string]string{}},
		"none at all":     {8, 0, pods, map[string]string{}},
		"fewer, and all are idle": {2, 1, []corev1.Pod{server("idle"),
			server("starting", waiting("ContainerCreating", ""))}, map[string]string{}},
		"fewer, and one is silent": {2, 1, []corev1.Pod{server("idle"), server("silent")},
			map[string]string{"silent": "100000"}},
		"before there is a Deployment": {-1, 2, nil, map[string]string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy()
			s.pods, s.reports, s.scaling = tt.pods, reports, scaling{from: tt.from, to: tt.to}
			if diff := cmp.Diff(tt.want, costs(marks(s, &memory{}))); diff != "" {
				t.Errorf("costs (-want +got):\n%s", diff)
			}
		})
	}
}

// removed returns the pods that a ReplicaSet would remove: unready ones first, then those with the
// lowest cost.
func removed(servers []corev1.Pod, n int) []corev1.Pod {
	cost := func(pod corev1.Pod) (c int) {
		_, _ = fmt.Sscan(pod.Annotations[deletionCost], &c)
		return c
	}
	rank := func(pod corev1.Pod) int {
		if pods.IsReady(&pod) {
			return 1
		}
		return 0
	}
	order := slices.Clone(servers)
	slices.SortFunc(order, func(a, b corev1.Pod) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return cost(a) - cost(b)
	})
	return order[:n]
}

// For all states of the servers and all earlier costs: autoscaling removes no server with sessions
// while an idle one stays. If none is idle, the server with the fewest sessions is removed.
func TestIdleServersGoFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		s := healthy()
		s.env.Spec.Sessions.PerPod, s.env.Spec.Autoscaling = 10, bounds(0, 20)
		s.pods, s.reports = nil, map[string]score.Report{}
		n := rapid.IntRange(1, 12).Draw(r, "servers")
		for i := range n {
			pod := server(fmt.Sprintf("support-%02d", i))
			if old := rapid.IntRange(0, 3).Draw(r, "old cost"); old > 0 {
				annotated(deletionCost, fmt.Sprint(old))(&pod)
			}
			switch active := rapid.Int64Range(-2, 10).Draw(r, "sessions"); active {
			case -2:
				waiting("ContainerCreating", "")(&pod)
			case -1: // no answer
			case 10:
				unready(&pod)
				fallthrough
			default:
				s.reports[pod.Name] = report(active)
			}
			s.pods = append(s.pods, pod)
		}
		from := int32(n)
		s.live[childID{kindDeployment, s.env.Name}].(*appsv1.Deployment).Spec.Replicas = &from
		needed := rapid.Int64Range(0, 12).Draw(r, "needed")
		s.scaling, _ = decideReplicas(s.snapshot, watched(s.env.Spec.Autoscaling, needed))
		if s.scaling.to >= from {
			return
		}
		for _, m := range marks(s, &memory{}) {
			i := slices.IndexFunc(s.pods, func(pod corev1.Pod) bool { return pod.Name == m.pod })
			s.pods[i].Annotations = maps.Clone(s.pods[i].Annotations)
			for key, value := range m.annotations {
				delete(s.pods[i].Annotations, key)
				if value != nil {
					s.pods[i].Annotations[key] = *value
				}
			}
		}
		sessions := func(pod corev1.Pod) int64 {
			if report, ok := s.reports[pod.Name]; ok || !pods.IsServing(&pod) {
				return report.Sessions.Active
			}
			return maxSessions
		}
		gone := removed(s.pods, int(from-s.scaling.to))
		for _, pod := range gone {
			for _, other := range s.pods {
				stays := !slices.ContainsFunc(gone, func(g corev1.Pod) bool { return g.Name == other.Name })
				if stays && sessions(other) < sessions(pod) {
					r.Fatalf("%s with %d sessions is removed, %s with %d stays", pod.Name, sessions(pod), other.Name,
						sessions(other))
				}
			}
		}
	})
}

func TestEviction(t *testing.T) {
	t.Parallel()
	long, lately := noon.Add(-idleBeforeEviction), noon.Add(time.Second-idleBeforeEviction)
	tests := map[string]struct {
		now      string
		idle     time.Time
		answered bool
		user     bool
		want     string
	}{
		"played":                              {"false", time.Time{}, true, false, ""},
		"idle lately":                         {"false", lately, true, false, ""},
		"idle for long":                       {"false", long, true, false, "true"},
		"idle for long, already marked":       {"true", long, true, false, ""},
		"idle lately, after a restart":        {"true", lately, true, false, ""},
		"played again":                        {"true", time.Time{}, true, false, "false"},
		"silent":                              {"true", time.Time{}, false, false, ""},
		"silent after it was idle for long":   {"false", long, false, false, ""},
		"played, and the user decides":        {"true", time.Time{}, true, true, ""},
		"idle for long, and the user decides": {"false", long, true, true, ""},
		"a template without it":               {"", long, true, false, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := server("support-a", annotated(safeToEvict, tt.now))
			if tt.now == "" {
				delete(pod.Annotations, safeToEvict)
			}
			s := healthy()
			s.pods = []corev1.Pod{pod}
			if !tt.answered {
				s.reports = nil
			}
			if tt.user {
				s.env.Spec.Template = &v1alpha1.PodOverrides{Annotations: map[string]string{safeToEvict: tt.now}}
			}
			got := ""
			for _, m := range marks(s, &memory{servers: map[types.UID]serverMemory{pod.UID: {idleSince: tt.idle}}}) {
				got += *m.annotations[safeToEvict]
			}
			if got != tt.want {
				t.Errorf("says %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTemplateForbidsEviction(t *testing.T) {
	t.Parallel()
	s := healthy()
	if got := podTemplate(s.snapshot, s.scenarios).Annotations[safeToEvict]; got != "false" {
		t.Errorf("the template has %q", got)
	}
	s.env.Spec.Template = &v1alpha1.PodOverrides{Annotations: map[string]string{safeToEvict: "true"}}
	if got := podTemplate(s.snapshot, s.scenarios).Annotations[safeToEvict]; got != "true" {
		t.Errorf("the template has %q, want the user's true", got)
	}
}

// scaledDown returns a world whose pool has three servers, two of them with sessions, and should
// have one.
func scaledDown(t *testing.T) *world {
	t.Helper()
	env := pool(replicas(3))
	objects := []client.Object{env}
	template := podTemplate(snapshot{env: env, image: testImage}, "")
	for i, name := range []string{"support-a", "support-b", "support-c"} {
		pod := server(name)
		pod.Labels, pod.Annotations, pod.Status.PodIP = template.Labels, maps.Clone(template.Annotations), fmt.Sprintf(
			"10.0.0.%d", i)
		objects = append(objects, &pod)
	}
	w := newWorld(t, objects...)
	w.reconciler.stats = statsFunc(func(_ context.Context, podIP string) (score.Report, error) {
		return report(map[string]int64{"10.0.0.0": 4, "10.0.0.1": 0, "10.0.0.2": 2}[podIP]), nil
	})
	w.mustReconcile(t)
	w.announced()
	env = w.pool(t)
	env.Spec.Replicas = new(int32(1))
	if err := w.reconciler.live.(client.Client).Update(t.Context(), env); err != nil {
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
		scaleSpec)); got != 1 {
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
	w.reconciler.clock = now
	full := &corev1.Pod{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "support-a"}, full); err != nil {
		t.Fatal(err)
	}
	unready(full)
	if err := w.Status().Update(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	w.reconciler.stats = statsFunc(func(_ context.Context, podIP string) (score.Report, error) {
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
	now.SetTime(noon.Add(fullPatience))
	w.mustReconcile(t)
	if got := w.replicas(t); got != 1 {
		t.Errorf("%d servers after %s", got, fullPatience)
	}
}

func TestReconcileSuspends(t *testing.T) {
	t.Parallel()
	w := scaledDown(t)
	env := w.pool(t)
	env.Spec.OperatingMode = v1alpha1.SuspendedMode
	if err := w.reconciler.live.(client.Client).Update(t.Context(), env); err != nil {
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
