package openenv

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
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

	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/openenv/memory"
	"github.com/csenv/csenv/envserver/openenv/ors"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// healthPath needs no token.
const healthPath = "/health"

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

// requireToken answers 401 to requests without one of the server's tokens, and reads no body of
// theirs. GET /health needs no token.
func (s *Server) requireToken(next http.Handler) http.Handler {
	if s.cfg.Tokens == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthPath && r.Method == http.MethodGet || s.acceptsToken(tokenOf(r)) {
			next.ServeHTTP(w, r)
			return
		}
		memory.WithoutBody(w, r)
		writeUnauthorized(w,
			"this server needs a token: send the header `Authorization: Bearer <token>`, or write the token "+
				"into the URL as its password, http://user:<token>@host")
	})
}

func writeUnauthorized(w http.ResponseWriter, detail string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="csenv"`)
	protocol.WriteDetail(w, http.StatusUnauthorized, detail)
}

// acceptsToken reports whether the token is one of the server's, in constant time.
func (s *Server) acceptsToken(token string) bool {
	given, known := sha256.Sum256([]byte(token)), 0
	for _, t := range s.cfg.Tokens() {
		want := sha256.Sum256([]byte(t))
		known |= subtle.ConstantTimeCompare(given[:], want[:])
	}
	return known == 1 && token != ""
}

// apiKeyHeader has the token of OpenReward's clients.
const apiKeyHeader = "X-Api-Key" //nolint:gosec // a name, not a token

// tokenOf returns the token of a request, "" for none. The password of a URL counts too, for
// clients that can't send headers.
func tokenOf(r *http.Request) string {
	if user, password, ok := r.BasicAuth(); ok {
		return cmp.Or(password, user)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return r.Header.Get(apiKeyHeader)
	}
	return strings.TrimSpace(token)
}

// asClient lets requests occupy processors as their clients.
func (s *Server) asClient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(fairness.NewContext(r.Context(), s.processors, s.clientOf(r))))
	})
}

// clientOf names the client of a request by its address and, on a server with tokens, its token.
// Peers exchange names as JSON, so a name is printable.
func (s *Server) clientOf(r *http.Request) string {
	host := fairness.ClientAt(s.mesh.HostOf(r))
	if s.cfg.Tokens == nil {
		return host
	}
	sum := sha256.Sum256([]byte(tokenOf(r)))
	return host + " " + hex.EncodeToString(sum[:8])
}
