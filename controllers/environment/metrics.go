package environment

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

// scrapeTimeout bounds the list of a scrape, which the cache answers.
const scrapeTimeout = 5 * time.Second

// collector sums pools up at each scrape. Its labels take few values, whatever the number of pools.
type collector struct {
	reader                client.Reader
	pools, active, vacant *prometheus.Desc
}

func newCollector(reader client.Reader) *collector {
	return &collector{
		reader: reader,
		pools:  prometheus.NewDesc("csenv_environments", "CustomerSupportEnvs, by whether they are Available.", []string{"environment", "available"}, nil),
		active: prometheus.NewDesc("csenv_sessions_active", "Open sessions of all pools.", []string{"environment"}, nil),
		vacant: prometheus.NewDesc("csenv_sessions_free", "Sessions that all pools could take on at once.", []string{"environment"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.pools
	descs <- c.active
	descs <- c.vacant
}

// tally is the sum over the pools of one environment.
type tally struct {
	pools        map[metav1.ConditionStatus]int
	active, free int64
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var list v1alpha1.CustomerSupportEnvList
	if err := c.reader.List(ctx, &list); err != nil {
		out <- prometheus.NewInvalidMetric(c.pools, err)
		return
	}
	for environment, sum := range tallies(list.Items) {
		for status, n := range sum.pools {
			out <- prometheus.MustNewConstMetric(c.pools, prometheus.GaugeValue, float64(n), string(environment), string(status))
		}
		out <- prometheus.MustNewConstMetric(c.active, prometheus.GaugeValue, float64(sum.active), string(environment))
		out <- prometheus.MustNewConstMetric(c.vacant, prometheus.GaugeValue, float64(sum.free), string(environment))
	}
}

// tallies sums pools by environment. Every series is there, at 0 too, so that none vanishes.
func tallies(pools []v1alpha1.CustomerSupportEnv) map[v1alpha1.EnvironmentType]*tally {
	sums := map[v1alpha1.EnvironmentType]*tally{}
	for _, environment := range []v1alpha1.EnvironmentType{v1alpha1.TicketEnvironment, v1alpha1.WorkflowEnvironment} {
		sums[environment] = &tally{pools: map[metav1.ConditionStatus]int{metav1.ConditionTrue: 0, metav1.ConditionFalse: 0, metav1.ConditionUnknown: 0}}
	}
	for _, pool := range pools {
		sum := sums[pool.Spec.Environment]
		if sum == nil {
			continue
		}
		sum.pools[availability(pool)]++
		if sessions := pool.Status.Sessions; sessions != nil {
			sum.active += sessions.Active
			sum.free += max(0, sessions.Capacity-sessions.Active)
		}
	}
	return sums
}

func availability(pool v1alpha1.CustomerSupportEnv) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionAvailable); c != nil {
		return c.Status
	}
	return metav1.ConditionUnknown
}
