package openenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/openenv/slots"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// Sessions that a request opened and that were never used are ended, the oldest first, when their
// slots are needed or after some minutes. Used sessions stay.
func TestUnusedSessionsMakeRoom(t *testing.T) {
	inBubble(t, Config{MaxSessions: 3, IdleTimeout: time.Hour}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		open := func() *session {
			t.Helper()
			ss, err := s.openSession(t.Context(), newID(""), "greedy")
			if err != nil {
				t.Fatal(err)
			}
			return ss
		}
		used, first, second := open(), open(), open()
		if err := s.playOn(t.Context(), used, func(context.Context, *player.Player) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.openSession(t.Context(), newID(""), "late"); !errors.Is(err, slots.ErrFull) {
			t.Errorf("new sessions are ended immediately: %v", err)
		}
		pass(unusedGrace)
		p := wire.ConnectPipe(t, network)
		if got := p.Code(`{"type":"reset"}`); got != "observation" {
			t.Errorf("another client got %s", got)
		}
		if s.sessions.findSession(first.id) != nil || s.sessions.findSession(second.id) == nil || s.sessions.findSession(used.id) == nil {
			t.Error("the oldest unused session was not ended")
		}
		pass(unusedTimeout)
		if s.sessions.findSession(second.id) != nil || s.sessions.findSession(used.id) == nil || s.sessions.countActive() != 2 {
			t.Errorf("%d sessions after the time for unused ones", s.sessions.countActive())
		}
		if s.sessions.unbegun.Len() != 1 {
			t.Errorf("%d sessions have begun no episode, want the one that was only used", s.sessions.unbegun.Len())
		}
	})
}

// If a client has its maximum of sessions on a server, the server passes further ones on. If that
// is true of all servers, the refusal names the limit. Forwarding keeps the client's identity.
func TestClientAtItsShareIsPassedOn(t *testing.T) {
	members := servePool(t, Config{MaxSessions: 3, MaxClientSessions: 1}, Config{MaxSessions: 3, MaxClientSessions: 1})
	for range 2 {
		if answer, err := codeErr(t, wire.Connect(t, members[0].url).Ask(`{"type":"reset"}`)); err != nil {
			t.Fatal(answer)
		}
	}
	if members[0].sessions.countActive() != 1 || members[1].sessions.countActive() != 1 {
		t.Errorf("%d and %d sessions", members[0].sessions.countActive(), members[1].sessions.countActive())
	}
	for _, m := range members {
		answer, err := codeErr(t, wire.Connect(t, m.url).Ask(`{"type":"reset"}`))
		if err == nil || !strings.Contains(answer, "the maximum of one client (1/3 sessions)") {
			t.Errorf("a session beyond the limit: %s", answer)
		}
	}
}

// A client that connects again gets the reason why its episode ended.
func TestRefusedStepContainsTheEndOfTheSession(t *testing.T) {
	inBubble(t, Config{IdleTimeout: time.Minute}, func(t *testing.T, _ *Server, network *wire.PipeNet) {
		step := `{"type":"step","data":{"kind":"say"}}`
		p := wire.ConnectPipe(t, network)
		if answer := p.Ask(step); strings.Contains(answer, "earlier") {
			t.Errorf("the first session: %s", answer)
		}
		p.Ask(`{"type":"reset"}`)
		if err := <-p.Quiet(); err == nil {
			t.Error("the connection stays open")
		}
		again := wire.ConnectPipe(t, network)
		if answer := again.Ask(step); !strings.Contains(answer, "send reset first") ||
			!strings.Contains(answer, "idle for 1m0s") {
			t.Errorf("after the idle timeout: %s", answer)
		}
		pass(pastTTL + 2*time.Minute) // that session reached its idle timeout too
		if answer := wire.ConnectPipe(t, network).Ask(step); strings.Contains(answer, "earlier") {
			t.Errorf("an hour later: %s", answer)
		}
	})
}

// fill opens sessions of a client on whose sockets nothing is sent.
func fill(t *testing.T, s *Server, client string, number int) {
	t.Helper()
	for range number {
		ss, err := s.openSession(t.Context(), newID(""), client)
		if err != nil {
			t.Fatal(err)
		}
		ss.noteUse()
	}
}

