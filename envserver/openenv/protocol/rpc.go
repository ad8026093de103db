package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/object"
)

// The error codes of JSON-RPC, and RPCServer, OpenEnv's code for a refusal of the server.
const (
	RPCParse          = -32700
	RPCInvalidRequest = -32600
	RPCNoMethod       = -32601
	RPCInvalidParams  = -32602
	RPCInternal       = -32603
	RPCServer         = -32000
)

// RPCError is the error of a JSON-RPC response. Its data is always present, null for none.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// RPCRequest is a decoded JSON-RPC request. Its id is never nil.
type RPCRequest struct {
	ID     jsontext.Value
	Method string
	Params jsontext.Value
}

type rpcEnvelope struct {
	jsonrpc, method, params, id jsontext.Value
	extra                       object.Object
}

// The methods for copies of sessions. RestoreMethod begins a session with the episode of a
// checkpoint.
const (
	ForkMethod       = "session/fork"
	CheckpointMethod = "session/checkpoint"
	RestoreMethod    = "session/restore"
)

// ForkRefusal is why a server refuses to fork, save or restore an episode: the reason in the data
// of the error.
type ForkRefusal string

// The reasons of refusals.
const (
	// ForkCount is a number of forks outside of what a request may ask for.
	ForkCount     ForkRefusal = "count"
	ForkNoEpisode ForkRefusal = "no_episode"
	ForkPlanned   ForkRefusal = "planned_run"
	// ForkTooLong is an episode whose actions are too long for a checkpoint.
	ForkTooLong ForkRefusal = "too_long"
	// ForkUnreadable is a checkpoint that was changed or that another pool wrote: its encryption
	// doesn't tell them apart.
	ForkUnreadable ForkRefusal = "unreadable"
	// ForkOtherVersion is a checkpoint of another format, environment, grader or judge, or of other
	// scenarios.
	ForkOtherVersion ForkRefusal = "other_version"
	// ForkPlaying is a connection whose session plays an episode already.
	ForkPlaying ForkRefusal = "playing"
	// ForkNoSlot is a server without slots for the new sessions.
	ForkNoSlot ForkRefusal = "no_slot"
)

// ForkRefused is the data of the error.
type ForkRefused struct {
	Reason ForkRefusal `json:"reason"`
	// ActiveSessions and MaxSessions are set by a server without slots.
	ActiveSessions *int `json:"active_sessions,omitempty"`
	MaxSessions    *int `json:"max_sessions,omitempty"`
}

// NullID answers a request whose id can't be read.
var NullID = jsontext.Value("null")

// DecodeRPC reads a JSON-RPC request strictly, as OpenEnv does: no batches, no unknown members, ids
// that are strings, integers or null.
func DecodeRPC(raw []byte) (RPCRequest, *RPCError) {
	raw = repairSurrogates(raw)
	r := RPCRequest{ID: NullID}
	members, err := object.Read(raw, object.Unique)
	switch {
	case err != nil && jsontext.Value(raw).Kind() != '{':
		return r, &RPCError{Code: RPCParse, Message: "a request is one JSON object"}
	case errors.Is(err, object.ErrTooMany):
		return r, &RPCError{Code: RPCInvalidRequest, Message: fmt.Sprintf("Invalid request: it has at most %d members",
			object.MaxMembers)}
	case err != nil:
		return r, &RPCError{Code: RPCParse, Message: "the request is not JSON: " + err.Error()}
	}
	var e rpcEnvelope
	e.extra = members.Take(map[string]*jsontext.Value{"jsonrpc": &e.jsonrpc, "method": &e.method, "params": &e.params,
		"id": &e.id})
	if e.id != nil && isRPCID(e.id) {
		r.ID = e.id
	}
	if fault := e.fault(); fault != "" {
		return r, &RPCError{Code: RPCInvalidRequest, Message: "Invalid request: " + fault}
	}
	r.Method, _ = ReadText(e.method)
	r.Params = e.params
	return r, nil
}

// fault describes the envelope's fault, "" for none.
func (e *rpcEnvelope) fault() string {
	version, _ := ReadText(e.jsonrpc)
	_, isText := ReadText(e.method)
	switch {
	case version != "2.0":
		return `jsonrpc should be "2.0"`
	case !isText:
		return "method should be a string"
	case e.params != nil && e.params.Kind() != '{':
		return "params should be a JSON object"
	case e.id != nil && !isRPCID(e.id):
		return "id should be a string, an integer or null"
	case len(e.extra) > 0:
		return fmt.Sprintf("unknown member %q", object.ClipName(e.extra[0].Name))
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

// WriteRPC appends a response with the result or, if fault is not nil, the error.
func WriteRPC(out *bytes.Buffer, id jsontext.Value, result any, fault *RPCError) {
	mark := out.Len()
	var err error
	out.WriteString(`{"jsonrpc":"2.0","id":`)
	out.Write(id)
	if fault == nil {
		out.WriteString(`,"result":`)
		err = EncodeJSON(out, result)
	} else {
		fault.Message = ClipMessage(fault.Message)
		out.WriteString(`,"error":`)
		err = EncodeJSON(out, fault)
	}
	out.WriteByte('}')
	if err != nil {
		out.Truncate(mark)
		WriteRPC(out, id, nil, &RPCError{Code: RPCInternal, Message: "the answer can't be encoded"})
	}
}

// MethodOf returns the method of a request, "" for an invalid one.
func MethodOf(body []byte) string {
	defer object.AcquireScanSlot(len(body))()
	var e struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(body, &e) != nil { // as leniently as MCP libraries do
		return ""
	}
	return e.Method
}

// The headers of MCP clients.
const (
	MCPSessionHeader = "Mcp-Session-Id"
	MCPVersionHeader = "Mcp-Protocol-Version"
)
