package openenv

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// inBubble runs a test on a server whose network and time are simulated.
func inBubble(t *testing.T, cfg Config, test func(t *testing.T, s *Server, network *wire.PipeNet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, network, stop := servePipe(t, cfg)
		defer stop()
		defer network.Close()
		test(t, s, network)
	})
}

// pass waits in simulated time.
func pass(d time.Duration) { <-time.After(d) }

func TestIdleTimeout(t *testing.T) {
	inBubble(t, Config{IdleTimeout: 10 * time.Minute}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		p := wire.ConnectPipe(t, network)
		p.Ask(`{"type":"reset"}`)
		pass(9 * time.Minute)
		p.Ask(`{"type":"step","data":{"kind":"say"}}`)
		pass(9 * time.Minute)
		p.Ask(`{"type":"state"}`)
		if got := s.sessions.countActive(); got != 1 {
			t.Fatalf("%d sessions after a step within the timeout, want 1", got)
		}
		began, ended := time.Now(), p.Quiet()
		err := <-ended
		if took := time.Since(began); took < 50*time.Second || took > 62*time.Second {
			t.Errorf("closed %v after the state message, want a minute: a state message is not activity", took)
		}
		if !websocket.IsCloseError(err, websocket.CloseGoingAway) || !strings.Contains(err.Error(), "idle") {
			t.Errorf("closed with %v, want 1001 and the reason", err)
		}
		if got := s.sessions.countActive(); got != 0 {
			t.Errorf("%d sessions after the socket closed", got)
		}
	})
}

func TestNoIdleTimeoutDuringAStep(t *testing.T) {
	inBubble(t, Config{IdleTimeout: time.Minute}, func(t *testing.T, _ *Server, network *wire.PipeNet) {
		p := wire.ConnectPipe(t, network)
		p.Ask(`{"type":"reset"}`)
		if got := p.Code(`{"type":"step","data":{"kind":"wait","wait":240000000000}}`); got != "observation" {
			t.Errorf("a step of four minutes was answered with %s", got)
		}
		if got := p.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
			t.Errorf("the step after it was answered with %s", got)
		}
	})
}

// A session ends at its maximum duration if no episode is being played, and otherwise as soon as
// the episode has ended, or has lasted as long again.
func TestMaxDuration(t *testing.T) {
	for name, c := range map[string]struct {
		play   time.Duration
		last   string
		closes time.Duration
	}{
		"between episodes": {30 * time.Minute, "finish", time.Hour},
		"after an episode": {90 * time.Minute, "finish", 90 * time.Minute},
		"endless episode":  {119 * time.Minute, "say", 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{MaxDuration: time.Hour}, func(t *testing.T, s *Server, network *wire.PipeNet) {
				p := wire.ConnectPipe(t, network)
				began := time.Now()
				p.Ask(`{"type":"reset"}`)
				for time.Since(began) < c.play {
					p.Ask(`{"type":"step","data":{"kind":"say"}}`)
					pass(30 * time.Second)
				}
				p.Ask(`{"type":"step","data":{"kind":"` + c.last + `"}}`)
				err := <-p.Quiet()
				if took := time.Since(began); took < c.closes || took > c.closes+2*time.Second {
					t.Errorf("closed after %v, want %v", took, c.closes)
				}
				if !websocket.IsCloseError(err, websocket.CloseGoingAway) || !strings.Contains(err.Error(), "1h0m0s") {
					t.Errorf("closed with %v, want 1001 and the reason", err)
				}
				if got := s.sessions.countActive(); got != 0 {
					t.Errorf("%d sessions after the socket closed", got)
				}
			})
		})
	}
}

// Twice the maximum duration ends a session even while a step runs, and stops the step.
func TestMaxDurationStopsAStep(t *testing.T) {
	inBubble(t, Config{MaxDuration: time.Minute}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		p := wire.ConnectPipe(t, network)
		p.Ask(`{"type":"reset"}`)
		p.Send(`{"type":"step","data":{"kind":"wait","wait":3600000000000}}`)
		if err := <-p.Quiet(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
			t.Errorf("closed with %v, want 1001", err)
		}
		if got := s.sessions.countActive(); got != 0 {
			t.Errorf("%d sessions after the socket closed", got)
		}
	})
}

