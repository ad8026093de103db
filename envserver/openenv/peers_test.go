package openenv

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/google/go-cmp/cmp"
)

// phonebook is a lookup that counts.
type phonebook struct {
	addresses []string
	err       error
	asked     int
}

func (b *phonebook) lookup(context.Context) ([]string, error) {
	b.asked++
	return b.addresses, b.err
}

func testPeers(tb testing.TB, self string, key ed25519.PrivateKey, book *phonebook) *peers {
	tb.Helper()
	p, err := newPeers(&Peers{Lookup: book.lookup, Self: self}, key, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// A token tells the servers of one pool apart, is the same wherever it is made, and tells those
// without the pool's key nothing.
func TestTokensOfServers(t *testing.T) {
	book := &phonebook{}
	other := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	a, b, foreign := testPeers(t, "192.0.2.1:8000", testKey(), book), testPeers(t, "192.0.2.2:8000", testKey(),
		book), testPeers(t, "192.0.2.1:8000", other, book)
	if len(a.token) != tokenLength || a.token == b.token || a.token != b.tokenOf(a.self) {
		t.Errorf("tokens %q and %q", a.token, b.token)
	}
	if a.token == foreign.token || a.proof == foreign.proof || a.proof != b.proof {
		t.Error("tokens and proofs must depend on the pool's key")
	}
	if foreign.vouches(&http.Request{Header: http.Header{protocol.DirectHeader: {a.proof}}}) ||
		(*peers)(nil).vouches(&http.Request{}) {
		t.Error("another pool's proof is believed")
	}
}

func TestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &phonebook{addresses: []string{"192.0.2.1:8000", "192.0.2.2:8000"}}
		p := testPeers(t, "192.0.2.1:8000", testKey(), book)
		of := func(address string) string { return p.tokenOf(address) + ".RANDOM" }
		steps := []struct {
			change func()
			id     string
			want   string
			asked  int
		}{
			{nil, of("192.0.2.1:8000"), "", 0}, // one's own
			{nil, "nobody", "", 0},
			{nil, "a.b", "", 0},
			{nil, of("192.0.2.2:8000"), "192.0.2.2:8000", 1},
			{nil, of("192.0.2.3:8000"), "", 1}, // asked just now
			{func() { pass(missTTL) }, of("192.0.2.2:8000"), "192.0.2.2:8000", 1},
			{func() { book.addresses = append(book.addresses, "192.0.2.3:8000") }, of("192.0.2.3:8000"),
				"192.0.2.3:8000", 2},
			{func() { book.addresses = book.addresses[:2] }, of("192.0.2.3:8000"), "192.0.2.3:8000", 2},
			{func() { pass(peersTTL) }, of("192.0.2.3:8000"), "", 3},
			{func() { pass(peersTTL); book.err = errors.New("no such host") }, of("192.0.2.2:8000"), "192.0.2.2:8000",
				4},
		}
		for i, step := range steps {
			if step.change != nil {
				step.change()
			}
			if got := p.owner(t.Context(), step.id); got != step.want || book.asked != step.asked {
				t.Errorf("step %d: owner(%q) = %q after %d lookups, want %q after %d", i, step.id, got, book.asked,
					step.want, step.asked)
			}
		}
	})
}

// Sessions that live here, and those that begin here, cost no lookup.
func TestOwnSessionsNeedNoPeers(t *testing.T) {
	book := &phonebook{err: errors.New("must not be asked")}
	_, url := serve(t, Config{Peers: &Peers{Lookup: book.lookup, Self: "192.0.2.1:8000"}})
	id := create(t, url)
	p := attachTo(t, url, id)
	p.ask(`{"type":"reset"}`)
	if status, body := getBody(t, url+"/state?session_id="+id); status != 200 {
		t.Errorf("/state: %d %s", status, body)
	}
	p.leave()
	closeSession(t, url, id)
	if got := closeSession(t, url, id); decoded(t, got, "error", "code") != -32602.0 || book.asked != 0 {
		t.Errorf("%s after %d lookups", got, book.asked)
	}
}

// The peer with the most free slots is first. Each answer counts for a second, less what was passed
// on since; a peer that hangs, refuses or talks nonsense has no room and doesn't hold up the
// others.
func TestRoomiest(t *testing.T) {
	answer := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://")
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	two, one, none := answer(200, `{"free":2}`), answer(200, `{"free":1}`), answer(200, `{"free":0}`)
	book := &phonebook{addresses: []string{mute.Addr().String(), "127.0.0.1:1", one, none, two,
		answer(403, `{"free":9}`), answer(200, `<html>`)}}
	p := testPeers(t, "192.0.2.1:8000", testKey(), book)
	began := time.Now()
	first := p.roomiest(t.Context(), nil)
	if took := time.Since(began); first != two || took > passOnWait {
		t.Errorf("first %q after %v, want %q", first, took, two)
	}
	p.asked = time.Now().Add(time.Hour) // the answers stay good for the rest of the test
	second, third := p.roomiest(t.Context(), []string{two}), p.roomiest(t.Context(), nil)
	if diff := cmp.Diff([]string{one, two, ""}, []string{second, third, p.roomiest(t.Context(), nil)}); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// No more peers are tried than maxTries, though more claim to have room, and the client is then
// answered by the server that it came to.
func TestTriesAreBounded(t *testing.T) {
	var tried atomic.Int64
	liar := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == roomPath {
			_, _ = w.Write([]byte(`{"free":5}`))
			return
		}
		tried.Add(1)
		w.Header().Set(fullHeader, "true")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	book := &phonebook{}
	for range maxTries + 2 {
		server := httptest.NewServer(liar)
		defer server.Close()
		book.addresses = append(book.addresses, strings.TrimPrefix(server.URL, "http://"))
	}
	_, url := serve(t, Config{MaxSessions: 1, Peers: &Peers{Lookup: book.lookup, Self: "192.0.2.1:8000"}})
	create(t, url)
	for _, begin := range []func() string{
		func() string { return connect(t, url).ask(`{"type":"reset"}`) },
		func() string { return rpc(t, url, "openenv/session/create", `{}`) },
	} {
		tried.Store(0)
		if answer := begin(); !strings.Contains(answer, "1/1") || tried.Load() != maxTries {
			t.Errorf("%s after %d tries, want the server's own refusal after %d", answer, tried.Load(), maxTries)
		}
	}
}

// A server has as much room as it has free slots, and none when it drains.
func TestRoom(t *testing.T) {
	members := servePool(t, Config{MaxSessions: 5}, Config{})
	create(t, members[0].url)
	for _, want := range []int64{4, 0} {
		if got, err := members[1].peers.roomOf(t.Context(), members[0].address); got != want || err != nil {
			t.Errorf("room for %d, %v, want %d", got, err, want)
		}
		members[0].sessions.drain()
	}
}

func TestPeersConfig(t *testing.T) {
	for name, c := range map[string]*Peers{"no lookup": {Self: "192.0.2.1:8000"},
		"no address": {Lookup: (&phonebook{}).lookup}, "no port": {Lookup: (&phonebook{}).lookup, Self: "192.0.2.1"}} {
		if _, err := New(Config{Kind: echoKind{}, LedgerKey: testKey(), Peers: c}); err == nil ||
			!strings.Contains(err.Error(), "Peers") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
