package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// world is a cluster without controllers: the test plays the Job controller and the runners.
type world struct {
	t        *testing.T
	client   client.WithWatch // without faults
	r        *Reconciler
	recorder *events.FakeRecorder
	clock    *testclock.FakePassiveClock
	// forged are shards whose first pods leave a forged summary.
	forged map[int]bool
	// fault, when set, decides what becomes of each write of the reconciler.
	fault func(write string, do func() error) error
	// read, when set, replaces what the reconciler's cache answers.
	read func(key client.ObjectKey, object client.Object) (answered bool, err error)
	// unlisted is a pod that the reconciler's cache doesn't show.
	unlisted string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, recorder: events.NewFakeRecorder(200), clock: testclock.NewFakePassiveClock(start())}
	w.client = fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.EvaluationRun{}, &v1alpha1.CustomerSupportEnv{}, &corev1.Pod{},
			&batchv1.Job{}).Build()
	cached := interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
			opts ...client.GetOption) error {
			if w.read != nil {
				if answered, err := w.read(key, obj); answered {
					return err
				}
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if pods, ok := list.(*corev1.PodList); ok {
				pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Name == w.unlisted })
			}
			return err
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return w.write(fmt.Sprintf("create %T", obj), func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return w.write(fmt.Sprintf("delete %T", obj), func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			return w.write(fmt.Sprintf("patch %T", obj), func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object,
			opts ...client.SubResourceUpdateOption) error {
			return w.write("status", func() error { return c.SubResource(sub).Update(ctx, obj, opts...) })
		},
	})
	w.r = &Reconciler{
		client: cached, direct: w.client, recorder: w.recorder, pools: fakePool{"10.0.0.1": offer()}, clock: w.clock,
		metrics: newRunMetrics(), options: Options{Image: "csenv:test", Version: "v1.2.3"},
	}
	return w
}

// ready is a world with a pool, its server and a run.
func readyWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, pool(), server("support-a", "10.0.0.1"), newTestRun())
}

func (w *world) write(what string, do func() error) error {
	if w.fault != nil {
		return w.fault(what, do)
	}
	return do()
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// pass reconciles once and returns the error.
func (w *world) pass() (ctrl.Result, error) {
	return w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key(runName)})
}

// mustPass reconciles once.
func (w *world) mustPass() ctrl.Result {
	w.t.Helper()
	result, err := w.pass()
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *world) run() *v1alpha1.EvaluationRun {
	w.t.Helper()
	var run v1alpha1.EvaluationRun
	if err := w.client.Get(w.t.Context(), key(runName), &run); err != nil {
		w.t.Fatal(err)
	}
	return &run
}

func (w *world) job() *batchv1.Job {
	w.t.Helper()
	var job batchv1.Job
	err := w.client.Get(w.t.Context(), key(runName), &job)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return &job
}

func (w *world) plan() score.Plan {
	w.t.Helper()
	var planMap corev1.ConfigMap
	if err := w.client.Get(w.t.Context(), key(runName+"-plan"), &planMap); err != nil {
		w.t.Fatal(err)
	}
	plan, err := score.ParsePlan([]byte(planMap.Data[planKey]))
	if err != nil {
		w.t.Fatal(err)
	}
	return plan
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.client.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
}

// held lists the pods that carry the finalizer.
func (w *world) held() string {
	w.t.Helper()
	var list corev1.PodList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if controllerutil.ContainsFinalizer(&list.Items[i], summaryFinalizer) {
			names = append(names, list.Items[i].Name)
		}
	}
	return strings.Join(names, " ")
}

// events drains the recorder, the kinds and reasons alone.
func (w *world) events() []string {
	var got []string
	for {
		select {
		case e := <-w.recorder.Events:
			fields := strings.SplitN(e, " ", 3)
			got = append(got, fields[0]+" "+fields[1])
		default:
			return got
		}
	}
}

