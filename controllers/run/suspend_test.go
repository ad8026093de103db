package run

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
)

// A run that is created suspended makes no plan and waits for no pool until it is resumed. Later
// suspensions don't repeat ended shards.
func TestSuspendedAndResumed(t *testing.T) {
	w := readyWorld(t)
	run := w.run()
	runtest.SetSuspend(run, true)
	run.Spec.StartDeadlineSeconds = new(int32(60))
	w.update(run)
	w.clock.SetTime(runtest.StartTime().Add(time.Hour))
	if w.mustPass(); w.job() != nil || w.run().Status.Provenance != nil {
		t.Fatal("a suspended run begins")
	}
	run = w.run()
	runtest.SetSuspend(run, false)
	w.update(run)
	w.mustPass()
	plan := w.plan()
	w.create(runtest.NewSucceededPod(t, run, plan, 2))
	run = w.run()
	runtest.SetSuspend(run, true)
	w.update(run)
	w.mustPass()
	if got := w.run().Status.Shards.CompletedIndexes; got != "2" || !*w.job().Spec.Suspend || w.held() != "" {
		t.Errorf("completed %q, job suspended %v, held %q", got, *w.job().Spec.Suspend, w.held())
	}
	if err := w.client.Delete(t.Context(), w.job()); err != nil {
		t.Fatal(err)
	}
	run = w.run()
	runtest.SetSuspend(run, false)
	w.update(run)
	w.mustPass()
	if job := w.job(); job == nil || *job.Spec.Suspend || job.Annotations[runner.AnnotationShards] != "0-1,3" {
		t.Errorf("Job %+v, want one of the missing shards", job)
	}
	want := []string{"Normal Suspended", "Normal Resumed", "Normal Suspended", "Normal Resumed"}
	got := w.events()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events: %s", diff)
	}
}
