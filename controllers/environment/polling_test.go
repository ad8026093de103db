package environment

import (
	"context"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/observe"
	"github.com/csenv/csenv/controllers/polling"
	"github.com/csenv/csenv/envserver/score"
)

// A pass over a pool must not wait for servers that hang, because all tenants share the workers.
func TestPassesDoNotWaitForServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := server("support-a"), server("support-b")
		w := newWorld(t, pool(), &first)
		open := make(chan struct{})
		w.reconciler.reader.Stats = statsFunc(func(context.Context, string) (score.Report, error) {
			<-open
			return report(3), nil
		})
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(queue.ShutDown)
		w.reconciler.reader.Polls = polling.New[observe.Answers](4)
		if err := w.reconciler.reader.Polls.Source().Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if result := w.mustReconcile(t); result != (ctrl.Result{}) || len(w.writes) > 0 {
				t.Fatalf("the pass returned %v and wrote %v", result, w.writes)
			}
		}
		if err := w.store.Create(t.Context(), &second); err != nil {
			t.Fatal(err)
		}
		close(open)
		synctest.Wait()
		if queue.Len() != 1 {
			t.Fatalf("%d passes are requested after the answers, want 1", queue.Len())
		}
		if result := w.mustReconcile(t); result.RequeueAfter == 0 {
			t.Error("no other poll is due")
		}
		if got := w.pool(t).Status.Sessions; got == nil || got.Active != 3 {
			t.Errorf("sessions %+v", got)
		}
		if c := w.condition(t, v1alpha1.ConditionDegraded); c.Status != metav1.ConditionFalse {
			t.Errorf("a server that became ready during the poll got no request: %+v", c)
		}
	})
}
