package observe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/controllers/polling"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/run/tally"
)

// An answer for an older version of a run isn't used, because its segments may be in the status by
// now.
func TestAnswersBelongToAVersionOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(queue.ShutDown)
		r := &Reader{Polls: polling.New[Polled](4)}
		if err := r.Polls.Source().Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		s := snapshot.Snapshot{Run: runtest.NewRun()}
		ask := func(version string, answer Polled) (Polled, error) {
			return r.pollServers(t.Context(), &s, version, func(context.Context) Polled { return answer })
		}
		if _, err := ask("1", Polled{segments: make([]tally.Reply, 1)}); !errors.Is(err, ErrPolling) {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, err := ask("2", Polled{segments: make([]tally.Reply, 2)}); !errors.Is(err, ErrPolling) {
			t.Fatalf("the answer for the older version is used: %d segments, %v", len(got.segments), err)
		}
		synctest.Wait()
		if got, err := ask("2", Polled{}); err != nil || len(got.segments) != 2 {
			t.Errorf("%d segments, %v", len(got.segments), err)
		}
	})
}
