package openenv

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/score"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics counts what happens. Every label has a fixed set of values: clients can't make new ones.
type metrics struct {
	registry      *prometheus.Registry
	sessionsEnded *prometheus.CounterVec
	stepsPlayed   prometheus.Counter
	stepsInvalid  prometheus.Counter
	stepsFailed   prometheus.Counter
	stepSeconds   prometheus.Histogram
	episodesEnded *prometheus.CounterVec
	tasks         map[string]bool

	// unjudged and cut are for the server's own report.
	unjudged, cut atomic.Int64

	mu     sync.Mutex
	totals score.Episodes
}

func newMetrics(s *Server) *metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.cfg.Collectors...)
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newStateCollector(s))
	factory := promauto.With(registry)
	steps := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "csenv_steps_total", Help: "Steps by result: played, invalid (outside the action schema), failed (an " +
			"error of ours).",
	}, []string{"result"})
	m := &metrics{
		registry: registry,
		sessionsEnded: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "csenv_sessions_total", Help: "Sessions that have ended or were refused, by result.",
		}, []string{"result"}),
		stepsPlayed: steps.WithLabelValues("played"), stepsInvalid: steps.WithLabelValues("invalid"),
		stepsFailed: steps.WithLabelValues("failed"),
		stepSeconds: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "csenv_step_duration_seconds", Help: "Time that the environment took for a step.",
			Buckets: prometheus.ExponentialBuckets(0.00001, 4, 12),
		}),
		episodesEnded: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "csenv_episodes_total", Help: "Episodes that have ended, by task and outcome.",
		}, []string{"task", "outcome"}),
		tasks: map[string]bool{},
	}
	for _, task := range s.cfg.Kind.Tasks() {
		m.tasks[task.Name] = true
	}
	return m
}

// Stepped counts a step.
func (m *metrics) Stepped(took time.Duration, err error) {
	m.stepSeconds.Observe(took.Seconds())
	switch {
	case err == nil:
		m.stepsPlayed.Inc()
	case player.IsRefusal(err):
		m.stepsInvalid.Inc()
	default:
		m.stepsFailed.Inc()
	}
	if _, unjudged := errors.AsType[*episode.JudgeError](err); unjudged {
		m.unjudged.Add(1)
	}
}

// Ended counts an episode. The score, in micro-points, counts unless the episode is errored.
func (m *metrics) Ended(task string, outcome score.Outcome, micro int64) {
	if !m.tasks[task] {
		task = "unknown"
	}
	m.episodesEnded.WithLabelValues(task, string(outcome)).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch outcome {
	case score.Scored:
		m.totals.Scored++
	case score.Failed:
		m.totals.Failed++
	default:
		m.totals.Errored++
		return
	}
	m.totals.ScoreSum += micro
}

func (m *metrics) episodes() score.Episodes {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.totals
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// stateCollector reads the server's own figures when it is scraped.
type stateCollector struct {
	server                                            *Server
	active, capacity, draining, open, episodes, reads *prometheus.Desc
	tags, rollouts                                    *prometheus.Desc
}

func newStateCollector(s *Server) *stateCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &stateCollector{
		server:   s,
		active:   desc("csenv_sessions_active", "Sessions that hold a slot."),
		capacity: desc("csenv_sessions_capacity", "Session slots."),
		draining: desc("csenv_draining", "1 while the server refuses new sessions and lets the running ones end."),
		open:     desc("csenv_ledgers", "Ledgers of evaluation runs that the server keeps."),
		episodes: desc("csenv_ledger_episodes_total", "Ended episodes of evaluation runs, by result: counted, "+
			"replayed, errored.", "result"),
		reads: desc("csenv_ledger_reads_total", "Times that a ledger was fetched."),
		tags: desc("csenv_rollout_tags",
			"Names of runs with which trainers tag their episodes, that the server keeps."),
		rollouts: desc("csenv_rollout_episodes_total", "Ended episodes of trainers, by result: counted, errored, "+
			"dropped (for want of room, or nobody collected them).", "result"),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(c.active, float64(c.server.sessions.active()))
	gauge(c.capacity, float64(c.server.sessions.slots.Capacity))
	draining := 0.0
	if c.server.sessions.slots.Draining() {
		draining = 1
	}
	gauge(c.draining, draining)
	figures := c.server.ledgers.Figures()
	gauge(c.open, float64(figures.Open))
	counter(c.episodes, figures.Counted, "counted")
	counter(c.episodes, figures.Replayed, "replayed")
	counter(c.episodes, figures.Errored, "errored")
	counter(c.reads, figures.Reads)
	rollouts := c.server.rollouts.Figures()
	gauge(c.tags, float64(rollouts.Tags))
	counter(c.rollouts, rollouts.Counted, "counted")
	counter(c.rollouts, rollouts.Errored, "errored")
	counter(c.rollouts, rollouts.Dropped, "dropped")
}
