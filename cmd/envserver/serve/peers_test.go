package serve

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/testkit"
)

// Two servers with one key play each other's sessions.
func TestPeers(t *testing.T) {
	key, _ := writeKey(t)
	addresses := testkit.FreeAddresses(t, 2)
	for _, address := range addresses {
		start(t, func(o *options) {
			o.addr, o.advertise, o.peers, o.ledgerKey, o.maxSessions = address, address, addresses, key, 1
		})
	}
	for i, want := range []string{"session_id", "session_id", "1/1 sessions"} {
		response, err := http.Post("http://"+addresses[0]+"/mcp", "",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("session %d: %s, %v, want %s", i, body, err, want)
		}
	}
}

func TestLookUp(t *testing.T) {
	got, err := lookUp(t.Context(), []string{"192.0.2.1:8000", "[2001:db8::1]:9", "no-such-host.invalid:1"})
	if diff := cmp.Diff([]string{"192.0.2.1:8000", "[2001:db8::1]:9"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if got, err := lookUp(t.Context(), []string{"no-such-host.invalid:1"}); err == nil {
		t.Errorf("no error for a name without addresses but %v", got)
	}
}
