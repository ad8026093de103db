package run

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/polling"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

// hangingPool doesn't answer until it is opened.
type hangingPool struct {
	open    chan struct{}
	answers observe.PoolReader
}

func (p hangingPool) Report(ctx context.Context, podIP, token string, runs ...string) (score.Report, error) {
	<-p.open
	return p.answers.Report(ctx, podIP, token, runs...)
}

func (p hangingPool) Rollouts(ctx context.Context, podIP, token string, q score.CollectRequest) (score.Segment, error) {
	<-p.open
	return p.answers.Rollouts(ctx, podIP, token, q)
}

// inBackground makes the world's reconciler poll in the background, as in a manager, and returns
// its queue.
func (w *world) inBackground() workqueue.TypedRateLimitingInterface[reconcile.Request] {
	w.t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	w.t.Cleanup(queue.ShutDown)
	w.r.reader.Polls = polling.New[observe.Polled](4)
	if err := w.r.reader.Polls.Source().Start(w.t.Context(), queue); err != nil {
		w.t.Fatal(err)
	}
	return queue
}

// A pass over a run must not wait for servers that hang, because all tenants share the workers.
func TestPassesDoNotWaitForServers(t *testing.T) {
	for name, begin := range map[string]func(*world){
		"a run that begins": func(*world) {},
		"a run that collects": func(w *world) {
			run := w.run()
			run.Spec.Agent = v1alpha1.Agent{Type: v1alpha1.ExternalAgent}
			if err := w.client.Update(w.t.Context(), run); err != nil {
				w.t.Fatal(err)
			}
			w.mustPass()
			pod := runtest.NewServer("support-a", "10.0.0.1")
			pod.Status.Phase = corev1.PodRunning
			if err := w.client.Status().Update(w.t.Context(), pod); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := readyWorld(t)
				begin(w)
				pool := hangingPool{make(chan struct{}), w.r.reader.Pools}
				w.r.reader.Pools = pool
				queue := w.inBackground()
				before := w.run().ResourceVersion
				for range 3 {
					result, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key(runtest.RunName)})
					if err != nil || result != (ctrl.Result{}) {
						t.Fatalf("the pass returned %v, %v", result, err)
					}
				}
				synctest.Wait()
				if queue.Len() > 0 || w.run().ResourceVersion != before {
					t.Fatal("the pass continued without an answer")
				}
				close(pool.open)
				synctest.Wait()
				if queue.Len() != 1 {
					t.Fatalf("%d passes are requested after the answer, want 1", queue.Len())
				}
				result, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key(runtest.RunName)})
				if err != nil || w.run().Status.Provenance == nil {
					t.Errorf("after the answer: %v, %v, provenance %v", result, err, w.run().Status.Provenance)
				}
			})
		})
	}
}
