package environment

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/rules"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

func TestDrainReportOf(t *testing.T) {
	t.Parallel()
	said := func(message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Message: message}}
		}
	}
	tests := map[string]struct {
		pod  corev1.Pod
		want score.DrainReport
		said bool
	}{
		"drained": {server("a", said(`{"sessions":12,"cut":3,"seconds":60}`)),
			score.DrainReport{Sessions: 12, Cut: 3, Seconds: 60}, true},
		"later release": {server("a", said(`{"sessions":1,"more":true}`)), score.DrainReport{Sessions: 1}, true},
		"out of bounds": {server("a", said(`{"sessions":-1,"cut":1000000000000,"seconds":99999999}`)),
			score.DrainReport{Cut: snapshot.MaxSessions, Seconds: 604800}, true},
		"a log's end":   {server("a", said("panic: out of luck")), score.DrainReport{}, false},
		"nothing":       {server("a", said("")), score.DrainReport{}, false},
		"still running": {server("a"), score.DrainReport{}, false},
		"never started": {server("a", func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }),
			score.DrainReport{}, false},
		"a number alone": {server("a", said(`7`)), score.DrainReport{}, false},
	}
	for name, tt := range tests {
		if got, said := readDrainReport(&tt.pod); got != tt.want || said != tt.said {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, said, tt.want, tt.said)
		}
	}
}

// A server's drain report is counted and announced once, even if its pod is no longer in the cache.
func TestReconcileReportsDeletedServers(t *testing.T) {
	t.Parallel()
	w := scaledDown(t)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	for name, message := range map[string]string{"support-a": `{"sessions":4,"cut":1,"seconds":3600}`,
		"support-b": `{"sessions":0,"cut":0,"seconds":2}`, "support-c": ""} {
		pod := &corev1.Pod{}
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, pod); err != nil {
			t.Fatal(err)
		}
		if err := w.store.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Message: message}}
		if name == "support-c" {
			w.mustReconcile(t) // a pass that no longer lists the pod, before its deletion event
			w.announced()
		}
		w.reconciler.handlePods().Delete(t.Context(), event.DeleteEvent{Object: pod}, queue)
		if queue.Len() != 1 {
			t.Fatalf("%d pools are enqueued", queue.Len())
		}
	}
	for range 2 {
		w.mustReconcile(t)
	}
	var got []string
	for _, e := range w.announced() {
		if strings.Contains(e, "Server support-") {
			got = append(got, e)
		}
	}
	m := w.reconciler.metrics
	if cut := testutil.ToFloat64(m.cut.WithLabelValues("shop", "support")); cut != 1+2 {
		t.Errorf("%v sessions were cut, want the one of support-a and the last two of support-c; events %q", cut,
			got)
	}
	if n := testutil.CollectAndCount(m.drains); n != 1 {
		t.Errorf("%d series of drains", n)
	}
}

