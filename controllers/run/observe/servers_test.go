package observe

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// unreachablePool has servers whose packets are dropped, except for one.
type unreachablePool struct {
	runtest.FakePool
	reachable *corev1.Pod
	asked     *atomic.Int64
}

func (p unreachablePool) Rollouts(ctx context.Context, podIP, _ string, _ score.CollectRequest) (score.Segment, error) {
	if ctx.Err() == nil {
		p.asked.Add(1)
	}
	if podIP == p.reachable.Status.PodIP {
		return score.Segment{Pod: p.reachable.Name}, ctx.Err()
	}
	<-ctx.Done()
	return score.Segment{}, ctx.Err()
}

// Servers that don't answer don't prevent requests to others: a terminating one is always
// requested, and so is each server of the largest pool.
func TestSilentServersDoNotBlockOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		servers int
		going   bool
	}{"one that is going": {maxServers, true}, "any": {1000, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var servers []tally.Reply
				for i := range tc.servers {
					servers = append(servers, tally.Reply{Pod: runtest.RunningServer(fmt.Sprintf("support-%04d", i),
						fmt.Sprint(i))})
				}
				last := &servers[tc.servers-1]
				if tc.going {
					last.Pod.DeletionTimestamp = new(metav1.Now())
				}
				pool := unreachablePool{reachable: last.Pod, asked: &atomic.Int64{}}
				r := &Reader{Pools: pool, Clock: clock.RealClock{}}
				began := time.Now()
				r.requestAll(t.Context(), servers, "", func(string) score.CollectRequest { return score.CollectRequest{} })
				if asked := pool.asked.Load(); last.Err != nil || asked < 1000 || time.Since(began) > requestBudget {
					t.Errorf("it was requested with %v, %d requests in %s", last.Err, asked, time.Since(began))
				}
			})
		})
	}
}