// Sockets without an episode can't hold the slots of a server for runs: a runner gets one at once,
// and keeps it however many more of them come.
func TestSocketsWithoutAnEpisodeHoldNoRunnersSlot(t *testing.T) {
	cfg := Config{MaxSessions: 20, MaxClientSessions: 18, SharedKey: true, RunsOnly: true, CapacityWait: time.Second}
	inBubble(t, cfg, func(t *testing.T, s *Server, network *wire.PipeNet) {
		fill(t, s, "hostile 1", 10)
		fill(t, s, "hostile 2", 10)
		if !s.isReady() || s.sessions.freeSlots() != 20 {
			t.Errorf("%d slots are free for runners, ready %v", s.sessions.freeSlots(), s.isReady())
		}
		run := planRun(t, 4)
		packed, err := protocol.PackPlan(run.text)
		for shard := 0; shard < run.plan.Shards && err == nil; shard++ {
			key := ledger.Key{Run: "uid", Shard: shard}
			err = s.beginShard(t.Context(), key, poolkey.Grant{Plan: score.FingerprintOf(run.text)}, packed)
		}
		if err != nil {
			t.Fatal(err)
		}
		var runners []*wire.Peer
		for i := range run.episodes {
			began := time.Now()
			p := wire.ConnectPipe(t, network)
			answer := p.Ask(run.reset(i))
			if wire.CodeOf(t, answer) != "observation" || time.Since(began) > 0 {
				t.Fatalf("runner %d got %s after %v", i, answer, time.Since(began))
			}
			runners = append(runners, p)
			for client := range 5 { // the sessions that come are ended before it, and no runner's
				if _, err := s.openSession(t.Context(), newID(""), fmt.Sprint("hostile ", client)); err != nil &&
					!errors.Is(err, slots.ErrFull) {
					t.Fatal(err)
				}
			}
		}
		for i, p := range runners {
			if got := p.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
				t.Errorf("runner %d lost its episode: %s", i, got)
			}
		}
		if s.sessions.countActive() != 20 || s.sessions.unbegun.Len() != 8 || s.sessions.freeSlots() != 8 {
			t.Errorf("%d sessions, %d of them without an episode", s.sessions.countActive(), s.sessions.unbegun.Len())
		}
	})
}

// On an open server, the sessions without an episode of the client that has most of them are the
// first to go, and a client gets its own old ones' slots after a minute.
func TestIdleSessionsOfTheLargestClientMakeRoom(t *testing.T) {
	inBubble(t, Config{MaxSessions: 10}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		playing := wire.ConnectPipe(t, network)
		playing.Ask(`{"type":"reset"}`)
		fill(t, s, "small", 3)
		fill(t, s, "large", 6)
		open := func(client string) error {
			ss, err := s.openSession(t.Context(), newID(""), client)
			if err == nil {
				ss.noteUse()
			}
			return err
		}
		if err := open("late"); !errors.Is(err, slots.ErrFull) {
			t.Errorf("a new session was ended: %v", err)
		}
		pass(unusedGrace)
		if err := open("large"); !errors.Is(err, slots.ErrFull) {
			t.Errorf("the largest client got another session: %v", err)
		}
		for _, want := range []map[string]int{{"small": 3, "large": 5, "late": 1}, {"small": 3, "large": 4, "late": 2},
			{"small": 3, "large": 3, "late": 3}} {
			if err := open("late"); err != nil || !maps.Equal(s.sessions.unbegunOf, want) {
				t.Errorf("the sessions without an episode are %v, want %v: %v", s.sessions.unbegunOf, want, err)
			}
		}
		if err := open("late"); !errors.Is(err, slots.ErrFull) {
			t.Errorf("a client with as many got another session: %v", err)
		}
		pass(unbegunGrace)
		if err := open("large"); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		if got := playing.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
			t.Errorf("an episode was ended: %s", got)
		}
	})
}

// No body is read of a request that needs none or has no token.
func TestBodiesAreReadAfterTheToken(t *testing.T) {
	cfg := Config{Tokens: func() []string { return []string{"token"} }}
	inBubble(t, cfg, func(t *testing.T, _ *Server, network *wire.PipeNet) {
		for request, want := range map[string]int{
			"GET /health": 200, "POST /health": 401, "PUT /health": 401, "POST /step": 401, "POST /mcp": 401, "GET /x": 401,
		} {
			began := time.Now()
			conn, err := network.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, request+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != want || !response.Close || time.Since(began) > 0 {
				t.Errorf("%s: %d after %v, closed %v", request, response.StatusCode, time.Since(began), response.Close)
			}
			_, _ = response.Body.Close(), conn.Close()
		}
		pass(time.Second) // net/http lingers
	})
}

// Names of clients are text, which peers exchange as JSON.
func TestNamesOfClients(t *testing.T) {
	s := newTestServer(t, Config{Tokens: func() []string { return []string{"token"} }})
	defer s.Close()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "[2001:db8::1]:80"
	r.Header.Set("Authorization", "Bearer token")
	if got := s.clientOf(r); got != "2001:db8::/64 3c469e9d6c5875d3" {
		t.Errorf("%q", got)
	}
}

// A socket whose next pings or messages are there already answers one of them at a time, and then
// others have their turn.
func TestSocketsTakeTurns(t *testing.T) {
	for name, frame := range map[string]string{"pings": "\x89\x80\x00\x00\x00\x00",
		"messages": "\x81\x81\x00\x00\x00\x00x"} {
		t.Run(name, func(t *testing.T) {
			s, url := serve(t, Config{})
			p := wire.Connect(t, url)
			p.Ask(`{"type":"reset"}`)
			socket := s.sessions.listSessions()[0].attachedSocket()
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			const frames = 100 // in one read
			seen := map[int64]bool{socket.lastHeard.Load(): true}
			if _, err := p.Conn.NetConn().Write([]byte(strings.Repeat(frame, frames))); err != nil {
				t.Fatal(err)
			}
			for last := time.Now(); time.Since(last) < time.Second && len(seen) <= frames; {
				if at := socket.lastHeard.Load(); !seen[at] {
					seen[at], last = true, time.Now()
				}
				runtime.Gosched()
			}
			if len(seen) < frames/2 {
				t.Errorf("of %d frames, %d were answered one by one", frames, len(seen)-1)
			}
		})
	}
}
