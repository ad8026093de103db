package polling

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// started returns a poller in the background, and the queue of its reconciler.
func started(t *testing.T, most int) (*Poller[string], workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	p := New[string](most)
	if err := p.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	return p, queue
}

func of(namespace, pool string) Question {
	key := types.NamespacedName{Namespace: namespace, Name: pool}
	return Question{Object: key, Pool: key, Version: "1"}
}

func says(text string) func(context.Context) string {
	return func(context.Context) string { return text }
}

func TestAskAnswersOnceAfterThePoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, queue := started(t, 4)
		q, open := of("shop", "support"), make(chan struct{})
		slow := func(context.Context) string {
			<-open
			return "first"
		}
		for range 2 {
			if _, known := p.Ask(t.Context(), q, slow); known {
				t.Fatal("an answer before the poll has ended")
			}
		}
		close(open)
		synctest.Wait()
		if n := queue.Len(); n != 1 {
			t.Fatalf("%d passes are requested, want 1", n)
		}
		if request, _ := queue.Get(); request.NamespacedName != q.Object {
			t.Errorf("a pass over %s is requested", request)
		}
		if got, known := p.Ask(t.Context(), q, says("unused")); !known || got != "first" {
			t.Errorf("Ask = %q, %v", got, known)
		}
		if _, known := p.Ask(t.Context(), q, says("second")); known {
			t.Error("an answer is given twice")
		}
		synctest.Wait()
		newer := q
		newer.Version = "2"
		if got, known := p.Ask(t.Context(), newer, says("third")); known {
			t.Errorf("version 2 is answered with %q", got)
		}
		synctest.Wait()
		if got, known := p.Ask(t.Context(), newer, says("unused")); !known || got != "third" {
			t.Errorf("Ask = %q, %v", got, known)
		}
	})
}

func TestAskWithoutASourcePollsAtOnce(t *testing.T) {
	t.Parallel()
	var none *Poller[string]
	for _, p := range []*Poller[string]{none, New[string](1)} {
		if got, known := p.Ask(t.Context(), of("shop", "support"), says("now")); !known || got != "now" {
			t.Errorf("Ask = %q, %v", got, known)
		}
		done := false
		p.Do(t.Context(), types.NamespacedName{}, func(context.Context) { done = true })
		p.Forget(types.NamespacedName{})
		if !done {
			t.Error("Do didn't")
		}
	}
}

// Pools whose servers never answer must not block those of other namespaces.
func TestDeadPoolsLeavePlacesToOtherNamespaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, queue := started(t, 8)
		ctx, cancel := context.WithCancel(t.Context())
		defer func() { cancel(); synctest.Wait() }()
		hangs := func(context.Context) string {
			<-ctx.Done()
			return ""
		}
		for i := range 500 {
			p.Ask(ctx, of("tenant", fmt.Sprint("dead-", i)), hangs)
		}
		for i := range 100 {
			q := of("other", fmt.Sprint("healthy-", i))
			p.Ask(ctx, q, says("well"))
			synctest.Wait()
			if queue.Len() != i+1 {
				t.Fatalf("pool %s waits for the pools without answers", q.Pool)
			}
		}
	})
}

func TestFreePlacesGoToTheNamespaceAndPoolWithTheFewest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := started(t, 8) // two for each namespace
		var (
			mu    sync.Mutex
			began []string
			next  = make(chan struct{})
		)
		ask := func(namespace, pool string) {
			p.Do(t.Context(), types.NamespacedName{Namespace: namespace, Name: pool}, func(context.Context) {
				mu.Lock()
				began = append(began, namespace+"/"+pool)
				mu.Unlock()
				<-next
			})
			synctest.Wait()
		}
		for _, pool := range []string{"big", "big", "big", "big", "small"} {
			ask("a", pool)
		}
		for _, namespace := range []string{"b", "c", "d", "e", "f"} {
			ask(namespace, "x")
			ask(namespace, "x")
		}
		if p.running != 8 {
			t.Errorf("%d polls run, want 8", p.running)
		}
		for range len(began) + len(p.waiting) {
			next <- struct{}{}
			synctest.Wait()
		}
		want := []string{"a/big", "a/big", "b/x", "b/x", "c/x", "c/x", "d/x", "d/x",
			// The polls end in the order in which they began. Namespaces e and f had none; when
			// pool big of namespace a has one again, pool small is next.
			"e/x", "a/big", "f/x", "a/small", "e/x", "f/x", "a/big"}
		if !slices.Equal(began, want) {
			t.Errorf("began %v, want %v", began, want)
		}
		if len(p.ofPool)+len(p.ofSpace)+p.running != 0 {
			t.Errorf("left over: %v, %v, %d", p.ofPool, p.ofSpace, p.running)
		}
	})
}
