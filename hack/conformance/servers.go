package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/testkit/process"
)

const (
	// quietTimeout is the maximum time until all sessions have ended after the last client has
	// closed its connection.
	quietTimeout = time.Minute
	stopTimeout  = 2 * time.Minute
	// token is the value for the server that requires a token.
	token = "a-token-of-this-run"
)

// configuration is the name and the flags of a server that the suites use.
type configuration struct {
	name  string
	flags []string
}

// makeConfigurations returns the configurations of all servers, and writes the files that they
// refer to.
func makeConfigurations(ctx context.Context, work string) ([]configuration, error) {
	tokenFile, keyFile := filepath.Join(work, "tokens"), filepath.Join(work, ledgerKeyFile)
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("writing the token: %w", err)
	}
	if err := writeKey(keyFile); err != nil {
		return nil, err
	}
	// The servers of a pool need the addresses of their peers before they listen.
	addresses, err := process.FreeAddresses(ctx, 5)
	if err != nil {
		return nil, err
	}
	const anyPort = "127.0.0.1:0"
	all := []configuration{
		{"TICKET", []string{"--addr", anyPort}},
		{"WORKFLOW", []string{"--addr", anyPort, "--environment", "workflow"}},
		{"WORKFLOW_TWIN", []string{"--addr", anyPort, "--environment", "workflow"}},
		{"SMALL", []string{"--addr", anyPort, "--max-sessions", "1", "--capacity-wait", "0"}},
		{"BRIEF", []string{"--addr", anyPort, "--session-idle-timeout", "2s"}},
		{"TOKEN", []string{"--addr", anyPort, "--token-file", tokenFile}},
		{"PRODUCTION", []string{"--addr", anyPort, "--mode", "production"}},
	}
	member := func(name, address string, pool []string, flags ...string) {
		all = append(all, configuration{name, append([]string{"--addr", address, "--advertise", address, "--peers",
			strings.Join(pool, ","), "--ledger-key", keyFile}, flags...)})
	}
	for i, address := range addresses[:3] {
		member(replica+strconv.Itoa(i), address, addresses[:3], "--max-sessions", "32")
	}
	// The first one has a slot for one session, and passes others on.
	member("TOKEN_POOL", addresses[3], addresses[3:], "--token-file", tokenFile, "--max-sessions", "1")
	member("TOKEN_POOL_PEER", addresses[4], addresses[3:], "--token-file", tokenFile)
	return all, nil
}

// replica is the prefix of the names of the pool's servers.
const replica = "REPLICA_"

// writeKey creates the key that the servers of a pool share.
func writeKey(path string) error {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("making the pool's key: %w", err)
	}
	return os.WriteFile(path, poolkey.Encode(key), 0o600)
}

// ledgerKeyFile has the key that the servers of the pool share.
const ledgerKeyFile = "ledger.pem"

// servers are the running processes, and the front of the replicas.
type servers struct {
	all   []*server
	front *process.Front
	// opsToken is for the operations ports of the pool's servers. The others need none.
	opsToken string
}

// server is a process of cmd/envserver.
type server struct {
	configuration
	*process.Server
}

func startServers(ctx context.Context, binary, work string) (*servers, error) {
	configured, err := makeConfigurations(ctx, work)
	if err != nil {
		return nil, err
	}
	key, err := poolkey.Load(filepath.Join(work, ledgerKeyFile))
	if err != nil {
		return nil, err
	}
	secrets, err := poolkey.DeriveSecrets(key)
	if err != nil {
		return nil, err
	}
	s := &servers{opsToken: secrets.Operations}
	for _, c := range configured {
		one, err := process.StartServer(ctx, "server "+c.name,
			exec.CommandContext(ctx, binary, append([]string{"--ops-addr", "127.0.0.1:0"}, c.flags...)...))
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.all = append(s.all, &server{configuration: c, Server: one})
	}
	var replicas []string
	for _, one := range s.all {
		if strings.HasPrefix(one.name, replica) {
			replicas = append(replicas, one.Address)
		}
	}
	turn := -1
	if s.front, err = process.NewFront(ctx, func() string {
		turn++
		return replicas[turn%len(replicas)]
	}); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// environment returns the variables with the servers' addresses for the suites.
func (s *servers) environment() []string {
	variables := []string{"CONFORMANCE_TOKEN_VALUE=" + token, "CONFORMANCE_OPS_TOKEN=" + s.opsToken}
	if s.front != nil {
		variables = append(variables, "CONFORMANCE_FRONT=http://"+s.front.Address())
	}
	for _, one := range s.all {
		variables = append(variables, "CONFORMANCE_"+one.name+"=http://"+one.Address,
			"CONFORMANCE_"+one.name+"_OPS=http://"+one.Ops)
		// The typed client's own tests use these names.
		if one.name == "TICKET" || one.name == "WORKFLOW" {
			variables = append(variables, "CSENV_"+one.name+"_URL=http://"+one.Address)
		}
	}
	return variables
}

func (s *server) inspect(ctx context.Context, token string) error {
	active := -1
	for deadline := time.Now().Add(quietTimeout); active != 0 && time.Now().Before(deadline); {
		var err error
		if active, err = s.sessions(ctx, token); err != nil {
			return err
		}
		<-time.After(20 * time.Millisecond)
	}
	if active != 0 {
		return fmt.Errorf("%d sessions are left though every client has gone", active)
	}
	for lines := bufio.NewScanner(strings.NewReader(s.Logs())); lines.Scan(); {
		if strings.Contains(lines.Text(), `"level":"ERROR"`) || strings.HasPrefix(lines.Text(), "panic:") {
			return fmt.Errorf("its log has %s", lines.Text())
		}
	}
	return nil
}

// sessions returns the number of a server's sessions.
func (s *server) sessions(ctx context.Context, token string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Ops+"/stats", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
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

// stop stops all servers with SIGTERM, as the kubelet does, even if ctx was cancelled.
func (s *servers) stop() error {
	errs := make([]error, len(s.all)+1)
	var stopping sync.WaitGroup
	for i, one := range s.all {
		stopping.Go(func() { errs[i] = one.StopCleanly(stopTimeout) })
	}
	stopping.Wait()
	if s.front != nil {
		errs[len(s.all)] = s.front.Close()
	}
	return errors.Join(errs...)
}
