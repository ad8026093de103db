package run

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// listTimeout bounds listing the runs of the cache for a scrape.
const listTimeout = 5 * time.Second

// runMetrics have no labels with names of objects, since there may be thousands of runs.
type runMetrics struct {
	counted, replayed          prometheus.Counter
	refused, episodes, errored *prometheus.CounterVec
	duration, folding          prometheus.Histogram
	lasted                     *prometheus.HistogramVec
}

func newRunMetrics() *runMetrics {
	m := &runMetrics{
		counted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "csenv_run_shards_counted_total", Help: "Shards whose summaries were added to a run's figures.",
		}),
		replayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "csenv_run_shards_replayed_total", Help: "Counted shards with episodes that ended again, or were " +
				"begun more often than their runners report.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "csenv_run_summaries_refused_total", Help: "Summaries of runners and segments of rollouts that " +
				"were not counted, by reason.",
		}, []string{"reason"}),
		episodes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "csenv_run_episodes_total", Help: "Episodes of counted shards and of trainers, by outcome.",
		}, []string{"outcome"}),
		errored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "csenv_run_episodes_errored_total", Help: "Episodes of counted shards that were given up, by class " +
				"of error.",
		}, []string{"class"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "csenv_run_shard_duration_seconds", Help: "Time that runners took to play a shard.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 14),
		}),
		folding: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "csenv_run_fold_duration_seconds", Help: "Time that a pass took to check and add what it found.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}),
		lasted: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "csenv_run_duration_seconds", Help: "Time from a run's creation to its end, by how it ended.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 20),
		}, []string{"end"}),
	}
	m.showZeros()
	return m
}

// showZeros creates every series, so that a rate includes its first increase.
func (m *runMetrics) showZeros() {
	for _, reason := range []string{tally.RefusedMalformed, tally.RefusedSignature, tally.RefusedForeign,
		tally.RefusedGrader, tally.RefusedEpisodes, tally.RefusedReplayed} {
		m.refused.WithLabelValues(reason)
	}
	for _, outcome := range []string{"scored", "failed", "errored"} {
		m.episodes.WithLabelValues(outcome)
	}
	for _, class := range score.ErrorClasses() {
		m.errored.WithLabelValues(class)
	}
	m.errored.WithLabelValues(score.OtherClass)
	m.lasted.WithLabelValues(v1alpha1.ConditionComplete)
	m.lasted.WithLabelValues(v1alpha1.ConditionFailed)
}

func (m *runMetrics) register(registry prometheus.Registerer) error {
	collectors := []prometheus.Collector{m.counted, m.replayed, m.refused, m.episodes, m.errored, m.duration, m.folding,
		m.lasted}
	errs := make([]error, len(collectors))
	for i, c := range collectors {
		errs[i] = registry.Register(c)
	}
	return errors.Join(errs...)
}

// countResult counts the result of a pass whose status is written.
func (m *runMetrics) countResult(f tally.Result) {
	m.counted.Add(float64(len(f.Counted)))
	for _, shard := range f.Counted {
		m.duration.Observe(shard.Duration.Seconds())
		if shard.IsSuspect() {
			m.replayed.Inc()
		}
		for class, episodes := range shard.Errored {
			m.errored.WithLabelValues(limitClass(class)).Add(float64(episodes))
			m.episodes.WithLabelValues("errored").Add(float64(episodes))
		}
	}
	for _, ledger := range f.Ledgers {
		m.episodes.WithLabelValues("scored").Add(float64(ledger.Scored))
		m.episodes.WithLabelValues("failed").Add(float64(ledger.Failed))
	}
	m.episodes.WithLabelValues("errored").Add(float64(f.Errored))
	for _, r := range f.Refused {
		m.refused.WithLabelValues(r.Reason).Inc()
	}
}

// observeDeciding measures how long a pass took to check and add what it found.
func (m *runMetrics) observeDeciding(f tally.Result, took time.Duration) {
	if len(f.Ledgers) > 0 {
		m.folding.Observe(took.Seconds())
	}
}

// observeEnd measures a run that has just ended.
func (m *runMetrics) observeEnd(run *v1alpha1.EvaluationRun, status v1alpha1.EvaluationRunStatus) {
	if evaluation.HasEnded(run.Status.Conditions) || status.CompletionTime == nil {
		return
	}
	end := v1alpha1.ConditionComplete
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionFailed) {
		end = v1alpha1.ConditionFailed
	}
	m.lasted.WithLabelValues(end).Observe(status.CompletionTime.Sub(run.CreationTimestamp.Time).Seconds())
}

func limitClass(class string) string {
	if slices.Contains(score.ErrorClasses(), class) {
		return class
	}
	return score.OtherClass
}

// stateCollector counts the runs of the cache by state at each scrape. Only the leader shows them,
// so that sums over replicas of the operator are right.
type stateCollector struct {
	reader  client.Reader
	elected <-chan struct{}
	runs    *prometheus.Desc
}

func newStateCollector(reader client.Reader, elected <-chan struct{}) *stateCollector {
	return &stateCollector{reader: reader, elected: elected, runs: prometheus.NewDesc("csenv_runs",
		"EvaluationRuns by state, as kubectl get shows it.", []string{"state"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.runs }

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-c.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	var list v1alpha1.EvaluationRunList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		metrics <- prometheus.NewInvalidMetric(c.runs, err)
		return
	}
	states := map[string]float64{}
	for i := range list.Items {
		states[readState(&list.Items[i])]++
	}
	for state, runs := range states {
		metrics <- prometheus.MustNewConstMetric(c.runs, prometheus.GaugeValue, runs, state)
	}
}

// readState is the reason that kubectl get shows: one of the API's constants.
func readState(run *v1alpha1.EvaluationRun) string {
	reason := ""
	if c := evaluation.FindState(run.Status.Conditions); c != nil {
		reason = c.Reason
	}
	return cmp.Or(reason, "New")
}
