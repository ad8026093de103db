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

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/mesh"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/internal/testkit/echo"
	"github.com/csenv/csenv/internal/testkit/wire"
	"github.com/gorilla/websocket"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Whatever server a request about a session comes to, it is answered as by the session's own.
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
		if got := wire.RPC(t, other, "tools/call",
			fmt.Sprintf(`{"name":"say","arguments":{"text":"hi"},"session_id":%q}`,
				id)); wire.Decoded(t, got, "result", "data", "observation", "text") != "hi" {
			t.Errorf("server %d: tools/call: %s", i, got)
		}
		for _, c := range []struct{ path, body, header string }{
			{"/step", fmt.Sprintf(`{"session_id":%q,"action":{"kind":"say"}}`, id), ""},
			{"/step?session_id=" + id, `{"action":{"kind":"say"}}`, ""},
			{"/step", `{"action":{"kind":"say"}}`, id},
		} {
			request, _ := http.NewRequest(http.MethodPost, other+c.path, strings.NewReader(c.body))
			request.Header.Set(protocol.SessionHeader, c.header)
			if status, body := answerTo(t, request); status != 200 ||
				wire.Decoded(t, body, "observation", "seed") != 5.0 {
				t.Errorf("server %d: %s %s: %d %s", i, c.path, c.body, status, body)
			}
		}
		if _, state := wire.GetBody(t, other+"/state?session_id="+id); wire.Decoded(t, state, "step_count") != 5.0 {
			t.Errorf("server %d: %s, want 5 steps", i, state)
		}
		second := attachTo(t, other, id)
		if answer := second.Ask(`{"type":"state"}`); wire.CodeOf(t, answer) != protocol.CodeSession {
			t.Errorf("server %d: a second socket: %s", i, answer)
		}
		p.Leave()
	}
	if got := sessionsIn(members); got != 1 {
		t.Errorf("%d sessions, want the one", got)
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
			if got := wire.RPC(t, front, "tools/call", fmt.Sprintf(`{"name":"say","session_id":%q}`, id)); wire.Decoded(
				t, got,
				"result") == nil {
				t.Errorf("tools/call: %s", got)
			}
		}
		if got := wire.Decoded(t, p.Ask(`{"type":"state"}`), "data", "step_count"); got != 4.0 {
			t.Errorf("%v steps, want 4", got)
		}
		if got := closeSession(t, front, id); !strings.Contains(got, `"closing":true`) {
			t.Errorf("closing an attached session: %s", got)
		}
		p.Leave()
		if got := closeSession(t, front, id); wire.Decoded(t, got, "error", "code") != -32602.0 {
			t.Errorf("closing it again: %s", got)
		}
	}
	wire.Eventually(t, "every slot is free", func() bool { return sessionsIn(members) == 0 })
}

// A stock MCP client, whose every request comes to another server.
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
		if got := p.Ask(`{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`); wire.Decoded(t, got, "result",
			"session_id") != c.ID() {
			t.Errorf("WebSocket /mcp: %s", got)
		}
		_ = p.Conn.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	wire.Eventually(t, "every slot is free", func() bool { return sessionsIn(members) == 0 })
}

