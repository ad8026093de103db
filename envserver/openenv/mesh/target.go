package mesh

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// target is the session that a request is meant for.
type target struct {
	session string // "" for none
	opens   bool   // the request opens a session
	body    []byte // of the request, nil for none
}

// orsRoutes are the last parts of the routes on which OpenReward's clients use a session.
var orsRoutes = []string{"create", "ping", "delete", "delete_session", "prompt", "messages", "task_tools", "call"}

// targetOf reads the target as the handlers do, which refuse invalid bodies.
func targetOf(r *http.Request) target {
	switch path := r.URL.Path; {
	case (path == "/ws" || path == "/mcp") && websocket.IsWebSocketUpgrade(r):
		id := protocol.SessionIDOf(r)
		return target{session: id, opens: id == ""}
	case path == "/state":
		return target{session: protocol.SessionIDOf(r)}
	case r.Method == http.MethodPost && path == "/create_session":
		return target{opens: true, body: protocol.BodyOf(r)}
	case slices.Contains(orsRoutes, path[strings.LastIndex(path, "/")+1:]):
		return target{session: r.Header.Get(protocol.SessionHeader), body: protocol.BodyOf(r)}
	case path == "/mcp" && r.Method != http.MethodPost:
		return target{session: r.Header.Get(protocol.MCPSessionHeader)}
	case r.Method == http.MethodPost && (path == "/mcp" || path == "/reset" || path == "/step"):
		body := protocol.BodyOf(r)
		t := target{session: r.Header.Get(protocol.MCPSessionHeader), body: body}
		switch {
		case path != "/mcp":
			t.session = gymSession(r, body)
		case t.session == "":
			t.session, t.opens = rpcTarget(body)
		}
		return t
	}
	return target{}
}

// rewindBody restores the request's body.
func (t target) rewindBody(r *http.Request) {
	if t.body != nil {
		r.Body = protocol.NewBody(t.body)
	}
}

// gymSession returns the session of a POST /reset or /step.
func gymSession(r *http.Request, body []byte) string {
	if id, _ := protocol.SessionIDIn(body); id != "" {
		return id
	}
	return protocol.SessionIDOf(r)
}

// rpcTarget returns the session that a POST /mcp names, and whether it opens one.
func rpcTarget(body []byte) (session string, opens bool) {
	switch protocol.MethodOf(body) {
	case "initialize", "openenv/session/create", protocol.RestoreMethod:
		return "", true
	}
	request, fault := protocol.DecodeRPC(body)
	if fault != nil {
		return "", false
	}
	if params, err := object.Read(request.Params, object.Unique); err == nil {
		session, _ = protocol.ReadText(params.Get("session_id"))
	}
	return session, false
}
