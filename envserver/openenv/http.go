package openenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/openenv/protocol"

	"github.com/csenv/csenv/envserver/episode"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gorilla/websocket"
)

// routes maps a path to its handler by method.
type routes map[string]map[string]http.HandlerFunc

// router serves the routes of fixed paths and those of the Task API, whose paths begin with an
// environment's name.
type router struct {
	routes routes
	// tasks is nil where there is no Task API.
	tasks *Server
}

// Handler serves the protocol: what belongs on port 8000.
//
// Without a session_id plain HTTP is stateless, as in the official server: every POST /reset, POST
// /step and GET /state has an environment of its own that is gone with the answer. A step begins an
// episode with the reset options in its body, so that a one-step agent gets its result, and counts
// for no evaluation run. With a session_id they play on that session.
func (s *Server) Handler() http.Handler {
	rs := routes{
		"/ws":                {http.MethodGet: s.serveWS},
		"/mcp":               {http.MethodGet: s.serveMCP, http.MethodPost: s.serveMCP, http.MethodDelete: s.serveMCP},
		"/health":            {http.MethodGet: document([]byte(`{"status":"healthy"}`))},
		"/metadata":          {http.MethodGet: document(s.docs.metadata)},
		"/schema":            {http.MethodGet: document(s.docs.schema)},
		"/openapi.json":      {http.MethodGet: document(s.docs.openapi)},
		"/docs":              {http.MethodGet: page(s.docs.page)},
		"/redoc":             {http.MethodGet: page(s.docs.page)},
		"/list_environments": {http.MethodGet: s.serveEnvironments},
		"/ledger":            {http.MethodGet: s.serveLedger, http.MethodPost: s.serveReceipts},
	}
	if s.mode == Simulation {
		rs["/reset"] = map[string]http.HandlerFunc{http.MethodPost: s.serveReset}
		rs["/step"] = map[string]http.HandlerFunc{http.MethodPost: s.serveStep}
		rs["/state"] = map[string]http.HandlerFunc{http.MethodGet: s.serveState}
	}
	protocol := s.authorised(s.routed(router{rs, s}))
	if s.peers == nil {
		return s.recovered(protocol)
	}
	return s.recovered(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == roomPath { // peers prove who they are in another way than clients
			s.serveRoom(w, r)
			return
		}
		protocol.ServeHTTP(w, r)
	}))
}

// ServeHTTP finds the route. Failures have the bodies of the official server; only their status
// classes matter to clients.
func (rt router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rs := rt.routes
	methods, ok := rs[r.URL.Path]
	switch {
	case ok && methods[r.Method] != nil:
		methods[r.Method](w, r)
	case ok:
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		writeDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	case websocket.IsWebSocketUpgrade(r):
		writeDetail(w, http.StatusForbidden, "Forbidden")
	case rt.isTask(r.URL.Path):
		rt.tasks.serveTasks(w, r)
	case rs[strings.TrimSuffix(r.URL.Path, "/")] != nil || rt.isTask(strings.TrimSuffix(r.URL.Path, "/")):
		target := url.URL{Path: strings.TrimSuffix(r.URL.Path, "/"), RawQuery: r.URL.RawQuery}
		http.Redirect(w, r, target.String(), http.StatusTemporaryRedirect)
	default:
		writeDetail(w, http.StatusNotFound, "Not Found")
	}
}

func (rt router) isTask(path string) bool {
	if rt.tasks == nil {
		return false
	}
	_, _, ok := rt.tasks.taskAPI.taskRoute(path)
	return ok
}

// recovered turns a panic into a 500 for that request alone.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(cause) // says to net/http that the connection is to be cut
			}
			if cause != nil {
				s.log.Error("A request panicked", "path", r.URL.Path, "cause", fmt.Sprint(cause), "stack",
					string(debug.Stack()))
				http.Error(w, "Internal Server Error", http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func document(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeBytes(w, http.StatusOK, body) }
}

func page(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = w.Write(body)
	}
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

// bodyRule says whether a request may come without a body.
type bodyRule bool

const (
	optionalBody bodyRule = false
	requiredBody bodyRule = true
)

// readObject reads a body that is a JSON object, or answers what is wrong with it. An optional body
// may be absent or null; it then reads as nil.
func readObject(w http.ResponseWriter, r *http.Request, rule bodyRule) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, protocol.MaxBody))
	if err != nil {
		writeDetail(w, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the body can't be read, or is larger than %d bytes", protocol.MaxBody))
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
		writeItems(w, []episode.ErrorItem{errorItem("json_invalid", jsontext.Value("{}"),
			"JSON decode error: "+err.Error(), "body", offset)})
		return nil, false
	}
	if probe.Kind() != '{' {
		writeItems(w, []episode.ErrorItem{errorItem("model_attributes_type", probe, "the body should be a JSON object",
			"body")})
		return nil, false
	}
	return body, true
}
