package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

func testOptions() Options {
	return Options{Image: runtest.OperatorImage, Version: runtest.OperatorVersion}
}

// readerOf returns a reader that doesn't poll in the background.
func readerOf(cache, direct client.Reader, now clock.PassiveClock) *observe.Reader {
	return &observe.Reader{Cache: cache, Metadata: cache, Direct: direct, Pools: runtest.FakePool{"10.0.0.1": runtest.NewReport()},
		Keys: runtest.PoolKeys{}, Clock: now, Contents: observe.NewContents(), Version: runtest.OperatorVersion}
}

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

// world is a cluster without controllers. The test acts as the Job controller and the runners.
type world struct {
	t        *testing.T
	client   client.WithWatch // without faults
	r        *Reconciler
	recorder *events.FakeRecorder
	clock    *testclock.FakePassiveClock
	// forged lists shards whose first pods leave a forged summary.
	forged map[int]bool
	// fault, if set, intercepts each write of the reconciler.
	fault func(write string, do func() error) error
	// sent are the bytes of the reconciler's writes.
	sent int
	// read, if set, replaces the answers of the reconciler's cache.
	read func(key client.ObjectKey, object client.Object) (answered bool, err error)
	// unlisted is a pod that the reconciler's cache lacks.
	unlisted string
}

func newWorld(t *testing.T, existing ...client.Object) *world {
	t.Helper()
	w := &world{t: t, recorder: events.NewFakeRecorder(200), clock: testclock.NewFakePassiveClock(runtest.StartTime())}
	w.client = fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(existing...).
		WithStatusSubresource(&v1alpha1.EvaluationRun{}, &v1alpha1.CustomerSupportEnv{}, &corev1.Pod{},
			&batchv1.Job{}).
		WithIndex(&v1alpha1.EvaluationRun{}, objects.UnendedField, objects.UnendedIndex).Build()
	cached := interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
			opts ...client.GetOption) error {
			if _, isConfigMap := obj.(*corev1.ConfigMap); isConfigMap {
				return errors.New("the cache has only the metadata of ConfigMaps")
			}
			if obj.GetObjectKind().GroupVersionKind().Kind == "Namespace" {
				return errors.New("the cache has no namespaces")
			}
			if w.read != nil {
				if answered, err := w.read(key, obj); answered {
					return err
				}
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, isRuns := list.(*v1alpha1.EvaluationRunList); isRuns &&
				(&client.ListOptions{}).ApplyOptions(opts).FieldSelector == nil {
				return errors.New("a list of all runs, of which there may be thousands")
			}
			err := c.List(ctx, list, opts...)
			if pods, ok := list.(*corev1.PodList); ok {
				pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Name == w.unlisted })
			}
			return err
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			w.count(json.Marshal(obj))
			return w.write(fmt.Sprintf("create %T", obj), func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return w.write(fmt.Sprintf("delete %T", obj), func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			w.count(patch.Data(obj))
			return w.write(fmt.Sprintf("patch %T", obj), func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object,
			opts ...client.SubResourceUpdateOption) error {
			w.count(json.Marshal(obj))
			return w.write("status", func() error { return c.SubResource(sub).Update(ctx, obj, opts...) })
		},
	})
	w.r = reconcilerOf(cached, w.client, w.clock)
	w.r.recorder = w.recorder
	return w
}

// reconcilerOf returns a reconciler whose pool has one server, which it doesn't poll in the
// background.
func reconcilerOf(api client.Client, direct client.Reader, now clock.PassiveClock) *Reconciler {
	return &Reconciler{reader: readerOf(api, direct, now), writer: writer{client: api, direct: direct,
		recorder: events.NewFakeRecorder(100), keys: runtest.PoolKeys{}, clock: now, metrics: newRunMetrics(),
		options: testOptions(), released: newReleases(), counting: &poolCounts{}}}
}

func (r *Reconciler) setClock(now clock.PassiveClock) { r.clock, r.reader.Clock = now, now }

// readyWorld returns a world with a pool, its server and a run.
func readyWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, runtest.NewPool(), runtest.NewServer("support-a", "10.0.0.1"), runtest.NewRun())
}

// count counts the bytes of a write.
func (w *world) count(body []byte, err error) {
	if err != nil {
		w.t.Fatal(err)
	}
	w.sent += len(body)
}

func (w *world) write(what string, do func() error) error {
	if w.fault != nil {
		return w.fault(what, do)
	}
	return do()
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: runtest.Namespace, Name: name}
}

