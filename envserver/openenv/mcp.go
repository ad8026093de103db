package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/openenv/protocol"

	"github.com/csenv/csenv/envserver/episode"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gorilla/websocket"
)

// The error codes of JSON-RPC, and OpenEnv's own one for what the server can't give.
const (
	rpcParse          = -32700
	rpcInvalidRequest = -32600
	rpcNoMethod       = -32601
	rpcInvalidParams  = -32602
	rpcInternal       = -32603
	rpcServer         = -32000
)

// rpcError is the error of a JSON-RPC response. Its data is there always, if only as null.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// rpcRequest is a decoded JSON-RPC request. Its id is never nil.
type rpcRequest struct {
	id     jsontext.Value
	method string
	params jsontext.Value
}

// rpcEnvelope takes a request apart.
type rpcEnvelope struct {
	JSONRPC jsontext.Value            `json:"jsonrpc"`
	Method  jsontext.Value            `json:"method"`
	Params  jsontext.Value            `json:"params"`
	ID      jsontext.Value            `json:"id"`
	Extra   map[string]jsontext.Value `json:",embed"`
}

// nullID answers a request whose id can't be read.
var nullID = jsontext.Value("null")

// decodeRPC reads a JSON-RPC request strictly, as OpenEnv does: no batches, no unknown members, ids
// that are strings, integers or null.
func decodeRPC(raw []byte) (rpcRequest, *rpcError) {
	var e rpcEnvelope
	r := rpcRequest{id: nullID}
	if kind := jsontext.Value(raw).Kind(); kind != '{' {
		return r, &rpcError{Code: rpcParse, Message: "a request is one JSON object"}
	}
	if err := jsonv2.Unmarshal(raw, &e); err != nil {
		return r, &rpcError{Code: rpcParse, Message: "the request is not JSON: " + err.Error()}
	}
	if e.ID != nil && isRPCID(e.ID) {
		r.id = e.ID
	}
	if fault := e.fault(); fault != "" {
		return r, &rpcError{Code: rpcInvalidRequest, Message: "Invalid request: " + fault}
	}
	r.method, _ = readText(e.Method)
	r.params = e.Params
	return r, nil
}

// fault says what is wrong with the envelope, "" for nothing.
func (e *rpcEnvelope) fault() string {
	version, _ := readText(e.JSONRPC)
	_, isText := readText(e.Method)
	switch {
	case version != "2.0":
		return `jsonrpc should be "2.0"`
	case !isText:
		return "method should be a string"
	case e.Params != nil && e.Params.Kind() != '{':
		return "params should be a JSON object"
	case e.ID != nil && !isRPCID(e.ID):
		return "id should be a string, an integer or null"
	case len(e.Extra) > 0:
		return fmt.Sprintf("unknown member %q", slices.Sorted(maps.Keys(e.Extra))[0])
	}
	return ""
}

func isRPCID(id jsontext.Value) bool {
	if id.Kind() != '0' {
		return id.Kind() == '"' || id.Kind() == 'n'
	}
	_, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil
}

// answerRPC answers a request of OpenEnv's MCP dialect. Own is the session of the socket that it
// came by, nil for a plain POST of the client.
func (s *Server) answerRPC(ctx context.Context, out *bytes.Buffer, raw []byte, own *session, client string) {
	r, fault := decodeRPC(raw)
	var result any
	if fault == nil {
		result, fault = rpcCall{server: s, own: own, client: client, params: r.params}.run(ctx, r.method)
	}
	writeRPC(out, r.id, result, fault)
}

// writeRPC appends a response: with a result or an error, never both.
func writeRPC(out *bytes.Buffer, id jsontext.Value, result any, fault *rpcError) {
	mark := out.Len()
	var err error
	out.WriteString(`{"jsonrpc":"2.0","id":`)
	out.Write(id)
	if fault == nil {
		out.WriteString(`,"result":`)
		err = encode(out, result)
	} else {
		fault.Message = cut(fault.Message)
		out.WriteString(`,"error":`)
		err = encode(out, fault)
	}
	out.WriteByte('}')
	if err != nil {
		out.Truncate(mark)
		writeRPC(out, id, nil, &rpcError{Code: rpcInternal, Message: "the answer can't be encoded"})
	}
}