func TestReconcileReportsDrains(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		message string
		want    []string
	}{
		"drained": {`{"sessions":4,"cut":0,"seconds":75}`,
			[]string{"Normal Drained Server support-a drained its 4 sessions in 1m15s."}},
		"cut": {`{"sessions":4,"cut":1,"seconds":3600}`,
			[]string{"Warning SessionsCut Server support-a cut 1 of its 4 sessions after 1h0m0s. To " +
				"let all sessions end, raise spec.drainTimeoutSeconds above spec.sessions.maxDurationSeconds."}},
		"idle": {`{"sessions":0,"cut":0,"seconds":0}`, nil},
		"no word": {``, []string{"Warning SessionsCut Server support-a ended without a drain report. It last " +
			"reported 6 open sessions. Check its node and its memory limit."}},
		"not known": {`x`, []string{"Warning SessionsCut Server support-a ended without a drain report. It " +
			"last reported 6 open sessions. Check its node and its memory limit."}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			env := pool()
			pod := server("support-a", func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{Message: tt.message}}
			})
			w.reconciler.memories.memoryOf(env)
			_, last := rules.DecidePool(rules.Input{Snapshot: snapshot.Snapshot{Pool: children.Pool{Env: env},
				Pods: []corev1.Pod{pod}, Reports: map[string]score.Report{pod.Name: report(6)}}})
			w.reconciler.memories.recordDeleted(client.ObjectKeyFromObject(env), &pod)
			w.reconciler.reportTerminated(env, last)
			w.reconciler.reportTerminated(env, last)
			if diff := cmp.Diff(tt.want, w.announced()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMemories(t *testing.T) {
	t.Parallel()
	var m memories
	key := client.ObjectKeyFromObject(pool())
	pod := server("support-a")
	m.recordDeleted(key, &pod)
	if got := m.takeDeleted(key); len(got) > 0 {
		t.Error("a pod of an unknown pool is stored")
	}
	first := m.memoryOf(pool())
	first.written = noon
	for range maxDeleted + 1 {
		m.recordDeleted(key, &pod)
	}
	if m.memoryOf(pool()) != first || len(m.takeDeleted(key)) != maxDeleted || len(m.takeDeleted(key)) > 0 {
		t.Error("the memory isn't kept, or has the wrong number of pods")
	}
	if other := m.memoryOf(pool(func(env *v1alpha1.CustomerSupportEnv) { env.UID = "another" })); !other.written.IsZero() {
		t.Error("a pool has the memory of an earlier one with its name")
	}
	m.forgetPool(key)
	if len(m.pools) > 0 {
		t.Error("a deleted pool is still in the memory")
	}
}

// lagging makes the reconciler read the Deployment as it was before the last write, while lags is
// true.
func (w *world) lagging(t *testing.T, lags *bool) {
	t.Helper()
	before := &appsv1.Deployment{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(pool()), before); err != nil {
		t.Fatal(err)
	}
	w.reconciler.use(interceptor.NewClient(w, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			opts ...client.GetOption) error {
			if d, isDeployment := object.(*appsv1.Deployment); isDeployment && *lags {
				before.DeepCopyInto(d)
				return nil
			}
			return c.Get(ctx, key, object, opts...)
		},
	}))
}

// A pass over a stale cache makes the same decision and emits no event twice.
func TestReconcileOverALaggingCache(t *testing.T) {
	t.Parallel()
	w := scaledDown(t)
	lags := true
	w.lagging(t, &lags)
	for range 3 {
		w.mustReconcile(t)
		if got := w.replicas(t); got != 1 {
			t.Fatalf("%d servers", got)
		}
	}
	told := slices.DeleteFunc(w.announced(), func(e string) bool { return !strings.HasPrefix(e, "Normal ScaledDown") })
	if got := testutil.ToFloat64(w.reconciler.metrics.decisions.WithLabelValues("shop", "support", "down",
		"SpecReplicas")); len(told) != 1 || got != 1 {
		t.Errorf("events %q and %v decisions, want one", told, got)
	}
	lags = false
	w.mustReconcile(t)
	w.mustReconcile(t)
	if len(w.writes) > 0 || w.replicas(t) != 1 {
		t.Errorf("unexpected writes: %v", w.writes)
	}
}

func TestPodsEnqueueTheirPool(t *testing.T) {
	t.Parallel()
	pod := server("support-a")
	requests := findPoolOfPod(t.Context(), &pod)
	if len(requests) != 1 || requests[0].Name != "support" {
		t.Errorf("a change of a server's pod enqueues %v, want its pool", requests)
	}
	runner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		v1alpha1.LabelComponent: v1alpha1.ComponentRunner, v1alpha1.LabelEnvironment: "support"}}}
	if requests := findPoolOfPod(t.Context(), runner); len(requests) != 0 {
		t.Errorf("a change of a runner's pod enqueues %v, want nothing", requests)
	}
}
