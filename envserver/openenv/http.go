package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gorilla/websocket"
)

// maxBody bounds, in bytes, the body of a plain HTTP request.
const maxBody = 1 << 20

// routes maps a path to its handler by method.
type routes map[string]map[string]http.HandlerFunc

// Handler serves the protocol: what belongs on port 8000.
//
// Plain HTTP is stateless, as in the official server: every POST /reset, POST /step and GET /state has an environment of its own that is gone with the
// answer. A step begins an episode with the reset options in its body, so that a one-step agent gets its result, and counts for no evaluation run.
func (s *Server) Handler() http.Handler {
	return s.recovered(routes{
		"/ws":           {http.MethodGet: s.serveWS},
		"/health":       {http.MethodGet: document([]byte(`{"status":"healthy"}`))},
		"/metadata":     {http.MethodGet: document(s.docs.metadata)},
		"/schema":       {http.MethodGet: document(s.docs.schema)},
		"/openapi.json": {http.MethodGet: document(s.docs.openapi)},
		"/ledger":       {http.MethodGet: s.serveLedger},
		"/reset":        {http.MethodPost: s.bounded(s.serveReset)},
		"/step":         {http.MethodPost: s.bounded(s.serveStep)},
		"/state":        {http.MethodGet: s.bounded(s.serveState)},
	})
}

// OpsHandler serves what belongs on port 9000: /readyz, /stats and /metrics.
func (s *Server) OpsHandler() http.Handler {
	return s.recovered(routes{
		"/readyz":  {http.MethodGet: s.serveReady},
		"/stats":   {http.MethodGet: func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.report()) }},
		"/metrics": {http.MethodGet: s.metrics.handler().ServeHTTP},
	})
}

// ServeHTTP finds the route. Failures have the bodies of the official server; only their status classes matter to clients.
func (rs routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	methods, ok := rs[r.URL.Path]
	switch {
	case ok && methods[r.Method] != nil:
		methods[r.Method](w, r)
	case ok:
		for method := range methods {
			w.Header().Add("Allow", method)
		}
		writeDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	case websocket.IsWebSocketUpgrade(r):
		writeDetail(w, http.StatusForbidden, "Forbidden")
	case rs[strings.TrimSuffix(r.URL.Path, "/")] != nil:
		target := url.URL{Path: strings.TrimSuffix(r.URL.Path, "/"), RawQuery: r.URL.RawQuery}
		http.Redirect(w, r, target.String(), http.StatusTemporaryRedirect)
	default:
		writeDetail(w, http.StatusNotFound, "Not Found")
	}
}

// recovered turns a panic into a 500 for that request alone.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if cause := recover(); cause != nil {
				s.log.Error("A request panicked", "path", r.URL.Path, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
				http.Error(w, "Internal Server Error", http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// serveWS hands the connection to a goroutine of its own: the one that net/http made has a larger stack and holds on to the request.
func (s *Server) serveWS(w http.ResponseWriter, r *http.Request) {
	if !websocket.IsWebSocketUpgrade(r) {
		writeDetail(w, http.StatusNotFound, "Not Found")
		return
	}
	sessionID := r.URL.Query().Get("session_id")
	conn, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	if !s.spawn(func() { s.connect(conn, sessionID) }) {
		_ = conn.Close()
	}
}

// bounded answers 503 to a request that would be one too many, and to any while the server drains.
func (s *Server) bounded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		detail := ""
		switch {
		case s.sessions.isDraining():
			detail = "the server is draining: try again to reach another one"
		case !s.stateless.TryAcquire(1):
			detail = fmt.Sprintf("%d requests are being answered: try again, or open a session at /ws", maxStateless)
		}
		if detail != "" {
			w.Header().Set("Retry-After", "1")
			writeDetail(w, http.StatusServiceUnavailable, detail)
			return
		}
		defer s.stateless.Release(1)
		next(w, r)
	}
}

