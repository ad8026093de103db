package openenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// leave drains a server whose time is over, and hands its sessions over.
func (m *member) leave(t *testing.T) {
	t.Helper()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Drain(over); !errors.Is(err, context.Canceled) {
		t.Fatalf("drained with sessions: %v", err)
	}
	m.HandOver(t.Context())
}

// Episodes that are handed over have the results of undisturbed ones, whether their sessions are on
// the server that leaves or are relayed by it, and the clients notice nothing.
func TestHandOver(t *testing.T) {
	const clients = 12
	kind := newTicketKind(t)
	members := servePool(t, Config{Kind: kind}, Config{Kind: kind},
		Config{Kind: kind})
	url := balance(t, members)
	actions := []string{classifies, searches, responds, resolves}
	var playing []*client.Client
	var want []string
	for i := range clients {
		options := client.Options{Spread: true, Silence: protocol.MaxSilence}
		if i%2 == 1 { // attached to a session through other servers
			options.SessionID = wire.CreateSession(t, members[i%3].url)
		}
		c, err := client.Dial(t.Context(), url, options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		reset := map[string]any{"task": "ticket-resolve", "seed": i, "run": "grpo-7"}
		if _, err := c.Reset(t.Context(), reset); err != nil {
			t.Fatal(err)
		}
		playing = append(playing, c)

		_, alone := serve(t, Config{Kind: kind})
		twin := wire.Connect(t, alone)
		answer := twin.Ask(fmt.Sprintf(`{"type":"reset","data":{"task":"ticket-resolve","seed":%d}}`, i))
		for _, action := range actions {
			answer = twin.Ask(`{"type":"step","data":` + action + `}`)
		}
		want = append(want, fmt.Sprint(wire.DecodePath(t, answer, "data", "observation"), wire.DecodePath(t, answer, "data",
			"metadata", "episode_score"), wire.DecodePath(t, answer, "data", "metadata", "forked")))
	}
	for step, action := range actions {
		if step == 1 || step == 2 {
			members[step-1].leave(t)
			if n := members[step-1].sessions.countActive(); n > 0 {
				t.Errorf("%d sessions stay on server %d", n, step-1)
			}
		}
		for i, c := range playing {
			seen, err := c.Step(t.Context(), json.RawMessage(action))
			if err != nil {
				t.Fatalf("client %d, step %d: %v", i, step, err)
			}
			if step+1 < len(actions) {
				continue
			}
			var observation any
			if err := json.Unmarshal(seen.Observation, &observation); err != nil || !seen.Done {
				t.Fatalf("%s %v", seen.Observation, err)
			}
			if got := fmt.Sprint(observation, *seen.Metadata.EpisodeScore, nil); got != want[i] {
				t.Errorf("client %d ended with %s\nwant %s", i, got, want[i])
			}
		}
	}
	if got := members[2].sessions.countActive(); got != clients {
		t.Errorf("the last server has %d sessions, want %d", got, clients)
	}
	for i, m := range members[:2] {
		m.Close()
		if report := m.DrainReport(); report.Cut != 0 {
			t.Errorf("server %d cut %d", i, report.Cut)
		}
	}
}

// What can't be handed over stays: an episode of a planned run, and any session if no peer has a
// free slot.
func TestHandOverLeavesTheRest(t *testing.T) {
	kind := newTicketKind(t)
	members := servePool(t, Config{Kind: kind}, Config{Kind: kind, MaxSessions: 1})
	var sockets []*wire.Peer
	for _, run := range []string{`,"run":"u","shard":0,"episode":0`, "", ""} {
		p := wire.Connect(t, members[0].url)
		p.Ask(`{"type":"reset","data":{"seed":1` + run + `}}`)
		sockets = append(sockets, p)
	}
	members[0].leave(t)
	if a, b := members[0].sessions.countActive(), members[1].sessions.countActive(); a != 2 || b != 1 {
		t.Errorf("the servers have %d and %d sessions, want 2 and 1", a, b)
	}
	moved := 0
	if got := sockets[0].Code(`{"type":"state"}`); got != "state" {
		t.Errorf("the planned episode answers with %s", got)
	}
	for _, p := range sockets[1:] {
		select {
		case err := <-p.Quiet():
			closed, ok := errors.AsType[*websocket.CloseError](err)
			if !ok || closed.Code != protocol.CloseMoved || members[1].sessions.findSession(protocol.MovedID(closed.Text)) == nil {
				t.Errorf("closed with %v", err)
			}
			moved++
		case <-time.After(200 * time.Millisecond):
		}
	}
	if moved != 1 {
		t.Errorf("%d clients were sent away", moved)
	}
}

// Clients that don't read their answers delay nobody: every other session is handed over.
func TestHandOverIgnoresClientsThatDoNotRead(t *testing.T) {
	const hostile, others = 2 * maxMoves, 40
	kind := newTicketKind(t)
	members := servePool(t, Config{Kind: kind}, Config{Kind: kind})
	for range hostile {
		p := wire.Connect(t, members[0].url)
		go func() {
			question := []byte(`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"tools/list"}}`)
			for p.Conn.WriteMessage(websocket.TextMessage, question) == nil {
				continue
			}
		}()
	}
	wire.AwaitCondition(t, "every answer is stuck", func() bool {
		stuck := 0
		for _, ss := range members[0].sessions.listSessions() {
			if socket := ss.attachedSocket(); socket != nil && socket.unreadSince(time.Now()) > 100*time.Millisecond {
				stuck++
			}
		}
		return stuck == hostile
	})
	for range others {
		wire.Connect(t, members[0].url).Ask(`{"type":"reset","data":{"seed":1}}`)
	}
	members[0].leave(t)
	if a, b := members[0].sessions.countActive(), members[1].sessions.countActive(); a != hostile || b != others {
		t.Errorf("the servers have %d and %d sessions, want %d and %d", a, b, hostile, others)
	}
}

// The name of a client with a token arrives at a peer as it is, so that its share follows it.
func TestClientsKeepTheirNamesOnPeers(t *testing.T) {
	s := newTestServer(t, Config{Tokens: func() []string { return nil }})
	for i := range 50 {
		r := httptest.NewRequest(http.MethodGet, "/ws", http.NoBody)
		r.Header.Set("Authorization", fmt.Sprintf("Bearer token-%d", i))
		name := s.clientOf(r)
		var there string
		if text, err := json.Marshal(name); err != nil || json.Unmarshal(text, &there) != nil || there != name {
			t.Fatalf("client %q is %q on a peer", name, there)
		}
	}
}
