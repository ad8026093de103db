package run

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
)

// poolCounts returns how many runs of the namespace the pool has counted.
func (w *world) poolCounts() int64 {
	w.t.Helper()
	pool := &v1alpha1.CustomerSupportEnv{}
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(runtest.NewPool()), pool); err != nil {
		w.t.Fatal(err)
	}
	return pool.Status.RunsOf(runtest.NewRun().Namespace)
}

// The pool counts each run that begins once, although the operator is stopped between the two
// writes, and still after the run is deleted.
func TestPoolCountsRuns(t *testing.T) {
	w := readyWorld(t)
	writes := 0
	w.fault = func(write string, do func() error) error {
		if write == "status" {
			if writes++; writes == 2 {
				return errors.New("the operator stops here")
			}
		}
		return do()
	}
	if _, err := w.pass(); err == nil {
		t.Fatal("the second write didn't fail")
	}
	if got := w.poolCounts(); got != 1 || w.run().Status.Provenance != nil {
		t.Fatalf("%d runs counted, the run has begun: %v", got, w.run().Status.Provenance != nil)
	}
	w.mustPass()
	w.mustPass()
	if got := w.poolCounts(); got != 1 || w.run().Status.Provenance == nil {
		t.Fatalf("%d runs counted, the run has begun: %v", got, w.run().Status.Provenance != nil)
	}
	if got := w.run().Status.Provenance.LedgerKey; got != runtest.PublicText(runtest.PoolKey()) {
		t.Errorf("the provenance has the key %q", got)
	}
	if err := w.client.Delete(t.Context(), w.run()); err != nil {
		t.Fatal(err)
	}
	if got := w.poolCounts(); got != 1 {
		t.Errorf("%d runs counted after the run is deleted", got)
	}
}

// Runs that begin before the cache shows the pool's status anew take one write each.
func TestRunsThatBeginTogether(t *testing.T) {
	w := readyWorld(t)
	writes := 0
	w.fault = func(_ string, do func() error) error { writes++; return do() }
	pool := &v1alpha1.CustomerSupportEnv{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(runtest.NewPool()), pool); err != nil {
		t.Fatal(err)
	}
	next := rules.Decision{Status: v1alpha1.EvaluationRunStatus{Provenance: &v1alpha1.Provenance{}}}
	for i := range 8 {
		run := runtest.NewRun()
		run.UID = types.UID(fmt.Sprint(i))
		if err := w.r.countRun(t.Context(), snapshot.Snapshot{Run: run, Env: pool}, next); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.poolCounts(); got != 8 || writes != 8 {
		t.Errorf("%d runs are counted in %d writes", got, writes)
	}
	// Somebody else's write makes what was written last useless, once.
	other := pool.DeepCopy()
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pool), other); err != nil {
		t.Fatal(err)
	}
	other.Status.ReadyReplicas = new(int32(7))
	if err := w.client.Status().Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	run := runtest.NewRun()
	run.UID = "late"
	if err := w.r.countRun(t.Context(), snapshot.Snapshot{Run: run, Env: pool}, next); !apierrors.IsConflict(err) {
		t.Fatalf("an outdated pool: %v", err)
	}
	if err := w.r.countRun(t.Context(), snapshot.Snapshot{Run: run, Env: other}, next); err != nil {
		t.Fatal(err)
	}
	if got := w.poolCounts(); got != 9 {
		t.Errorf("%d runs are counted", got)
	}
}

// What a pool's status has of its runs is bounded, and no run is lost of it.
func TestCountedRunsAreBounded(t *testing.T) {
	var status v1alpha1.CustomerSupportEnvStatus
	for i := range 2000 {
		namespace, uid := fmt.Sprintf("team-%d", i%1000), fmt.Sprintf("uid-%d", i)
		if !status.CountRun(namespace, uid) || status.CountRun(namespace, uid) {
			t.Fatalf("run %d isn't counted once", i)
		}
	}
	if got := status.RunsOf("team-3"); got != 2 {
		t.Errorf("%d runs of team-3", got)
	}
	if got, want := status.RunsOf("team-999"), int64(2*(1000-512)); got != want || len(status.Runs) != 513 {
		t.Errorf("%d runs of all other namespaces in %d entries, want %d", got, len(status.Runs), want)
	}
	for range 3 {
		status.CountRun("team-3", "another")
	}
	for i := range 100 {
		status.CountRun("team-3", fmt.Sprint(i))
	}
	if got := status.RunsOf("team-3"); got != 103 || len(status.Runs[3].Latest) > 8 {
		t.Errorf("%d runs of team-3, and their %v", got, status.Runs[3].Latest)
	}
}
