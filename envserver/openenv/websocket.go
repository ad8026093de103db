package openenv

import (
	"bytes"
	"context"
	"net/http"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// serveWS serves /ws.
func (s *Server) serveWS(w http.ResponseWriter, r *http.Request) {
	if !websocket.IsWebSocketUpgrade(r) {
		protocol.WriteDetail(w, http.StatusNotFound, "Not Found: /ws serves WebSockets; use /reset and /step for HTTP")
		return
	}
	s.upgradeConnection(w, r, call{dialect: openEnv{s}, sessionID: protocol.SessionIDOf(r)})
}

// openEnv is the dialect of /ws: reset, step, state, mcp and close.
type openEnv struct{ server *Server }

func (openEnv) refuse(out *bytes.Buffer, e protocol.Error) { protocol.WriteError(out, e) }

func (g openEnv) respond(ctx context.Context, s *session, out *bytes.Buffer, raw []byte) (closing bool) {
	m, fault := protocol.DecodeMessage(raw)
	if fault == nil {
		fault = g.refuseInProduction(m.Kind)
	}
	switch {
	case fault != nil:
		protocol.WriteError(out, *fault)
	case m.Kind == protocol.CloseMessage:
		return true
	case m.Kind == protocol.MCPMessage:
		out.WriteString(`{"type":"mcp","data":`)
		g.server.answerRPC(ctx, out, m.Data, s, s.client)
		out.WriteByte('}')
	default:
		if err := g.playMessage(ctx, s, out, m); err != nil {
			out.Reset()
			protocol.WriteError(out, protocol.PlayError(err))
		}
	}
	return false
}

// refuseInProduction refuses the orchestrator's messages in production mode.
func (g openEnv) refuseInProduction(kind protocol.MessageKind) *protocol.Error {
	if g.server.cfg.Mode == Simulation || kind == protocol.MCPMessage || kind == protocol.CloseMessage {
		return nil
	}
	return &protocol.Error{Code: protocol.CodeUnknownType,
		Message: "this server runs in production mode: send mcp or close, not " + string(kind)}
}

func (g openEnv) playMessage(ctx context.Context, s *session, out *bytes.Buffer, m protocol.Message) error {
	return s.runOperation(ctx, func(p *player.Player) {
		switch m.Kind {
		case protocol.StateMessage:
			p.WriteState(out)
			return // doesn't restart the idle timeout
		case protocol.ResetMessage:
			p.Reset(m.Data, protocol.LenientSeed, "data").Write(out)
		default:
			s.server.past.explainEnd(s.client, p.Act(ctx, m.Data)).Write(out)
		}
		s.restartIdle()
	})
}