// A trainer that answers no ping for minutes keeps its session; a lost one doesn't.
func TestDeadPeer(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		p := wire.ConnectPipe(t, network)
		pings := 0
		p.Conn.SetPingHandler(func(string) error { pings++; return nil })
		p.Ask(`{"type":"reset"}`)
		began, ended := time.Now(), p.Quiet()
		pass(9 * time.Minute)
		p.Send(`{"type":"state"}`)
		if err := <-ended; !strings.Contains(err.Error(), "unexpected message") {
			t.Fatalf("after nine minutes without a pong: %v", err)
		}
		if pings < 26 || pings > 27 {
			t.Errorf("%d pings in nine minutes, want one every 20 s", pings)
		}
		heard := time.Since(began)
		for s.sessions.countActive() > 0 && time.Since(began) < time.Hour {
			pass(time.Second)
		}
		if silent := time.Since(began) - heard; silent > deadPeerAfter+2*sweepInterval {
			t.Errorf("the slot was held for %v", silent)
		}
	})
}

// A peer that neither reads nor answers, as after the loss of the network, occupies its slot for
// deadPeerAfter.
func TestHalfOpenPeer(t *testing.T) {
	inBubble(t, Config{MaxSessions: 1}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		p := wire.ConnectPipe(t, network)
		p.Ask(`{"type":"reset"}`)
		p.Send(`{"type":"state"}`) // the answer is not read
		began := time.Now()
		for s.sessions.countActive() > 0 && time.Since(began) < time.Hour {
			pass(time.Second)
		}
		if held := time.Since(began); held > deadPeerAfter+2*sweepInterval {
			t.Errorf("the slot was held for %v", held)
		}
	})
}

func TestPingsAreAnsweredDuringAStep(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, _ *Server, network *wire.PipeNet) {
		p := wire.ConnectPipe(t, network)
		p.Ask(`{"type":"reset"}`)
		pong := make(chan time.Time, 10)
		p.Conn.SetPongHandler(func(string) error { pong <- time.Now(); return nil })
		p.Send(`{"type":"step","data":{"kind":"wait","wait":300000000000}}`)
		answered := make(chan string)
		go func() { answered <- p.Receive() }()
		for range 10 {
			pass(20 * time.Second)
			sent := time.Now()
			if err := p.Conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if waited := (<-pong).Sub(sent); waited > time.Second {
				t.Errorf("the pong came after %v", waited)
			}
		}
		if got := wire.CodeOf(t, <-answered); got != "observation" {
			t.Errorf("the step was answered with %s", got)
		}
	})
}

// A refused client that sends late still reads the reason. The connection of a client that never
// sends is closed soon.
func TestRefusalIsHeld(t *testing.T) {
	inBubble(t, Config{MaxSessions: 1}, func(t *testing.T, _ *Server, network *wire.PipeNet) {
		first := wire.ConnectPipe(t, network)
		first.Ask(`{"type":"reset"}`)
		slow := wire.ConnectPipe(t, network)
		refusal := make(chan string)
		go func() { refusal <- slow.Receive() }()
		pass(refusalTimeout - time.Second)
		slow.Send(`{"type":"reset"}`)
		if got := wire.CodeOf(t, <-refusal); got != protocol.CodeCapacity {
			t.Errorf("the refused client read %s", got)
		}
		if code, _ := slow.Closed(); code != websocket.CloseNormalClosure {
			t.Errorf("closed with %d, want 1000", code)
		}
		silent := wire.ConnectPipe(t, network)
		began := time.Now()
		silent.Receive()
		silent.Closed()
		if took := time.Since(began); took != refusalTimeout {
			t.Errorf("a silent client was held for %v, want %v", took, refusalTimeout)
		}
	})
}

func TestDrain(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		p := wire.ConnectPipe(t, network)
		p.Ask(`{"type":"reset"}`)
		drained := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { drained <- s.Drain(ctx) }()
		synctest.Wait()
		if !s.makeReport(nil).Draining {
			t.Error("the report has a server that isn't draining")
		}
		late := wire.ConnectPipe(t, network)
		answer := late.Ask(`{"type":"reset"}`)
		if wire.CodeOf(t, answer) != protocol.CodeCapacity || !strings.Contains(answer, "draining") {
			t.Errorf("a new session was answered with %s", answer)
		}
		late.Closed()
		pass(time.Minute)
		if got := p.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
			t.Errorf("the running session was answered with %s", got)
		}
		select {
		case err := <-drained:
			t.Fatalf("drained with a session running: %v", err)
		default:
		}
		p.Send(`{"type":"close"}`)
		p.Closed()
		if err := <-drained; err != nil {
			t.Errorf("drained with %v", err)
		}
		s.Close()
		if got, want := s.DrainReport(), (score.DrainReport{Sessions: 1, Seconds: 60}); got != want {
			t.Errorf("drain report %+v, want %+v", got, want)
		}
	})
}

