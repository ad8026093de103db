package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// answerRPC answers a request of OpenEnv's MCP dialect. Own is the session of the request's socket,
// nil for a POST.
func (s *Server) answerRPC(ctx context.Context, out *bytes.Buffer, raw []byte, own *session, client string) {
	r, fault := protocol.DecodeRPC(raw)
	var result any
	if fault == nil {
		result, fault = rpcCall{server: s, own: own, client: client, params: r.Params}.run(ctx, r.Method)
	}
	protocol.WriteRPC(out, r.ID, result, fault)
}

func (c rpcCall) run(ctx context.Context, method string) (any, *protocol.RPCError) {
	var p rpcParams
	if c.params != nil {
		members, err := object.Read(c.params, object.Unique)
		if err != nil {
			return nil, invalidParams("the params can't be read: " + err.Error())
		}
		p = rpcParams{name: members.Get("name"), arguments: members.Get("arguments"),
			sessionID: members.Get("session_id"), n: members.Get("n"), checkpoint: members.Get("checkpoint")}
	}
	switch method {
	case "tools/list":
		if _, fault := c.session(p); fault != nil {
			return nil, fault
		}
		return c.server.players.Tools.Listed, nil
	case "tools/call":
		return c.callTool(ctx, p)
	case "openenv/session/create":
		return c.createSession(ctx)
	case "openenv/session/close":
		return c.closeSession(p)
	case protocol.ForkMethod:
		return c.forkSession(ctx, p)
	case protocol.CheckpointMethod:
		return c.saveSession(ctx, p)
	case protocol.RestoreMethod:
		return c.restoreSession(ctx, p)
	case "ping":
		return map[string]any{}, nil
	}
	return nil, &protocol.RPCError{Code: protocol.RPCNoMethod, Message: fmt.Sprintf(
		"method not found: %.64q; tools/list, tools/call, openenv/session/create, openenv/session/close, "+
			"session/fork, session/checkpoint and session/restore need no initialize; other MCP methods do", method)}
}

// callTool plays a tool in a session, or in an environment that is dropped afterwards.
func (c rpcCall) callTool(ctx context.Context, p rpcParams) (any, *protocol.RPCError) {
	name, ok := protocol.ReadText(p.name)
	if !ok {
		return nil, invalidParams("params.name should be the name of a tool")
	}
	if protocol.IsGiven(p.arguments) && p.arguments.Kind() != '{' {
		return nil, invalidParams("params.arguments should be a JSON object")
	}
	if !protocol.IsGiven(p.arguments) {
		p.arguments = nil
	}
	ss, fault := c.session(p)
	if fault != nil {
		return nil, fault
	}
	var r player.Reply
	err := c.server.playOn(ctx, ss, func(ctx context.Context, player *player.Player) {
		r = player.Call(ctx, name, json.RawMessage(p.arguments))
	})
	if err = errors.Join(err, r.Err); err != nil {
		return nil, toolFault(err)
	}
	result, err := player.ToolResult(r, true)
	if err != nil {
		return nil, toolFault(err)
	}
	return result, nil
}

func (c rpcCall) createSession(ctx context.Context) (any, *protocol.RPCError) {
	if c.own != nil {
		return map[string]any{"session_id": c.own.id}, nil
	}
	ss, err := c.server.openSession(ctx, newID(c.server.mesh.SessionPrefix()), c.client)
	if err != nil {
		return nil, openFault(c.server.openError(err))
	}
	return map[string]any{"session_id": ss.id}, nil
}

func (c rpcCall) closeSession(p rpcParams) (any, *protocol.RPCError) {
	if !p.namesSession() {
		return nil, invalidParams("params.session_id is required")
	}
	ss, fault := c.session(p)
	switch {
	case fault != nil:
		return nil, fault
	case ss == c.own:
		return nil, &protocol.RPCError{Code: protocol.RPCInvalidRequest,
			Message: "this session belongs to the socket: close the socket"}
	case ss.endOnRequest():
		return map[string]any{"session_id": ss.id, "closed": true}, nil
	}
	return map[string]any{"session_id": ss.id, "closed": false, "closing": true}, nil
}

// rpcDialect is the dialect of the WebSocket /mcp: JSON-RPC, with a session for each connection.
type rpcDialect struct{ server *Server }

func (rpcDialect) refuse(out *bytes.Buffer, e protocol.Error) {
	protocol.WriteRPC(out, protocol.NullID, nil, openFault(&e))
}

func (d rpcDialect) respond(ctx context.Context, s *session, out *bytes.Buffer, raw []byte) (closing bool) {
	d.server.answerRPC(ctx, out, raw, s, s.client)
	return false
}

// serveMCP serves OpenEnv's dialect, which has no handshake, and MCP for clients that begin with
// initialize.
func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	switch {
	case websocket.IsWebSocketUpgrade(r):
		s.upgradeConnection(w, r, call{dialect: rpcDialect{s}, sessionID: protocol.SessionIDOf(r)})
	case r.Header.Get(protocol.MCPSessionHeader) != "" || r.Header.Get(protocol.MCPVersionHeader) != "":
		s.mcp.serve(w, r)
	case r.Method == http.MethodPost:
		s.servePlainMCP(w, r)
	default:
		w.Header().Set("Allow", http.MethodPost)
		protocol.WriteDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

// servePlainMCP answers a POST, always with 200 unless it is MCP's initialize.
func (s *Server) servePlainMCP(w http.ResponseWriter, r *http.Request) {
	body := protocol.BodyOf(r)
	if beginsMCP(body) {
		s.mcp.serve(w, r)
		return
	}
	var out bytes.Buffer
	s.answerRPC(r.Context(), &out, body, nil, s.clientOf(r))
	protocol.WriteBytes(w, http.StatusOK, out.Bytes())
}

// beginsMCP reports whether a request is the first request of an MCP client.
func beginsMCP(body []byte) bool {
	method := protocol.MethodOf(body)
	return method == "initialize" || method == "server/discover"
}
