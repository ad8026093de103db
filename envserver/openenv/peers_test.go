package openenv

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/csenv/csenv/envserver/openenv/mesh"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// phonebook is a lookup that counts its calls.
type phonebook struct {
	addresses []string
	err       error
	asked     int
}

func (b *phonebook) lookup(context.Context) ([]string, error) {
	b.asked++
	return b.addresses, b.err
}

// Requests for sessions of this server, and new sessions, cause no lookup.
func TestOwnSessionsNeedNoPeers(t *testing.T) {
	book := &phonebook{err: errors.New("must not be called")}
	_, url := serve(t, Config{Peers: &mesh.Config{Lookup: book.lookup, Self: "192.0.2.1:8000"}})
	id := wire.CreateSession(t, url)
	p := attachTo(t, url, id)
	p.Ask(`{"type":"reset"}`)
	if status, body := wire.GetBody(t, url+"/state?session_id="+id); status != 200 {
		t.Errorf("/state: %d %s", status, body)
	}
	p.Leave()
	closeSession(t, url, id)
	if got := closeSession(t, url, id); wire.DecodePath(t, got, "error", "code") != -32602.0 || book.asked != 0 {
		t.Errorf("%s after %d lookups", got, book.asked)
	}
}

// At most three peers are tried, even if more report free slots. After that the first server
// answers the client.
func TestTriesAreBounded(t *testing.T) {
	var tried atomic.Int64
	liar := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/room" {
			_, _ = w.Write([]byte(`{"free":5}`))
			return
		}
		tried.Add(1)
		w.Header().Set("X-Csenv-Full", "true")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	book := &phonebook{}
	for range 5 {
		server := httptest.NewServer(liar)
		defer server.Close()
		book.addresses = append(book.addresses, strings.TrimPrefix(server.URL, "http://"))
	}
	_, url := serve(t, Config{MaxSessions: 1, Peers: &mesh.Config{Lookup: book.lookup, Self: "192.0.2.1:8000"}})
	wire.CreateSession(t, url)
	for _, begin := range []func() string{
		func() string { return wire.Connect(t, url).Ask(`{"type":"reset"}`) },
		func() string { return wire.CallRPC(t, url, "openenv/session/create", `{}`) },
	} {
		tried.Store(0)
		if answer := begin(); !strings.Contains(answer, "1/1") || tried.Load() != 3 {
			t.Errorf("%s after %d tries, want the server's own refusal after %d", answer, tried.Load(), 3)
		}
	}
}

// A server reports its free slots to peers, and none when it drains.
func TestFreeSlots(t *testing.T) {
	members := servePool(t, Config{MaxSessions: 5}, Config{})
	wire.CreateSession(t, members[0].url)
	for _, want := range []string{`{"free":4}`, `{"free":0}`} {
		request, _ := http.NewRequest(http.MethodGet, members[0].url+"/room", nil)
		request.Header.Set(protocol.DirectHeader, proofOf(t))
		if status, got := answerTo(t, request); got != want || status != http.StatusOK {
			t.Errorf("%d %s, want %s", status, got, want)
		}
		members[0].sessions.drain()
	}
}

// proofOf returns the proof that peers of a pool with echo.Key send each other.
func proofOf(tb testing.TB) string {
	tb.Helper()
	secret, err := hkdf.Key(sha256.New, echo.LedgerKey().Seed(), nil, "csenv peers", sha256.Size)
	if err != nil {
		tb.Fatal(err)
	}
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte("proof\n"))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil))
}

func TestPeersConfig(t *testing.T) {
	for name, c := range map[string]*mesh.Config{"no lookup": {Self: "192.0.2.1:8000"},
		"no address": {Lookup: (&phonebook{}).lookup}, "no port": {Lookup: (&phonebook{}).lookup, Self: "192.0.2.1"}} {
		if _, err := New(Config{Kind: echo.Kind{}, LedgerKey: echo.LedgerKey(), Peers: c}); err == nil ||
			!strings.Contains(err.Error(), "Peers") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
