package openenv

import (
	"bytes"
	"context"
	"net/http"

	"github.com/gorilla/websocket"
)

// sessionHeader names the session of a plain HTTP request, and of a WebSocket in the answer to its
// handshake.
const sessionHeader = "X-Session-Id"

// serveWS serves /ws.
func (s *Server) serveWS(w http.ResponseWriter, r *http.Request) {
	if !websocket.IsWebSocketUpgrade(r) {
		writeDetail(w, http.StatusNotFound, "Not Found: a WebSocket is played here, to which OpenEnv clients "+
			"connect; plain HTTP plays on /reset and /step")
		return
	}
	s.upgrade(w, r, call{dialect: gym{s}, sessionID: sessionIDOf(r)})
}

// sessionIDOf is the session that a request names in its query or, failing that, in a header.
func sessionIDOf(r *http.Request) string {
	if id := r.URL.Query().Get("session_id"); id != "" {
		return id
	}
	return r.Header.Get(sessionHeader)
}

// upgrade hands the connection to a goroutine of its own: the one that net/http made has a larger
// stack and holds on to the request.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, c call) {
	c.client = s.clientOf(r)
	c.seat = seatOf(r.Context()).move()
	header := http.Header{}
	if c.sessionID == "" {
		c.freshID = newID(s.sessionPrefix)
		header.Set(sessionHeader, c.freshID)
	}
	conn, err := s.upgrader.Upgrade(w, r, header)
	if err != nil {
		c.seat.giveBack()
		return // Upgrade has answered
	}
	if !s.begin(func() { s.connect(conn, c) }) {
		c.seat.giveBack()
		_ = conn.Close()
	}
}

// gym is the dialect of /ws: reset, step, state, mcp and close.
type gym struct{ server *Server }

func (gym) refuse(out *bytes.Buffer, e wireError) { writeError(out, e) }

func (g gym) respond(ctx context.Context, s *session, out *bytes.Buffer, raw []byte) (closing bool) {
	m, fault := decodeMessage(raw)
	if fault == nil {
		fault = g.fence(m.kind)
	}
	switch {
	case fault != nil:
		writeError(out, *fault)
	case m.kind == closeMessage:
		return true
	case m.kind == mcpMessage:
		out.WriteString(`{"type":"mcp","data":`)
		g.server.answerRPC(ctx, out, m.data, s, s.client)
		out.WriteByte('}')
	default:
		if err := g.play(ctx, s, out, m); err != nil {
			out.Reset()
			writeError(out, playError(err))
		}
	}
	return false
}

// fence keeps agents in production from what is the orchestrator's.
func (g gym) fence(kind messageKind) *wireError {
	if g.server.mode == Simulation || kind == mcpMessage || kind == closeMessage {
		return nil
	}
	return &wireError{Code: codeUnknownType, Message: "this server runs in production mode: send mcp or close, not " +
		string(kind)}
}

func (g gym) play(ctx context.Context, s *session, out *bytes.Buffer, m message) error {
	return s.do(ctx, func(p *player) {
		switch m.kind {
		case stateMessage:
			p.writeState(out)
			return // looking is not playing
		case resetMessage:
			p.reset(m.data, lenientSeed, "data").write(out)
		default:
			p.act(ctx, m.data).write(out)
		}
		s.active()
	})
}
