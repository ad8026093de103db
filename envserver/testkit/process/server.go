package process

import (
	"bufio"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"time"
)

// startTimeout is the time within which an env server listens.
const startTimeout = time.Minute

// Server is a running env server.
type Server struct {
	*Process
	// Address and Ops are HOST:PORT of its ports for agents and for operations.
	Address, Ops string
}

// StartServer starts an env server and reads its addresses from its log. Errors contain the name.
func StartServer(ctx context.Context, name string, cmd *exec.Cmd) (*Server, error) {
	p, err := Start(name, cmd)
	if err != nil {
		return nil, err
	}
	s := &Server{Process: p}
	err = p.Await(ctx, startTimeout, func() bool {
		s.Address, s.Ops = parseAddresses(p.Logs())
		return s.Address != ""
	})
	if err != nil {
		p.Kill()
		return nil, err
	}
	return s, nil
}

// parseAddresses reads the addresses of a server from its log.
func parseAddresses(logs string) (address, ops string) {
	for lines := bufio.NewScanner(strings.NewReader(logs)); lines.Scan(); {
		var line struct{ Msg, Addr, OpsAddr string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "Serving" {
			return line.Addr, line.OpsAddr
		}
	}
	return "", ""
}
