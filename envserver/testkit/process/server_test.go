package process

import (
	"os/exec"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	logs := `{"level":"WARN","msg":"No --ledger-key"}
not JSON
{"level":"INFO","msg":"Serving","environment":"ticket","addr":"127.0.0.1:4001","opsAddr":"127.0.0.1:4002"}
`
	if address, ops := parseAddresses(logs); address != "127.0.0.1:4001" || ops != "127.0.0.1:4002" {
		t.Errorf("%q, %q", address, ops)
	}
	if address, _ := parseAddresses(`{"msg":"Serv`); address != "" {
		t.Errorf("read %q from half a line", address)
	}
}

func TestStartServer(t *testing.T) {
	const line = `{"msg":"Serving","addr":"127.0.0.1:4001","opsAddr":"127.0.0.1:4002"}`
	s, err := StartServer(t.Context(), "a server", exec.CommandContext(t.Context(), "sh", "-c", "echo '"+line+
		"'; exec sleep 600"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	if s.Address != "127.0.0.1:4001" || s.Ops != "127.0.0.1:4002" {
		t.Errorf("%q, %q", s.Address, s.Ops)
	}
	failing := exec.CommandContext(t.Context(), "sh", "-c", "echo no key; exit 3")
	if _, err := StartServer(t.Context(), "a server", failing); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("a server that ends: %v", err)
	}
}
