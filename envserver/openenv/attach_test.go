package openenv

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

func closeSession(tb testing.TB, url, id string) string {
	tb.Helper()
	return wire.CallRPC(tb, url, "openenv/session/close", fmt.Sprintf(`{"session_id":%q}`, id))
}

func attachTo(tb testing.TB, url, id string) *wire.Peer {
	tb.Helper()
	return wire.DialPeer(tb, websocket.DefaultDialer, "ws"+strings.TrimPrefix(url, "http")+"/ws?token=x&session_id="+id)
}

// The calls of the official MCP client, in its order: create, attach, play over the socket and by
// POST, close while attached, close the socket.
func TestAttachedSession(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 1})
	id := wire.CreateSession(t, url)
	if len(id) < 26 {
		t.Errorf("session id %q is guessed too easily", id)
	}
	p := attachTo(t, url, id)
	p.Ask(`{"type":"reset","data":{"seed":5}}`)
	answer := wire.CallRPC(t, url, "tools/call", fmt.Sprintf(`{"name":"say","arguments":{"text":"hi"},"session_id":%q}`,
		id))
	if got := wire.DecodePath(t, answer, "result", "data", "observation", "text"); got != "hi" {
		t.Errorf("tools/call: %s", answer)
	}
	if got := wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "step_count"); got != 1.0 {
		t.Errorf("the socket has %v steps after a tool call, want 1", got)
	}
	if got := closeSession(t, url, id); got != fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"result":{"closed":false,"closing":true,"session_id":%q}}`, id) {
		t.Errorf("closing an attached session: %s", got)
	}
	if got := p.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
		t.Errorf("a step after the close request: %s", got)
	}
	p.Leave()
	if got := s.sessions.countActive(); got != 0 {
		t.Errorf("%d sessions after the socket closed, want 0", got)
	}
}

func TestDetachedSessionContinues(t *testing.T) {
	s, url := serve(t, Config{})
	id := wire.CreateSession(t, url)
	for i := range 3 {
		p := attachTo(t, url, id)
		if i == 0 {
			p.Ask(`{"type":"reset","data":{"seed":8}}`)
		}
		p.Ask(`{"type":"step","data":{"kind":"say"}}`)
		if got := wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "step_count"); got != float64(i+1) {
			t.Errorf("attached the %d. time: %v steps", i+1, got)
		}
		if i == 1 {
			_ = p.Conn.Close()
			wire.AwaitCondition(t, "the lost socket is detached", func() bool { return s.sessions.findSession(id).detached() })
		} else {
			p.Leave()
		}
	}
	if got := closeSession(t, url, id); !strings.Contains(got, `"closed":true`) {
		t.Errorf("closing: %s", got)
	}
	if got := closeSession(t, url, id); wire.DecodePath(t, got, "error", "code") != -32602.0 {
		t.Errorf("closing again: %s", got)
	}
}

func (s *session) detached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.socket == nil
}

func TestAttachRefusals(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 3})
	id := wire.CreateSession(t, url)
	attached := attachTo(t, url, id)
	attached.Ask(`{"type":"reset"}`)
	closing := wire.CreateSession(t, url)
	last := attachTo(t, url, closing)
	last.Ask(`{"type":"reset"}`)
	closeSession(t, url, closing)
	for name, id := range map[string]string{"unknown": "nobody", "attached": id, "closing": closing} {
		p := attachTo(t, url, id)
		if answer := p.Ask(`{"type":"state"}`); wire.CodeOf(t, answer) != protocol.CodeSession {
			t.Errorf("%s: %s", name, answer)
		}
		if code, _ := p.Closed(); code != websocket.CloseNormalClosure {
			t.Errorf("%s: closed with %d, want 1000", name, code)
		}
	}
	if got := attached.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" || s.sessions.countActive() != 2 {
		t.Errorf("after the refusals: %s, %d sessions", got, s.sessions.countActive())
	}
}

// A socket's own session id is in the answer to the handshake, and available by a message.
func TestOwnedSessionID(t *testing.T) {
	s, url := serve(t, Config{})
	conn, response, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(url, "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	p := wire.NewPeer(t, conn)
	defer conn.Close()
	id := response.Header.Get(protocol.SessionHeader)
	if got := wire.DecodePath(t,
		p.Ask(`{"type":"mcp","data":{"jsonrpc":"2.0","id":"x","method":"openenv/session/create"}}`),
		"data", "result", "session_id"); got != id || id == "" {
		t.Errorf("the message has %v, the handshake %q", got, id)
	}
	if got := wire.DecodePath(t,
		p.Ask(
			fmt.Sprintf(
				`{"type":"mcp","data":{"jsonrpc":"2.0","id":2,"method":"openenv/session/close","params":{"session_id":%q}}}`, id)), "data", "error", "code"); got != -32600.0 {
		t.Errorf("closing the socket's own session: %v", got)
	}
	p.Leave()
	if s.sessions.findSession(id) != nil {
		t.Error("the session outlived its socket")
	}
}

func TestPlainHTTPOnASession(t *testing.T) {
	_, url := serve(t, Config{})
	id := wire.CreateSession(t, url)
	ask := func(path, body string, want string) {
		t.Helper()
		status, got := wire.PostBody(t, url+path, body)
		if status != 200 || got != want {
			t.Errorf("%s %s: %d %s", path, body, status, got)
		}
	}
	ask("/reset", fmt.Sprintf(`{"seed":4,"episode_id":"E","session_id":%q}`, id),
		`{"observation":{"text":"hello","seed":4},"reward":0.0,"done":false}`)
	ask("/step?session_id="+id, `{"action":{"kind":"say","text":"x","reward":100}}`,
		`{"observation":{"text":"x","seed":4},"reward":0.1,"done":false}`)
	p := attachTo(t, url, id)
	p.Ask(`{"type":"step","data":{"kind":"say"}}`)
	if _, state := wire.GetBody(t, url+"/state?session_id="+id); wire.DecodePath(t, state, "step_count") != 2.0 ||
		wire.DecodePath(t, state, "episode_id") != "E" {
		t.Errorf("/state: %s", state)
	}
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/reset", `{"session_id":"nobody"}`, 404},
		{"/step", `{"session_id":"nobody","action":{}}`, 404},
		{"/reset", `{"session_id":7}`, 422},
		{"/reset?session_id=" + id, `{"seed":-1}`, 422},
		{"/step?session_id=" + id, `{"action":{"kind":"zzz"}}`, 422},
		{"/step?session_id=" + id, `{"action":{"kind":"fail"}}`, 500},
		{"/step?session_id=" + id, `{"action":{"kind":"panic"}}`, 500},
		{"/reset?session_id=" + id, ``, 200},
	} {
		if status, body := wire.PostBody(t, url+c.path, c.body); status != c.status {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, body)
		}
	}
}

// With any number of concurrent clients on one session, over any transport, no operation is lost or
// mixed with another.
func TestOperationsOnASessionAreSerialised(t *testing.T) {
	_, url := serve(t, Config{})
	id := wire.CreateSession(t, url)
	p := attachTo(t, url, id)
	p.Ask(`{"type":"reset","data":{"seed":1}}`)
	const each = 40
	var wg sync.WaitGroup
	wg.Go(func() {
		for range each {
			_, _ = roundTrip(p, `{"type":"step","data":{"kind":"say"}}`)
		}
	})
	wg.Go(func() {
		for range each {
			wire.PostBody(t, url+"/step?session_id="+id, `{"action":{"kind":"say"}}`)
		}
	})
	wg.Go(func() {
		for range each {
			wire.CallRPC(t, url, "tools/call", fmt.Sprintf(`{"name":"say","session_id":%q}`, id))
		}
	})
	wg.Wait()
	if got := wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "step_count"); got != 3.0*each {
		t.Errorf("%v steps, want %d", got, 3*each)
	}
}

// A created session that is not used ends, and an attached one stays. The idle time of a detached
// one starts when it is detached.
func TestIdleCreatedSession(t *testing.T) {
	inBubble(t, Config{IdleTimeout: 10 * time.Minute}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		open := func() *session {
			ss, err := s.openSession(t.Context(), newID(""), "")
			if err != nil {
				t.Fatal(err)
			}
			return ss
		}
		forgotten, attached := open(), open()
		p := wire.DialPeer(t, &websocket.Dialer{NetDialContext: network.Dial}, "ws://pipe/ws?session_id="+attached.id)
		p.Ask(`{"type":"reset"}`)
		for range 8 { // every 5 minutes the peer reads a reply, and with it the server's pings
			pass(5 * time.Minute)
			p.Ask(`{"type":"state"}`)
		}
		if s.sessions.findSession(forgotten.id) != nil || s.sessions.findSession(attached.id) == nil {
			t.Errorf("after 40 minutes: forgotten %v, attached %v", s.sessions.findSession(forgotten.id),
				s.sessions.findSession(attached.id))
		}
		p.Leave()
		pass(9 * time.Minute)
		if s.sessions.findSession(attached.id) == nil {
			t.Error("the session ended before its idle timeout")
		}
		pass(2 * time.Minute)
		if got := s.sessions.countActive(); got != 0 {
			t.Errorf("%d sessions after the idle time", got)
		}
	})
}

// A session whose socket was lost waits for another one for the grace period, and keeps its
// episode.
func TestSessionGrace(t *testing.T) {
	inBubble(t, Config{SessionGrace: time.Minute, MaxSessions: 1},
		func(t *testing.T, s *Server, network *wire.PipeNet) {
			dialer := &websocket.Dialer{NetDialContext: network.Dial}
			p := wire.ConnectPipe(t, network)
			p.Ask(`{"type":"reset","data":{"seed":6}}`)
			id := s.sessions.listSessions()[0].id
			_ = p.Conn.Close()
			pass(50 * time.Second)
			again := wire.DialPeer(t, dialer, "ws://pipe/ws?session_id="+id)
			if got := wire.DecodePath(t, again.Ask(`{"type":"state"}`), "data", "seed"); got != 6.0 {
				t.Errorf("the seed after attaching again is %v", got)
			}
			pass(2 * time.Minute)
			if got := again.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
				t.Errorf("a step beyond the first grace period: %s", got)
			}
			_ = again.Conn.Close()
			pass(62 * time.Second)
			if got := s.sessions.countActive(); got != 0 {
				t.Errorf("%d sessions after the grace period", got)
			}
			closed := wire.ConnectPipe(t, network)
			closed.Ask(`{"type":"reset"}`)
			closed.Leave()
			if got := s.sessions.countActive(); got != 0 {
				t.Errorf("%d sessions after an orderly close, want none: there is no grace for it", got)
			}
		})
}

// A client that requests a slot shortly before one becomes free gets it. A client that requests it
// much earlier is refused after the wait.
func TestCapacityWait(t *testing.T) {
	inBubble(t, Config{MaxSessions: 1, CapacityWait: time.Second},
		func(t *testing.T, s *Server, network *wire.PipeNet) {
			first := wire.ConnectPipe(t, network)
			first.Ask(`{"type":"reset"}`)
			began := time.Now()
			refused := wire.ConnectPipe(t, network)
			if got := refused.Code(`{"type":"reset"}`); got != protocol.CodeCapacity || time.Since(began) != time.Second {
				t.Errorf("answered with %s after %v, want CAPACITY_REACHED after 1s", got, time.Since(began))
			}
			patient := wire.ConnectPipe(t, network)
			answer := make(chan string)
			go func() { answer <- patient.Ask(`{"type":"reset"}`) }()
			pass(900 * time.Millisecond)
			first.Leave()
			if got := wire.CodeOf(t, <-answer); got != "observation" {
				t.Errorf("the waiting client was answered with %s", got)
			}
			late := wire.ConnectPipe(t, network)
			go func() { answer <- late.Ask(`{"type":"reset"}`) }()
			pass(100 * time.Millisecond)
			s.sessions.drain()
			if got := <-answer; wire.CodeOf(t, got) != protocol.CodeCapacity || !strings.Contains(got, "draining") {
				t.Errorf("the client that waited when the drain began was answered with %s", got)
			}
			patient.Leave()
		})
}

func TestClientLimit(t *testing.T) {
	s, url := serve(t, Config{MaxClientSessions: 2})
	first := wire.Connect(t, url)
	first.Ask(`{"type":"reset"}`)
	wire.CreateSession(t, url)
	third := wire.Connect(t, url)
	if answer := third.Ask(`{"type":"reset"}`); wire.CodeOf(t, answer) != protocol.CodeCapacity ||
		!strings.Contains(answer, "2 sessions here, the maximum of one client") ||
		!strings.Contains(answer, "clientSharePercent") {
		t.Errorf("the third session of a client: %s", answer)
	}
	first.Leave()
	if got := wire.Connect(t, url).Code(`{"type":"reset"}`); got != "observation" {
		t.Errorf("after one session has ended: %s", got)
	}
	for _, ss := range s.sessions.listSessions() {
		ss.end(endClosed, "")
	}
	if len(s.sessions.byClient) != 0 {
		t.Errorf("clients are stored after their sessions: %v", s.sessions.byClient)
	}
}

// If a session ends while operations wait for their turn, these get an error.
func TestEndWithWaitingOperations(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, _ *wire.PipeNet) {
		ss, err := s.openSession(t.Context(), newID(""), "")
		if err != nil {
			t.Fatal(err)
		}
		holding, waited := make(chan struct{}), make(chan error)
		go func() {
			_ = ss.runOperation(t.Context(), func(*player.Player) { close(holding); <-ss.ctx.Done() })
		}()
		<-holding
		go func() {
			waited <- ss.runOperation(t.Context(), func(*player.Player) { t.Error("played on an ended session") })
		}()
		pass(time.Second)
		ss.end(endClosed, "")
		if err := <-waited; protocol.PlayError(err).Code != protocol.CodeSession {
			t.Errorf("the waiting operation got %v", err)
		}
	})
}