// A server that is full has peers begin sessions, the one with most room first, however they are
// asked for; when nobody has room it says so, once, with its own figures.
func TestFullServerPassesOn(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, url string) (string, error){
		"socket": func(t *testing.T, url string) (string, error) {
			p := wire.Connect(t, url)
			return codeErr(t, p.Ask(`{"type":"reset"}`))
		},
		"WebSocket /mcp": func(t *testing.T, url string) (string, error) {
			p := wire.DialPeer(t, websocket.DefaultDialer, "ws"+strings.TrimPrefix(url, "http")+"/mcp")
			answer := p.Ask(`{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`)
			return answer, rpcErr(t, answer)
		},
		"create": func(t *testing.T, url string) (string, error) {
			answer := wire.RPC(t, url, "openenv/session/create", `{}`)
			return answer, rpcErr(t, answer)
		},
		"initialize": func(t *testing.T, url string) (string, error) {
			c, err := dialMCP(t.Context(), url+"/mcp")
			if err == nil {
				t.Cleanup(func() { _ = c.Close() })
			}
			return fmt.Sprint(err), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			members := servePool(t, Config{MaxSessions: 1}, Config{MaxSessions: 1}, Config{MaxSessions: 3})
			// With equal room it may be either.
			for i, want := range [][]int{{1, 0, 0}, {1, 0, 1}, {1, 0, 2}, nil, {1, 1, 3}} {
				if answer, err := begin(t, members[0].url); err != nil {
					t.Fatalf("session %d: %s", i, answer)
				}
				got := []int{members[0].sessions.active(), members[1].sessions.active(), members[2].sessions.active()}
				if want != nil && fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("after session %d the servers have %v, want %v", i, got, want)
				}
			}
			answer, err := begin(t, members[0].url)
			if err == nil || !strings.Contains(answer, "1/1") {
				t.Errorf("a session too many: %s", answer)
			}
		})
	}
}

func rpcErr(tb testing.TB, answer string) error {
	if wire.Decoded(tb, answer, "error") != nil {
		return errors.New(answer)
	}
	return nil
}

func codeErr(tb testing.TB, answer string) (string, error) {
	if wire.CodeOf(tb, answer) == protocol.CodeCapacity {
		return answer, errors.New(answer)
	}
	return answer, nil
}

// As many clients as the pool has slots come at once, to two servers that are full at the end: none
// is refused, although the servers know of each other's room only from before.
func TestBurstFillsThePool(t *testing.T) {
	members := servePool(t, Config{MaxSessions: 3}, Config{MaxSessions: 20}, Config{MaxSessions: 20})
	const clients = 43
	answers := make(chan string, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			conn, response, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(members[i%2].url, "http")+"/ws",
				nil)
			if err != nil {
				answers <- err.Error()
				return
			}
			_ = response.Body.Close()
			t.Cleanup(func() { _ = conn.Close() })
			answer, err := roundTrip(wire.NewPeer(t, conn), `{"type":"reset"}`)
			if err != nil {
				answer = err.Error()
			}
			answers <- answer
		})
	}
	wg.Wait()
	for range clients {
		if answer := <-answers; !strings.Contains(answer, `"observation"`) {
			t.Errorf("refused: %s", answer)
		}
	}
	if got := sessionsIn(members); got != clients {
		t.Errorf("%d sessions, want %d", got, clients)
	}
	last := wire.Connect(t, members[0].url)
	answer := last.Ask(`{"type":"reset"}`)
	if wire.CodeOf(t, answer) != protocol.CodeCapacity || wire.Decoded(t, answer, "data", "max_sessions") != 3.0 {
		t.Errorf("a client too many: %s", answer)
	}
	if code, _ := last.Closed(); code != websocket.CloseNormalClosure {
		t.Errorf("closed with %d, want 1000 after one message", code)
	}
}

