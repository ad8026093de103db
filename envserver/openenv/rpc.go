package openenv

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// rpcCall is a request of OpenEnv's MCP dialect.
type rpcCall struct {
	server *Server
	own    *session
	client string
	params jsontext.Value
}

// rpcParams are the params of all methods.
type rpcParams struct {
	name, arguments, sessionID, n, checkpoint jsontext.Value
}

// namesSession reports whether there is a session_id other than null and "".
func (p rpcParams) namesSession() bool {
	return protocol.IsGiven(p.sessionID) && string(p.sessionID) != `""`
}

func invalidParams(message string) *protocol.RPCError {
	return &protocol.RPCError{Code: protocol.RPCInvalidParams, Message: message}
}

// session returns the session that the params name, or else the socket's own, nil for none.
func (c rpcCall) session(p rpcParams) (*session, *protocol.RPCError) {
	if !p.namesSession() {
		return c.own, nil
	}
	id, ok := protocol.ReadText(p.sessionID)
	ss := c.server.sessions.findSession(id)
	if !ok || ss == nil {
		return nil, invalidParams("unknown session_id: begin a session with openenv/session/create")
	}
	return ss, nil
}

// toolFault is the error of a tool call.
func toolFault(err error) *protocol.RPCError {
	fault := &protocol.RPCError{Code: protocol.RPCInternal, Message: err.Error()}
	if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
		fault = invalidParams("Invalid arguments: " + protocol.JoinMessages(invalid.Items))
		fault.Data = map[string]any{"errors": invalid.Items}
	}
	if wire, ok := errors.AsType[protocol.Error](err); ok {
		fault.Message = wire.Message
	}
	return fault
}

// openFault is the JSON-RPC form of a refusal.
func openFault(e *protocol.Error) *protocol.RPCError {
	data := map[string]any{}
	if e.FactoryName != "" {
		data["factory_name"] = e.FactoryName
	}
	if e.MaxSessions != nil {
		data["active_sessions"], data["max_sessions"] = *e.ActiveSessions, *e.MaxSessions
	}
	return &protocol.RPCError{Code: protocol.RPCServer, Message: e.Error(), Data: data}
}