// playShards does the Job's work once its plan and Job are there: each call ends two shards more,
// and the Job with the last. The first pod of a forged shard leaves no summary of the pool's.
func (w *world) playShards() {
	w.t.Helper()
	job := w.job()
	var planMap corev1.ConfigMap
	if job == nil || *job.Spec.Suspend || w.client.Get(w.t.Context(), key(runName+"-plan"), &planMap) != nil {
		return
	}
	plan := w.plan()
	shards, err := score.ParseIndexSet(job.Annotations[annotationShards])
	if err != nil {
		w.t.Fatal(err)
	}
	played := 0
	for index := range shards.Len() {
		shard, _ := shards.At(index)
		message := summaryOf(w.t, plan, int(shard), playing{})
		if w.forged[int(shard)] && jobAttemptOf(job) == 1 {
			message = "forged"
		}
		pod := ends(runnerPodOf(w.run(), int(shard)), corev1.PodSucceeded, message)
		if jobAttemptOf(job) > 1 {
			pod = ofJob(pod, job, int(index))
		}
		err := w.client.Create(w.t.Context(), pod)
		if client.IgnoreAlreadyExists(err) != nil {
			w.t.Fatal(err)
		}
		if err == nil {
			if played++; played == 2 {
				return
			}
		}
	}
	w.endJob(batchv1.JobComplete)
}