// A draining server passes new sessions on, forwards what belongs to others, and ends only after
// the sockets that it carries.
func TestDrainingServerPassesOn(t *testing.T) {
	members := servePool(t, Config{}, Config{})
	own := wire.Connect(t, members[0].url)
	own.Ask(`{"type":"reset"}`)
	drained := make(chan error, 1)
	go func() { drained <- members[0].Drain(t.Context()) }()
	wire.Eventually(t, "the drain has begun", members[0].sessions.slots.Draining)
	p := wire.Connect(t, members[0].url)
	if got := p.Code(`{"type":"reset"}`); got != "observation" || members[1].sessions.active() != 1 {
		t.Errorf("a new session on a draining server: %s, the peer has %d", got, members[1].sessions.active())
	}
	if id := wire.CreateSession(t, members[0].url); members[1].sessions.find(id) == nil {
		t.Error("a created session is not the peer's")
	}
	own.Leave()
	select {
	case err := <-drained:
		t.Fatalf("drained with a socket on the way: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if got := p.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
		t.Errorf("a step on the way through: %s", got)
	}
	p.Leave()
	if err := <-drained; err != nil {
		t.Errorf("Drain() = %v", err)
	}
}

// The peers of a server that closes lose nothing but the sockets that go through it.
func TestCloseCutsRelays(t *testing.T) {
	members := servePool(t, Config{}, Config{})
	id := wire.CreateSession(t, members[1].url)
	p := attachTo(t, members[0].url, id)
	p.Ask(`{"type":"reset"}`)
	members[0].Close()
	if _, _, err := p.Conn.ReadMessage(); err == nil {
		t.Error("the socket goes on")
	}
	wire.Eventually(t, "the session is detached", func() bool { return members[1].sessions.find(id).detached() })
}

// A client of a server that dies sees its socket end at once, and learns from the others that the
// session is gone.
func TestPeerDies(t *testing.T) {
	members := servePool(t, Config{}, Config{})
	id := wire.CreateSession(t, members[1].url)
	p := attachTo(t, members[0].url, id)
	p.Ask(`{"type":"reset"}`)
	members[1].kill()
	_ = p.Conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, _, err := p.Conn.ReadMessage()
	if timeout, ok := errors.AsType[net.Error](err); err == nil || ok && timeout.Timeout() {
		t.Errorf("after the death of the peer: %v", err)
	}
	again := attachTo(t, members[0].url, id)
	if answer := again.Ask(`{"type":"state"}`); wire.CodeOf(t, answer) != protocol.CodeSession ||
		!strings.Contains(answer, "unknown session") {
		t.Errorf("attaching to a session that is gone: %s", answer)
	}
	if answer := wire.RPC(t, members[0].url, "tools/call", fmt.Sprintf(`{"name":"say","session_id":%q}`,
		id)); wire.Decoded(t,
		answer, "error", "code") != -32602.0 {
		t.Errorf("tools/call: %s", answer)
	}
	if status, body := wire.PostBody(t, members[0].url+"/step", fmt.Sprintf(`{"session_id":%q,"action":{"kind":"say"}}`,
		id)); status != 404 {
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

// A request whose server dies under it has been played or not: the client hears just that.
func TestPeerDiesWhileItAnswers(t *testing.T) {
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/step", `{"session_id":%q,"action":{"kind":"wait","wait":60000000000}}`, http.StatusBadGateway,
			"was lost while it answered"},
		{"/mcp",
			`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"session_id":%q,"name":"wait","arguments":{"wait":60000000000}}}`, http.StatusOK, `"id":"x","error":{"code":-32000`},
	} {
		t.Run(c.path, func(t *testing.T) {
			members := servePool(t, Config{Kind: waiter{}}, Config{Kind: waiter{}})
			id := wire.CreateSession(t, members[1].url)
			ss := members[1].sessions.find(id)
			wire.RPC(t, members[1].url, "tools/call", fmt.Sprintf(`{"name":"say","session_id":%q}`, id))
			var killing sync.WaitGroup
			defer killing.Wait() // the goroutine must not report a failure after the test has ended
			killing.Go(func() {
				defer members[1].kill()
				wire.Eventually(t, "the request runs", func() bool { return len(ss.turn) > 0 })
			})
			status, body := wire.PostBody(t, members[0].url+c.path, fmt.Sprintf(c.body, id))
			if status != c.status || !strings.Contains(body, c.want) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

// Two servers that each take the other's sessions for somebody else's pass nothing back and forth.
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
			t.Errorf("an id of nobody's: %s", got)
		}
		if status, body := wire.GetBody(t, members[0].url+"/state?session_id="+id); status != 404 {
			t.Errorf("/state: %d %s", status, body)
		}
	}
	for range 2 {
		wire.Connect(t, members[0].url).Ask(`{"type":"reset"}`)
	}
	if got := wire.Connect(t, members[0].url).Code(`{"type":"reset"}`); got != protocol.CodeCapacity {
		t.Errorf("a session too many for both: %s", got)
	}
}

// Tokens are asked for by every server. Neither the header that keeps a request where it is nor the
// way in which peers talk gives access.
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
	if members[0].sessions.active() != 1 || members[1].sessions.active() != 1 {
		t.Errorf("the token was not passed on with the session: %d and %d sessions", members[0].sessions.active(),
			members[1].sessions.active())
	}
}

// A peer tells whom a session counts for, and nobody else does.
func TestClientOfAForwardedRequest(t *testing.T) {
	s := newTestServer(t, Config{Peers: &mesh.Config{Lookup: func(context.Context) ([]string, error) {
		return nil,
			nil
	},
		Self: "192.0.2.1:8000"}})
	defer s.Close()
	for proof, want := range map[string]string{"": "192.0.2.9", "made up": "192.0.2.9", proofOf(t): "198.51.100.7"} {
		request := &http.Request{RemoteAddr: "192.0.2.9:4711", Header: http.Header{protocol.DirectHeader: {proof},
			"X-Csenv-Client": {"198.51.100.7"}}}
		if got := s.clientOf(request); got != want {
			t.Errorf("with the proof %q the client is %s, want %s", proof, got, want)
		}
	}
}

// Messages of every size come through a relay as they are.
func TestRelayedMessages(t *testing.T) {
	members := servePool(t, Config{}, Config{})
	id := wire.CreateSession(t, members[1].url)
	p := attachTo(t, members[0].url, id)
	p.Ask(`{"type":"reset"}`)
	const relayBuffer = 4096
	for _, size := range []int{0, 1, relayBuffer - 1, relayBuffer, relayBuffer + 1, smallMessage, 1 << 20, 4 << 20} {
		text := strings.Repeat("é", size/2)
		answer := p.Ask(`{"type":"step","data":{"kind":"say","text":"` + text + `","bytes":` + fmt.Sprint(size) + `}}`)
		if got, _ := wire.Decoded(t, answer, "data", "observation", "text").(string); got != text+strings.Repeat("x",
			size) {
			t.Errorf("%d bytes came back as %d", len(text)+size, len(got))
		}
	}
	const pipelined = 50
	for range pipelined {
		p.Send(`{"type":"step","data":{"kind":"say"}}`)
	}
	for range pipelined {
		p.Receive()
	}
}

// A client that ends its half of the connection ends its session, and is told the end of the
// connection.
func TestRelayedHalfClose(t *testing.T) {
	members := servePool(t, Config{MaxSessions: 1}, Config{})
	wire.Connect(t, members[0].url).Ask(`{"type":"reset"}`)
	var raw *net.TCPConn
	dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		raw, _ = conn.(*net.TCPConn)
		return conn, err
	}}
	p := wire.DialPeer(t, &dialer, "ws"+strings.TrimPrefix(members[0].url, "http")+"/ws")
	p.Ask(`{"type":"reset"}`)
	if got := members[1].sessions.active(); got != 1 {
		t.Fatalf("the peer has %d sessions", got)
	}
	if err := raw.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = p.Conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, _, err := p.Conn.ReadMessage()
	if timeout, ok := errors.AsType[net.Error](err); err == nil || ok && timeout.Timeout() {
		t.Errorf("after the end of the client's half: %v", err)
	}
	wire.Eventually(t, "the slot is free", func() bool { return members[1].sessions.active() == 0 })
}

