package llm

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of the judge. Every label has a fixed set of values.
type metrics struct {
	verdicts, failures, calls, retries *prometheus.CounterVec
	promptTokens, completionTokens     prometheus.Counter
	hits, misses, refused, unkept      prometheus.Counter
	callSeconds, judgeSeconds          prometheus.Histogram
	tokens, lookups                    *prometheus.CounterVec
}

func newMetrics() *metrics {
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 11)})
	}
	m := &metrics{
		verdicts: counters("csenv_judge_verdicts_total",
			"Judgements by status: ok, ok_cached, fallback_offline, error.", "status"),
		failures: counters("csenv_judge_failures_total", "Judgements that the model failed to give, by cause.",
			"cause"),
		calls:   counters("csenv_judge_calls_total", "Requests to the judge's endpoint by result.", "result"),
		retries: counters("csenv_judge_retries_total", "Requests that were sent again, by the reason.", "reason"),
		tokens: counters("csenv_judge_tokens_total",
			"Tokens that the endpoint reported, of answers of no use too, by kind.", "kind"),
		lookups: counters("csenv_judge_cache_total", "Answers looked up in the judge's cache, by result.", "result"),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "csenv_judge_refused_evidence_total",
			Help: "Verdicts of met whose quote isn't evidence. They count as unmet."}),
		unkept: prometheus.NewCounter(prometheus.CounterOpts{Name: "csenv_judge_unkept_total",
			Help: "Verdicts that could not be written to the cache folder."}),
		callSeconds:  seconds("csenv_judge_call_duration_seconds", "Time of one request to the judge's endpoint."),
		judgeSeconds: seconds("csenv_judge_duration_seconds", "Time of one judgement, waiting and retries included."),
	}
	m.promptTokens, m.completionTokens = m.tokens.WithLabelValues("prompt"), m.tokens.WithLabelValues("completion")
	m.hits, m.misses = m.lookups.WithLabelValues("hit"), m.lookups.WithLabelValues("miss")
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.verdicts, m.failures, m.calls, m.retries, m.tokens, m.lookups, m.refused, m.unkept,
		m.callSeconds, m.judgeSeconds}
}

// Describe implements prometheus.Collector.
func (j *Judge) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(j, ch) }

// Collect implements prometheus.Collector: the judge's metrics, all of them named csenv_judge_*.
func (j *Judge) Collect(ch chan<- prometheus.Metric) {
	for _, c := range j.metrics.collectors() {
		c.Collect(ch)
	}
	gauge := func(name, help string, v int) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, float64(v))
	}
	inFlight, waiting, limit := j.client.caller.Load()
	gauge("csenv_judge_in_flight", "Requests to the judge's endpoint that are running.", inFlight)
	gauge("csenv_judge_waiting", "Requests that wait for their turn.", waiting)
	gauge("csenv_judge_concurrency_limit", "Requests that may run at a time: it falls when the endpoint says that "+
		"there are too many.", limit)
}
