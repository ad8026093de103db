package environment

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/api/v1alpha1"
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
		w.reconciler.stats = statsFunc(func(context.Context, string) (score.Report, error) {
			<-open
			return report(3), nil
		})
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(queue.ShutDown)
		w.reconciler.polls = polling.New[polled](4)
		if err := w.reconciler.polls.Source().Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if result := w.mustReconcile(t); result != (ctrl.Result{}) || len(w.writes) > 0 {
				t.Fatalf("the pass returned %v and wrote %v", result, w.writes)
			}
		}
		if err := w.reconciler.live.(client.Client).Create(t.Context(), &second); err != nil {
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

func TestUnaskedServers(t *testing.T) {
	t.Parallel()
	pod := func(uid string, ready bool) corev1.Pod {
		p := server(uid)
		if !ready {
			unready(&p)
		}
		return p
	}
	asked := []corev1.Pod{pod("asked", true), pod("starting", false), pod("gone", true)}
	now := []corev1.Pod{pod("asked", true), pod("starting", true), pod("new", true)}
	if got := unaskedOf(now, asked); !slices.Equal(got, []types.UID{now[1].UID, now[2].UID}) {
		t.Errorf("unasked: %v", got)
	}
}
