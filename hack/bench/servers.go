package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/procfs"
	"github.com/spf13/cobra"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/testkit/process"
	"github.com/csenv/csenv/scenarios"
)

// Names of the servers.
const (
	bare            = "bare-echo"
	csenvEcho       = "csenv-echo"
	csenvTicket     = "csenv-ticket"
	csenvNoSearch   = "csenv-ticket-nosearch"
	csenvWorkflow   = "csenv-workflow"
	official        = "openenv-python"
	officialWorkers = "openenv-python-workers"

	officialTicket        = "openenv-python-ticket"
	officialTicketWorkers = "openenv-python-ticket-workers"
)

var kinds = []string{bare, csenvEcho, csenvTicket, csenvNoSearch, csenvWorkflow, official, officialWorkers,
	officialTicket, officialTicketWorkers}

const upstreamFolder = "hack/bench/upstream"

// newServeCommand serves one of the Go servers. The comparison starts this program again for each,
// so that every server has its own process.
func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "serve SERVER ADDRESS", Args: cobra.ExactArgs(2), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			handler, err := handlerOf(args[0])
			if err != nil {
				return err
			}
			go openenv.KeepHeadroom(cmd.Context()) // as envserver does
			server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
			context.AfterFunc(cmd.Context(), func() { _ = server.Close() })
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", args[1])
			if err != nil {
				return err
			}
			if args[0] != bare {
				listener = fairness.TakeTurns(listener)
			}
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
}

func handlerOf(name string) (http.Handler, error) {
	var kind episode.Kind
	switch name {
	case bare:
		return bareEcho(), nil
	case csenvEcho:
		kind = newEchoKind()
	case csenvTicket, csenvNoSearch, csenvWorkflow:
		catalog, err := scenarios.LoadPublic()
		if err != nil {
			return nil, err
		}
		if kind, err = kindOf(name, catalog); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown server %q", name)
	}
	server, err := openenv.New(openenv.Config{
		Kind: kind, MaxSessions: 100_000, LedgerKey: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	return server.Handler(), nil
}

// bareEcho is the upper bound: the same WebSocket library, which answers every message with the
// same bytes without parsing it.
func bareEcho() http.Handler {
	up := websocket.Upgrader{
		CheckOrigin: func(*http.Request) bool { return true }, ReadBufferSize: 1024, WriteBufferSize: 4096,
		WriteBufferPool: &sync.Pool{},
	}
	answer := []byte(
		`{"type":"observation","data":{"observation":{"echoed_message":"How are you?","message_length":12},` +
			`"reward":1.2,"done":false}}`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for {
				if _, _, err := c.ReadMessage(); err != nil {
					return
				}
				if err := c.WriteMessage(websocket.TextMessage, answer); err != nil {
					return
				}
			}
		}()
	})
}

func kindOf(name string, catalog *scenarios.Catalog) (episode.Kind, error) {
	if name == csenvWorkflow {
		return workflow.New(catalog, offline.New())
	}
	return ticket.New(catalog, offline.New())
}

// server is a running server, which leads a process group.
type server struct {
	*process.Process

	url string
}

// startServer starts a server and waits until it accepts connections.
func startServer(ctx context.Context, name string, progress io.Writer) (*server, error) {
	addresses, err := process.FreeAddresses(ctx, 1)
	if err != nil {
		return nil, err
	}
	address := addresses[0]
	cmd, err := commandOf(ctx, name, address, progress)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its workers are measured and stopped with it
	p, err := process.Start(name, cmd)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: time.Second}
	err = p.Await(ctx, startTimeout, func() bool {
		c, err := dialer.DialContext(ctx, "tcp", address)
		return err == nil && c.Close() == nil
	})
	if err != nil {
		p.Kill()
		return nil, err
	}
	return &server{p, "ws://" + address}, nil
}

