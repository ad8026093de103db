package run

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
)

// raise sets spec.attempt and passes once.
func (w *world) raise(attempt int32) {
	w.t.Helper()
	run := w.run()
	run.Spec.Attempt = &attempt
	w.update(run)
	w.mustPass()
}

// endRest ends every shard of the present Job.
func (w *world) endRest(shards ...int) {
	w.t.Helper()
	plan, job := w.plan(), w.job()
	for i, shard := range shards {
		pod := runtest.NewSucceededPod(w.t, w.run(), plan, shard)
		pod.Name += "-again"
		pod.UID += "-again"
		w.create(ofJob(pod, job, i))
	}
	w.mustPass()
}

// undisturbed returns the status of a run of which nothing failed.
func undisturbed(t *testing.T) v1alpha1.EvaluationRunStatus {
	t.Helper()
	w := readyWorld(t)
	w.mustPass()
	for shard := range 4 {
		w.create(runtest.NewSucceededPod(t, w.run(), w.plan(), shard))
	}
	w.mustPass()
	return w.run().Status
}

// checkLikeUndisturbed compares the figures of a resumed run with those of an undisturbed one.
func (w *world) checkLikeUndisturbed() {
	w.t.Helper()
	got, want := w.run().Status, undisturbed(w.t)
	if runtest.FormatConditions(got.Conditions) != runtest.EnvReady+"Complete=True/Completed"+runtest.NotFailed || w.held() != "" {
		w.t.Errorf("conditions %s, held %q", runtest.FormatConditions(got.Conditions), w.held())
	}
	if diff := cmp.Diff(want.Shards.Accumulator, got.Shards.Accumulator); diff != "" || got.Shards.Flawless != nil {
		w.t.Errorf("sums differ: %s, flawless %v", diff, got.Shards.Flawless)
	}
	if diff := cmp.Diff(want.Score, got.Score); diff != "" || got.ScoresRef == nil {
		w.t.Errorf("score: %s, table %v", diff, got.ScoresRef)
	}
}

// A failed run that is resumed keeps the shards that are counted, and plays the others in a new
// Job, with as many job attempts as the first time.
func TestResumeAFailedRun(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	run := w.run()
	w.create(runtest.NewSucceededPod(t, run, w.plan(), 0), runtest.NewSucceededPod(t, run, w.plan(), 2),
		runtest.EndPod(runtest.RunnerPod(run, 1), corev1.PodFailed, "error: no such key"))
	w.endJob(batchv1.JobFailed)
	w.mustPass()
	const failed = runtest.EnvReady + "Complete=False/ShardsFailed Failed=True/ShardsFailed"
	if got := runtest.FormatConditions(w.run().Status.Conditions); got != failed {
		t.Fatalf("conditions %s", got)
	}
	if c := meta.FindStatusCondition(w.run().Status.Conditions, v1alpha1.ConditionFailed); !strings.HasSuffix(c.Message,
		"Correct that, then resume the run: set spec.attempt to 2, or use `csenv run --resume "+run.Name+" -n "+
			run.Namespace+"`.") {
		t.Errorf("the failure doesn't say how to resume: %s", c.Message)
	}
	w.raise(1)
	if !meta.IsStatusConditionTrue(w.run().Status.Conditions, v1alpha1.ConditionFailed) {
		t.Fatal("the same attempt resumes the run")
	}
	w.events()
	w.raise(2)
	got := w.run().Status
	if meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionStalled) != nil {
		t.Error("a run that is resumed is stalled")
	}
	if diff := cmp.Diff([]string{"Normal Resumed"}, w.events()); diff != "" || got.CompletionTime != nil ||
		got.Attempt != 2 || got.Shards.CompletedIndexes != "0,2" || got.Shards.JobAttempts != 2 ||
		got.Shards.JobAttemptsBefore != 1 {
		t.Errorf("resumed: %+v %+v, events %s", got, got.Shards, diff)
	}
	w.mustPass() // deletes the Job of the first attempt
	w.mustPass()
	job := w.job()
	if job == nil || job.Annotations[runner.AnnotationShards] != "1,3" || runner.ReadJobAttempt(job) != 2 || *job.Spec.Suspend {
		t.Fatalf("Job %+v, want one of shards 1 and 3", job)
	}
	if shards := w.run().Status.Shards; shards.JobAttempts-shards.JobAttemptsBefore != 1 {
		t.Error("the job attempts of the first attempt count in the second")
	}
	w.endRest(1, 3)
	w.checkLikeUndisturbed()
	w.raise(3)
	if got := w.run().Status; got.Attempt != 2 || got.CompletionTime == nil {
		t.Errorf("a complete run is resumed: %+v", got)
	}
}

// A run that failed because of errored episodes plays the shards again that have any, so that it
// doesn't fail at once for the same ones.
func TestResumeAfterTooManyErrors(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	run, plan := w.run(), w.plan()
	var flawed []int64
	for e := range plan.Shard(1) {
		flawed = append(flawed, e.Index)
	}
	w.create(runtest.NewSucceededPod(t, run, plan, 0))
	w.mustPass()
	w.create(runtest.EndPod(runtest.RunnerPod(run, 1), corev1.PodSucceeded, runtest.SummaryOf(t, plan, 1, runtest.Playing{Errored: flawed})),
		runtest.NewSucceededPod(t, run, plan, 2))
	w.mustPass()
	got := w.run().Status
	c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionFailed)
	if c.Reason != v1alpha1.ReasonTooManyErrored || got.Shards.CompletedIndexes != "0-2" || got.Shards.Flawless.CompletedIndexes != "0,2" {
		t.Fatalf("%+v, shards %+v", c, got.Shards)
	}
	w.raise(2)
	if got := w.run().Status; got.Episodes.Errored != 0 || got.Shards.CompletedIndexes != "0,2" || got.Errors != nil &&
		got.Errors[0].Errored != 0 {
		t.Errorf("the errored episodes still count: %+v %+v", got.Episodes, got.Errors)
	}
	w.mustPass()
	w.mustPass()
	w.endRest(1, 3)
	w.checkLikeUndisturbed()
}
