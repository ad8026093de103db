package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = time.Minute
	// quietTimeout is how long sessions may take to end after the last client has gone.
	quietTimeout = 10 * time.Second
	stopTimeout  = 10 * time.Second
	// token is what the server that asks for one is told with.
	token = "a-token-of-this-run"
)

// configurations are the servers that the suites play with, and their flags beside the addresses.
func configurations(tokenFile string) []configuration {
	return []configuration{
		{"TICKET", nil},
		{"WORKFLOW", []string{"--environment", "workflow"}},
		{"SMALL", []string{"--max-sessions", "1", "--capacity-wait", "0"}},
		{"BRIEF", []string{"--session-idle-timeout", "2s"}},
		{"TOKEN", []string{"--token-file", tokenFile}},
		{"PRODUCTION", []string{"--mode", "production"}},
		{"REPLICA_0", nil},
		{"REPLICA_1", nil},
		{"REPLICA_2", nil},
	}
}

type configuration struct {
	name  string
	flags []string
}

// servers are the processes that run, and the front of the replicas.
type servers struct {
	all   []*server
	front *front
}

// server is a process of cmd/envserver.
type server struct {
	configuration

	cmd *exec.Cmd
	// address and ops are HOST:PORT of its two ports.
	address, ops string
	logs         string
	ended        chan error
}

func startServers(ctx context.Context, binary, work string) (*servers, error) {
	tokenFile := filepath.Join(work, "tokens")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("writing the token: %w", err)
	}
	s := &servers{}
	for _, c := range configurations(tokenFile) {
		one, err := startServer(ctx, binary, c, filepath.Join(work, strings.ToLower(c.name)+".log"))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("starting the server %s: %w", c.name, err), s.stop())
		}
		s.all = append(s.all, one)
	}
	var replicas []string
	for _, one := range s.all {
		if strings.HasPrefix(one.name, "REPLICA_") {
			replicas = append(replicas, one.address)
		}
	}
	var err error
	if s.front, err = newFront(ctx, replicas...); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// startServer starts a server on free ports, which its log tells.
func startServer(ctx context.Context, binary string, c configuration, logs string) (*server, error) {
	file, err := os.Create(logs)
	if err != nil {
		return nil, fmt.Errorf("making the log: %w", err)
	}
	defer file.Close()
	s := &server{configuration: c, logs: logs, ended: make(chan error, 1)}
	s.cmd = exec.CommandContext(ctx, binary, slices.Concat([]string{"--addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0"}, c.flags)...)
	s.cmd.Stdout, s.cmd.Stderr = file, file
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { s.ended <- s.cmd.Wait() }()
	deadline := time.After(startTimeout)
	for s.address == "" {
		select {
		case err := <-s.ended:
			s.ended <- err
			return nil, fmt.Errorf("it ended: %w\n%s", err, s.readLogs())
		case <-deadline:
			return nil, errors.Join(fmt.Errorf("it doesn't serve after %v\n%s", startTimeout, s.readLogs()), s.stop())
		case <-time.After(20 * time.Millisecond):
			s.address, s.ops = addresses(s.readLogs())
		}
	}
	return s, nil
}

func (s *server) readLogs() string {
	text, err := os.ReadFile(s.logs)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// addresses finds the line of the log that says where a server listens.
func addresses(logs string) (address, ops string) {
	for lines := bufio.NewScanner(strings.NewReader(logs)); lines.Scan(); {
		var line struct{ Msg, Addr, OpsAddr string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "Serving" {
			return line.Addr, line.OpsAddr
		}
	}
	return "", ""
}

// environment tells the suites where the servers are.
func (s *servers) environment() []string {
	variables := []string{"CONFORMANCE_TOKEN_VALUE=" + token}
	if s.front != nil {
		variables = append(variables, "CONFORMANCE_FRONT=http://"+s.front.address())
	}
	for _, one := range s.all {
		variables = append(variables, "CONFORMANCE_"+one.name+"=http://"+one.address, "CONFORMANCE_"+one.name+"_OPS=http://"+one.ops)
		// The typed client's own tests ask for these.
		if one.name == "TICKET" || one.name == "WORKFLOW" {
			variables = append(variables, "CSENV_"+one.name+"_URL=http://"+one.address)
		}
	}
	return variables
}

// end says whether the suites have left the servers as they should be: up, without a session, and without an error in their logs; and ends them.
func (s *servers) end(ctx context.Context) report {
	started := time.Now()
	r := report{suite: "servers"}
	for _, one := range s.all {
		if err := one.inspect(ctx); err != nil {
			r.failed++
			r.notes = append(r.notes, "failed: "+one.name+": "+err.Error())
			continue
		}
		r.passed++
	}
	r.failure = s.stop()
	r.took = time.Since(started)
	return r
}

func (s *server) inspect(ctx context.Context) error {
	active := -1
	for deadline := time.Now().Add(quietTimeout); active != 0 && time.Now().Before(deadline); {
		var err error
		if active, err = s.sessions(ctx); err != nil {
			return err
		}
		<-time.After(20 * time.Millisecond)
	}
	if active != 0 {
		return fmt.Errorf("%d sessions are left though every client has gone", active)
	}
	for lines := bufio.NewScanner(strings.NewReader(s.readLogs())); lines.Scan(); {
		if strings.Contains(lines.Text(), `"level":"ERROR"`) || strings.HasPrefix(lines.Text(), "panic:") {
			return fmt.Errorf("its log has %s", lines.Text())
		}
	}
	return nil
}

// sessions asks a server for the number of its sessions.
func (s *server) sessions(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.ops+"/stats", nil)
	if err != nil {
		return 0, err
	}
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("asking for the sessions: %w", err)
	}
	defer response.Body.Close()
	var stats struct{ Sessions struct{ Active int } }
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, fmt.Errorf("asking for the sessions: %w", err)
	}
	if err := json.Unmarshal(text, &stats); err != nil {
		return 0, fmt.Errorf("parsing /stats: %w", err)
	}
	return stats.Sessions.Active, nil
}

// stop ends all servers by SIGTERM, as the kubelet does.
func (s *servers) stop() error {
	var errs []error
	for _, one := range s.all {
		if err := one.stop(); err != nil {
			errs = append(errs, fmt.Errorf("ending the server %s: %w", one.name, err))
		}
	}
	if s.front != nil {
		errs = append(errs, s.front.close())
	}
	return errors.Join(errs...)
}

func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.ended:
		return err
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Kill()
		return fmt.Errorf("it didn't end within %v of SIGTERM: %w", stopTimeout, <-s.ended)
	}
}
