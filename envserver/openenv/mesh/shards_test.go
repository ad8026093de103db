package mesh

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/testkit/echo"
)

// A peer that may be playing a shard and doesn't answer is silent; one that is gone, or is of a
// release that plays no plans, is not.
func TestSilentPeers(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	answers := func(status int) string {
		peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte("{}"))
		}))
		t.Cleanup(peer.Close)
		return strings.TrimPrefix(peer.URL, "http://")
	}
	for name, c := range map[string]struct {
		peer   string
		states int
		silent bool
	}{
		"an answer":          {answers(200), 1, false},
		"a cut connection":   {answers(0), 0, true},
		"a failure":          {answers(503), 0, true},
		"an earlier release": {answers(404), 0, false},
		"nobody there":       {closed.Addr().String(), 0, false},
	} {
		book := &phonebook{addresses: []string{"192.0.2.1:8000", c.peer}}
		m := testMesh(t, "192.0.2.1:8000", echo.LedgerKey(), book)
		states, silent := m.AskShard(t.Context(), ledger.Key{Run: "run"}, "plan")
		if len(states) != c.states || silent != c.silent {
			t.Errorf("%s: %d states, silent %v", name, len(states), silent)
		}
	}
}
