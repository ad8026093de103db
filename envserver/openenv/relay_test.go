package openenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/memory"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// Closing a server ends the sockets that it relays, but no session of its peers.
func TestCloseCutsRelays(t *testing.T) {
	members := servePool(t, Config{}, Config{})
	id := wire.CreateSession(t, members[1].url)
	p := attachTo(t, members[0].url, id)
	p.Ask(`{"type":"reset"}`)
	members[0].Close()
	if _, _, err := p.Conn.ReadMessage(); err == nil {
		t.Error("the relayed socket is still open")
	}
	wire.AwaitCondition(t, "the session is detached", func() bool { return members[1].sessions.findSession(id).detached() })
}

// A relay doesn't change messages of any size.
func TestRelayedMessages(t *testing.T) {
	members := servePool(t, Config{}, Config{})
	id := wire.CreateSession(t, members[1].url)
	p := attachTo(t, members[0].url, id)
	p.Ask(`{"type":"reset"}`)
	const relayBuffer = 4096
	for _, size := range []int{0, 1, relayBuffer - 1, relayBuffer, relayBuffer + 1, memory.Small, memory.Medium, 1 << 20, 4 << 20} {
		text := strings.Repeat("é", size/2)
		answer := p.Ask(`{"type":"step","data":{"kind":"say","text":"` + text + `","bytes":` + fmt.Sprint(size) + `}}`)
		got, _ := wire.DecodePath(t, answer, "data", "observation", "text").(string)
		if got != text+strings.Repeat("x", size) {
			t.Errorf("%d bytes were sent, %d received", len(text)+size, len(got))
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

// If a client closes its half of a relayed connection, its session ends and the relay closes.
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
	if got := members[1].sessions.countActive(); got != 1 {
		t.Fatalf("the peer has %d sessions", got)
	}
	if err := raw.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = p.Conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, _, err := p.Conn.ReadMessage()
	if timeout, ok := errors.AsType[net.Error](err); err == nil || ok && timeout.Timeout() {
		t.Errorf("after the end of the client's half: %v", err)
	}
	wire.AwaitCondition(t, "the slot is free", func() bool { return members[1].sessions.countActive() == 0 })
}

// A peer's refusal of a handshake is forwarded to the client.
func TestRefusedHandshakeIsForwarded(t *testing.T) {
	members := servePool(t, Config{}, Config{})
	id := wire.CreateSession(t, members[1].url)
	handshake, _ := http.NewRequest(http.MethodGet, members[0].url+"/ws?session_id="+id, nil)
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

// A server that relays its maximum of sockets refuses further ones and passes no session on.
func TestRelaysAreBounded(t *testing.T) {
	members := servePool(t, Config{MaxSessions: 1}, Config{})
	id := wire.CreateSession(t, members[1].url)
	wire.CreateSession(t, members[0].url)
	if err := members[0].mesh.WaitDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	target := "ws" + strings.TrimPrefix(members[0].url, "http") + "/ws?session_id=" + id
	_, response, err := websocket.DefaultDialer.Dial(target, nil)
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