// Runners dial the server whose ledger they fetch.
func TestDialStaysWhereItIs(t *testing.T) {
	members := servePool(t, Config{MaxSessions: 1}, Config{})
	wire.CreateSession(t, members[0].url)
	c, err := client.Dial(t.Context(), members[0].url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Reset(t.Context(), nil)
	if refusal, ok := errors.AsType[*client.ServerError](err); !ok || refusal.Code != protocol.CodeCapacity {
		t.Errorf("a session was passed on: %v", err)
	}
	spread, err := client.Dial(t.Context(), members[0].url, client.Options{Spread: true})
	if err != nil {
		t.Fatal(err)
	}
	defer spread.Close()
	if _, err := spread.Reset(t.Context(), nil); err != nil {
		t.Errorf("a session that may be passed on: %v", err)
	}
}

// A request that came to a free slot and begins no session after all leaves the slot free.
func TestSeatsAreGivenBack(t *testing.T) {
	alone := &mesh.Config{Lookup: func(context.Context) ([]string, error) { return nil, errors.New("no peers") },
		Self: "192.0.2.1:8000"}
	s, url := serve(t, Config{MaxSessions: 1, Peers: alone})
	broken, brokenURL := serve(t, Config{MaxSessions: 1, Peers: alone, Kind: echo.Kind{Broken: true}})
	handshake, _ := http.NewRequest(http.MethodGet, url+"/ws", nil)
	handshake.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"8"}}
	if status, body := answerTo(t, handshake); status != http.StatusBadRequest {
		t.Errorf("a bad handshake: %d %s", status, body)
	}
	if _, err := dialMCP(t.Context(), url+"/mcp?task=juggle"); err == nil {
		t.Error("an MCP session of an unknown task")
	}
	wire.PostBody(t, url+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	wire.Connect(t, url).Leave()
	for name, s := range map[string]*Server{"refused": s, "broken": broken} {
		if name == "broken" {
			wire.RPC(t, brokenURL, "openenv/session/create", `{}`)
			if got := wire.Connect(t, brokenURL).Code(`{"type":"reset"}`); got != protocol.CodeFactory {
				t.Errorf("a broken factory: %s", got)
			}
		}
		wire.Eventually(t, name+": the slot is free", func() bool {
			held := s.sessions.slots.Reserve()
			defer held.Release()
			return held != nil && s.sessions.active() == 0
		})
	}
}

