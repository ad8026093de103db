package run

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/tally"
)

func TestRunIsDeletedAfterItsRetention(t *testing.T) {
	w := readyWorld(t)
	run := w.run()
	run.Spec.TTLSecondsAfterFinished = new(int32(0))
	w.update(run)
	w.toTheEnd()
	w.clock.SetTime(runtest.StartTime().Add(time.Second))
	w.mustPass()
	var gone v1alpha1.EvaluationRun
	if err := w.client.Get(t.Context(), key(runtest.RunName), &gone); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the run still exists (%v)", err)
	}
}

func TestFinalizersOfADeletedRunAreRemoved(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	run := w.run()
	busy := runtest.RunnerPod(run, 1)
	busy.Status.Phase, busy.Spec.NodeName = corev1.PodRunning, "node"
	w.create(runtest.NewSucceededPod(t, run, w.plan(), 0), busy)
	if err := w.client.Delete(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	w.mustPass()
	if w.held() != "" {
		t.Errorf("held %q after the run was deleted", w.held())
	}
	var pod corev1.Pod
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(busy), &pod); err != nil ||
		!controllerutil.ContainsFinalizer(&pod, batchv1.JobTrackingFinalizer) {
		t.Errorf("the Job's own finalizer was removed too: %v (%v)", pod.Finalizers, err)
	}
}

func TestRunBeingDeletedRemovesFinalizersAndCountsNothing(t *testing.T) {
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
	w.create(runtest.NewSucceededPod(t, run, w.plan(), 0))
	w.mustPass()
	if got := w.run().Status.Shards.CompletedIndexes; got != "" || w.held() != "" {
		t.Errorf("completed %q, held %q", got, w.held())
	}
}

func TestFinalizersOfAnEarlierRunAreRemoved(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	earlier := runtest.NewRun()
	earlier.UID = "earlier-uid"
	old := runtest.RunnerPod(earlier, 9)
	mine := runtest.RunnerPod(w.run(), 0)
	w.create(old, mine)
	w.mustPass()
	if w.held() != mine.Name {
		t.Errorf("held %q, want %s alone", w.held(), mine.Name)
	}
}

// Without this, the deletions of the Job and of the namespace would wait for each other.
func TestJobIsDeletedFirstInADeletedNamespace(t *testing.T) {
	for name, going := range map[string]bool{"the namespace is deleted": true, "one pod is evicted": false} {
		t.Run(name, func(t *testing.T) {
			space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: runtest.Namespace,
				Finalizers: []string{"kubernetes"}}}
			if going {
				space.DeletionTimestamp = new(metav1.NewTime(runtest.StartTime()))
			}
			w := newWorld(t, runtest.NewPool(), runtest.NewServer("support-a", "10.0.0.1"), runtest.NewRun(), space)
			w.mustPass()
			pod := runtest.EndPod(runtest.RunnerPod(w.run(), 1), corev1.PodFailed, "error: interrupted")
			w.create(pod)
			if err := w.client.Delete(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			before := w.run().Status
			w.mustPass()
			if (w.job() == nil) != going {
				t.Errorf("the Job is deleted: %v, want %v", w.job() == nil, going)
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

// The cache has no run, or an earlier one, while the API server has the run of the pods.
func TestNotFoundRaceLosesNoSummary(t *testing.T) {
	earlier := runtest.NewRun()
	earlier.UID = "earlier-uid"
	for name, read := range map[string]func(*v1alpha1.EvaluationRun) error{
		"not found": func(*v1alpha1.EvaluationRun) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "evaluationruns"}, runtest.RunName)
		},
		"an earlier run": func(run *v1alpha1.EvaluationRun) error { earlier.DeepCopyInto(run); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := readyWorld(t)
			w.mustPass()
			w.create(runtest.NewSucceededPod(t, w.run(), w.plan(), 0))
			w.read = func(_ client.ObjectKey, object client.Object) (bool, error) {
				if run, ok := object.(*v1alpha1.EvaluationRun); ok {
					return true, read(run)
				}
				return false, nil
			}
			w.mustPass()
			if w.held() != "baseline-0" {
				t.Errorf("held %q: the summary of an existing run was released", w.held())
			}
			w.read = nil
			w.mustPass()
			if got := w.run().Status.Shards.CompletedIndexes; got != "0" {
				t.Errorf("completed %q, want 0", got)
			}
		})
	}
}