func commandOf(ctx context.Context, name, address string, progress io.Writer) (*exec.Cmd, error) {
	switch name {
	case official:
		return upstreamCommand(ctx, "server.py", address, 1, progress)
	case officialWorkers:
		return upstreamCommand(ctx, "server.py", address, runtime.NumCPU(), progress)
	case officialTicket:
		return upstreamCommand(ctx, "tickets.py", address, 1, progress)
	case officialTicketWorkers:
		return upstreamCommand(ctx, "tickets.py", address, runtime.NumCPU(), progress)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return exec.CommandContext(ctx, self, "serve", name, address), nil
}

// upstreamCommand returns the command of a script that runs the official server.
func upstreamCommand(ctx context.Context, script, address string, workers int, progress io.Writer) (*exec.Cmd, error) {
	python, err := upstreamPython(ctx, progress)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.CommandContext(ctx, python, script, port, strconv.Itoa(workers))
	cmd.Dir = upstreamFolder
	if script == "tickets.py" {
		path, err := exportedFile()
		if err != nil {
			return nil, err
		}
		cmd.Env = append(os.Environ(), ticketsVariable+"="+path)
	}
	return cmd, nil
}

// exportedFile exports the built-in tickets to a file of the user's cache, unless these tickets are
// there already, and returns its path.
func exportedFile() (string, error) {
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder: %w", err)
	}
	folder := filepath.Join(cache, "csenv")
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // other tools of the user share it
		return "", err
	}
	digest := catalog.Digest()
	path := filepath.Join(folder, "bench-tickets-"+digest[len(digest)-12:]+".json")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, writeTickets(catalog, path)
}

// upstreamPython returns the interpreter of the official server's environment, and creates the
// environment if necessary.
func upstreamPython(ctx context.Context, progress io.Writer) (string, error) {
	cmd := exec.CommandContext(ctx, "python3", "hack/python.py", "bench",
		filepath.Join(upstreamFolder, "requirements.txt"))
	cmd.Stderr = progress
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("making the official server's Python environment (run this from the checkout's root): %w",
			err)
	}
	return strings.TrimSpace(string(path)), nil
}

// startTimeout is long enough for Python on a busy machine.
const startTimeout = 3 * time.Minute

// buildServer builds the env server and returns its path. The function removes it.
func buildServer(ctx context.Context, o options) (binary string, remove func(), err error) {
	if o.binary != "" {
		return o.binary, func() {}, nil
	}
	o.tell("building the server")
	folder, err := os.MkdirTemp("", "csenv-bench-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	binary = filepath.Join(folder, "envserver")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/envserver")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		remove()
		return "", nil, fmt.Errorf("building the server: %w", err)
	}
	return binary, remove, nil
}

// pool are env servers, each a process as in a pod.
type pool struct {
	options

	binary  string
	servers []*process.Server
}

// startPool starts n servers.
func startPool(ctx context.Context, o options, binary string, n int) (*pool, error) {
	p := &pool{options: o, binary: binary}
	for range n {
		s, err := p.startOne(ctx)
		if err != nil {
			p.kill()
			return nil, err
		}
		p.servers = append(p.servers, s)
	}
	return p, nil
}

// startOne starts a server with the flags of a pod, without limits of idle sessions.
func (p *pool) startOne(ctx context.Context) (*process.Server, error) {
	cmd := exec.CommandContext(ctx, p.binary, "--addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0",
		"--max-sessions", strconv.FormatUint(p.files-spareFiles, 10), "--session-idle-timeout", "0",
		"--session-max-duration", "0", "--drain-timeout", p.drain.String())
	return process.StartServer(ctx, "an env server", cmd)
}

func (p *pool) kill() {
	for _, s := range p.servers {
		s.Kill()
	}
}

func (p *pool) addresses() []string {
	addresses := make([]string, len(p.servers))
	for i, s := range p.servers {
		addresses[i] = s.Address
	}
	return addresses
}

// usage sums up the servers.
func (p *pool) usage() (usage, error) {
	pids := make([]int, len(p.servers))
	for i, s := range p.servers {
		pids[i] = s.PID()
	}
	return usageOf(func(stat procfs.ProcStat) bool { return slices.Contains(pids, stat.PID) })
}

// usage is what processes use.
type usage struct {
	memory float64 // resident bytes
	cpu    time.Duration
}

func (u usage) minus(earlier usage) usage {
	return usage{u.memory - earlier.memory, u.cpu - earlier.cpu}
}

// usageOf sums up processes.
func usageOf(belongs func(procfs.ProcStat) bool) (usage, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return usage{}, fmt.Errorf("reading what processes use: %w", err)
	}
	var sum usage
	for _, candidate := range all {
		stat, err := candidate.Stat()
		if err == nil && belongs(stat) { // an error means that the process has ended since
			sum.memory += float64(stat.ResidentMemory())
			sum.cpu += time.Duration(stat.CPUTime() * float64(time.Second))
		}
	}
	return sum, nil
}

// usage sums up the processes of the server's group.
func (s *server) usage() (usage, error) {
	return usageOf(func(stat procfs.ProcStat) bool { return stat.PGRP == s.PID() })
}
