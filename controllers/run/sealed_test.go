package run

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

// Until a run of a pool that withholds scores is complete, whoever reads its status, its table, its
// events and the messages of its runners learns no score. Its end is that of any other run.
func TestScoresAreSealedUntilTheEnd(t *testing.T) {
	env := runtest.NewPool()
	env.Spec.Runs.Scores = v1alpha1.ScoresInResults
	w := newWorld(t, env, runtest.NewServer("support-a", "10.0.0.1"), runtest.NewRun())
	w.mustPass()
	plan, want := w.plan(), undisturbed(t)
	for shard := range 3 {
		w.endSealed(plan, shard)
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.mustPass()
	status, table := w.run().Status, w.table()
	if status.Shards.CompletedIndexes != "0-2" || status.Episodes.Scored == 0 {
		t.Fatalf("counted %+v, %+v", status.Shards, status.Episodes)
	}
	if !score.IsSealed(table) || !score.IsSealed(status.Shards.Accumulator) {
		t.Errorf("the sums are readable: %s %s", table, status.Shards.Accumulator)
	}
	if status.Score != nil || status.PassRate != "" || status.PassHatK != nil || status.Tasks != nil ||
		status.Categories != nil || status.Difficulties != nil || status.Languages != nil {
		text, _ := json.Marshal(status) //nolint:errchkjson // a status
		t.Errorf("figures are readable: %s", text)
	}
	for e := range w.recorder.Events {
		if strings.Contains(e, "score") {
			t.Errorf("event %q", e)
		}
		if len(w.recorder.Events) == 0 {
			break
		}
	}
	var written []string
	w.fault = func(what string, do func() error) error {
		written = append(written, what)
		return do()
	}
	w.mustPass()
	if len(written) > 0 {
		t.Errorf("a pass without news writes %v", written)
	}
	w.endSealed(plan, 3)
	w.mustPass()
	got := w.run().Status
	if !meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionComplete) {
		t.Fatal(runtest.FormatConditions(got.Conditions))
	}
	if diff := cmp.Diff([]any{want.Shards.Accumulator, want.Score, want.Tasks, want.Categories, want.ScoresRef},
		[]any{got.Shards.Accumulator, got.Score, got.Tasks, got.Categories, got.ScoresRef}); diff != "" {
		t.Error(diff)
	}
	w.tableIsWhole()
}

// A run that has failed and can be resumed tells no score either, and goes on with what it had.
func TestFailedRunsStaySealed(t *testing.T) {
	env := runtest.NewPool()
	env.Spec.Runs.Scores = v1alpha1.ScoresInResults
	w := newWorld(t, env, runtest.NewServer("support-a", "10.0.0.1"), runtest.NewRun())
	w.mustPass()
	plan := w.plan()
	w.endSealed(plan, 0)
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.mustPass()
	w.endJob(batchv1.JobFailed)
	for range 2 {
		w.mustPass()
		status := w.run().Status
		if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionFailed) || status.Score != nil ||
			!score.IsSealed(status.Shards.Accumulator) || !score.IsSealed(w.table()) {
			t.Errorf("%s: %+v, %s, %s", runtest.FormatConditions(status.Conditions), status.Score,
				status.Shards.Accumulator, w.table())
		}
	}
	w.raise(2)
	w.mustPass() // deletes the Job of the first attempt
	w.mustPass()
	for index, shard := range []int{1, 2, 3} {
		message := runtest.SummaryOf(t, plan, shard, runtest.Playing{Sealed: true})
		pod := runtest.EndPod(runtest.RunnerPod(w.run(), shard), corev1.PodSucceeded, message)
		w.create(ofJob(pod, w.job(), index))
	}
	w.mustPass()
	if got, want := w.run().Status, undisturbed(t); got.Shards.Accumulator != want.Shards.Accumulator ||
		got.Score == nil || cmp.Diff(want.Score, got.Score) != "" {
		t.Errorf("%s: %+v, want %+v", runtest.FormatConditions(got.Conditions), got.Score, want.Score)
	}
	w.tableIsWhole()
}

// The table of another run in the place of a run's doesn't tell its scores.
func TestSealedTablesAreTheRuns(t *testing.T) {
	secrets, err := runtest.PoolKeys{}.Secrets(t.Context(), key(runtest.PoolName), "")
	if err != nil {
		t.Fatal(err)
	}
	text := score.SealText("scores", "other-run", secrets.Scores)
	if _, err := score.OpenText(text, "run-uid", secrets.Scores); err == nil {
		t.Error("the sealed text of another run is opened")
	}
	kept, run := &corev1.ConfigMap{Data: map[string]string{v1alpha1.ScoresKey: text}}, runtest.NewRun()
	run.UID = "other-run"
	for range 2 { // passes, which read the table once
		s := snapshot.Snapshot{Run: run, Scores: kept, Cipher: secrets.Scores}
		if s.OpenTable(); !s.SealedTable || s.Scores.Data[v1alpha1.ScoresKey] != "scores" {
			t.Errorf("sealed %v, %v", s.SealedTable, s.Scores.Data)
		}
	}
}

// endSealed ends a shard whose server seals its ledger.
func (w *world) endSealed(plan score.Plan, shard int) {
	w.t.Helper()
	message := runtest.SummaryOf(w.t, plan, shard, runtest.Playing{Sealed: true})
	w.create(runtest.EndPod(runtest.RunnerPod(w.run(), shard), corev1.PodSucceeded, message))
}

// table is the text of the run's table, "" for none.
func (w *world) table() string {
	w.t.Helper()
	var object corev1.ConfigMap
	if err := w.client.Get(w.t.Context(), key(runtest.RunName+"-scores"), &object); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return object.Data[v1alpha1.ScoresKey]
}
