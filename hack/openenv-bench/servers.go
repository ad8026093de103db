package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/procfs"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/testkit/process"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/hack/venv"
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

const upstreamFolder = "hack/openenv-bench/upstream"

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
	path := filepath.Join(folder, "openenv-bench-tickets-"+digest[len(digest)-12:]+".json")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, writeTickets(catalog, path)
}

// upstreamPython returns the interpreter of the official server's environment, and creates the
// environment if necessary.
func upstreamPython(ctx context.Context, progress io.Writer) (string, error) {
	maker := venv.Maker{Command: "python3", Progress: progress, Run: venv.RunCommand}
	folder, err := maker.Environment(ctx, "openenv-bench", filepath.Join(upstreamFolder, "requirements.txt"))
	if err != nil {
		return "", fmt.Errorf("making the official server's Python environment: %w", err)
	}
	return filepath.Join(folder, "bin", "python"), nil
}

// startTimeout is long enough for Python on a busy machine.
const startTimeout = 3 * time.Minute

// usage is the resource usage of the server's processes.
type usage struct {
	// memory is resident, in bytes.
	memory int64
	// cpu is the total processor time.
	cpu time.Duration
}

// usage sums up the processes of the server's group.
func (s *server) usage() (usage, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return usage{}, err
	}
	var sum usage
	for _, candidate := range all {
		stat, err := candidate.Stat()
		if err == nil && stat.PGRP == s.PID() { // an error means that the process has ended since
			sum.memory += int64(stat.ResidentMemory())
			sum.cpu += time.Duration(stat.CPUTime() * float64(time.Second))
		}
	}
	return sum, nil
}
