package openenv

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/memory"
	"github.com/csenv/csenv/envserver/openenv/ors"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// front is what a browser gets.
const front = `This is an OpenEnv server of csenv.

  /ws      sessions over WebSocket: what OpenEnv clients use
  /mcp     sessions as an MCP server
  /docs    the HTTP API, and /openapi.json
  /health  whether it serves
`

// routes maps a path pattern of net/http.ServeMux to its handlers by method.
type routes map[string]map[string]http.HandlerFunc

// handler serves the routes. Errors have the bodies of the official server.
func (rs routes) handler() http.Handler {
	mux := http.NewServeMux()
	for path, methods := range rs {
		allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
		notAllowed := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", allowed)
			protocol.WriteDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		}
		for method, handle := range methods {
			mux.HandleFunc(method+" "+path, handle)
		}
		mux.HandleFunc(http.MethodHead+" "+path, notAllowed)
		mux.HandleFunc(path, notAllowed)
		mux.HandleFunc(path+"/{$}", func(w http.ResponseWriter, r *http.Request) {
			if websocket.IsWebSocketUpgrade(r) {
				notFound(w, r)
				return
			}
			target := url.URL{Path: strings.TrimSuffix(r.URL.Path, "/"), RawQuery: r.URL.RawQuery}
			http.Redirect(w, r, target.String(), http.StatusTemporaryRedirect)
		})
	}
	mux.HandleFunc("/", notFound)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if websocket.IsWebSocketUpgrade(r) {
			notFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, front) // the client may have gone
	})
	return mux
}

func notFound(w http.ResponseWriter, r *http.Request) {
	if websocket.IsWebSocketUpgrade(r) {
		protocol.WriteDetail(w, http.StatusForbidden, "Forbidden")
		return
	}
	protocol.WriteDetail(w, http.StatusNotFound, "Not Found")
}

// Handler serves the protocol's port.
//
// POST /reset, POST /step and GET /state with a session_id play on that session. Without one they
// are stateless, as in the official server: each has an environment that is dropped afterwards.
// Such a step begins an episode with the reset options in its body, so that a one-step agent gets
// its result. It counts for no evaluation run.
func (s *Server) Handler() http.Handler {
	rs := routes{
		"/ws":           {http.MethodGet: s.serveWS},
		"/mcp":          {http.MethodGet: s.serveMCP, http.MethodPost: s.serveMCP, http.MethodDelete: s.serveMCP},
		healthPath:      {http.MethodGet: serveDocument([]byte(`{"status":"healthy"}`))},
		"/metadata":     {http.MethodGet: serveDocument(s.docs.Metadata)},
		"/schema":       {http.MethodGet: s.serveSchema},
		"/openapi.json": {http.MethodGet: serveDocument(s.docs.OpenAPI)},
		"/docs":         {http.MethodGet: htmlPage(s.docs.Page)},
		"/redoc":        {http.MethodGet: htmlPage(s.docs.Page)},
		"/ledger":       {http.MethodGet: s.serveLedger, http.MethodPost: s.serveReceipts},
	}
	rewards := &ors.Routes{Host: orsHost{s}, Kind: s.cfg.Kind, Tools: s.players.Tools, Tasks: s.tasks,
		Version: cmp.Or(s.cfg.Version, "dev")}
	maps.Copy(rs, rewards.Stateless())
	if s.cfg.Mode == Simulation {
		maps.Copy(rs, rewards.Sessions())
		rs["/reset"] = map[string]http.HandlerFunc{http.MethodPost: s.serveReset}
		rs["/step"] = map[string]http.HandlerFunc{http.MethodPost: s.serveStep}
		rs["/state"] = map[string]http.HandlerFunc{http.MethodGet: s.serveState}
	}
	maps.Copy(rs, s.tasks.Routes())
	inner := memory.LimitBodies(s.medium, s.clientOf, s.asClient(s.mesh.Handler(rs.handler())))
	return s.recoverPanics(s.withWeb(s.mesh.WithPeers(s.requireToken(inner))))
}

// recoverPanics turns a panic into a 500 for that request alone.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(cause) // net/http closes the connection
			}
			if cause != nil {
				s.log.Error("A request panicked", "path", r.URL.Path, "cause", fmt.Sprint(cause),
					"stack", string(debug.Stack()))
				protocol.WriteDetail(w, http.StatusInternalServerError, "the server failed to answer this request")
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func serveDocument(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { protocol.WriteBytes(w, http.StatusOK, body) }
}

// serveSchema answers with the schemas of the environment, or of the task in the query.
func (s *Server) serveSchema(w http.ResponseWriter, r *http.Request) {
	task := r.URL.Query().Get("task")
	if task == "" {
		protocol.WriteBytes(w, http.StatusOK, s.docs.Schema)
		return
	}
	body, found := s.docs.TaskSchemas[task]
	if !found {
		protocol.WriteDetail(w, http.StatusNotFound, fmt.Sprintf("no task %.80q: use one of %s", task,
			strings.Join(slices.Sorted(maps.Keys(s.docs.TaskSchemas)), ", ")))
		return
	}
	protocol.WriteBytes(w, http.StatusOK, body)
}

func htmlPage(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = w.Write(body)
	}
}
