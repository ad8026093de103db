package openenv

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/score"
)

// metrics are the server's metrics. Every label has a fixed set of values, which clients can't
// extend.
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
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	factory := promauto.With(registry)
	registerServerMetrics(factory, s)
	steps := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "csenv_steps_total", Help: "Steps by result: played, invalid (outside the action schema), failed.",
	}, []string{"result"})
	m := &metrics{
		registry: registry,
		sessionsEnded: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "csenv_sessions_total", Help: "Sessions that have ended or were refused, by result.",
		}, []string{"result"}),
		stepsPlayed: steps.WithLabelValues("played"), stepsInvalid: steps.WithLabelValues("invalid"),
		stepsFailed: steps.WithLabelValues("failed"),
		stepSeconds: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "csenv_step_duration_seconds", Help: "Duration of a step in the environment.",
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

func (m *metrics) countEpisodes() score.Episodes {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.totals
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// registerServerMetrics registers the metrics whose values are read when they are scraped.
func registerServerMetrics(factory promauto.Factory, s *Server) {
	gauge := func(name, help string, read func() int) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	counter := func(name, help, result string, read func() int64) {
		opts := prometheus.CounterOpts{Name: name, Help: help}
		if result != "" {
			opts.ConstLabels = prometheus.Labels{"result": result}
		}
		factory.NewCounterFunc(opts, func() float64 { return float64(read()) })
	}
	gauge("csenv_sessions_active", "Sessions that hold a slot.", s.sessions.countActive)
	gauge("csenv_sessions_capacity", "Session slots.", func() int { return s.sessions.slots.Capacity })
	gauge("csenv_draining", "1 while the server refuses new sessions until the running ones have ended.", func() int {
		if s.sessions.slots.Draining() {
			return 1
		}
		return 0
	})
	gauge("csenv_ledgers", "Ledgers of evaluation runs that the server stores.",
		func() int { return s.ledgers.Figures().Open })
	const episodes = "csenv_ledger_episodes_total"
	help := "Ended episodes of evaluation runs, by result: counted, replayed, errored."
	counter(episodes, help, "counted", func() int64 { return s.ledgers.Figures().Counted })
	counter(episodes, help, "replayed", func() int64 { return s.ledgers.Figures().Replayed })
	counter(episodes, help, "errored", func() int64 { return s.ledgers.Figures().Errored })
	counter("csenv_ledger_reads_total", "Requests that fetched a ledger.", "",
		func() int64 { return s.ledgers.Figures().Reads })
	gauge("csenv_rollout_tags", "Run names for which the server stores rollouts.",
		func() int { return s.rollouts.Figures().Tags })
	const rollouts = "csenv_rollout_episodes_total"
	help = "Ended rollouts, by result: counted, errored, dropped (no space left, or not collected in time)."
	counter(rollouts, help, "counted", func() int64 { return s.rollouts.Figures().Counted })
	counter(rollouts, help, "errored", func() int64 { return s.rollouts.Figures().Errored })
	counter(rollouts, help, "forked", func() int64 { return s.rollouts.Figures().Forked })
	counter(rollouts, help, "dropped", func() int64 { return s.rollouts.Figures().Dropped })
}
