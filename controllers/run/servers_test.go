package run

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

// A terminating server gets the acknowledgement of its segment soon. Its number is removed when it
// can't return, but not merely because the cache lacks it.
func TestTerminatingServers(t *testing.T) {
	w, a, _ := trainingWorld(t, trainers(0))
	pod := runtest.RunningServer("support-a", "10.0.0.1")
	pod.Finalizers = []string{"example.com/hold"}
	if err := w.client.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	a.end(t, score.Scored, "B01", 1_000_000)
	a.active = 1
	if got := w.mustPass().RequeueAfter; got != rules.CollectInterval {
		t.Errorf("a terminating server with sessions is requested again after %s, want %s", got, rules.CollectInterval)
	}
	a.end(t, score.Scored, "B01", 1_000_000)
	a.active = 0
	if got := w.mustPass().RequeueAfter; got != rules.AcknowledgeDelay {
		t.Errorf("a terminating server is requested again after %s, want %s", got, rules.AcknowledgeDelay)
	}
	if got := w.mustPass().RequeueAfter; got != rules.CollectInterval || a.sealed != nil {
		t.Errorf("again in %s, sealed %v", got, a.sealed)
	}
	w.unlisted = "support-a"
	w.mustPass()
	if got := w.run().Status.Rollouts.Servers; len(got) != 1 {
		t.Errorf("the number of a running server was removed: %+v", got)
	}
	w.unlisted = ""
	if err := w.client.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	w.mustPass()
	if got := w.run().Status.Rollouts.Servers; len(got) != 0 {
		t.Errorf("the number of a deleted server remains: %+v", got)
	}
}

// A server that answers with an error, for example because its image is older, is distinguished
// from one that can't be reached.
func TestServerWithoutSegments(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(0))
	a.refuses, b.silent = true, true
	w.mustPass()
	if c := w.complete(); c.Reason != v1alpha1.ReasonRunning ||
		!strings.Contains(c.Message, "Server support-a returns no segment: asking: /rollouts returned status 404") {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
}

// Requests to a pool without any answer delay the passes of other runs, so they become rarer.
func TestSilentPoolIsPolledLess(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(0))
	a.silent = true
	if got := w.mustPass().RequeueAfter; got != rules.CollectInterval {
		t.Errorf("with a server that answers, requeued after %s, want %s", got, rules.CollectInterval)
	}
	b.silent = true
	if got := w.mustPass().RequeueAfter; got != rules.SilentInterval {
		t.Errorf("with none, again in %s, want %s", got, rules.SilentInterval)
	}
}

// A pass over a stale view of an ended run doesn't change its table, which may have more episodes,
// and releases the servers.
func TestStaleViewOfAnEndedRun(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(4))
	a.end(t, score.Scored, "B01", 900_000)
	w.mustPass()
	old := w.run()
	for range 3 {
		b.end(t, score.Scored, "S01", 800_000)
	}
	w.mustPass()
	before := w.run()
	var want, got corev1.ConfigMap
	if err := w.client.Get(t.Context(), key(before.Status.ScoresRef.Name), &want); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		a.end(t, score.Failed, "T01", 0)
	}
	w.read = func(_ client.ObjectKey, object client.Object) (bool, error) {
		run, ok := object.(*v1alpha1.EvaluationRun)
		if ok {
			old.DeepCopyInto(run)
		}
		return ok, nil
	}
	if again := w.mustPass().RequeueAfter; again != objects.ConflictDelay {
		t.Errorf("again in %s, want %s", again, objects.ConflictDelay)
	}
	if err := w.client.Get(t.Context(), key(want.Name), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Data, got.Data); diff != "" || w.run().ResourceVersion != before.ResourceVersion {
		t.Errorf("the table or the run has changed: %s", diff)
	}
	if last := a.asked[len(a.asked)-1]; !last.Done {
		t.Errorf("the last request to a server is %+v", last)
	}
}

// directReads counts reads that bypass the cache.
type directReads struct {
	client.Reader
	count int
}

func (r *directReads) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption) error {
	r.count++
	return r.Reader.Get(ctx, key, object, options...)
}

// While trainers play, every read is from the cache, including data for the end of the run.
func TestCollectingReadsTheCache(t *testing.T) {
	w, a, _ := trainingWorld(t, trainers(8))
	direct := &directReads{Reader: w.r.reader.Direct}
	w.r.direct, w.r.reader.Direct = direct, direct
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	if got := w.run().Status.Progress; got != "1/8" || direct.count > 0 {
		t.Errorf("progress %s, with %d reads past the cache", got, direct.count)
	}
}
