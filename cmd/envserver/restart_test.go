package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/testkit"
)

// member is a server of a pool, in its own process.
type member struct {
	cmd  *exec.Cmd
	logs bytes.Buffer
	ops  string
	// ended receives the error of the process.
	ended chan error
}

func writeKey(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, poolkey.Encode(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// begin starts a server and waits until it is ready.
func begin(t *testing.T, address, ops, key string, peers []string) *member {
	t.Helper()
	m := launchAt(t, "http://"+ops+"/readyz", nil, "--environment", "workflow", "--addr", address, "--advertise",
		address, "--ops-addr", ops, "--ledger-key", key, "--peers", strings.Join(peers, ","), "--drain-timeout", "60s",
		"--log-level", "warn")
	m.ops = ops
	return m
}

// launchAt starts a server and waits until it answers 200 at a URL.
func launchAt(t *testing.T, url string, environment []string, flags ...string) *member {
	t.Helper()
	m := &member{ended: make(chan error, 1), cmd: exec.CommandContext(t.Context(), os.Args[0], flags...)}
	m.cmd.Env = append(append(os.Environ(), asProgram+"=1"), environment...)
	m.cmd.Stdout, m.cmd.Stderr = &m.logs, &m.logs
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { m.ended <- m.cmd.Wait() }()
	deadline, ticker := time.After(5*time.Minute), time.NewTicker(10*time.Millisecond)
	defer ticker.Stop()
	for status(url) != http.StatusOK {
		select {
		case err := <-m.ended:
			t.Fatalf("the server ended before it answered %s: %v\n%s", url, err, m.logs.String())
		case <-deadline:
			t.Fatalf("no answer from %s for a minute", url)
		case <-ticker.C:
		}
	}
	return m
}

// stop ends a server and waits until it has ended without an error.
func (m *member) stop(t *testing.T) {
	t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-m.ended; err != nil {
		t.Errorf("a server ended with %v\n%s", err, m.logs.String())
	}
}

// status returns the status of a URL's answer, or 0 if the port is closed.
func status(url string) int {
	response, err := http.Get(url)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// A server that is told to end before it listens ends at once, although it loads for ever.
func TestAStartingServerEndsAtOnce(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := syscall.Mkfifo(key, 0o600); err != nil {
		t.Fatal(err)
	}
	m := &member{ended: make(chan error, 1), cmd: exec.CommandContext(t.Context(), os.Args[0], "--environment", "workflow",
		"--addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0", "--ledger-key", key, "--drain-timeout", "1h")}
	m.cmd.Env = append(os.Environ(), asProgram+"=1")
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { m.ended <- m.cmd.Wait() }()
	slow, err := os.OpenFile(key, os.O_WRONLY, 0) // waits until the server reads its key
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	m.stop(t)
}

// playOn plays the rest of an episode of the refund task, which its step limit ends.
func playOn(ctx context.Context, c *client.Client) error {
	for range 100 {
		o, err := c.Step(ctx, map[string]any{"action_type": "check_payment", "payload": map[string]any{}})
		if err != nil {
			return err
		}
		if o.Done {
			return c.Close()
		}
	}
	return errors.New("the episode doesn't end")
}

const liveEpisodes = 500

// episodes opens sessions, alternating between the addresses like a Service, and begins an episode
// in each.
func episodes(t *testing.T, addresses []string, n int) []*client.Client {
	t.Helper()
	clients, errs := make([]*client.Client, n), make([]error, n)
	var opening sync.WaitGroup
	for i := range n {
		opening.Go(func() {
			if clients[i], errs[i] = client.Dial(t.Context(), addresses[i%len(addresses)],
				client.Options{Spread: true}); errs[i] == nil {
				_, errs[i] = clients[i].Reset(t.Context(), map[string]any{"seed": i, "task": "refund"})
			}
		})
	}
	opening.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return clients
}

// A rolling restart of a pool with 500 running episodes loses none: a terminating server lets its
// episodes continue, passes new sessions on, and exits after the last episode.
func TestRollingRestart(t *testing.T) {
	const size = 3
	addresses, ops, key := testkit.FreeAddresses(t, size), testkit.FreeAddresses(t, size), writeKey(t)
	members := make([]*member, size)
	for i := range members {
		members[i] = begin(t, addresses[i], ops[i], key, addresses)
	}
	clients := episodes(t, addresses, liveEpisodes)
	for i, old := range members {
		if err := old.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for status("http://"+old.ops+"/readyz") != http.StatusServiceUnavailable {
			if t.Context().Err() != nil {
				t.Fatal("a terminating server is ready")
			}
		}
		// A client that connects to the old server gets a session on another one.
		late := episodes(t, addresses[i:i+1], 1)[0]
		playAll(t, i, clients)
		if err := playOn(t.Context(), late); err != nil {
			t.Errorf("a session on a draining server: %v", err)
		}
		select {
		case err := <-old.ended:
			if err != nil || strings.Contains(old.logs.String(), "drain timed out") {
				t.Errorf("server %d: %v\n%s", i, err, old.logs.String())
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("server %d continues after its last episode", i)
		}
		members[i] = begin(t, addresses[i], ops[i], key, addresses)
	}
	for _, m := range members {
		m.stop(t)
	}
}

// playAll plays the episodes of a server, every third one, to their ends.
func playAll(t *testing.T, server int, clients []*client.Client) {
	t.Helper()
	var playing sync.WaitGroup
	for i := server; i < len(clients); i += 3 {
		playing.Go(func() {
			if err := playOn(t.Context(), clients[i]); err != nil {
				t.Errorf("episode %d on server %d: %v", i, server, err)
			}
		})
	}
	playing.Wait()
}

// OpenEnv's providers wait only a short time for /health, and configure the server with variables.
func TestStartsSoonAsProvidersStartIt(t *testing.T) {
	best := time.Hour
	for range 3 { // a busy machine may be slow once
		addresses := testkit.FreeAddresses(t, 2)
		address := addresses[0]
		began := time.Now()
		m := launchAt(t, "http://"+address+"/health", []string{"MAX_CONCURRENT_ENVS=1", "SESSION_IDLE_TIMEOUT_S=600",
			"OPENENV_MODE=simulation"}, "--addr", address, "--ops-addr", addresses[1])
		best = min(best, time.Since(began))
		first := episodesTicket(t, address)
		second, err := client.Dial(t.Context(), address, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if refused, ok := errors.AsType[*client.ServerError](reset(t, second)); !ok ||
			refused.Code != "CAPACITY_REACHED" {
			t.Errorf("a second session where MAX_CONCURRENT_ENVS is 1: %v", refused)
		}
		_ = second.Close()
		_ = first.Close()
		m.stop(t)
	}
	// On an idle machine it takes a fraction of a second; with the race detector and other tests,
	// some seconds.
	t.Logf("the server took %v to answer /health", best)
	if best > 10*time.Second {
		t.Errorf("the server took %v to answer /health", best)
	}
}

func episodesTicket(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), address, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := reset(t, c); err != nil {
		t.Fatal(err)
	}
	return c
}

func reset(t *testing.T, c *client.Client) error {
	t.Helper()
	_, err := c.Reset(t.Context(), nil)
	return err
}

// The same seed, episode id and actions give the same bytes in independent processes.
func TestFreshProcessesAnswerTheSameBytes(t *testing.T) {
	var transcripts []string
	for range 2 {
		address, ops := testkit.FreeAddresses(t, 1)[0], testkit.FreeAddresses(t, 1)[0]
		m := begin(t, address, ops, writeKey(t), []string{address})
		var said strings.Builder
		for seed := range 20 {
			c, err := client.Dial(t.Context(), address, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o, err := c.Reset(t.Context(), map[string]any{"seed": seed, "task": "refund",
				"episode_id": fmt.Sprint("E", seed)})
			for ; err == nil && !o.Done; o, err = c.Step(t.Context(), map[string]any{"action_type": "check_payment",
				"payload": map[string]any{}}) {
				fmt.Fprintf(&said, "%s %v %+v\n", o.Observation, o.Reward, o.Metadata)
			}
			if err != nil {
				t.Fatal(err)
			}
			state, err := c.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&said, "%s %v %s\n", o.Observation, o.Reward, state)
			_ = c.Close()
		}
		transcripts = append(transcripts, said.String())
		m.stop(t)
	}
	if transcripts[0] != transcripts[1] || len(transcripts[0]) < 1000 {
		t.Errorf("%d and %d bytes that differ", len(transcripts[0]), len(transcripts[1]))
	}
}