func TestRunFromPlanToScore(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	plan := w.plan()
	if job := w.job(); job == nil || *job.Spec.Completions != 4 || *job.Spec.Parallelism != 4 {
		t.Fatalf("job %+v, want one of 4 shards", job)
	}
	if diff := cmp.Diff([]string{"Normal Started"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	w.create(succeeded(t, w.run(), plan, 2))
	w.mustPass()
	if run := w.run(); run.Status.Shards.CompletedIndexes != "2" || run.Status.Score == nil || w.held() != "" {
		t.Errorf("after one shard: %+v, held %q", run.Status, w.held())
	}
	w.create(succeeded(t, w.run(), plan, 0), succeeded(t, w.run(), plan, 1), succeeded(t, w.run(), plan, 3))
	w.mustPass()
	run := w.run()
	if got, want := states(run.Status.Conditions), "EnvironmentReady=True/EnvironmentAvailable "+
		"Complete=True/Completed Failed=False/NotFailed"; got != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
	if diff := cmp.Diff(&v1alpha1.RunEpisodes{Total: 14, Scored: 14, Retried: 4}, run.Status.Episodes); diff != "" {
		t.Error(diff)
	}
	if run.Status.Progress != "14/14" || run.Status.CompletionTime == nil || w.held() != "" {
		t.Errorf("progress %q, completion %v, held %q", run.Status.Progress, run.Status.CompletionTime, w.held())
	}
	if diff := cmp.Diff([]string{"Normal Progress", "Normal Completed"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	if got := testutil.ToFloat64(w.r.metrics.counted); got != 4 {
		t.Errorf("%v shards in the metric, want 4", got)
	}
}

// The event comes with the pass that counts the shard, and with no other.
func TestReplayedEpisodesAreToldOnce(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	w.events()
	message := summaryOf(t, w.plan(), 2, playing{change: func(l *score.Ledger) { l.Replayed = 1 }})
	w.create(ends(runnerPodOf(w.run(), 2), corev1.PodSucceeded, message))
	w.mustPass()
	w.mustPass()
	if diff := cmp.Diff([]string{"Warning EpisodesReplayed", "Normal Progress"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	if got := states(w.run().Status.Conditions); !strings.Contains(got, notFailed) {
		t.Errorf("conditions %s, want a run that goes on", got)
	}
}

// One write is a crash before it, a crash after it, or a conflict; the operator then comes back.
// Whatever write it hits, the figures are those of a run without faults, every pod is let go, and
// the plan is the one that the status remembers.
func TestCrashAtEveryWrite(t *testing.T) {
	honest := readyWorld(t)
	want := honest.toTheEnd()
	conflict := apierrors.NewConflict(schema.GroupResource{Group: "csenv.dev", Resource: "evaluationruns"}, runName,
		errCrash)
	for played, forged := range map[string]map[int]bool{"all summaries are honest": nil,
		"two are forged": {1: true, 2: true}} {
		writes := 0
		reference := readyWorld(t)
		reference.forged = forged
		reference.fault = func(_ string, do func() error) error { writes++; return do() }
		reference.toTheEnd()
		if writes < 8 {
			t.Fatalf("%d writes, want at least a plan, a Job, some status writes and four pods", writes)
		}
		for name, hit := range map[string]func(do func() error) error{
			"crash before": func(func() error) error { return errCrash },
			"crash after":  func(do func() error) error { return errors.Join(do(), errCrash) },
			"conflict":     func(func() error) error { return conflict },
		} {
			for at := range writes {
				t.Run(fmt.Sprintf("%s, %s write %d", played, name, at), func(t *testing.T) {
					w := readyWorld(t)
					w.forged = forged
					n := 0
					w.fault = func(_ string, do func() error) error {
						n++
						if n-1 == at {
							return hit(do)
						}
						return do()
					}
					got := w.toTheEnd()
					if rounds := int32(1 + min(len(forged), 1)); got.Shards.Rounds != rounds {
						t.Errorf("%d rounds, want %d", got.Shards.Rounds, rounds)
					}
					got.Shards.Rounds = want.Shards.Rounds
					if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(metav1.Time{}, &metav1.Time{})); diff != "" {
						t.Error(diff)
					}
					w.tableIsWhole()
				})
			}
		}
	}
}

// tableIsWhole compares the table of scenarios with the sums.
func (w *world) tableIsWhole() {
	w.t.Helper()
	var object corev1.ConfigMap
	if err := w.client.Get(w.t.Context(), key(runName+"-scores"), &object); err != nil {
		w.t.Fatal(err)
	}
	var sums score.Accumulator
	if err := sums.UnmarshalText([]byte(w.run().Status.Shards.Accumulator)); err != nil {
		w.t.Fatal(err)
	}
	if !sums.Holds(tableOf(&object)) {
		w.t.Errorf("the table isn't that of the sums: %s", object.Data[v1alpha1.ScoresKey])
	}
}

// toTheEnd lets the run and its Job take turns until nothing is left to do, and returns the status.
func (w *world) toTheEnd() v1alpha1.EvaluationRunStatus {
	w.t.Helper()
	for range 40 {
		_, err := w.pass()
		if err != nil && !errors.Is(err, errCrash) {
			w.t.Fatal(err)
		}
		if err == nil && ended(w.run().Status.Conditions) && w.held() == "" {
			return w.run().Status
		}
		w.playShards()
	}
	w.t.Fatalf("the run doesn't end: %s, held %q", states(w.run().Status.Conditions), w.held())
	return v1alpha1.EvaluationRunStatus{}
}

// The cache may show the run as it was before the last writes: then a status write conflicts, and
// nothing is counted twice.
func TestLaggingCacheCountsNothingTwice(t *testing.T) {
	want := readyWorld(t).toTheEnd()
	for lag := 1; lag <= 3; lag++ {
		t.Run(fmt.Sprintf("%d versions behind", lag), func(t *testing.T) {
			w := readyWorld(t)
			var seen []*v1alpha1.EvaluationRun
			reads := 0
			w.read = func(_ client.ObjectKey, object client.Object) (bool, error) {
				run, ok := object.(*v1alpha1.EvaluationRun)
				if !ok {
					return false, nil
				}
				reads++
				seen = append(seen, w.run())
				// Every other read is up to date, or the run would never end.
				if back := len(seen) - 1 - lag; reads%2 == 0 && back >= 0 {
					seen[back].DeepCopyInto(run)
					return true, nil
				}
				return false, nil
			}
			if diff := cmp.Diff(want, w.toTheEnd(), cmpopts.IgnoreTypes(metav1.Time{}, &metav1.Time{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStaleStatusWriteLosesQuietly(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	old := w.run()
	w.playShards()
	w.mustPass()
	counted := w.run().Status
	w.read = func(_ client.ObjectKey, object client.Object) (bool, error) {
		if run, ok := object.(*v1alpha1.EvaluationRun); ok {
			old.DeepCopyInto(run)
			return true, nil
		}
		return false, nil
	}
	w.create(succeeded(t, old, w.plan(), 3))
	w.events()
	result := w.mustPass()
	if result.RequeueAfter != pods.ConflictDelay {
		t.Errorf("comes back after %v, want %v", result.RequeueAfter, pods.ConflictDelay)
	}
	if diff := cmp.Diff(counted, w.run().Status); diff != "" {
		t.Error(diff)
	}
	if w.held() != "baseline-3" {
		t.Errorf("held %q: a pod whose summary wasn't written was let go", w.held())
	}
	if got := w.events(); len(got) > 0 {
		t.Errorf("events %v of a write that lost", got)
	}
}

func TestDeletedRunLetsItsPodsGo(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	run := w.run()
	busy := runnerPodOf(run, 1)
	busy.Status.Phase, busy.Spec.NodeName = corev1.PodRunning, "node"
	w.create(succeeded(t, run, w.plan(), 0), busy)
	if err := w.client.Delete(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	w.mustPass()
	if w.held() != "" {
		t.Errorf("held %q after the run went", w.held())
	}
	var pod corev1.Pod
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(busy), &pod); err != nil ||
		!controllerutil.ContainsFinalizer(&pod, batchv1.JobTrackingFinalizer) {
		t.Errorf("the Job's own finalizer went too: %v (%v)", pod.Finalizers, err)
	}
}

func TestRunBeingDeletedLetsItsPodsGoAndCountsNothing(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	run := w.run()
	run.Finalizers = []string{metav1.FinalizerDeleteDependents}
	if err := w.client.Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	w.create(succeeded(t, run, w.plan(), 0))
	w.mustPass()
	if got := w.run().Status.Shards.CompletedIndexes; got != "" || w.held() != "" {
		t.Errorf("completed %q, held %q", got, w.held())
	}
}

func TestPodsOfAnEarlierRunAreLetGo(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	earlier := newTestRun()
	earlier.UID = "earlier-uid"
	old := runnerPodOf(earlier, 9)
	mine := runnerPodOf(w.run(), 0)
	w.create(old, mine)
	w.mustPass()
	if w.held() != mine.Name {
		t.Errorf("held %q, want %s alone", w.held(), mine.Name)
	}
}

// Kubernetes would wait for the pods, and the Job controller for the Job: see vacate.
func TestNamespaceBeingDeletedTakesTheJobFirst(t *testing.T) {
	for name, going := range map[string]bool{"the namespace goes": true, "one pod is evicted": false} {
		t.Run(name, func(t *testing.T) {
			space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
				Finalizers: []string{"kubernetes"}}}
			if going {
				space.DeletionTimestamp = new(metav1.NewTime(start()))
			}
			w := newWorld(t, pool(), server("support-a", "10.0.0.1"), newTestRun())
			w.mustPass()
			// The API server's; the operator has no cache of namespaces.
			w.r.direct = fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(space).Build()
			pod := ends(runnerPodOf(w.run(), 1), corev1.PodFailed, "error: interrupted")
			w.create(pod)
			if err := w.client.Delete(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			before := w.run().Status
			w.mustPass()
			if (w.job() == nil) != going {
				t.Errorf("the Job is gone: %v, want %v", w.job() == nil, going)
			}
			if diff := cmp.Diff(before, w.run().Status); diff != "" {
				t.Errorf("the status changed: %s", diff)
			}
			if w.held() != "" {
				t.Errorf("held %q", w.held())
			}
		})
	}
}

// The cache says that the run is gone, or shows the one before, while the API server has the run
// that the pods are of.
func TestNotFoundRaceLosesNoSummary(t *testing.T) {
	earlier := newTestRun()
	earlier.UID = "earlier-uid"
	for name, read := range map[string]func(*v1alpha1.EvaluationRun) error{
		"not found": func(*v1alpha1.EvaluationRun) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "evaluationruns"}, runName)
		},
		"an earlier run": func(run *v1alpha1.EvaluationRun) error { earlier.DeepCopyInto(run); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := readyWorld(t)
			w.mustPass()
			w.create(succeeded(t, w.run(), w.plan(), 0))
			w.read = func(_ client.ObjectKey, object client.Object) (bool, error) {
				if run, ok := object.(*v1alpha1.EvaluationRun); ok {
					return true, read(run)
				}
				return false, nil
			}
			w.mustPass()
			if w.held() != "baseline-0" {
				t.Errorf("held %q: the summary of a run that exists was let go", w.held())
			}
			w.read = nil
			w.mustPass()
			if got := w.run().Status.Shards.CompletedIndexes; got != "0" {
				t.Errorf("completed %q, want 0", got)
			}
		})
	}
}

// A refused summary costs its shard another round, which plays that shard alone once the others
// have ended.
func TestRefusedShardIsPlayedAgain(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	run, plan := w.run(), w.plan()
	refused := ends(runnerPodOf(run, 1), corev1.PodSucceeded, summaryOf(t, plan, 1, playing{key: otherKey()}))
	w.create(succeeded(t, run, plan, 0), refused, runnerPodOf(run, 2))
	w.events()
	w.mustPass()
	got := w.run()
	if got.Status.Shards.CompletedIndexes != "0" || got.Status.Shards.Rounds != 1 || w.held() != "baseline-2" {
		t.Errorf("shards %+v, held %q", got.Status.Shards, w.held())
	}
	if diff := cmp.Diff([]string{"Warning SummaryRefused", "Normal Progress"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	w.mustPass()
	if got := w.events(); len(got) > 0 {
		t.Errorf("refused once more: %v", got)
	}
	if n := testutil.ToFloat64(w.r.metrics.refused.WithLabelValues(refusedSignature)); n != 1 {
		t.Errorf("%v refused for their signature, want 1", n)
	}
	w.endShard(2, plan)
	w.create(succeeded(t, run, plan, 3))
	w.endJob(batchv1.JobComplete)
	w.mustPass()
	if got := w.run().Status.Shards; got.Rounds != 2 || got.CompletedIndexes != "0,2-3" || w.job() != nil {
		t.Errorf("shards %+v, job %v: want a second round", got, w.job())
	}
	if diff := cmp.Diff([]string{"Normal Progress", "Warning ShardsPlayedAgain"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	w.mustPass()
	if job := w.job(); job == nil || *job.Spec.Completions != 1 || job.Annotations[annotationShards] != "1" ||
		jobAttemptOf(job) != 2 {
		t.Fatalf("Job %+v, want one of shard 1", job)
	}
	w.create(ofJob(ends(runnerPodOf(run, 1), corev1.PodSucceeded, summaryOf(t, plan, 1, playing{})), w.job(), 0))
	w.mustPass()
	if got := states(w.run().Status.Conditions); got != envReady+"Complete=True/Completed"+notFailed || w.held() != "" {
		t.Errorf("conditions %s, held %q", got, w.held())
	}
}

// The pod is the index-th of a Job, under a name of its own.
func ofJob(pod *corev1.Pod, job *batchv1.Job, index int) *corev1.Pod {
	pod.Name += "-again"
	pod.UID += "-again"
	for _, key := range []string{annotationShards, annotationAttempt} {
		pod.Annotations[key] = job.Annotations[key]
	}
	pod.Annotations[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(index)
	return pod
}

// endShard ends a pod that exists.
func (w *world) endShard(shard int, plan score.Plan) {
	w.t.Helper()
	pod := succeeded(w.t, w.run(), plan, shard)
	if err := w.client.Status().Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

// endJob gives the Job a condition.
func (w *world) endJob(kind batchv1.JobConditionType) {
	w.t.Helper()
	job := w.job()
	job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(w.clock.Now())}}
	if err := w.client.Status().Update(w.t.Context(), job); err != nil {
		w.t.Fatal(err)
	}
}

func TestRefusedTooOften(t *testing.T) {
	w := readyWorld(t)
	run := w.run()
	run.Spec.Retries.ShardBackoffLimit = new(int32(0))
	w.update(run)
	w.mustPass()
	plan := w.plan()
	w.create(succeeded(t, run, plan, 0), ends(runnerPodOf(run, 1), corev1.PodSucceeded, "forged"), runnerPodOf(run, 2))
	w.mustPass()
	got := w.run()
	if want := envReady + "Complete=False/SummaryRefused Failed=True/SummaryRefused"; states(
		got.Status.Conditions) != want {
		t.Errorf("conditions %s, want %s", states(got.Status.Conditions), want)
	}
	if got.Status.Shards.CompletedIndexes != "0" || got.Status.Score == nil {
		t.Errorf("the shard that was counted is lost: %+v", got.Status)
	}
	if w.job() == nil || *w.job().Spec.ActiveDeadlineSeconds != endedJobDeadline || w.held() != "" {
		t.Errorf("job %v, held %q: want one that ends and keeps its logs", w.job(), w.held())
	}
}

func (w *world) update(run *v1alpha1.EvaluationRun) {
	w.t.Helper()
	if err := w.client.Update(w.t.Context(), run); err != nil {
		w.t.Fatal(err)
	}
}

func TestWaitsForAPool(t *testing.T) {
	w := newWorld(t, newTestRun())
	if result := w.mustPass(); result.RequeueAfter == 0 {
		t.Error("it doesn't come back")
	}
	if diff := cmp.Diff([]string{"Warning EnvironmentNotFound"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	w.mustPass()
	if got := w.events(); len(got) > 0 {
		t.Errorf("says so again: %v", got)
	}
	w.create(pool(), server("support-a", "10.0.0.1"))
	w.mustPass()
	if w.job() == nil {
		t.Errorf("no Job although the pool is there: %s", states(w.run().Status.Conditions))
	}
}

func TestReportOfAServerThatIsBehindIsNotUsed(t *testing.T) {
	behind := offer()
	behind.GraderVersion = "0"
	starting := server("support-0", "10.0.0.9")
	starting.Status.Conditions = nil
	cases := map[string]struct {
		servers []client.Object
		begins  bool
		message string
	}{
		"no server":            {nil, false, "no server is ready"},
		"one that is starting": {[]client.Object{starting}, false, "no server is ready"},
		"one that is behind": {[]client.Object{server("support-a", "10.0.0.2")}, false,
			`server support-a: its grader version is "0", but "1" in the pool's status`},
		"one that doesn't answer": {[]client.Object{server("support-a", "10.0.0.3")}, false,
			"server support-a: dialling 10.0.0.3"},
		"all that, then a good one": {[]client.Object{starting, server("support-a", "10.0.0.2"),
			server("support-b", "10.0.0.3"), server("support-c", "10.0.0.1")}, true, "accepts sessions"},
		"a good one, then all sorts": {[]client.Object{server("support-a", "10.0.0.1"),
			server("support-b", "10.0.0.2")}, true, "accepts sessions"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append([]client.Object{pool(), newTestRun()}, tc.servers...)...)
			w.r.pools = fakePool{"10.0.0.1": offer(), "10.0.0.2": behind, "10.0.0.9": offer()}
			w.mustPass()
			if (w.job() != nil) != tc.begins {
				t.Errorf("begun: %v, want %v", w.job() != nil, tc.begins)
			}
			if c := w.run().Status.Conditions[0]; !strings.Contains(c.Message, tc.message) {
				t.Errorf("EnvironmentReady says %q, want %q in it", c.Message, tc.message)
			}
		})
	}
}

func TestNameThatIsTaken(t *testing.T) {
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: runName + "-plan", Namespace: namespace},
		Data: map[string]string{"their": "data"}}
	w := newWorld(t, pool(), server("support-a", "10.0.0.1"), newTestRun(), theirs)
	w.mustPass()
	if got := states(w.run().Status.Conditions); !strings.Contains(got, "Complete=False/NameTaken") {
		t.Errorf("conditions %s", got)
	}
	if err := w.client.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	w.mustPass()
	if w.job() == nil {
		t.Error("the run doesn't begin when the name is free")
	}
}

func TestParallelismChangesTheJob(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	run := w.run()
	run.Spec.Parallelism = ptr.To[int32](2)
	if err := w.client.Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	before := w.job()
	w.mustPass()
	after := w.job()
	if *after.Spec.Parallelism != 2 {
		t.Errorf("parallelism %d, want 2", *after.Spec.Parallelism)
	}
	after.Spec.Parallelism, after.ResourceVersion = before.Spec.Parallelism, before.ResourceVersion
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something else changed: %s", diff)
	}
}

func TestNothingIsWrittenWhenNothingChanges(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	pending := runnerPodOf(w.run(), 0)
	w.create(pending)
	w.mustPass()
	w.fault = func(write string, _ func() error) error {
		t.Errorf("writes: %s", write)
		return nil
	}
	w.clock.SetTime(start().Add(time.Hour))
	w.mustPass()
	w.fault = nil
	ends(pending, corev1.PodSucceeded, summaryOf(t, w.plan(), 0, playing{}))
	if err := w.client.Status().Update(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	w.toTheEnd()
	w.fault = func(write string, _ func() error) error {
		t.Errorf("writes after the end: %s", write)
		return nil
	}
	w.mustPass()
}

func TestPodIsMappedToItsRun(t *testing.T) {
	run := newTestRun()
	for name, tc := range map[string]struct {
		labels map[string]string
		want   int
	}{
		"a runner": {runLabels(run), 1},
		"a server": {map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentEnvServer,
			v1alpha1.LabelRun: runName}, 0},
		"a runner of no run": {map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentRunner}, 0},
		"somebody else's":    {nil, 0},
		"one without its UIDs": {map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentRunner,
			v1alpha1.LabelRun: runName}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := runOfPod(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
				Labels: tc.labels}})
			if len(got) != tc.want || (len(got) == 1 && got[0].NamespacedName != key(runName)) {
				t.Errorf("requests %v", got)
			}
		})
	}
}

func TestPoolIsMappedToRunsThatGoOn(t *testing.T) {
	elsewhere, other, over := newTestRun(), newTestRun(), newTestRun()
	elsewhere.Namespace = "elsewhere"
	other.Name, other.Spec.EnvironmentRef.Name = "other", "another-pool"
	over.Name, over.Status.Conditions = "over", []metav1.Condition{
		{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue}}
	w := newWorld(t, newTestRun(), elsewhere, other, over)
	got := w.r.runsOfPool(t.Context(), pool())
	if len(got) != 1 || got[0].NamespacedName != key(runName) {
		t.Errorf("requests %v, want %s alone", got, runName)
	}
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := newRunMetrics().register(registry); err != nil {
		t.Fatal(err)
	}
	if err := newRunMetrics().register(registry); err == nil {
		t.Error("a second reconciler registers the same metrics")
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("problems %v (%v)", problems, err)
	}
}