func (s *Server) serveReset(w http.ResponseWriter, r *http.Request) {
	body, ok := readObject(w, r, optionalBody)
	if !ok {
		return
	}
	p, ok := s.throwAway(w)
	if !ok {
		return
	}
	result, err := p.resetStateless(body)
	s.writeStateless(w, result, err)
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
	p, ok := s.throwAway(w)
	if !ok {
		return
	}
	if result, err := p.resetStateless(body); err != nil {
		s.writeStateless(w, result, err)
		return
	}
	ctx := r.Context()
	if request.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, request.timeout)
		defer cancel()
	}
	answer := p.step(ctx, request.action)
	s.writeStateless(w, answer.result, answer.err)
}

func (s *Server) serveState(w http.ResponseWriter, _ *http.Request) {
	if p, ok := s.throwAway(w); ok {
		writeJSON(w, http.StatusOK, p.env.State())
	}
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
func (p *player) resetStateless(body []byte) (episode.Result, error) {
	o, items := parseOptions(body, strictSeed, "body")
	if len(items) > 0 {
		return episode.Result{}, &episode.ActionError{Items: items}
	}
	if o.RewardMode == "" {
		o.RewardMode = p.server.rewardMode
	}
	result, err := p.env.Reset(o.Options)
	return result, optionError(err, o.Options, "body")
}

func (s *Server) writeStateless(w http.ResponseWriter, result episode.Result, err error) {
	if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
		writeItems(w, invalid.Items)
		return
	}
	var out bytes.Buffer
	if err == nil {
		err = writeResult(&out, s.kind, result)
	}
	if err != nil {
		s.log.Error("A stateless request failed", "error", err)
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	writeBytes(w, http.StatusOK, out.Bytes())
}

// bodyRule says whether a request may come without a body.
type bodyRule bool

const (
	optionalBody bodyRule = false
	requiredBody bodyRule = true
)

// readObject reads a body that is a JSON object, or answers what is wrong with it. An optional body may be absent or null; it then reads as nil.
func readObject(w http.ResponseWriter, r *http.Request, rule bodyRule) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeDetail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body can't be read, or is larger than %d bytes", maxBody))
		return nil, false
	}
	body = bytes.TrimSpace(body)
	if rule == optionalBody && (len(body) == 0 || string(body) == "null") {
		return nil, true
	}
	if len(body) == 0 {
		writeItems(w, []episode.ErrorItem{errorItem("missing", nil, "Field required", "body")})
		return nil, false
	}
	var probe jsontext.Value
	if err := jsonv2.Unmarshal(body, &probe); err != nil {
		offset := int64(0)
		if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			offset = syntax.ByteOffset
		}
		writeItems(w, []episode.ErrorItem{errorItem("json_invalid", jsontext.Value("{}"), "JSON decode error: "+err.Error(), "body", offset)})
		return nil, false
	}
	if probe.Kind() != '{' {
		writeItems(w, []episode.ErrorItem{errorItem("model_attributes_type", probe, "the body should be a JSON object", "body")})
		return nil, false
	}
	return body, true
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

// serveLedger serves the signed ledger of a run's shard.
func (s *Server) serveLedger(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	shard, err := strconv.Atoi(query.Get("shard"))
	if query.Get("run") == "" || err != nil {
		writeDetail(w, http.StatusBadRequest, "ask for /ledger?run=<UID of the run>&shard=<number>")
		return
	}
	key := ledgerKey{run: query.Get("run"), shard: shard}
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

func document(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeBytes(w, http.StatusOK, body) }
}

func writeItems(w http.ResponseWriter, items []episode.ErrorItem) {
	writeJSON(w, http.StatusUnprocessableEntity, map[string]any{"detail": items})
}

func writeDetail(w http.ResponseWriter, status int, detail string) {
	writeJSON(w, status, map[string]string{"detail": detail})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var out bytes.Buffer
	if err := encode(&out, v); err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	writeBytes(w, status, out.Bytes())
}

func writeBytes(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
