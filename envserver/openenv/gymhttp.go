package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// takeStateless takes a place among the requests without a session. There is none for one that
// would be one too many, nor for any while the server drains.
func (s *Server) takeStateless() (release func(), refusal string) {
	switch {
	case s.sessions.isDraining():
		return nil, "the server is draining: try again to reach another one"
	case !s.stateless.TryAcquire(1):
		return nil, fmt.Sprintf("%d requests are being answered: try again, or open a session at /ws", maxStateless)
	}
	return func() { s.stateless.Release(1) }, ""
}

// bounded answers 503 to a request that finds no place.
func (s *Server) bounded(w http.ResponseWriter) (release func(), ok bool) {
	release, refusal := s.takeStateless()
	if release == nil {
		w.Header().Set("Retry-After", "1")
		writeDetail(w, http.StatusServiceUnavailable, refusal)
	}
	return release, release != nil
}

func (s *Server) serveReset(w http.ResponseWriter, r *http.Request) {
	body, ok := readObject(w, r, optionalBody)
	if !ok {
		return
	}
	s.serveGym(w, r, body,
		func(_ context.Context, p *player) reply { return p.reset(body, strictSeed, "body") },
		func(_ context.Context, p *player) reply { return p.resetStateless(body) })
}

func (s *Server) serveStep(w http.ResponseWriter, r *http.Request) {
	body, ok := readObject(w, r, requiredBody)
	if !ok {
		return
	}
	request, items := parseStep(body)
	if len(items) > 0 {
		writeItems(w, items)
		return
	}
	if request.timeout > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), request.timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	s.serveGym(w, r, body,
		func(ctx context.Context, p *player) reply { return p.act(ctx, request.action) },
		func(ctx context.Context, p *player) reply {
			if begun := p.resetStateless(body); begun.err != nil {
				return begun
			}
			return p.act(ctx, request.action)
		})
}

func (s *Server) serveState(w http.ResponseWriter, r *http.Request) {
	if id := sessionIDOf(r); id != "" {
		var state any
		if ss, ok := s.findHTTP(w, id); ok && s.answered(w,
			ss.do(r.Context(), func(p *player) { state = p.env.State() })) {
			writeJSON(w, http.StatusOK, state)
		}
		return
	}
	if release, ok := s.bounded(w); ok {
		defer release()
		if p, ok := s.throwAway(w); ok {
			writeJSON(w, http.StatusOK, p.env.State())
		}
	}
}

// serveGym plays on the session that the request names, or, if it names none, on an environment
// that is gone with the answer.
func (s *Server) serveGym(w http.ResponseWriter, r *http.Request, body []byte, inSession,
	alone func(context.Context, *player) reply) {
	id, items := sessionIDIn(body)
	if len(items) > 0 {
		writeItems(w, items)
		return
	}
	if id == "" {
		id = sessionIDOf(r)
	}
	if id != "" {
		var answer reply
		ss, ok := s.findHTTP(w, id)
		if ok && s.answered(w, s.playOn(r.Context(), ss,
			func(ctx context.Context, p *player) { answer = inSession(ctx, p) })) {
			s.writeReply(w, answer)
		}
		return
	}
	if release, ok := s.bounded(w); ok {
		defer release()
		if p, ok := s.throwAway(w); ok {
			s.writeReply(w, alone(r.Context(), p))
		}
	}
}

// sessionIDIn is the session that a body names, "" for none.
func sessionIDIn(body []byte) (string, []episode.ErrorItem) {
	var d struct {
		SessionID jsontext.Value `json:"session_id"`
	}
	r := optionReader{where: "body"}
	if len(body) > 0 && jsonv2.Unmarshal(body, &d) == nil {
		return r.text("session_id", d.SessionID), r.items
	}
	return "", nil
}

// findHTTP finds a session, or answers 404.
func (s *Server) findHTTP(w http.ResponseWriter, id string) (*session, bool) {
	ss := s.sessions.find(id)
	if ss == nil {
		writeDetail(w, http.StatusNotFound, "unknown session: begin one with openenv/session/create at /mcp")
	}
	return ss, ss != nil
}

// answered reports whether an operation on a session was done, and answers why not.
func (s *Server) answered(w http.ResponseWriter, err error) bool {
	if err == nil {
		return true
	}
	status := http.StatusInternalServerError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusServiceUnavailable
	} else if wire, ok := errors.AsType[wireError](err); ok && wire.Code == codeSession {
		status = http.StatusNotFound
	}
	writeDetail(w, status, err.Error())
	return false
}

// throwAway makes the environment of one request.
func (s *Server) throwAway(w http.ResponseWriter) (*player, bool) {
	p, err := s.newPlayer()
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return nil, false
	}
	return p, true
}

// resetStateless begins the episode of one request, which belongs to no run.
func (p *player) resetStateless(body []byte) reply {
	o, items := p.server.readOptions(body, strictSeed, "body")
	if len(items) > 0 {
		return p.fail(&episode.ActionError{Items: items})
	}
	result, err := p.env.Reset(o.Options)
	if err != nil {
		return p.fail(optionError(err, o.Options, "body"))
	}
	p.last = result
	return reply{kind: p.server.kind, result: result}
}

func (s *Server) writeReply(w http.ResponseWriter, r reply) {
	if invalid, ok := errors.AsType[*episode.ActionError](r.err); ok {
		writeItems(w, invalid.Items)
		return
	}
	var out bytes.Buffer
	err := r.err
	if err == nil {
		err = writeResult(&out, r.kind, r.result)
	}
	if err != nil {
		s.log.Error("A request failed", "error", err)
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	writeBytes(w, http.StatusOK, out.Bytes())
}

// stepRequest is the body of POST /step without the reset options.
type stepRequest struct {
	action  json.RawMessage
	timeout time.Duration
}

func parseStep(body []byte) (stepRequest, []episode.ErrorItem) {
	var d struct {
		Action    jsontext.Value `json:"action"`
		TimeoutS  jsontext.Value `json:"timeout_s"`
		RequestID jsontext.Value `json:"request_id"`
	}
	r := optionReader{where: "body"}
	if err := jsonv2.Unmarshal(body, &d); err != nil {
		r.faultf("value_error", "body", nil, "the body can't be read: %v", err)
		return stepRequest{}, r.items
	}
	request := stepRequest{action: json.RawMessage(d.Action), timeout: r.timeout(d.TimeoutS)}
	r.text("request_id", d.RequestID)
	switch {
	case d.Action == nil:
		r.faultf("missing", "action", nil, "Field required")
	case d.Action.Kind() != '{':
		r.faultf("dict_type", "action", d.Action, "action should be a JSON object")
	}
	return request, r.items
}

// timeout reads a number of seconds above 0, no longer than a day.
func (r *optionReader) timeout(value jsontext.Value) time.Duration {
	if !given(value) {
		return 0
	}
	seconds, err := strconv.ParseFloat(strings.Trim(string(value), `"`), 64)
	if err != nil || !(seconds > 0) || math.IsInf(seconds, 0) {
		r.faultf("greater_than", "timeout_s", value, "timeout_s should be a number greater than 0")
		return 0
	}
	return time.Duration(min(seconds, 24*60*60) * float64(time.Second))
}