// A refused summary causes another attempt, which plays only that shard after the others have
// ended.
func TestRefusedShardIsPlayedAgain(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	run, plan := w.run(), w.plan()
	refused := runtest.EndPod(runtest.RunnerPod(run, 1), corev1.PodSucceeded, runtest.SummaryOf(t, plan, 1, runtest.Playing{Key: runtest.OtherKey()}))
	w.create(runtest.NewSucceededPod(t, run, plan, 0), refused, runtest.RunnerPod(run, 2))
	w.events()
	w.mustPass()
	got := w.run()
	if got.Status.Shards.CompletedIndexes != "0" || got.Status.Shards.JobAttempts != 1 || w.held() != "baseline-2" {
		t.Errorf("shards %+v, held %q", got.Status.Shards, w.held())
	}
	if diff := cmp.Diff([]string{"Warning SummaryRefused"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	w.mustPass()
	if got := w.events(); len(got) > 0 {
		t.Errorf("refused again: %v", got)
	}
	if n := testutil.ToFloat64(w.r.metrics.refused.WithLabelValues(tally.RefusedSignature)); n != 1 {
		t.Errorf("%v refused for their signature, want 1", n)
	}
	w.endShard(2, plan)
	w.create(runtest.NewSucceededPod(t, run, plan, 3))
	w.endJob(batchv1.JobComplete)
	w.mustPass()
	if got := w.run().Status.Shards; got.JobAttempts != 2 || got.CompletedIndexes != "0,2-3" || w.job() != nil {
		t.Errorf("shards %+v, job %v: want a second attempt", got, w.job())
	}
	if diff := cmp.Diff([]string{"Warning ShardsPlayedAgain"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	w.mustPass()
	if job := w.job(); job == nil || *job.Spec.Completions != 1 || job.Annotations[runner.AnnotationShards] != "1" ||
		runner.ReadJobAttempt(job) != 2 {
		t.Fatalf("Job %+v, want one of shard 1", job)
	}
	w.create(ofJob(runtest.EndPod(runtest.RunnerPod(run, 1), corev1.PodSucceeded, runtest.SummaryOf(t, plan, 1, runtest.Playing{})), w.job(), 0))
	w.mustPass()
	if got := runtest.FormatConditions(w.run().Status.Conditions); got != runtest.EnvReady+"Complete=True/Completed"+runtest.NotFailed || w.held() != "" {
		t.Errorf("conditions %s, held %q", got, w.held())
	}
}

func TestRefusedTooOften(t *testing.T) {
	w := readyWorld(t)
	run := w.run()
	run.Spec.Retries.ShardBackoffLimit = new(int32(0))
	w.update(run)
	w.mustPass()
	plan := w.plan()
	w.create(runtest.NewSucceededPod(t, run, plan, 0), runtest.EndPod(runtest.RunnerPod(run, 1), corev1.PodSucceeded, "forged"), runtest.RunnerPod(run, 2))
	w.mustPass()
	got := w.run()
	if want := runtest.EnvReady + "Complete=False/SummaryRefused Failed=True/SummaryRefused"; runtest.FormatConditions(
		got.Status.Conditions) != want {
		t.Errorf("conditions %s, want %s", runtest.FormatConditions(got.Status.Conditions), want)
	}
	if got.Status.Shards.CompletedIndexes != "0" || got.Status.Score == nil {
		t.Errorf("the counted shard is lost: %+v", got.Status)
	}
	if w.job() == nil || !*w.job().Spec.Suspend || w.held() != "" {
		t.Errorf("job %v, held %q: want one that is stopped and keeps its logs", w.job(), w.held())
	}
}

// A pass that sees a pod as it was before its release doesn't patch it again.
func TestReleasedOnce(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	pod := runtest.NewSucceededPod(t, w.run(), w.plan(), 0)
	w.create(pod)
	patches := 0
	w.fault = func(write string, do func() error) error {
		if write == "patch *v1.Pod" {
			patches++
		}
		return do()
	}
	for range 2 {
		if err := w.r.removeFinalizers(t.Context(), []corev1.Pod{*pod}); err != nil {
			t.Fatal(err)
		}
	}
	if patches != 1 || w.held() != "" {
		t.Errorf("%d patches, held %q", patches, w.held())
	}
	var again corev1.Pod
	if err := w.client.Get(t.Context(), key(pod.Name), &again); err != nil {
		t.Fatal(err)
	}
	controllerutil.AddFinalizer(&again, runner.SummaryFinalizer)
	if err := w.client.Update(t.Context(), &again); err != nil {
		t.Fatal(err)
	}
	if err := w.r.removeFinalizers(t.Context(), []corev1.Pod{again}); err != nil || w.held() != "" {
		t.Errorf("a finalizer that was added again: %v, held %q", err, w.held())
	}
}
