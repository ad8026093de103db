package openenv

import (
	"errors"
	"io"
	"net/http"

	"github.com/csenv/csenv/envserver/score"
)

// OpsHandler serves what belongs on port 9000: /readyz, /stats, /rollouts and /metrics.
func (s *Server) OpsHandler() http.Handler {
	return s.recovered(router{routes: routes{
		"/readyz": {http.MethodGet: s.serveReady},
		"/stats": {http.MethodGet: func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK,
				s.report())
		}},
		"/rollouts": {http.MethodGet: s.serveRollouts},
		"/metrics":  {http.MethodGet: s.metrics.handler().ServeHTTP},
	}})
}

// serveLedger serves the signed ledger of a run's shard.
func (s *Server) serveLedger(w http.ResponseWriter, r *http.Request) {
	key, ok := ledgerKeyOf(w, r)
	if !ok {
		return
	}
	signed, err := s.ledgers.sign(key, s.key)
	switch {
	case errors.Is(err, errNoLedger):
		writeDetail(w, http.StatusNotFound, err.Error())
	case err != nil:
		s.log.Error("A ledger can't be signed", "run", key.run, "shard", key.shard, "error", err)
		writeDetail(w, http.StatusInternalServerError, err.Error())
	default:
		writeJSON(w, http.StatusOK, signed)
		s.ledgers.fetched(key)
	}
}

// serveRollouts hands a run what trainers have tagged with its name since it last asked.
func (s *Server) serveRollouts(w http.ResponseWriter, r *http.Request) {
	question, err := score.ParseCollection(r.URL.Query())
	if err != nil {
		writeDetail(w, http.StatusBadRequest, err.Error())
		return
	}
	segment, err := s.rollouts.collect(question)
	if err != nil {
		writeDetail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	segment.Active = s.playing(question.Tag)
	writeJSON(w, http.StatusOK, segment)
}

// playing is the number of rollouts of a tag that are being played.
func (s *Server) playing(tag string) int64 {
	var n int64
	for _, session := range s.sessions.all() {
		if of := session.tag.Load(); of != nil && of.rollout && of.run == tag {
			n++
		}
	}
	return n
}

// serveReady tells Kubernetes whether to send new sessions here.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	status, text := http.StatusOK, "ok"
	switch {
	case s.sessions.isDraining():
		status, text = http.StatusServiceUnavailable, "draining"
	case s.sessions.active() >= s.sessions.capacity:
		status, text = http.StatusServiceUnavailable, "full"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
