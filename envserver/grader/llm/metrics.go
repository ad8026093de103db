package llm

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of the judge. Every label has a fixed set of values.
type metrics struct {
	verdicts, failures, lookups   *prometheus.CounterVec
	hits, misses, refused, unkept prometheus.Counter
	judgeSeconds                  prometheus.Histogram
}

func newMetrics() *metrics {
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		verdicts: counters("csenv_judge_verdicts_total",
			"Judgements by status: ok, ok_cached, fallback_offline, error.", "status"),
		failures: counters("csenv_judge_failures_total", "Judgements that the model failed to give, by cause.",
			"cause"),
		lookups: counters("csenv_judge_cache_total", "Answers looked up in the judge's cache, by result.", "result"),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "csenv_judge_refused_evidence_total",
			Help: "Verdicts of met whose quote isn't evidence. They count as unmet."}),
		unkept: prometheus.NewCounter(prometheus.CounterOpts{Name: "csenv_judge_unkept_total",
			Help: "Verdicts that could not be written to the cache folder."}),
		judgeSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "csenv_judge_duration_seconds",
			Help:    "Time of one judgement, waiting and retries included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 11)}),
	}
	m.hits, m.misses = m.lookups.WithLabelValues("hit"), m.lookups.WithLabelValues("miss")
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.verdicts, m.failures, m.lookups, m.refused, m.unkept, m.judgeSeconds}
}

// Describe implements prometheus.Collector.
func (j *Judge) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(j, ch) }

// Collect implements prometheus.Collector: the judge's metrics, all of them named csenv_judge_*.
func (j *Judge) Collect(ch chan<- prometheus.Metric) {
	for _, c := range append(j.metrics.collectors(), j.asker) {
		c.Collect(ch)
	}
}
