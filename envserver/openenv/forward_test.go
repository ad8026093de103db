package openenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/mesh"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// Every server of a pool answers requests for a session in the same way as the session's server.
func TestSessionThroughEveryServer(t *testing.T) {
	members := servePool(t, Config{}, Config{}, Config{})
	id := wire.CreateSession(t, members[0].url)
	for i, m := range members {
		p := attachTo(t, m.url, id)
		p.Ask(`{"type":"reset","data":{"seed":5}}`)
		if got := p.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
			t.Errorf("server %d: a step over the socket: %s", i, got)
		}
		other := members[(i+1)%len(members)].url
		params := fmt.Sprintf(`{"name":"say","arguments":{"text":"hi"},"session_id":%q}`, id)
		answer := wire.CallRPC(t, other, "tools/call", params)
		if wire.DecodePath(t, answer, "result", "data", "observation", "text") != "hi" {
			t.Errorf("server %d: tools/call: %s", i, answer)
		}
		for _, c := range []struct{ path, body, header string }{
			{path: "/step", body: fmt.Sprintf(`{"session_id":%q,"action":{"kind":"say"}}`, id)},
			{path: "/step?session_id=" + id, body: `{"action":{"kind":"say"}}`},
			{path: "/step", body: `{"action":{"kind":"say"}}`, header: id},
		} {
			request, _ := http.NewRequest(http.MethodPost, other+c.path, strings.NewReader(c.body))
			request.Header.Set(protocol.SessionHeader, c.header)
			if status, body := answerTo(t, request); status != 200 ||
				wire.DecodePath(t, body, "observation", "seed") != 5.0 {
				t.Errorf("server %d: %s %s: %d %s", i, c.path, c.body, status, body)
			}
		}
		if _, state := wire.GetBody(t, other+"/state?session_id="+id); wire.DecodePath(t, state, "step_count") != 5.0 {
			t.Errorf("server %d: %s, want 5 steps", i, state)
		}
		second := attachTo(t, other, id)
		if answer := second.Ask(`{"type":"state"}`); wire.CodeOf(t, answer) != protocol.CodeSession {
			t.Errorf("server %d: a second socket: %s", i, answer)
		}
		p.Leave()
	}
	if got := sessionsIn(members); got != 1 {
		t.Errorf("%d sessions, want one", got)
	}
}

func answerTo(tb testing.TB, request *http.Request) (int, string) {
	tb.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// The calls of the official MCP client, in its order, through one address in front of three
// servers. The close comes while the socket is attached.
func TestAttachedSessionBehindOneAddress(t *testing.T) {
	members := servePool(t, Config{}, Config{}, Config{})
	front := balance(t, members)
	for range 5 {
		id := wire.CreateSession(t, front)
		p := attachTo(t, front, id)
		p.Ask(`{"type":"reset","data":{"seed":5}}`)
		for range 4 {
			got := wire.CallRPC(t, front, "tools/call", fmt.Sprintf(`{"name":"say","session_id":%q}`, id))
			if wire.DecodePath(t, got, "result") == nil {
				t.Errorf("tools/call: %s", got)
			}
		}
		if got := wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "step_count"); got != 4.0 {
			t.Errorf("%v steps, want 4", got)
		}
		if got := closeSession(t, front, id); !strings.Contains(got, `"closing":true`) {
			t.Errorf("closing an attached session: %s", got)
		}
		p.Leave()
		if got := closeSession(t, front, id); wire.DecodePath(t, got, "error", "code") != -32602.0 {
			t.Errorf("closing it again: %s", got)
		}
	}
	wire.AwaitCondition(t, "every slot is free", func() bool { return sessionsIn(members) == 0 })
}

// A stock MCP client works even if each of its requests reaches a different server.
func TestStockMCPClientBehindOneAddress(t *testing.T) {
	members := servePool(t, Config{}, Config{}, Config{})
	front := balance(t, members)
	for seed := range 3 {
		c, err := dialMCP(t.Context(), fmt.Sprintf("%s/mcp?seed=%d", front, seed))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			result, err := c.CallTool(t.Context(),
				&mcp.CallToolParams{Name: "say", Arguments: map[string]any{"text": "hi"}})
			if err != nil || seedOf(t, result) != float64(seed) {
				t.Errorf("call %d: %+v, %v", i, result, err)
			}
		}
		p := wire.DialPeer(t, websocket.DefaultDialer, "ws"+strings.TrimPrefix(front, "http")+"/mcp?session_id="+c.ID())
		got := p.Ask(`{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`)
		if wire.DecodePath(t, got, "result", "session_id") != c.ID() {
			t.Errorf("WebSocket /mcp: %s", got)
		}
		_ = p.Conn.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	wire.AwaitCondition(t, "every slot is free", func() bool { return sessionsIn(members) == 0 })
}