// What a peer answers instead of taking a handshake is the client's answer.
func TestRefusedHandshakeIsForwarded(t *testing.T) {
	members := servePool(t, Config{}, Config{})
	handshake, _ := http.NewRequest(http.MethodGet, members[0].url+"/ws?session_id="+wire.CreateSession(t,
		members[1].url), nil)
	handshake.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"8"}}
	response, err := http.DefaultClient.Do(handshake)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadRequest || response.Header.Get("Sec-Websocket-Version") != "13" {
		t.Errorf("%s %v, want the peer's refusal of version 8", response.Status, response.Header)
	}
}

// A server that carries as many sockets as it may says so, and begins no session elsewhere.
func TestRelaysAreBounded(t *testing.T) {
	members := servePool(t, Config{MaxSessions: 1}, Config{})
	id := wire.CreateSession(t, members[1].url)
	wire.CreateSession(t, members[0].url)
	if err := members[0].mesh.WaitDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, response, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(members[0].url,
		"http")+"/ws?session_id="+id, nil)
	if response != nil {
		defer response.Body.Close()
	}
	if err == nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("attaching: %v", err)
	}
	if got := wire.Connect(t, members[0].url).Code(`{"type":"reset"}`); got != protocol.CodeCapacity {
		t.Errorf("a new session: %s", got)
	}
	if status, body := wire.GetBody(t, members[0].url+"/state?session_id="+id); status != 200 {
		t.Errorf("plain HTTP: %d %s", status, body)
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
		wire.Eventually(t, "/metrics has "+want, func() bool { return strings.Contains(recorded(), want) })
	}
	p.Leave()
	wire.Eventually(t, "the relay has ended", func() bool {
		return strings.Contains(recorded(),
			"csenv_relayed_sockets 0")
	})
}

// waiter has a tool that takes its time.
type waiter struct{ echo.Kind }

func (w waiter) Schemas() episode.Schemas {
	schemas := w.Kind.Schemas()
	schemas.Tools = append(slices.Clone(schemas.Tools), episode.Tool{Name: "wait", Description: "Waits.",
		InputSchema: json.RawMessage(`{"type":"object"}`)})
	return schemas
}
