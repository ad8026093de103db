package openenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// dialMCP connects a stock MCP client.
func dialMCP(ctx context.Context, endpoint string) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	return client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint}, nil)
}

// textOf returns the text of a tool's result.
func textOf(tb testing.TB, result *mcp.CallToolResult) string {
	tb.Helper()
	if len(result.Content) == 0 {
		tb.Errorf("the result is empty: %+v", result)
		return ""
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		tb.Errorf("the result is not a text: %+v", result)
		return ""
	}
	return text.Text
}

// seedOf returns the seed in the observation of a tool's result.
func seedOf(tb testing.TB, result *mcp.CallToolResult) any {
	tb.Helper()
	return wire.DecodePath(tb, testkit.EncodeJSON(result.StructuredContent), "observation", "seed")
}

func TestStockMCPClient(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 1})
	c, err := dialMCP(t.Context(), url+"/mcp?seed=7&scenario=E02&reward_mode=terminal")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.InitializeResult(); got.ServerInfo.Name != "csenv-echo" ||
		!strings.Contains(got.Instructions, player.ObserveTool) {
		t.Errorf("initialize: %+v", got)
	}
	if s.sessions.findSession(c.ID()) == nil {
		t.Errorf("the MCP session %q is not in the registry", c.ID())
	}
	if err := c.Ping(t.Context(), nil); err != nil {
		t.Errorf("ping: %v", err)
	}
	listed, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, tool := range listed.Tools {
		names[tool.Name] = true
	}
	if !names[player.ObserveTool] || !names["say"] || names["reset"] || names["step"] || names["state"] ||
		names["close"] {
		t.Errorf("tools %v", names)
	}
	if _, err := dialMCP(t.Context(), url+"/mcp"); err == nil || !strings.Contains(err.Error(), "1/1") {
		t.Errorf("a session beyond the capacity: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wire.AwaitCondition(t, "the slot is free", func() bool { return s.sessions.countActive() == 0 })
}

func TestStockMCPClientPlays(t *testing.T) {
	_, url := serve(t, Config{})
	c, err := dialMCP(t.Context(), url+"/mcp?seed=7")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(name string, arguments any) (*mcp.CallToolResult, error) {
		return c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	}
	for _, want := range []struct {
		tool, result string
		arguments    map[string]any
	}{
		{player.ObserveTool, `{"observation":{"text":"hello","seed":7},"reward":0,"done":false}`, nil},
		{"say", `{"observation":{"text":"hi","seed":7},"reward":0.3,"done":false}`,
			map[string]any{"text": "hi", "reward": 300}},
		{player.ObserveTool, `{"observation":{"text":"hi","seed":7},"reward":0,"done":false}`, nil},
	} {
		result, err := call(want.tool, want.arguments)
		if err != nil || result.IsError {
			t.Fatalf("%s: %+v, %v", want.tool, result, err)
		}
		if diff := cmp.Diff(wire.DecodePath(t, want.result), result.StructuredContent); diff != "" {
			t.Errorf("%s (-want +got)\n%s", want.tool, diff)
		}
		if diff := cmp.Diff(wire.DecodePath(t, want.result), wire.DecodePath(t, textOf(t, result))); diff != "" {
			t.Errorf("%s as text (-want +got)\n%s", want.tool, diff)
		}
	}
	for tool, want := range map[string]string{"zzz": "kind should be say", "fail": "backend is gone",
		"panic": "episode is lost"} {
		result, err := call(tool, nil)
		if err != nil || !result.IsError || !strings.Contains(textOf(t, result), want) {
			t.Errorf("%s: %+v, %v", tool, result, err)
		}
	}
	if _, err := call("reset", nil); err == nil {
		t.Error("reset is a tool")
	}
}

// The orchestrator can use the agent's session by its id, over every transport.
func TestMCPSessionIsInTheRegistry(t *testing.T) {
	s, url := serve(t, Config{})
	c, err := dialMCP(t.Context(), url+"/mcp?seed=3")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, state := wire.GetBody(t, url+"/state?session_id="+c.ID()); wire.DecodePath(t, state, "seed") != 3.0 {
		t.Errorf("/state: %s", state)
	}
	p := attachTo(t, url, c.ID())
	p.Ask(`{"type":"reset","data":{"seed":9}}`)
	result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: player.ObserveTool})
	if err != nil || seedOf(t, result) != 9.0 {
		t.Errorf("after the orchestrator's reset: %+v, %v", result, err)
	}
	p.Leave()
	s.sessions.findSession(c.ID()).end(endIdle, "")
	wire.AwaitCondition(t, "calls fail once the session has ended", func() bool {
		_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: player.ObserveTool})
		return err != nil
	})
}