// When a server dies, its clients' sockets end immediately, and its peers report that the session
// is unknown.
func TestPeerDies(t *testing.T) {
	members := servePool(t, Config{}, Config{})
	id := wire.CreateSession(t, members[1].url)
	p := attachTo(t, members[0].url, id)
	p.Ask(`{"type":"reset"}`)
	members[1].kill()
	_ = p.Conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, _, err := p.Conn.ReadMessage()
	if timeout, ok := errors.AsType[net.Error](err); err == nil || ok && timeout.Timeout() {
		t.Errorf("after the death of the peer: %v", err)
	}
	again := attachTo(t, members[0].url, id)
	if answer := again.Ask(`{"type":"state"}`); wire.CodeOf(t, answer) != protocol.CodeSession ||
		!strings.Contains(answer, "unknown session") {
		t.Errorf("attaching to a lost session: %s", answer)
	}
	answer := wire.CallRPC(t, members[0].url, "tools/call", fmt.Sprintf(`{"name":"say","session_id":%q}`, id))
	if wire.DecodePath(t, answer, "error", "code") != -32602.0 {
		t.Errorf("tools/call: %s", answer)
	}
	step := fmt.Sprintf(`{"session_id":%q,"action":{"kind":"say"}}`, id)
	if status, body := wire.PostBody(t, members[0].url+"/step", step); status != 404 {
		t.Errorf("/step: %d %s", status, body)
	}
	request, _ := http.NewRequest(http.MethodPost, members[0].url+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	request.Header.Set(protocol.MCPSessionHeader, id)
	if status, body := answerTo(t, request); status != 404 {
		t.Errorf("MCP: %d %s, want 404, on which clients initialize again", status, body)
	}
	if got := wire.Connect(t, members[0].url).Code(`{"type":"reset"}`); got != "observation" {
		t.Errorf("a new session: %s", got)
	}
}

// If a server dies while it answers, the client gets an error that reports this.
func TestPeerDiesWhileItAnswers(t *testing.T) {
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{path: "/step", body: `{"session_id":%q,"action":{"kind":"wait","wait":60000000000}}`,
			status: http.StatusBadGateway, want: "was lost while it answered"},
		{path: "/mcp", body: `{"jsonrpc":"2.0","id":"x","method":"tools/call",` +
			`"params":{"session_id":%q,"name":"wait","arguments":{"wait":60000000000}}}`,
			status: http.StatusOK, want: `"id":"x","error":{"code":-32000`},
	} {
		t.Run(c.path, func(t *testing.T) {
			members := servePool(t, Config{Kind: waiter{}}, Config{Kind: waiter{}})
			id := wire.CreateSession(t, members[1].url)
			ss := members[1].sessions.findSession(id)
			wire.CallRPC(t, members[1].url, "tools/call", fmt.Sprintf(`{"name":"say","session_id":%q}`, id))
			var killing sync.WaitGroup
			defer killing.Wait() // the goroutine must not report a failure after the test has ended
			killing.Go(func() {
				defer members[1].kill()
				wire.AwaitCondition(t, "the request runs", func() bool { return len(ss.turn) > 0 })
			})
			status, body := wire.PostBody(t, members[0].url+c.path, fmt.Sprintf(c.body, id))
			if status != c.status || !strings.Contains(body, c.want) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

// Two servers that consider each other the owner of a session don't forward in a loop.
func TestNoLoops(t *testing.T) {
	addresses := make([]string, 2)
	lookup := func(context.Context) ([]string, error) { return addresses, nil }
	confused := Config{MaxSessions: 1, Peers: &mesh.Config{Lookup: lookup, Self: "192.0.2.1:8000"}}
	members := servePool(t, confused, confused)
	addresses[0], addresses[1] = members[0].address, members[1].address
	for _, m := range members {
		id := m.mesh.SessionPrefix() + "NOBODY"
		p := attachTo(t, members[0].url, id)
		if got := p.Code(`{"type":"state"}`); got != protocol.CodeSession {
			t.Errorf("an unknown id: %s", got)
		}
		if status, body := wire.GetBody(t, members[0].url+"/state?session_id="+id); status != 404 {
			t.Errorf("/state: %d %s", status, body)
		}
	}
	for range 2 {
		wire.Connect(t, members[0].url).Ask(`{"type":"reset"}`)
	}
	if got := wire.Connect(t, members[0].url).Code(`{"type":"reset"}`); got != protocol.CodeCapacity {
		t.Errorf("a session beyond the capacity of both: %s", got)
	}
}

// Every server checks the token. Neither DirectHeader nor the peers' proof replaces it.
func TestForwardingGivesNoAccess(t *testing.T) {
	secured := Config{MaxSessions: 1, Tokens: func() []string { return []string{"secret"} }}
	members := servePool(t, secured, secured)
	ask := func(path, token, direct string) (int, string) {
		request, _ := http.NewRequest(http.MethodPost, members[0].url+path,
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`))
		if path == "/room" {
			request.Method = http.MethodGet
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set(protocol.DirectHeader, direct)
		return answerTo(t, request)
	}
	proof := proofOf(t)
	for _, c := range []struct {
		path, token, direct string
		want                int
	}{
		{"/mcp", "wrong", "", 401}, {"/mcp", "wrong", "client", 401}, {"/mcp", "", proof, 401},
		{"/room", "secret", "", 403}, {"/room", "secret", "client", 403},
		{"/room", "", proof, 200}, {"/mcp", "secret", "", 200}, {"/mcp", "secret", "", 200},
		{"/mcp", "secret", proof, 503}, {"/mcp", "secret", "client", 200},
	} {
		if status, body := ask(c.path, c.token, c.direct); status != c.want {
			t.Errorf("%+v: %d %s", c, status, body)
		}
	}
	if members[0].sessions.countActive() != 1 || members[1].sessions.countActive() != 1 {
		t.Errorf("the token was not passed on with the session: %d and %d sessions", members[0].sessions.countActive(),
			members[1].sessions.countActive())
	}
}

// Only a peer's proof makes the server trust the client header.
func TestClientOfAForwardedRequest(t *testing.T) {
	alone := func(context.Context) ([]string, error) { return nil, nil }
	s := newTestServer(t, Config{Peers: &mesh.Config{Lookup: alone, Self: "192.0.2.1:8000"}})
	defer s.Close()
	for proof, want := range map[string]string{"": "192.0.2.9", "made up": "192.0.2.9", proofOf(t): "198.51.100.7"} {
		request := &http.Request{RemoteAddr: "192.0.2.9:4711", Header: http.Header{protocol.DirectHeader: {proof},
			"X-Csenv-Client": {"198.51.100.7"}}}
		if got := s.clientOf(request); got != want {
			t.Errorf("with the proof %q the client is %s, want %s", proof, got, want)
		}
	}
}

func TestForwardingIsCounted(t *testing.T) {
	members := servePool(t, Config{MaxSessions: 1}, Config{MaxSessions: 1})
	id := wire.CreateSession(t, members[1].url)
	p := attachTo(t, members[0].url, id)
	p.Ask(`{"type":"reset"}`)
	wire.GetBody(t, members[0].url+"/state?session_id="+id)
	recorded := func() string {
		request, _ := http.NewRequest(http.MethodGet, "/metrics", nil)
		w := httptest.NewRecorder()
		members[0].OpsHandler().ServeHTTP(w, request)
		return w.Body.String()
	}
	for _, want := range []string{`csenv_forwarded_total{kind="socket",result="done"} 1`,
		`csenv_forwarded_total{kind="request",result="done"} 1`, `csenv_relayed_sockets 1`} {
		wire.AwaitCondition(t, "/metrics has "+want, func() bool { return strings.Contains(recorded(), want) })
	}
	p.Leave()
	wire.AwaitCondition(t, "the relay has ended", func() bool {
		return strings.Contains(recorded(), "csenv_relayed_sockets 0")
	})
}

// waiter is an environment with a slow tool.
type waiter struct{ echo.Kind }

func (w waiter) Schemas() episode.Schemas {
	schemas := w.Kind.Schemas()
	schemas.Tools = append(slices.Clone(schemas.Tools), episode.Tool{Name: "wait", Description: "Waits.",
		InputSchema: json.RawMessage(`{"type":"object"}`)})
	return schemas
}
