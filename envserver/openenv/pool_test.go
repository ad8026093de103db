package openenv

import (
	"context"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/csenv/csenv/envserver/openenv/mesh"
)

// member is a server of a pool.
type member struct {
	*Server
	url, address string
	http         *httptest.Server
	listener     *cuttable
}

// kill ends the server like a crash: its connections are reset, and its port is closed.
func (m *member) kill() { m.listener.cut() }

// cuttable stores the connections that it has accepted.
type cuttable struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *cuttable) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

func (l *cuttable) cut() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// servePool runs servers that are each other's peers.
func servePool(tb testing.TB, configs ...Config) []*member {
	tb.Helper()
	members := make([]*member, len(configs))
	addresses := make([]string, len(configs))
	for i := range configs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		addresses[i] = l.Addr().String()
		members[i] = &member{address: addresses[i], url: "http://" + addresses[i], listener: &cuttable{Listener: l}}
	}
	for i, m := range members {
		if configs[i].Peers == nil {
			configs[i].Peers = &mesh.Config{Lookup: func(context.Context) ([]string, error) { return addresses, nil },
				Self: m.address, Slack: 20}
		}
		m.Server = newTestServer(tb, configs[i])
		m.http = httptest.NewUnstartedServer(m.Handler())
		_ = m.http.Listener.Close()
		m.http.Listener = m.listener
		m.http.Start()
	}
	tb.Cleanup(func() {
		for _, m := range members {
			m.Close()
		}
		for _, m := range members {
			m.http.Close()
		}
	})
	return members
}

// balance serves one address for all members, like a Service: each connection goes to the next
// member.
func balance(tb testing.TB, members []*member) string {
	tb.Helper()
	var turn atomic.Int64
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		target, _ := url.Parse(members[int(turn.Add(1))%len(members)].url)
		r.SetURL(target)
	}, FlushInterval: -1})
	tb.Cleanup(front.Close)
	return front.URL
}

func sessionsIn(members []*member) int {
	sum := 0
	for _, m := range members {
		sum += m.sessions.countActive()
	}
	return sum
}