func TestMCPResetOptions(t *testing.T) {
	s, url := serve(t, Config{})
	initialize := func(query, meta string) (int, string) {
		return wire.PostBody(t, url+"/mcp"+query, fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"},"_meta":%s}}`, meta))
	}
	for name, c := range map[string]struct {
		query, meta, want string
	}{
		"unknown task":     {"?task=juggle", `{}`, "unknown task"},
		"unknown scenario": {"", `{"openenv/reset":{"scenario":"X99"}}`, "unknown scenario"},
		"unknown split":    {"?split=holdout", `{}`, "unknown split"},
		"no object":        {"", `{"openenv/reset":7}`, "should be a JSON object"},
	} {
		status, body := initialize(c.query, c.meta)
		if status != 200 || wire.DecodePath(t, body, "error", "code") != -32602.0 || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if got := s.sessions.countActive(); got != 0 {
		t.Errorf("%d sessions after refusals", got)
	}
	if status, body := initialize("?seed=1&task=talk",
		`{"openenv/reset":{"seed":12,"episode_id":"E"}}`); status != 200 || wire.DecodePath(t, body, "result") == nil {
		t.Fatalf("%d %s", status, body)
	}
	open := s.sessions.listSessions()
	if len(open) != 1 {
		t.Fatalf("%d sessions, want 1", len(open))
	}
	_, state := wire.GetBody(t, url+"/state?session_id="+open[0].id)
	if wire.DecodePath(t, state, "seed") != 12.0 || wire.DecodePath(t, state, "episode_id") != "E" {
		t.Errorf("state %s: _meta has precedence over the query", state)
	}
}

// sendMCP sends a request of an MCP session, "" for none, and returns the status, the session of
// the answer and its body.
func sendMCP(t *testing.T, url, method, session, accept, body string) (status int, id, answer string) {
	t.Helper()
	request, _ := http.NewRequest(method, url+"/mcp", strings.NewReader(body))
	request.Header.Set("Accept", accept)
	if session != "" {
		request.Header.Set(protocol.MCPSessionHeader, session)
		request.Header.Set(protocol.MCPVersionHeader, "2025-06-18")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get(protocol.MCPSessionHeader), string(read)
}

// The raw HTTP of an MCP session, according to the specification.
func TestStreamableHTTP(t *testing.T) {
	s, url := serve(t, Config{})
	send := func(method, session, body string) (status int, id string) {
		status, id, _ = sendMCP(t, url, method, session, "application/json, text/event-stream", body)
		return status, id
	}
	status, id := send(http.MethodPost, "",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	if status != http.StatusOK || id == "" {
		t.Fatalf("initialize: %d %q", status, id)
	}
	for _, c := range []struct {
		method, session, body string
		status                int
	}{
		{http.MethodPost, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202},
		{http.MethodPost, id, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, 200},
		{http.MethodPost, id, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, 200},
		{http.MethodPost, "nobody", `{"jsonrpc":"2.0","id":4,"method":"ping"}`, 404},
		{http.MethodGet, "nobody", ``, 404},
		{http.MethodDelete, "nobody", ``, 404},
		{http.MethodDelete, id, ``, 204},
		{http.MethodPost, id, `{"jsonrpc":"2.0","id":5,"method":"ping"}`, 404},
	} {
		if c.status == 404 && c.session == id {
			wire.AwaitCondition(t, "the MCP library has let go of the session", func() bool {
				status, _ := send(c.method, c.session, c.body)
				return status == c.status
			})
			continue
		}
		if status, _ := send(c.method, c.session, c.body); status != c.status {
			t.Errorf("%s %s %s: %d", c.method, c.session, c.body, status)
		}
	}
	if got := s.sessions.countActive(); got != 0 {
		t.Errorf("%d sessions after the DELETE", got)
	}
}

// A stream of events needs a session, of which it is the only one, so that a client has no more
// streams than sessions.
func TestSessionHasOneStream(t *testing.T) {
	_, url := serve(t, Config{})
	_, id, _ := sendMCP(t, url, http.MethodPost, "", "application/json",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	for i, want := range []int{http.StatusOK, http.StatusConflict, http.StatusConflict} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/mcp", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Accept": {"text/event-stream"}, protocol.MCPSessionHeader: {id}}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("stream %d: %s", i, response.Status)
		}
	}
}

// Ids come back as they were sent, also to a client that accepts nothing but JSON.
func TestMCPKeepsIDs(t *testing.T) {
	_, url := serve(t, Config{})
	send := func(session, body string) (int, string, string) {
		return sendMCP(t, url, http.MethodPost, session, "application/json", body)
	}
	status, session, answer := send("", `{"jsonrpc":"2.0","id":1.5,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	if status != http.StatusOK || !strings.Contains(answer, `"id":1.5`) {
		t.Fatalf("initialize: %d %s", status, answer)
	}
	for _, id := range []string{`1`, `-7`, `2.25`, `18446744073709551617`, `9007199254740993`, `1e3`, `"a"`, `"1.5"`} {
		status, _, answer := send(session, `{"jsonrpc":"2.0","method":"ping","id":`+id+`}`)
		if status != http.StatusOK || !strings.Contains(answer, `"id":`+id) || strings.Contains(answer, idMark) {
			t.Errorf("id %s: %d %s", id, status, answer)
		}
	}
}

func TestMCPCapacityIsAProtocolError(t *testing.T) {
	_, url := serve(t, Config{MaxSessions: 1})
	wire.CreateSession(t, url)
	_, err := dialMCP(t.Context(), url+"/mcp")
	if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != -32000 ||
		!strings.Contains(string(wire.Data), `"max_sessions":1`) {
		t.Errorf("refused with %v", err)
	}
}
