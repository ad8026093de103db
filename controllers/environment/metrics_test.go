package environment

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/rules"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/testkit/testpool"
	"github.com/csenv/csenv/envserver/score"
)

func poolWith(name string, available metav1.ConditionStatus, active, capacity int64) *v1alpha1.CustomerSupportEnv {
	return pool(func(env *v1alpha1.CustomerSupportEnv) {
		env.Name = name
		env.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: available}}
		env.Status.Sessions = &v1alpha1.SessionCounts{Active: active, Capacity: capacity}
	})
}

func TestCollector(t *testing.T) {
	t.Parallel()
	reader := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(
		poolWith("a", metav1.ConditionTrue, 3, 10),
		poolWith("b", metav1.ConditionTrue, 4, 10),
		poolWith("draining", metav1.ConditionFalse, 5, 0),
		pool(func(env *v1alpha1.CustomerSupportEnv) {
			env.Name, env.Spec.Environment = "new", v1alpha1.WorkflowEnvironment
		}),
	).Build()
	want := `
# HELP csenv_environments CustomerSupportEnvs by environment and status of Available.
# TYPE csenv_environments gauge
csenv_environments{available="False",environment="Ticket"} 1
csenv_environments{available="False",environment="Workflow"} 0
csenv_environments{available="True",environment="Ticket"} 2
csenv_environments{available="True",environment="Workflow"} 0
csenv_environments{available="Unknown",environment="Ticket"} 0
csenv_environments{available="Unknown",environment="Workflow"} 1
`
	elected := make(chan struct{})
	counting := newCollector(reader, elected)
	if n := testutil.CollectAndCount(counting); n != 0 {
		t.Errorf("an operator that waits for the Lease shows %d series", n)
	}
	close(elected)
	if err := testutil.CollectAndCompare(counting, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(counting); err != nil || len(problems) > 0 {
		t.Errorf("names that Prometheus advises against: %v, %v", problems, err)
	}
}

func TestCollectorWithoutTheCache(t *testing.T) {
	t.Parallel()
	reader := fake.NewClientBuilder().WithScheme(newScheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("cache not started")
		},
	}).Build()
	elected := make(chan struct{})
	close(elected)
	if err := testutil.CollectAndCompare(newCollector(reader, elected), strings.NewReader("")); err == nil ||
		!strings.Contains(err.Error(), "cache not started") {
		t.Errorf("error = %v, want the scrape to fail", err)
	}
}

func TestPoolMetrics(t *testing.T) {
	t.Parallel()
	m := newPoolMetrics()
	registry := prometheus.NewPedanticRegistry()
	if err := m.register(registry); err != nil {
		t.Fatal(err)
	}
	s := snapshot.Snapshot{Pool: children.Pool{Env: pool(), Image: testpool.Image}, Now: noon, Pods: []corev1.Pod{
		server("support-a"), server("support-b"), server("full", unready), server("going", terminating),
		server("silent"), server("starting", waiting("ContainerCreating", "")),
		server("gone", terminating, waiting("", "")), server("unready", unready)},
		Reports: map[string]score.Report{"support-a": report(1), "support-b": report(2), "full": report(10),
			"going": report(4), "unready": report(0)}}
	m.showPool(s)
	m.countScaling(s.Env, rules.Scaling{From: 1, To: 2, Reason: "FreeSessions"})
	m.countChanges(s.Env, rules.Changes{TimesToReady: []time.Duration{3 * time.Second}})
	m.drains.WithLabelValues("shop", "support").Observe(3)
	want := `
# HELP csenv_pool_judge_failures_total Replies that could not be judged.
# TYPE csenv_pool_judge_failures_total counter
csenv_pool_judge_failures_total{namespace="shop",pool="support"} 0
# HELP csenv_pool_polls_failed_total Polls that a running server didn't answer.
# TYPE csenv_pool_polls_failed_total counter
csenv_pool_polls_failed_total{namespace="shop",pool="support"} 1
# HELP csenv_pool_scale_decisions_total Changes of the number of servers, by direction and reason.
# TYPE csenv_pool_scale_decisions_total counter
csenv_pool_scale_decisions_total{direction="up",namespace="shop",pool="support",reason="FreeSessions"} 1
# HELP csenv_pool_servers Servers by state: ready, full, starting, unreachable (by the operator) or draining.
# TYPE csenv_pool_servers gauge
csenv_pool_servers{namespace="shop",pool="support",state="draining"} 1
csenv_pool_servers{namespace="shop",pool="support",state="full"} 1
csenv_pool_servers{namespace="shop",pool="support",state="ready"} 2
csenv_pool_servers{namespace="shop",pool="support",state="starting"} 2
csenv_pool_servers{namespace="shop",pool="support",state="unreachable"} 1
# HELP csenv_pool_sessions_active Open sessions, including those of draining servers.
# TYPE csenv_pool_sessions_active gauge
csenv_pool_sessions_active{namespace="shop",pool="support"} 17
# HELP csenv_pool_sessions_capacity Maximum number of sessions, without draining servers.
# TYPE csenv_pool_sessions_capacity gauge
csenv_pool_sessions_capacity{namespace="shop",pool="support"} 40
# HELP csenv_pool_sessions_cut_total Sessions cut at a drain timeout or by a server that ended without a drain report.
# TYPE csenv_pool_sessions_cut_total counter
csenv_pool_sessions_cut_total{namespace="shop",pool="support"} 0
# HELP csenv_pool_sessions_free Additional sessions that the servers accept.
# TYPE csenv_pool_sessions_free gauge
csenv_pool_sessions_free{namespace="shop",pool="support"} 27
`
	names := []string{
		"csenv_pool_judge_failures_total", "csenv_pool_polls_failed_total", "csenv_pool_scale_decisions_total",
		"csenv_pool_servers", "csenv_pool_sessions_active",
		"csenv_pool_sessions_capacity", "csenv_pool_sessions_cut_total", "csenv_pool_sessions_free",
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("names that Prometheus advises against: %v, %v", problems, err)
	}
	m.forgetPool(types.NamespacedName{Namespace: "shop", Name: "other"})
	if n, err := testutil.GatherAndCount(registry); err != nil || n == 0 {
		t.Errorf("%d series remain after the deletion of another pool, %v", n, err)
	}
	m.forgetPool(types.NamespacedName{Namespace: "shop", Name: "support"})
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series remain of a deleted pool, %v", n, err)
	}
}