// pass reconciles once and returns the error.
func (w *world) pass() (ctrl.Result, error) {
	return w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key(runtest.RunName)})
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
	if err := w.client.Get(w.t.Context(), key(runtest.RunName), &run); err != nil {
		w.t.Fatal(err)
	}
	return &run
}

func (w *world) job() *batchv1.Job {
	w.t.Helper()
	var job batchv1.Job
	err := w.client.Get(w.t.Context(), key(runtest.RunName), &job)
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
	inputs := runner.ReadInputs(&w.job().Spec.Template)
	if inputs == nil {
		var planMap corev1.ConfigMap
		if err := w.client.Get(w.t.Context(), key(runtest.RunName+"-plan"), &planMap); err != nil {
			w.t.Fatal(err)
		}
		inputs = planMap.Data
	}
	plan, err := score.ParsePlan([]byte(inputs[runner.PlanKey]))
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

// held lists the pods that have the finalizer.
func (w *world) held() string {
	w.t.Helper()
	var list corev1.PodList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(runtest.Namespace)); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if controllerutil.ContainsFinalizer(&list.Items[i], runner.SummaryFinalizer) {
			names = append(names, list.Items[i].Name)
		}
	}
	return strings.Join(names, " ")
}

// events drains the recorder and returns only kinds and reasons.
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

// playShards acts as the Job once its plan and Job exist: each call ends two more shards, and the
// Job after the last one. The first pod of a forged shard leaves no summary of the pool's.
func (w *world) playShards() {
	w.t.Helper()
	job := w.job()
	if job == nil || *job.Spec.Suspend {
		return
	}
	plan := w.plan()
	shards, err := score.ParseIndexSet(job.Annotations[runner.AnnotationShards])
	if err != nil {
		w.t.Fatal(err)
	}
	played := 0
	for index := range shards.Len() {
		shard, _ := shards.At(index)
		message := runtest.SummaryOf(w.t, plan, int(shard), runtest.Playing{})
		if w.forged[int(shard)] && runner.ReadJobAttempt(job) == 1 {
			message = "forged"
		}
		pod := runtest.EndPod(runtest.RunnerPod(w.run(), int(shard)), corev1.PodSucceeded, message)
		if runner.ReadJobAttempt(job) > 1 {
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

// tableIsWhole compares the table of scenarios with the sums.
func (w *world) tableIsWhole() {
	w.t.Helper()
	var object corev1.ConfigMap
	if err := w.client.Get(w.t.Context(), key(runtest.RunName+"-scores"), &object); err != nil {
		w.t.Fatal(err)
	}
	var sums score.Accumulator
	if err := sums.UnmarshalText([]byte(w.run().Status.Shards.Accumulator)); err != nil {
		w.t.Fatal(err)
	}
	if !sums.Holds(tally.ReadTable(&object)) {
		w.t.Errorf("the table doesn't match the sums: %s", object.Data[v1alpha1.ScoresKey])
	}
}

// toTheEnd alternates the run and its Job until there is nothing left to do, and returns the
// status.
func (w *world) toTheEnd() v1alpha1.EvaluationRunStatus {
	w.t.Helper()
	for range 40 {
		_, err := w.pass()
		if err != nil && !errors.Is(err, runtest.ErrCrash) {
			w.t.Fatal(err)
		}
		if err == nil && evaluation.HasEnded(w.run().Status.Conditions) && w.held() == "" {
			return w.run().Status
		}
		w.playShards()
	}
	w.t.Fatalf("the run doesn't end: %s, held %q", runtest.FormatConditions(w.run().Status.Conditions), w.held())
	return v1alpha1.EvaluationRunStatus{}
}

// ofJob makes the pod the index-th of a Job, with a unique name.
func ofJob(pod *corev1.Pod, job *batchv1.Job, index int) *corev1.Pod {
	pod.Name += "-again"
	pod.UID += "-again"
	for _, key := range []string{runner.AnnotationShards, runner.AnnotationJobAttempt} {
		pod.Annotations[key] = job.Annotations[key]
	}
	pod.Annotations[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(index)
	return pod
}

// endShard ends an existing pod.
func (w *world) endShard(shard int, plan score.Plan) {
	w.t.Helper()
	pod := runtest.NewSucceededPod(w.t, w.run(), plan, shard)
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

func (w *world) update(run *v1alpha1.EvaluationRun) {
	w.t.Helper()
	if err := w.client.Update(w.t.Context(), run); err != nil {
		w.t.Fatal(err)
	}
}