// rpcCall is one call of a method.
type rpcCall struct {
	server *Server
	own    *session
	client string
	params jsontext.Value
}

// rpcParams are the params of every method.
type rpcParams struct {
	Name      jsontext.Value `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	SessionID jsontext.Value `json:"session_id"`
}

// namesSession reports whether there is a session_id other than null and "".
func (p rpcParams) namesSession() bool { return given(p.SessionID) && string(p.SessionID) != `""` }

func (c rpcCall) run(ctx context.Context, method string) (any, *rpcError) {
	var p rpcParams
	if c.params != nil {
		if err := jsonv2.Unmarshal(c.params, &p); err != nil {
			return nil, &rpcError{Code: rpcInvalidParams, Message: "the params can't be read: " + err.Error()}
		}
	}
	switch method {
	case "tools/list":
		if _, fault := c.session(p); fault != nil {
			return nil, fault
		}
		return c.server.tools.listed, nil
	case "tools/call":
		return c.callTool(ctx, p)
	case "openenv/session/create":
		return c.createSession(ctx)
	case "openenv/session/close":
		return c.closeSession(p)
	case "ping":
		return object{}, nil
	}
	return nil, &rpcError{Code: rpcNoMethod, Message: fmt.Sprintf(
		"unknown method %.64q: tools/list, tools/call, openenv/session/create and openenv/session/close need no "+
			"initialize; other MCP methods do", method)}
}

// session is the one that the params name, the socket's own, or nil for none.
func (c rpcCall) session(p rpcParams) (*session, *rpcError) {
	if !p.namesSession() {
		return c.own, nil
	}
	id, ok := readText(p.SessionID)
	ss := c.server.sessions.find(id)
	if !ok || ss == nil {
		return nil, &rpcError{Code: rpcInvalidParams, Message: "unknown session_id: begin a session with " +
			"openenv/session/create"}
	}
	return ss, nil
}

// callTool plays a tool in a session, or else in an environment that is gone with the answer.
func (c rpcCall) callTool(ctx context.Context, p rpcParams) (any, *rpcError) {
	name, ok := readText(p.Name)
	if !ok {
		return nil, &rpcError{Code: rpcInvalidParams, Message: "params.name should be the name of a tool"}
	}
	if given(p.Arguments) && p.Arguments.Kind() != '{' {
		return nil, &rpcError{Code: rpcInvalidParams, Message: "params.arguments should be a JSON object"}
	}
	if !given(p.Arguments) {
		p.Arguments = nil
	}
	ss, fault := c.session(p)
	if fault != nil {
		return nil, fault
	}
	var r reply
	err := c.server.playOn(ctx, ss, func(ctx context.Context, player *player) {
		r = player.call(ctx, name,
			json.RawMessage(p.Arguments))
	})
	if err = errors.Join(err, r.err); err != nil {
		return nil, toolFault(err)
	}
	result, err := toolResult(r, true)
	if err != nil {
		return nil, toolFault(err)
	}
	return result, nil
}

// playOn plays on a session, or, without one, on an environment that is gone afterwards.
func (s *Server) playOn(ctx context.Context, ss *session, f func(ctx context.Context, p *player)) error {
	if ss == nil {
		release, detail := s.takeStateless()
		if release == nil {
			return wireError{Code: codeExecution, Message: detail}
		}
		defer release()
		p, err := s.newPlayer()
		if err != nil {
			return errFactory
		}
		f(ctx, p)
		return nil
	}
	ctx, cancel := ss.within(ctx)
	defer cancel()
	ss.active()
	defer ss.active()
	return ss.do(ctx, func(p *player) { f(ctx, p) })
}

// toolFault is the error of a tool call.
func toolFault(err error) *rpcError {
	fault := &rpcError{Code: rpcInternal, Message: err.Error()}
	if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
		fault.Code, fault.Message, fault.Data = rpcInvalidParams, "Invalid arguments: "+messages(invalid.Items), object{
			"errors": invalid.Items}
	}
	if wire, ok := errors.AsType[wireError](err); ok {
		fault.Message = wire.Message
	}
	return fault
}

func (c rpcCall) createSession(ctx context.Context) (any, *rpcError) {
	if c.own != nil {
		return object{"session_id": c.own.id}, nil
	}
	ss, err := c.server.open(ctx, newID(c.server.sessionPrefix), c.client)
	if err != nil {
		return nil, openFault(c.server.openError(err))
	}
	return object{"session_id": ss.id}, nil
}

// openFault is the JSON-RPC form of a refusal.
func openFault(e *wireError) *rpcError {
	data := object{}
	if e.FactoryName != "" {
		data["factory_name"] = e.FactoryName
	}
	if e.MaxSessions != nil {
		data["active_sessions"], data["max_sessions"] = *e.ActiveSessions, *e.MaxSessions
	}
	return &rpcError{Code: rpcServer, Message: e.Error(), Data: data}
}

func (c rpcCall) closeSession(p rpcParams) (any, *rpcError) {
	if !p.namesSession() {
		return nil, &rpcError{Code: rpcInvalidParams, Message: "params.session_id is required"}
	}
	ss, fault := c.session(p)
	switch {
	case fault != nil:
		return nil, fault
	case ss == c.own:
		return nil, &rpcError{Code: rpcInvalidRequest, Message: "this session belongs to the socket: close the socket"}
	case ss.closeOnRequest():
		return object{"session_id": ss.id, "closed": true}, nil
	}
	return object{"session_id": ss.id, "closed": false, "closing": true}, nil
}

// rpcDialect is what is spoken on the WebSocket /mcp: JSON-RPC, with a session for each connection.
type rpcDialect struct{ server *Server }

func (rpcDialect) refuse(out *bytes.Buffer, e wireError) { writeRPC(out, nullID, nil, openFault(&e)) }

func (d rpcDialect) respond(ctx context.Context, s *session, out *bytes.Buffer, raw []byte) (closing bool) {
	d.server.answerRPC(ctx, out, raw, s, s.client)
	return false
}

// serveMCP serves /mcp: OpenEnv's dialect, which has no handshake, and MCP itself for clients that
// begin with initialize.
func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	switch {
	case websocket.IsWebSocketUpgrade(r):
		s.upgrade(w, r, call{dialect: rpcDialect{s}, sessionID: sessionIDOf(r)})
	case r.Header.Get(mcpSessionHeader) != "" || r.Header.Get(mcpVersionHeader) != "":
		s.mcp.serve(w, r)
	case r.Method == http.MethodPost:
		s.servePlainMCP(w, r)
	default:
		w.Header().Set("Allow", http.MethodPost)
		writeDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

// servePlainMCP answers a POST: always with 200, unless it is the initialize of MCP.
func (s *Server) servePlainMCP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, protocol.MaxBody))
	var out bytes.Buffer
	if err != nil {
		writeRPC(&out, nullID, nil, &rpcError{Code: rpcParse,
			Message: fmt.Sprintf("the body can't be read, or is larger than %d bytes", protocol.MaxBody)})
		writeBytes(w, http.StatusOK, out.Bytes())
		return
	}
	if beginsMCP(body) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mcp.serve(w, r)
		return
	}
	s.answerRPC(r.Context(), &out, body, nil, s.clientOf(r))
	writeBytes(w, http.StatusOK, out.Bytes())
}

// beginsMCP reports whether a request is the first one of an MCP client.
func beginsMCP(body []byte) bool {
	method := methodOf(body)
	return method == "initialize" || method == "server/discover"
}

// methodOf is the method of a request, "" for what is none.
func methodOf(body []byte) string {
	var e struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	return e.Method
}

// cut bounds a message.
func cut(message string) string {
	if len(message) <= maxErrorText {
		return message
	}
	return strings.ToValidUTF8(message[:maxErrorText], "") + "…"
}
