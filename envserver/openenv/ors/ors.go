// Package ors serves the session routes of the Open Reward Standard, so that the clients of
// OpenReward and TRL's OpenRewardSpec play on the server. The protocol is what the package
// openreward 0.1.167 speaks (openreward/environments/server.py and openreward/api/_session).
//
// A session is opened by POST /create_session, POST /create begins its episode, POST /<env>/call
// plays a tool, and POST /ping keeps it alive. The header X-Session-ID names it. The lists of tasks
// come from package documents.
package ors

import (
	"context"
	"net/http"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/openenv/documents"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// Host is the server whose sessions the routes use.
type Host interface {
	// Open opens a session for the client of the request. The error is the answer to a client that
	// gets none.
	Open(r *http.Request) (Session, *protocol.Error)
	// Find returns a session, nil for an unknown id.
	Find(id string) Session
	// Ended says how the last session of the request's client ended, "" if it isn't known.
	Ended(r *http.Request) string
	// Spawn runs a function in a goroutine that closing the server waits for. It reports false once
	// the server is closed.
	Spawn(f func()) bool
}

// Session is a session of the server.
type Session interface {
	ID() string
	// Play runs an operation when the previous ones have ended. The context also ends with the
	// session.
	Play(ctx context.Context, f func(ctx context.Context, p *player.Player)) error
	// Ping restarts the idle timeout.
	Ping()
	// End frees the session's slot.
	End()
	Calls() *Calls
}

// Routes are the handlers of a server.
type Routes struct {
	Host  Host
	Kind  episode.Kind
	Tools *player.Tools
	Tasks *documents.Tasks
	// Version is reported at /version.
	Version string
}

type methods = map[string]http.HandlerFunc

// Stateless returns the routes without a session, by path and method.
func (o *Routes) Stateless() map[string]map[string]http.HandlerFunc {
	tools := methods{http.MethodGet: func(w http.ResponseWriter, r *http.Request) {
		if _, ok := o.Tasks.Find(w, r); ok {
			o.writeTools(w)
		}
	}}
	return map[string]map[string]http.HandlerFunc{
		"/tools": tools, "/{environment}/tools": tools,
		"/version": {http.MethodGet: func(w http.ResponseWriter, _ *http.Request) {
			protocol.WriteJSON(w, http.StatusOK, map[string]any{"version": o.Version, "build_sha": nil})
		}},
	}
}

// Sessions returns the routes of sessions, by path and method. A path without an environment means
// the same: the session knows its task.
func (o *Routes) Sessions() map[string]map[string]http.HandlerFunc {
	routes := map[string]map[string]http.HandlerFunc{
		"/create_session": {http.MethodPost: o.createSession},
		"/create":         {http.MethodPost: o.withSession(o.createEpisode)},
		"/ping": {http.MethodPost: o.withSession(func(w http.ResponseWriter, _ *http.Request, s Session) {
			s.Ping()
			protocol.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		})},
		"/delete":         {http.MethodPost: o.deleteSession},
		"/delete_session": {http.MethodPost: o.deleteSession},
	}
	for path, route := range map[string]methods{
		"/prompt":   {http.MethodGet: o.withSession(o.servePrompt)},
		"/messages": {http.MethodGet: o.withSession(o.serveMessages)},
		"/task_tools": {http.MethodGet: o.withSession(func(w http.ResponseWriter, _ *http.Request, _ Session) {
			o.writeTools(w)
		})},
		"/call": {http.MethodPost: o.withSession(o.answerCall)},
	} {
		routes[path], routes["/{environment}"+path] = route, route
	}
	return routes
}

// servePrompt answers with the task as it stands.
func (o *Routes) servePrompt(w http.ResponseWriter, r *http.Request, s Session) {
	if text, ok := o.promptOf(w, r, s); ok {
		protocol.WriteJSON(w, http.StatusOK, textBlock(text))
	}
}

// serveMessages answers with the prompt as a conversation of one message.
func (o *Routes) serveMessages(w http.ResponseWriter, r *http.Request, s Session) {
	if text, ok := o.promptOf(w, r, s); ok {
		protocol.WriteJSON(w, http.StatusOK, []any{map[string]any{"role": "user", "blocks": textBlock(text),
			"detail": nil}})
	}
}

// sidOf returns the session that a request names, or answers 400.
func sidOf(w http.ResponseWriter, r *http.Request) string {
	id := strings.TrimSpace(r.Header.Get(protocol.SessionHeader))
	if id == "" {
		protocol.WriteDetail(w, http.StatusBadRequest, "X-Session-ID header is required")
	}
	return id
}

// withSession finds the session that a request names. It answers 410 if there is none: the client
// then reports that the session has ended, while a 404 could be a wrong path.
func (o *Routes) withSession(next func(http.ResponseWriter, *http.Request, Session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := sidOf(w, r)
		if id == "" {
			return
		}
		if s := o.Host.Find(id); s != nil {
			next(w, r, s)
			return
		}
		detail := "the session is unknown or has ended: begin another one with /create_session"
		if why := o.Host.Ended(r); why != "" {
			detail += "; the last session from this address, which may have been another program's, ended: " + why
		}
		protocol.WriteDetail(w, http.StatusGone, detail)
	}
}

// createSession opens a session, whose slot is taken from now on.
func (o *Routes) createSession(w http.ResponseWriter, r *http.Request) {
	members, err := object.Read(protocol.BodyOf(r), object.Unique)
	if err == nil && protocol.IsGiven(members.Get("env")) {
		reader := protocol.OptionReader{Where: "body"}
		reader.Faultf("value_error", "env", nil, "this environment has no variables to override (env_overrides): "+
			"send options of a reset in the task_spec")
		protocol.WriteItems(w, reader.Items)
		return
	}
	s, refused := o.Host.Open(r)
	if refused != nil {
		w.Header().Set("Retry-After", "2")
		protocol.WriteDetail(w, http.StatusServiceUnavailable, refused.Message)
		return
	}
	events := newEvents(w)
	events.sendEvent("task_id", s.ID())
	events.sendEvent("end", "")
}

// deleteSession ends a session. As in the official server it succeeds for unknown ones too, because
// the client sends it twice.
func (o *Routes) deleteSession(w http.ResponseWriter, r *http.Request) {
	id := sidOf(w, r)
	if id == "" {
		return
	}
	if s := o.Host.Find(id); s != nil {
		s.End()
	}
	protocol.WriteJSON(w, http.StatusOK, map[string]string{"sid": id})
}

func (o *Routes) writeTools(w http.ResponseWriter) {
	tools := make([]map[string]any, len(o.Tools.Offered))
	for i, t := range o.Tools.Offered {
		tools[i] = map[string]any{"name": t.Name, "description": t.Description, "input_schema": t.InputSchema}
	}
	protocol.WriteJSON(w, http.StatusOK, map[string]any{"tools": tools, "terminal_tool": nil,
		"supports_score_group": false, "message_block_types": []string{"text"}})
}
