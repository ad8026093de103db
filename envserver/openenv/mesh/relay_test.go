package mesh

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/echo"
)

// tcpPair returns the two ends of a connection.
func tcpPair(tb testing.TB) (near, far *net.TCPConn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = dialled.Close(), accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

// Data that an end sent before it closed its half arrives, including data that was read ahead of
// the relay. So does the other end's answer within a second.
func TestSpliceHalfClose(t *testing.T) {
	m := testMesh(t, "192.0.2.1:8000", echo.LedgerKey(), &phonebook{})
	client, near := tcpPair(t)
	far, peer := tcpPair(t)
	if _, err := client.Write([]byte("early ")); err != nil {
		t.Fatal(err)
	}
	ahead := bufio.NewReader(near)
	if _, err := ahead.Peek(len("early ")); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); m.copyBothWays(newConn(near, ahead), newConn(far, bufio.NewReader(far))) }()
	_, _ = client.Write([]byte("question"))
	_ = client.CloseWrite()
	if got, err := io.ReadAll(peer); string(got) != "early question" || err != nil {
		t.Errorf("the peer reads %q, %v", got, err)
	}
	_, _ = peer.Write([]byte("answer"))
	_ = peer.Close()
	if got, err := io.ReadAll(client); string(got) != "answer" || err != nil {
		t.Errorf("the client reads %q, %v", got, err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the relay continues after both ends have closed")
	}
}

// An end that never closes doesn't keep a relay open whose other end has closed.
func TestSpliceEnds(t *testing.T) {
	m := testMesh(t, "192.0.2.1:8000", echo.LedgerKey(), &phonebook{})
	client, near := tcpPair(t)
	far, peer := tcpPair(t)
	ended := make(chan struct{})
	go func() { defer close(ended); m.copyBothWays(&readAhead{Conn: near}, &readAhead{Conn: far}) }()
	_ = peer.Close()
	if n, err := client.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the client reads %d bytes, %v", n, err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the relay waits for the client to close")
	}
}

// A silent peer counts as lost, and its relay ends. A peer that sends pings doesn't.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, client := net.Pipe()
		far, peer := net.Pipe()
		m := testMesh(t, "192.0.2.1:8000", echo.LedgerKey(), &phonebook{})
		go m.copyBothWays(&readAhead{Conn: near}, &readAhead{Conn: far})
		one := make([]byte, 1)
		for range 6 {
			elapse(protocol.PingInterval)
			_, _ = peer.Write(one)
			if _, err := client.Read(one); err != nil {
				t.Fatalf("a connected peer: %v", err)
			}
		}
		began := time.Now()
		if _, err := client.Read(one); err == nil || time.Since(began) != protocol.MaxSilence {
			t.Errorf("the client's connection ended after %v: %v", time.Since(began), err)
		}
	})
}

// A relayed socket that is open when the server closes counts as cut, like a session. A socket that
// ended before doesn't.
func TestClosingCutsRelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		cut := 0
		m := testMesh(t, "192.0.2.1:8000", echo.LedgerKey(), &phonebook{})
		m.host.Context, m.host.Cut = ctx, func() { cut++ }
		var relays sync.WaitGroup
		for _, endsBefore := range []bool{true, false} {
			near, client := net.Pipe()
			far, _ := net.Pipe()
			relays.Go(func() { m.copyBothWays(&readAhead{Conn: near}, &readAhead{Conn: far}) })
			if endsBefore {
				_ = client.Close()
			}
			synctest.Wait()
		}
		end()
		relays.Wait()
		if cut != 1 {
			t.Errorf("%d were cut, want 1", cut)
		}
	})
}

// One client can't use up the relays, and needs no session for that: a handshake of a socket that
// the peer refuses takes one, too.
func TestRelaysAreShared(t *testing.T) {
	m := testMesh(t, "192.0.2.1:8000", echo.LedgerKey(), &phonebook{})
	for range maxRelays {
		m.relayedOf.TryTake("192.0.2.7")
	}
	for client, want := range map[string]int{"192.0.2.7:1": http.StatusServiceUnavailable, "192.0.2.8:1": 0} {
		w := &httptest.ResponseRecorder{}
		r := httptest.NewRequest(http.MethodGet, "/ws", http.NoBody)
		r.RemoteAddr = client
		err := m.forwardSocket(w, r, target{session: "x"}, "127.0.0.1:0")
		if w.Code != want || errors.Is(err, errUnreachable) != (want == 0) {
			t.Errorf("client %s got %d, %v", client, w.Code, err)
		}
	}
}
