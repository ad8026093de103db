// Package wire is a client of env servers for tests, with raw frames and plain HTTP. It also
// replaces the network within a synctest bubble.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// Peer is a client that sends and expects raw frames.
type Peer struct {
	tb   testing.TB
	Conn *websocket.Conn
}

// Connect opens a session at /ws.
func Connect(tb testing.TB, url string) *Peer {
	tb.Helper()
	return DialPeer(tb, websocket.DefaultDialer, "ws"+strings.TrimPrefix(url, "http")+"/ws")
}

// DialPeer opens a WebSocket.
func DialPeer(tb testing.TB, dialer *websocket.Dialer, url string) *Peer {
	tb.Helper()
	conn, response, err := dialer.Dial(url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	_ = response.Body.Close()
	tb.Cleanup(func() { _ = conn.Close() })
	return NewPeer(tb, conn)
}

// NewPeer uses an open connection.
func NewPeer(tb testing.TB, conn *websocket.Conn) *Peer { return &Peer{tb: tb, Conn: conn} }

// ConnectPipe opens a session at /ws of a server on a pipe.
func ConnectPipe(tb testing.TB, network *PipeNet) *Peer {
	tb.Helper()
	return DialPeer(tb, &websocket.Dialer{NetDialContext: network.Dial}, "ws://pipe/ws")
}

// Send sends a message.
func (p *Peer) Send(text string) {
	p.tb.Helper()
	if err := p.Conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		p.tb.Fatalf("sending %.80s: %v", text, err)
	}
}

// Receive returns the next message.
func (p *Peer) Receive() string {
	p.tb.Helper()
	_, raw, err := p.Conn.ReadMessage()
	if err != nil {
		p.tb.Fatalf("receiving: %v", err)
	}
	return string(raw)
}

// Ask sends a message and returns its answer.
func (p *Peer) Ask(text string) string {
	p.tb.Helper()
	p.Send(text)
	return p.Receive()
}

// Code sends a message and returns the code of the error in the answer, or the answer's type.
func (p *Peer) Code(text string) string {
	p.tb.Helper()
	return CodeOf(p.tb, p.Ask(text))
}

// CodeOf returns the code of the error in an answer, or the answer's type.
func CodeOf(tb testing.TB, answer string) string {
	tb.Helper()
	var m struct {
		Type string
		Data struct{ Code string }
	}
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		tb.Fatalf("%s: %v", answer, err)
	}
	if m.Data.Code != "" {
		return m.Data.Code
	}
	return m.Type
}

// Closed reads to the end of the connection and returns the code and the reason of the close frame.
func (p *Peer) Closed() (int, string) {
	p.tb.Helper()
	for {
		_, raw, err := p.Conn.ReadMessage()
		if err == nil {
			p.tb.Fatalf("unexpected message %s", raw)
		}
		if closed, ok := errors.AsType[*websocket.CloseError](err); ok {
			return closed.Code, closed.Text
		}
		p.tb.Fatalf("no close frame: %v", err)
	}
}

// GetBody sends GET and returns the status and the body.
func GetBody(tb testing.TB, url string) (int, string) {
	tb.Helper()
	response, err := http.Get(url) //nolint:gosec,noctx // a test server
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

// AwaitCondition polls until the condition holds, for five minutes at most.
func AwaitCondition(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	deadline := time.After(5 * time.Minute)
	for pause := time.Millisecond; !condition(); pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-deadline:
			tb.Fatalf("still not true: %s", what)
		case <-time.After(pause):
		}
	}
}

// PostBody sends a JSON body and returns the status and the body of the answer.
func PostBody(tb testing.TB, url, body string) (int, string) {
	tb.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body)) //nolint:gosec,noctx // a test server
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// DecodePath returns the value at a path of members in a JSON text, nil if the last one is missing.
// If another one is missing, as in an unexpected error answer, the test fails.
func DecodePath(tb testing.TB, text string, path ...string) any {
	tb.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Errorf("%s: %v", text, err)
		return nil
	}
	for i, key := range path {
		members, ok := v.(map[string]any)
		if !ok {
			tb.Errorf("no object at %q in %s", strings.Join(path[:i], "."), text)
			return nil
		}
		v = members[key]
	}
	return v
}

// CallRPC posts a call of OpenEnv's MCP dialect and returns the response.
func CallRPC(tb testing.TB, url, method, params string) string {
	tb.Helper()
	status, body := PostBody(tb, url+"/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method,
		params))
	if status != http.StatusOK {
		tb.Fatalf("%s: %d %s", method, status, body)
	}
	return body
}

// CreateSession opens a session by POST /mcp and returns its id.
func CreateSession(tb testing.TB, url string) string {
	tb.Helper()
	body := CallRPC(tb, url, "openenv/session/create", `{}`)
	id, ok := DecodePath(tb, body, "result", "session_id").(string)
	if !ok {
		tb.Fatalf("no session: %s", body)
	}
	return id
}

// Leave ends the session with a close message.
func (p *Peer) Leave() {
	p.tb.Helper()
	p.Send(`{"type":"close"}`)
	if code, _ := p.Closed(); code != websocket.CloseNormalClosure {
		p.tb.Errorf("closed with %d, want 1000", code)
	}
}

// Quiet runs the peer's reader, which answers the server's pings, until the connection ends.
func (p *Peer) Quiet() <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, raw, err := p.Conn.ReadMessage()
		if err == nil {
			err = errors.New("unexpected message " + string(raw))
		}
		ended <- err
		_ = p.Conn.Close()
	}()
	return ended
}
