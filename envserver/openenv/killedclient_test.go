package openenv

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/testkit/wire"
)

// victimsOf is the variable with the server's URL for a process that opens sessions and is then
// killed.
const victimsOf = "CSENV_TEST_VICTIMS_OF"

const victims = 1000

// TestVictims is the process that TestKilledClients kills.
func TestVictims(t *testing.T) {
	url := os.Getenv(victimsOf)
	if url == "" {
		t.Skip("this is the other process of TestKilledClients")
	}
	var opening sync.WaitGroup
	for range 20 {
		opening.Go(func() {
			for range victims / 20 {
				wire.Connect(t, url).Ask(`{"type":"reset"}`)
			}
		})
	}
	opening.Wait()
	fmt.Println("all sessions are open")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// A thousand killed clients leave no slot occupied.
func TestKilledClients(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: victims})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictims$", "-test.v")
	cmd.Env = append(os.Environ(), victimsOf+"="+url)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := false
	for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
		ready = strings.HasPrefix(lines.Text(), "all sessions")
	}
	if got := s.sessions.countActive(); !ready || got != victims {
		t.Fatalf("ready %v, %d sessions, want %d", ready, got, victims)
	}
	began := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	wire.AwaitCondition(t, "every slot is free", func() bool { return s.sessions.countActive() == 0 })
	t.Logf("%d slots were free %v after the kill", victims, time.Since(began))
	if got := wire.Connect(t, url).Code(`{"type":"reset"}`); got != "observation" {
		t.Errorf("the next client was answered with %s", got)
	}
}

// Slots of clients whose hosts were lost are freed after the idle timeout.
func TestVanishedClients(t *testing.T) {
	inBubble(t, Config{MaxSessions: 50, IdleTimeout: 3 * time.Minute},
		func(t *testing.T, s *Server, network *wire.PipeNet) {
			for range 50 {
				p := wire.DialPeer(t, &websocket.Dialer{NetDialContext: network.Dial}, "ws://pipe/ws")
				p.Ask(`{"type":"reset"}`) // and no more reads
			}
			pass(3*time.Minute - 5*time.Second)
			if got := s.sessions.countActive(); got != 50 {
				t.Errorf("%d sessions before the idle time is over, want 50", got)
			}
			pass(10 * time.Second)
			if got := s.sessions.countActive(); got != 0 {
				t.Errorf("%d sessions after the idle time, want 0", got)
			}
		})
}

// A trainer that sends nothing for two minutes, not even a pong, can continue.
func TestSilentTrainerContinues(t *testing.T) {
	inBubble(t, Config{IdleTimeout: 10 * time.Minute}, func(t *testing.T, _ *Server, network *wire.PipeNet) {
		p := wire.ConnectPipe(t, network)
		p.Ask(`{"type":"reset","data":{"seed":2}}`)
		pass(2 * time.Minute)
		if got := wire.DecodePath(t, p.Ask(`{"type":"step","data":{"kind":"say"}}`), "data", "observation",
			"seed"); got != 2.0 {
			t.Errorf("after two minutes the step plays seed %v", got)
		}
	})
}
