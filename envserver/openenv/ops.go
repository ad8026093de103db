package openenv

import (
	"cmp"
	"io"
	"net/http"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

// OpsHandler serves the operations port: /healthz and /readyz without authentication, /stats and
// /rollouts to the operator, and /metrics to Prometheus.
func (s *Server) OpsHandler() http.Handler {
	stats := func(w http.ResponseWriter, r *http.Request) {
		protocol.WriteJSON(w, http.StatusOK, s.makeReport(r.URL.Query()["run"]))
	}
	operator, prometheus := s.secrets.AdmitsOperator, s.secrets.AdmitsMetrics
	return s.recoverPanics(routes{
		"/healthz":  {http.MethodGet: func(w http.ResponseWriter, _ *http.Request) { writeProbe(w, true) }},
		"/readyz":   {http.MethodGet: func(w http.ResponseWriter, _ *http.Request) { writeProbe(w, s.isReady()) }},
		"/stats":    {http.MethodGet: withToken(operator, stats)},
		"/rollouts": {http.MethodGet: withToken(operator, s.serveRollouts)},
		"/metrics":  {http.MethodGet: withToken(prometheus, s.metrics.handler().ServeHTTP)},
	}.handler())
}

// serveRollouts serves the next segment of a run's rollouts.
func (s *Server) serveRollouts(w http.ResponseWriter, r *http.Request) {
	question, err := score.ParseCollectRequest(r.URL.Query())
	if err != nil {
		protocol.WriteDetail(w, http.StatusBadRequest, err.Error())
		return
	}
	segment, err := s.rollouts.Collect(question)
	if err != nil {
		protocol.WriteDetail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	segment.Active = s.countPlaying(question.Tag)
	protocol.WriteJSON(w, http.StatusOK, segment)
}

// countPlaying returns the number of rollouts of a tag that are being played.
func (s *Server) countPlaying(tag string) int64 {
	var n int64
	for _, session := range s.sessions.listSessions() {
		if of := session.tag.Load(); of != nil && of.Rollout && of.Run == tag {
			n++
		}
	}
	return n
}

// withToken answers 401 to requests whose bearer token isn't admitted.
func withToken(admits func(token string) bool, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if admits(cmp.Or(r.Header.Get(protocol.TokenHeader), tokenOf(r))) {
			next(w, r)
			return
		}
		writeUnauthorized(
			w,
			"this port needs a token that follows from the pool's ledger key: the operator has it, and "+
				"Secret <pool>-metrics-token has the one for /metrics",
		)
	}
}

// isReady reports whether the server takes new sessions.
func (s *Server) isReady() bool {
	return s.sessions.slots.Closed() == nil && s.sessions.freeSlots() > 0
}

// writeProbe answers a probe of Kubernetes.
func writeProbe(w http.ResponseWriter, passes bool) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !passes {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "not ready")
		return
	}
	_, _ = io.WriteString(w, "ok")
}

// makeReport is the server's /stats, with the counts of the named runs.
func (s *Server) makeReport(runs []string) score.Report {
	report := score.Report{
		Protocol:    score.Protocol,
		Environment: s.cfg.Kind.Name(), ScenarioDigest: s.cfg.Kind.ScenarioDigest(),
		GraderVersion: s.cfg.Kind.GraderVersion(), Judge: s.cfg.Kind.Judge(),
		Draining: s.sessions.slots.Draining(),
		Sessions: score.Sessions{Active: int64(s.sessions.countActive()), Capacity: int64(s.sessions.slots.Capacity)},
		Episodes: s.metrics.countEpisodes(), Tasks: s.cfg.Kind.Tasks(), JudgeFailures: s.metrics.unjudged.Load(),
		JudgeFault: s.judgeFault(), Cut: s.metrics.cut.Load(), Runs: s.ledgers.RunReports(runs, s.playedRuns()),
	}
	if s.cfg.Packs != nil {
		report.Packs = new(s.cfg.Packs())
	}
	return report
}

// playedRuns returns the number of episodes of each planned run that are being played.
func (s *Server) playedRuns() map[string]int64 {
	active := map[string]int64{}
	for _, session := range s.sessions.listSessions() {
		if tag := session.tag.Load(); tag != nil && !tag.Rollout {
			active[tag.Run]++
		}
	}
	return active
}
