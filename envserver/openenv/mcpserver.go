package openenv

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// resetMeta is the member of an initialize's _meta with options of the reset.
const resetMeta = "openenv/reset"

// maxMCPValues bounds the JSON values of an MCP request, because the library stores each of them.
const maxMCPValues = 20_000

// mcpServer serves MCP on the path of OpenEnv's dialect. An MCP session is a session of the
// registry with one episode. It begins with initialize, whose URL query and _meta may have the
// reset's options. Agents can't reset: for another episode they open another session.
type mcpServer struct {
	server  *Server
	handler *mcp.StreamableHTTPHandler
}

func newMCPServer(s *Server) *mcpServer {
	m := &mcpServer{server: s}
	server := mcp.NewServer(
		&mcp.Implementation{Name: "csenv-" + s.cfg.Kind.Name(), Version: cmp.Or(s.cfg.Version, "dev")},
		&mcp.ServerOptions{
			Instructions: s.cfg.Kind.Description() + " Call " + player.ObserveTool +
				" first. The results have the reward of each call and whether the episode is done.",
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
			GetSessionID: func() string { return newID(s.mesh.SessionPrefix()) },
		})
	for _, tool := range s.players.Tools.Offered {
		server.AddTool(&mcp.Tool{
			Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: tool.Name == player.ObserveTool},
		}, m.callTool)
	}
	server.AddReceivingMiddleware(m.openOnInitialize)
	m.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{
			JSONResponse: true, MaxRequestBodyBytes: protocol.MaxBody,
			// Proxies on the same host, as of a service mesh, connect from loopback with any Host.
			DisableLocalhostProtection: true,
		})
	return m
}

// originKey is the context key of an origin.
type originKey struct{}

type origin struct {
	query  url.Values
	client string
}

// serve answers a request of an MCP client.
func (m *mcpServer) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodDelete {
		m.delete(w, r)
		return
	}
	if protocol.CountValues(protocol.BodyOf(r)) > maxMCPValues {
		protocol.WriteDetail(w, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("a request has at most %d JSON values", maxMCPValues))
		return
	}
	if r.Method == http.MethodPost { // OpenEnv's dialect requires neither header, and answers are JSON
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w, r = keepID(w, r)
	}
	if r.Method == http.MethodGet { // a stream of events that ends with the session
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}
	m.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), originKey{},
		origin{r.URL.Query(), m.server.clientOf(r)})))
}

// delete ends an MCP session.
func (m *mcpServer) delete(w http.ResponseWriter, r *http.Request) {
	ss := m.server.sessions.findSession(r.Header.Get(protocol.MCPSessionHeader))
	if ss == nil {
		protocol.WriteDetail(w, http.StatusNotFound, "session not found")
		return
	}
	ss.endOnRequest()
	w.WriteHeader(http.StatusNoContent)
}

// openOnInitialize makes the session of the registry that an MCP session plays on.
func (m *mcpServer) openOnInitialize(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		session, isServer := request.GetSession().(*mcp.ServerSession)
		if !isServer {
			return next(ctx, method, request)
		}
		if ss := m.server.sessions.findSession(session.ID()); ss != nil || method != "initialize" {
			if ss != nil && method != "notifications/initialized" {
				ss.noteUse() // also for pings
			}
			return next(ctx, method, request)
		}
		ss, err := m.open(ctx, session.ID(), request)
		if err != nil {
			return nil, err
		}
		result, err := next(ctx, method, request)
		if err != nil {
			ss.end(endClosed, "")
			return nil, err
		}
		ss.whenEnded(func() { _ = session.Close() })
		return result, nil
	}
}

// whenEnded runs f once the session has ended.
func (s *session) whenEnded(f func()) {
	s.mu.Lock()
	ended := s.ended
	s.onEnd = f
	s.mu.Unlock()
	if ended {
		s.server.spawn(f)
	}
}

// open makes the session and begins its episode. Its errors are JSON-RPC errors.
func (m *mcpServer) open(ctx context.Context, id string, request mcp.Request) (*session, error) {
	from, _ := ctx.Value(originKey{}).(origin)
	options, err := resetOptionsOf(from.query, request)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	ss, err := m.server.openSession(ctx, id, from.client)
	if err != nil {
		return nil, wireRPC(openFault(m.server.openError(err)))
	}
	var begun player.Reply
	if err = errors.Join(ss.runOperation(ctx, func(p *player.Player) {
		begun = p.Reset(options, protocol.LenientSeed, "reset")
	}),
		begun.Err); err != nil {
		ss.end(endClosed, "")
		return nil, wireRPC(toolFault(err))
	}
	return ss, nil
}

// wireRPC converts an error to the MCP library's.
func wireRPC(fault *protocol.RPCError) error {
	data, err := json.Marshal(fault.Data)
	if err != nil {
		data = nil
	}
	return &jsonrpc.Error{Code: int64(fault.Code), Message: protocol.ClipMessage(fault.Message), Data: data}
}

// resetOptionsOf returns the options of an initialize. Those in _meta override the query's.
func resetOptionsOf(query url.Values, request mcp.Request) (json.RawMessage, error) {
	options := map[string]any{}
	for name, values := range query {
		options[name] = values[len(values)-1]
	}
	if meta, ok := request.GetParams().GetMeta()[resetMeta]; ok {
		members, isObject := meta.(map[string]any)
		if !isObject {
			return nil, fmt.Errorf("_meta[%q] should be a JSON object with options of a reset", resetMeta)
		}
		maps.Copy(options, members)
	}
	return json.Marshal(options)
}

// callTool plays a tool in the session. An agent's mistake is a result, which its model reads, not
// a protocol error.
func (m *mcpServer) callTool(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ss := m.server.sessions.findSession(request.Session.ID())
	if ss == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the session has ended: initialize again"}
	}
	var r player.Reply
	var structured json.RawMessage
	err := m.server.playOn(ctx, ss, func(ctx context.Context, p *player.Player) {
		r = p.Call(ctx, request.Params.Name, request.Params.Arguments)
	})
	if err = errors.Join(err, r.Err); err == nil {
		structured, err = r.Structured()
	}
	if err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: agentError(err)}}}, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(structured)}},
		StructuredContent: structured}, nil
}

// agentError describes an error for the agent.
func agentError(err error) string {
	if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
		return protocol.ClipMessage("Invalid arguments: " + protocol.JoinMessages(invalid.Items))
	}
	return protocol.ClipMessage(strings.TrimSpace(err.Error()))
}
