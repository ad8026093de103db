package environment

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/rules"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
)

// scrapeTimeout bounds the list of a scrape, which the cache answers.
const scrapeTimeout = 5 * time.Second

// The states of a pool's servers: the values of the state label of csenv_pool_servers.
const (
	stateReady       = "ready"
	stateFull        = "full"
	stateStarting    = "starting"
	stateUnreachable = "unreachable"
	stateDraining    = "draining"
)

// vector is the series of one metric.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// poolMetrics are the metrics of each pool, labelled with its namespace and name. They are dropped
// with the pool.
type poolMetrics struct {
	all                      []vector
	active, capacity, free   *prometheus.GaugeVec
	servers                  *prometheus.GaugeVec
	timeToReady, drains      *prometheus.HistogramVec
	cut, unjudged, pollsLost *prometheus.CounterVec
	decisions                *prometheus.CounterVec
}

func newPoolMetrics() *poolMetrics {
	m := &poolMetrics{}
	labels := func(more []string) []string { return append([]string{"namespace", "pool"}, more...) }
	gauge := func(name, help string, more ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels(more))
		m.all = append(m.all, v)
		return v
	}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels(more))
		m.all = append(m.all, v)
		return v
	}
	histogram := func(name, help string, buckets ...float64) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels(nil))
		m.all = append(m.all, v)
		return v
	}
	m.active = gauge("csenv_pool_sessions_active", "Open sessions, including those of draining servers.")
	m.capacity = gauge("csenv_pool_sessions_capacity", "Maximum number of sessions, without draining servers.")
	m.free = gauge("csenv_pool_sessions_free", "Additional sessions that the servers accept.")
	m.servers = gauge("csenv_pool_servers", "Servers by state: ready, full, starting, unreachable (by the operator) "+
		"or draining.", "state")
	m.timeToReady = histogram("csenv_pool_time_to_ready_seconds", "Time from a server's creation until it accepts "+
		"sessions.", 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
	m.drains = histogram("csenv_pool_drain_duration_seconds", "Time that a terminating server took to end its "+
		"sessions.", 1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 43200, 86400)
	m.cut = counter("csenv_pool_sessions_cut_total", "Sessions cut at a drain timeout or by a server that ended "+
		"without a drain report.")
	m.unjudged = counter("csenv_pool_judge_failures_total", "Replies that could not be judged.")
	m.pollsLost = counter("csenv_pool_polls_failed_total", "Polls that a running server didn't answer.")
	m.decisions = counter("csenv_pool_scale_decisions_total",
		"Changes of the number of servers, by direction and reason.", "direction", "reason")
	return m
}

// register adds the metrics to a registry.
func (m *poolMetrics) register(registry prometheus.Registerer) error {
	for _, v := range m.all {
		if err := registry.Register(v); err != nil {
			return err
		}
	}
	return nil
}

// forgetPool drops the series of a deleted pool.
func (m *poolMetrics) forgetPool(key types.NamespacedName) {
	for _, v := range m.all {
		v.DeletePartialMatch(prometheus.Labels{"namespace": key.Namespace, "pool": key.Name})
	}
}

// showPool sets the gauges of a pool. Counters start at 0, so that the first increase is visible.
func (m *poolMetrics) showPool(s snapshot.Snapshot) {
	namespace, name := s.Env.Namespace, s.Env.Name
	for _, c := range []*prometheus.CounterVec{m.cut, m.unjudged, m.pollsLost} {
		c.WithLabelValues(namespace, name)
	}
	for state, n := range countStates(s) {
		m.servers.WithLabelValues(namespace, name, state).Set(float64(n))
	}
	m.pollsLost.WithLabelValues(namespace, name).Add(float64(countSilent(s)))
	if counts := rules.SumSessions(s); counts != nil {
		m.active.WithLabelValues(namespace, name).Set(float64(counts.Active))
		m.capacity.WithLabelValues(namespace, name).Set(float64(counts.Capacity))
		m.free.WithLabelValues(namespace, name).Set(float64(sumFreeSlots(s)))
	}
}

