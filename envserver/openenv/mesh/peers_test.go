package mesh

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/openenv/slots"
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

func testMesh(tb testing.TB, self string, key ed25519.PrivateKey, book *phonebook) *Mesh {
	tb.Helper()
	m, err := New(&Config{Lookup: book.lookup, Self: self}, Host{
		Key: key, Slots: slots.New(1, 0), Context: tb.Context(), Cut: func() {}, Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// elapse waits in simulated time.
func elapse(d time.Duration) { <-time.After(d) }

// Servers of a pool have different tokens. Every server computes the same ones, and others can't
// without the pool's key.
func TestTokensOfServers(t *testing.T) {
	book := &phonebook{}
	other := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	a, b, foreign := testMesh(t, "192.0.2.1:8000", echo.LedgerKey(), book), testMesh(t, "192.0.2.2:8000", echo.LedgerKey(),
		book), testMesh(t, "192.0.2.1:8000", other, book)
	if len(a.token) != tokenLength || a.token == b.token || a.token != b.tokenOf(a.Self) {
		t.Errorf("tokens %q and %q", a.token, b.token)
	}
	if a.token == foreign.token || a.proof == foreign.proof || a.proof != b.proof {
		t.Error("tokens and proofs must depend on the pool's key")
	}
	if foreign.isPeer(&http.Request{Header: http.Header{protocol.DirectHeader: {a.proof}}}) ||
		(*Mesh)(nil).isPeer(&http.Request{}) {
		t.Error("another pool's proof is accepted")
	}
}

func TestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &phonebook{addresses: []string{"192.0.2.1:8000", "192.0.2.2:8000"}}
		p := testMesh(t, "192.0.2.1:8000", echo.LedgerKey(), book)
		of := func(address string) string { return p.tokenOf(address) + ".RANDOM" }
		steps := []struct {
			change func()
			id     string
			want   string
			asked  int
		}{
			{nil, of("192.0.2.1:8000"), "", 0}, // its own
			{nil, "nobody", "", 0},
			{nil, "a.b", "", 0},
			{nil, of("192.0.2.2:8000"), "192.0.2.2:8000", 1},
			{nil, of("192.0.2.3:8000"), "", 1}, // requested recently
			{func() { elapse(missTTL) }, of("192.0.2.2:8000"), "192.0.2.2:8000", 1},
			{func() { book.addresses = append(book.addresses, "192.0.2.3:8000") }, of("192.0.2.3:8000"),
				"192.0.2.3:8000", 2},
			{func() { book.addresses = book.addresses[:2] }, of("192.0.2.3:8000"), "192.0.2.3:8000", 2},
			{func() { elapse(peersTTL) }, of("192.0.2.3:8000"), "", 3},
			{func() { elapse(peersTTL); book.err = errors.New("no such host") }, of("192.0.2.2:8000"), "192.0.2.2:8000",
				4},
		}
		for i, step := range steps {
			if step.change != nil {
				step.change()
			}
			if got := p.findOwner(t.Context(), step.id); got != step.want || book.asked != step.asked {
				t.Errorf("step %d: owner(%q) = %q after %d lookups, want %q after %d", i, step.id, got, book.asked,
					step.want, step.asked)
			}
		}
	})
}

// The peer with the most free slots is first. An answer is valid for a second, minus the sessions
// passed on since then. A peer that hangs, refuses or sends an invalid answer has no capacity and
// doesn't delay others.
func TestMostFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := map[string]http.HandlerFunc{
			"mute": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		}
		for address, answer := range map[string]string{"two": `{"free":2}`, "one": `{"free":1}`, "none": `{"free":0}`,
			"invalid": `<html>`} {
			peers[address] = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }
		}
		peers["refuses"] = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"free":9}`)
		}
		book := &phonebook{addresses: []string{"mute", "gone", "one", "none", "two", "refuses", "invalid"}}
		p := testMesh(t, "192.0.2.1:8000", echo.LedgerKey(), book)
		p.transport = pipes(t, peers)
		defer p.transport.CloseIdleConnections()
		began := time.Now()
		first := p.mostFree(t.Context(), nil)
		if took := time.Since(began); first != "two" || took != capacityTimeout {
			t.Errorf("first %q after %v, want two after %v", first, took, capacityTimeout)
		}
		second, third := p.mostFree(t.Context(), []string{"two"}), p.mostFree(t.Context(), nil)
		if diff := cmp.Diff([]string{"one", "two", ""}, []string{second, third, p.mostFree(t.Context(), nil)}); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		elapse(capacityTTL)
		if again := p.mostFree(t.Context(), nil); again != "two" {
			t.Errorf("after the answers' time %q, want two", again)
		}
	})
}

// pipes returns a transport to peers on pipes.
func pipes(t *testing.T, peers map[string]http.HandlerFunc) *http.Transport {
	t.Helper()
	networks := map[string]*wire.PipeNet{}
	for address, answer := range peers {
		network := wire.NewPipeNet()
		server := &http.Server{Handler: answer, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(network) }()
		t.Cleanup(func() { _ = server.Close() })
		networks[address] = network
	}
	return &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil || networks[host] == nil {
			return nil, errors.New("connection refused")
		}
		return networks[host].Dial(ctx, network, address)
	}}
}
