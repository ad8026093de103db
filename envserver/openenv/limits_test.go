package openenv

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/slots"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// Sessions that a request opened and that were never used are ended, the oldest first, when their
// slots are needed or after some minutes. Used sessions stay.
func TestUnusedSessionsMakeRoom(t *testing.T) {
	inBubble(t, Config{MaxSessions: 3, IdleTimeout: time.Hour}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		open := func() *session {
			t.Helper()
			ss, err := s.open(t.Context(), newID(""), "greedy")
			if err != nil {
				t.Fatal(err)
			}
			return ss
		}
		used, first, second := open(), open(), open()
		if err := s.playOn(t.Context(), used, func(context.Context, *player.Player) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.open(t.Context(), newID(""), "late"); !errors.Is(err, slots.ErrFull) {
			t.Errorf("new sessions are ended immediately: %v", err)
		}
		pass(unusedGrace)
		p := wire.ConnectPipe(t, network)
		if got := p.Code(`{"type":"reset"}`); got != "observation" {
			t.Errorf("another client got %s", got)
		}
		if s.sessions.find(first.id) != nil || s.sessions.find(second.id) == nil || s.sessions.find(used.id) == nil {
			t.Error("the oldest unused session was not ended")
		}
		pass(unusedTimeout)
		if s.sessions.find(second.id) != nil || s.sessions.find(used.id) == nil || s.sessions.active() != 2 {
			t.Errorf("%d sessions after the time for unused ones", s.sessions.active())
		}
		if s.sessions.unused.Len() != 0 {
			t.Errorf("%d ended or used sessions count as unused", s.sessions.unused.Len())
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
	if members[0].sessions.active() != 1 || members[1].sessions.active() != 1 {
		t.Errorf("%d and %d sessions", members[0].sessions.active(), members[1].sessions.active())
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