// countScaling counts a change of the number of servers.
func (m *poolMetrics) countScaling(env *v1alpha1.CustomerSupportEnv, s rules.Scaling) {
	m.decisions.WithLabelValues(env.Namespace, env.Name, s.Direction(), s.Reason).Inc()
}

// countChanges counts what happened to the servers since the last pass.
func (m *poolMetrics) countChanges(env *v1alpha1.CustomerSupportEnv, c rules.Changes) {
	for _, took := range c.TimesToReady {
		m.timeToReady.WithLabelValues(env.Namespace, env.Name).Observe(took.Seconds())
	}
	m.unjudged.WithLabelValues(env.Namespace, env.Name).Add(float64(c.Unjudged))
}

// countStates counts the pool's pods by state, without ended ones. Every state is present.
func countStates(s snapshot.Snapshot) map[string]int {
	states := map[string]int{stateReady: 0, stateFull: 0, stateStarting: 0, stateUnreachable: 0, stateDraining: 0}
	for _, pod := range s.Pods {
		report, answered := s.Reports[pod.Name]
		switch {
		case pods.HasEnded(&pod), !pods.IsServing(&pod) && pod.DeletionTimestamp != nil:
		case snapshot.IsLeaving(pod, report):
			states[stateDraining]++
		case !pods.IsServing(&pod):
			states[stateStarting]++
		case !answered:
			states[stateUnreachable]++
		case report.Sessions.Active >= report.Sessions.Capacity:
			states[stateFull]++
		case pods.IsReady(&pod):
			states[stateReady]++
		default:
			states[stateStarting]++
		}
	}
	return states
}

func countSilent(s snapshot.Snapshot) int {
	n := 0
	for _, pod := range s.Pods {
		if _, answered := s.Reports[pod.Name]; pods.IsServing(&pod) && !answered {
			n++
		}
	}
	return n
}

// sumFreeSlots sums the free sessions of servers that aren't draining.
func sumFreeSlots(s snapshot.Snapshot) int64 {
	free := int64(0)
	for _, pod := range s.Pods {
		if report, answered := s.Reports[pod.Name]; answered && !snapshot.IsLeaving(pod, report) {
			free += max(0, report.Sessions.Capacity-report.Sessions.Active)
		}
	}
	return free
}

// collector counts pools at each scrape. Only the leader shows them, so that sums over replicas of
// the operator are right.
type collector struct {
	reader  client.Reader
	elected <-chan struct{}
	pools   *prometheus.Desc
}

func newCollector(reader client.Reader, elected <-chan struct{}) *collector {
	return &collector{
		reader:  reader,
		elected: elected,
		pools: prometheus.NewDesc("csenv_environments", "CustomerSupportEnvs by environment and status of Available.",
			[]string{"environment", "available"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) { descs <- c.pools }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	select {
	case <-c.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var list v1alpha1.CustomerSupportEnvList
	if err := c.reader.List(ctx, &list); err != nil {
		out <- prometheus.NewInvalidMetric(c.pools, err)
		return
	}
	for environment, byStatus := range countPools(list.Items) {
		for status, n := range byStatus {
			out <- prometheus.MustNewConstMetric(c.pools, prometheus.GaugeValue, float64(n), string(environment),
				string(status))
		}
	}
}

// countPools counts pools by environment and availability. Every series is present.
func countPools(pools []v1alpha1.CustomerSupportEnv) map[v1alpha1.EnvironmentType]map[metav1.ConditionStatus]int {
	sums := map[v1alpha1.EnvironmentType]map[metav1.ConditionStatus]int{}
	for _, environment := range []v1alpha1.EnvironmentType{v1alpha1.TicketEnvironment, v1alpha1.WorkflowEnvironment} {
		sums[environment] = map[metav1.ConditionStatus]int{
			metav1.ConditionTrue: 0, metav1.ConditionFalse: 0, metav1.ConditionUnknown: 0}
	}
	for _, pool := range pools {
		if byStatus := sums[pool.Spec.Environment]; byStatus != nil {
			byStatus[getAvailability(pool)]++
		}
	}
	return sums
}

func getAvailability(pool v1alpha1.CustomerSupportEnv) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionAvailable); c != nil {
		return c.Status
	}
	return metav1.ConditionUnknown
}