// In the second half of a drain a session ends between two episodes, and an episode goes on.
func TestDrainReleasesSessions(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		between, playing := wire.ConnectPipe(t, network), wire.ConnectPipe(t, network)
		between.Ask(`{"type":"reset"}`)
		between.Ask(`{"type":"step","data":{"kind":"finish"}}`)
		playing.Ask(`{"type":"reset"}`)
		drained := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		go func() { drained <- s.Drain(ctx) }()
		pass(4 * time.Minute)
		if got := s.sessions.countActive(); got != 2 {
			t.Fatalf("%d sessions are left in the first half, want 2", got)
		}
		ended := between.Quiet()
		pass(2 * time.Minute)
		if err := <-ended; !websocket.IsCloseError(err, protocol.CloseMoved) {
			t.Errorf("closed with %v, want 1012", err)
		}
		if got := playing.Code(`{"type":"step","data":{"kind":"finish"}}`); got != "observation" {
			t.Errorf("the episode was answered with %s", got)
		}
		if err := <-drained; err != nil {
			t.Errorf("drained with %v", err)
		}
		s.Close()
		if got := s.DrainReport(); got.Sessions != 2 || got.Cut != 0 {
			t.Errorf("drain report %+v, want 2 sessions and none cut", got)
		}
	})
}

func TestDrainTimeout(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		p := wire.ConnectPipe(t, network)
		p.Ask(`{"type":"reset"}`)
		p.Send(`{"type":"step","data":{"kind":"wait","wait":3600000000000}}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drained with %v, want the deadline", err)
		}
		ended := p.Quiet()
		s.Close()
		if err := <-ended; !websocket.IsCloseError(err, websocket.CloseGoingAway) {
			t.Errorf("closed with %v, want 1001", err)
		}
		if got, want := s.DrainReport(), (score.DrainReport{Sessions: 1, Cut: 1, Seconds: 60}); got != want ||
			s.makeReport(nil).Cut != 1 {
			t.Errorf("drain report %+v, want %+v; the report says that %d were cut", got, want, s.makeReport(nil).Cut)
		}
	})
}

func TestDrainWithoutSessions(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, _ *wire.PipeNet) {
		for range 2 {
			if err := s.Drain(t.Context()); err != nil {
				t.Errorf("drained with %v", err)
			}
		}
	})
}

// A drained server waits for the last sessions' ledgers to be fetched, but not forever.
func TestDrainWaitsForLedgers(t *testing.T) {
	const episode = `{"type":"reset","data":{"run":"u","shard":0,"episode":0}}`
	play := func(t *testing.T, network *wire.PipeNet) {
		p := wire.ConnectPipe(t, network)
		p.Ask(episode)
		p.Ask(`{"type":"step","data":{"kind":"finish"}}`)
		p.Send(`{"type":"close"}`)
		p.Closed()
	}
	inBubble(t, Config{}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		play(t, network)
		began := time.Now()
		go func() {
			pass(3 * time.Second)
			s.ledgers.Fetched(ledger.Key{Run: "u"})
		}()
		if err := s.Drain(t.Context()); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("drained after %v with %v, want 3s", time.Since(began), err)
		}
	})
	inBubble(t, Config{}, func(t *testing.T, s *Server, network *wire.PipeNet) {
		play(t, network)
		began := time.Now()
		if err := s.Drain(t.Context()); err != nil || time.Since(began) != ledgerGrace {
			t.Errorf("drained after %v with %v, want %v", time.Since(began), err, ledgerGrace)
		}
	})
}

func TestLedgersExpire(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, _ *wire.PipeNet) {
		if _, err := s.ledgers.Open(protocol.RunTag{Run: "u"}, score.PlannedEpisode{}); err != nil {
			t.Fatal(err)
		}
		pass(24*time.Hour - time.Minute)
		if got := s.ledgers.Figures().Open; got != 1 {
			t.Errorf("%d ledgers before the time has passed, want 1", got)
		}
		pass(2 * time.Minute)
		if got := s.ledgers.Figures().Open; got != 0 {
			t.Errorf("%d ledgers after the time has passed, want 0", got)
		}
	})
}
