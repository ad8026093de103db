package openenv

import (
	"io"
	"net/http"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

// OpsHandler serves the operations port: /readyz, /stats, /rollouts and /metrics.
func (s *Server) OpsHandler() http.Handler {
	return s.recovered(routes{
		"/readyz": {http.MethodGet: s.serveReady},
		"/stats": {http.MethodGet: func(w http.ResponseWriter, _ *http.Request) {
			protocol.WriteJSON(w, http.StatusOK, s.report())
		}},
		"/rollouts": {http.MethodGet: s.serveRollouts}, "/metrics": {http.MethodGet: s.metrics.handler().ServeHTTP},
	}.handler())
}

// serveReady reports to Kubernetes whether the server takes new sessions.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	status, text := http.StatusOK, "ok"
	switch {
	case s.sessions.slots.Draining():
		status, text = http.StatusServiceUnavailable, "draining"
	case s.sessions.active() >= s.sessions.slots.Capacity:
		status, text = http.StatusServiceUnavailable, "full"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// report is the server's /stats.
func (s *Server) report() score.Report {
	report := score.Report{
		Environment: s.cfg.Kind.Name(), ScenarioDigest: s.cfg.Kind.ScenarioDigest(),
		GraderVersion: s.cfg.Kind.GraderVersion(), Judge: s.cfg.Kind.Judge(),
		Draining: s.sessions.slots.Draining(),
		Sessions: score.Sessions{Active: int64(s.sessions.active()), Capacity: int64(s.sessions.slots.Capacity)},
		Episodes: s.metrics.episodes(), Tasks: s.cfg.Kind.Tasks(), JudgeFailures: s.metrics.unjudged.Load(),
		Cut: s.metrics.cut.Load(), Runs: s.ledgers.RunReports(s.playedRuns()),
	}
	if s.cfg.Packs != nil {
		report.Packs = new(s.cfg.Packs())
	}
	return report
}

// playedRuns returns the number of episodes of each planned run that are being played.
func (s *Server) playedRuns() map[string]int64 {
	active := map[string]int64{}
	for _, session := range s.sessions.all() {
		if tag := session.tag.Load(); tag != nil && !tag.Rollout {
			active[tag.Run]++
		}
	}
	return active
}
