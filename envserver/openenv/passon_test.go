package openenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/mesh"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// A full server passes new sessions of every transport on to the peer with the most free slots. If
// the pool is full, it refuses the session with its own figures.
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
			answer := wire.CallRPC(t, url, "openenv/session/create", `{}`)
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
			// nil: of two peers with equally many free slots it may be either.
			for i, want := range [][]int{{1, 0, 0}, {1, 0, 1}, {1, 0, 2}, nil, {1, 1, 3}} {
				if answer, err := begin(t, members[0].url); err != nil {
					t.Fatalf("session %d: %s", i, answer)
				}
				got := []int{members[0].sessions.countActive(), members[1].sessions.countActive(), members[2].sessions.countActive()}
				if want != nil && fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("after session %d the servers have %v, want %v", i, got, want)
				}
			}
			answer, err := begin(t, members[0].url)
			if err == nil || !strings.Contains(answer, "1/1") {
				t.Errorf("a session beyond the capacity: %s", answer)
			}
		})
	}
}

func rpcErr(tb testing.TB, answer string) error {
	if wire.DecodePath(tb, answer, "error") != nil {
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

// A burst of as many clients as the pool has slots, sent to two servers, fills the pool: no client
// is refused, although the servers' figures of free slots are outdated.
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
	if wire.CodeOf(t, answer) != protocol.CodeCapacity || wire.DecodePath(t, answer, "data", "max_sessions") != 3.0 {
		t.Errorf("a client beyond the capacity: %s", answer)
	}
	if code, _ := last.Closed(); code != websocket.CloseNormalClosure {
		t.Errorf("closed with %d, want 1000 after one message", code)
	}
}

// A draining server passes new sessions on, forwards requests for sessions of peers, and ends after
// the last relayed socket.
func TestDrainingServerPassesOn(t *testing.T) {
	members := servePool(t, Config{}, Config{})
	own := wire.Connect(t, members[0].url)
	own.Ask(`{"type":"reset"}`)
	drained := make(chan error, 1)
	go func() { drained <- members[0].Drain(t.Context()) }()
	wire.AwaitCondition(t, "the drain has begun", members[0].sessions.slots.Draining)
	p := wire.Connect(t, members[0].url)
	if got := p.Code(`{"type":"reset"}`); got != "observation" || members[1].sessions.countActive() != 1 {
		t.Errorf("a new session on a draining server: %s, the peer has %d", got, members[1].sessions.countActive())
	}
	if id := wire.CreateSession(t, members[0].url); members[1].sessions.findSession(id) == nil {
		t.Error("a created session is not on the peer")
	}
	own.Leave()
	select {
	case err := <-drained:
		t.Fatalf("drained while a socket is relayed: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if got := p.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
		t.Errorf("a relayed step: %s", got)
	}
	p.Leave()
	if err := <-drained; err != nil {
		t.Errorf("Drain() = %v", err)
	}
}

// Without Spread a session stays on the dialled server, from which a runner fetches the ledger.
func TestDialWithoutSpreadIsNotPassedOn(t *testing.T) {
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

// A request that reserved a slot but begins no session frees the slot.
func TestUnusedReservationsAreFreed(t *testing.T) {
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
			wire.CallRPC(t, brokenURL, "openenv/session/create", `{}`)
			if got := wire.Connect(t, brokenURL).Code(`{"type":"reset"}`); got != protocol.CodeFactory {
				t.Errorf("a broken factory: %s", got)
			}
		}
		wire.AwaitCondition(t, name+": the slot is free", func() bool {
			held := s.sessions.slots.Reserve()
			defer held.Release()
			return held != nil && s.sessions.countActive() == 0
		})
	}
}
