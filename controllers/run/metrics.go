package run

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// runMetrics counts what happens to summaries. No label names an object: runs come and go by the thousand.
type runMetrics struct {
	counted  prometheus.Counter
	replayed prometheus.Counter
	refused  *prometheus.CounterVec
	duration prometheus.Histogram
}

func newRunMetrics() *runMetrics {
	m := &runMetrics{
		counted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "csenv_run_shards_counted_total", Help: "Shards whose summaries were added to a run's figures.",
		}),
		replayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "csenv_run_shards_replayed_total", Help: "Counted shards with episodes that ended again, or were begun more often than their runners report.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "csenv_run_summaries_refused_total", Help: "Summaries of runners that were not counted, by reason.",
		}, []string{"reason"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "csenv_run_shard_duration_seconds", Help: "Time that runners took to play a shard.", Buckets: prometheus.ExponentialBuckets(1, 2, 14),
		}),
	}
	for _, reason := range []string{refusedMalformed, refusedSignature, refusedForeign, refusedGrader, refusedEpisodes} {
		m.refused.WithLabelValues(reason)
	}
	return m
}

func (m *runMetrics) register(registry prometheus.Registerer) error {
	return errors.Join(registry.Register(m.counted), registry.Register(m.replayed), registry.Register(m.refused), registry.Register(m.duration))
}

// observe counts what a pass made of summaries, once its status is written.
func (m *runMetrics) observe(f folding) {
	m.counted.Add(float64(len(f.counted)))
	for _, shard := range f.counted {
		m.duration.Observe(shard.duration.Seconds())
		if shard.suspect() {
			m.replayed.Inc()
		}
	}
	for _, r := range f.refused {
		m.refused.WithLabelValues(r.reason).Inc()
	}
}
