package fairness

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// New connections replace those without a complete header, the oldest first. Connections whose
// request is being answered stay.
func TestWaitingConnectionsAreReplaced(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	const limit = 4
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-leave
		}
		_, _ = io.WriteString(w, "ok")
	})}
	BoundConnections(server, limit)
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	url := "http://" + listener.Addr().String()
	slow := make(chan string, 1)
	go func() {
		slow <- get(t, url+"/slow")
	}()
	<-entered
	silent := make([]net.Conn, 0, 3*limit)
	for range cap(silent) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nX: ")
		silent = append(silent, conn)
	}
	if body := get(t, url); body != "ok" {
		t.Errorf("a new client got %q", body)
	}
	for i, conn := range silent[:2*limit] {
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second)) // much less than the header's time
		if _, err := conn.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("connection %d of %d is still open: %v", i, len(silent), err)
		}
	}
	close(leave)
	if body := <-slow; body != "ok" {
		t.Errorf("the request that was being answered got %q", body)
	}
}

func get(t *testing.T, url string) string {
	response, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1} }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

// port is a bounded port in a test.
type port struct{ *connections }

func newPort(limit int) port {
	return port{&connections{limit: limit, known: map[net.Conn]*connection{}, clients: map[string]*clientConnections{}}}
}

// open opens connections and brings each into a state: "new", "body" (incomplete), "idle" (between
// two requests) or "answering".
func (p port) open(number int, from, state string) []*fakeConn {
	conns := make([]*fakeConn, number)
	for i := range conns {
		conns[i] = &fakeConn{from: from}
		p.changed(conns[i], http.StateNew)
		if state != "new" {
			p.changed(conns[i], http.StateActive)
		}
		switch state {
		case "body":
			p.moveTo(unfinished, conns[i])
		case "idle":
			p.changed(conns[i], http.StateIdle)
		}
	}
	return conns
}

func closed(conns []*fakeConn) (n int) {
	for _, c := range conns {
		if c.closed {
			n++
		}
	}
	return n
}

// Whatever the attackers' connections do, those of others stay, and there is room for more.
func TestConnectionsOfOthersStay(t *testing.T) {
	const limit = 1000
	for _, state := range []string{"new", "body", "idle", "answering"} {
		for _, attackers := range []int{1, 8} {
			for _, trainer := range []string{"idle", "answering"} {
				t.Run(fmt.Sprint(attackers, " with ", state, ", others ", trainer), func(t *testing.T) {
					p := newPort(limit)
					others := p.open(limit/10, "192.0.2.1", trainer)
					browser := p.open(fewWaiting, "192.0.2.2", "idle")
					for i := range attackers {
						p.open(2*limit/attackers, fmt.Sprintf("198.51.100.%d", i), state)
					}
					late := p.open(50, "192.0.2.3", "answering")
					if state == "answering" && trainer == "idle" { // what is idle goes before what is answered
						others = others[len(others)-fewWaiting:]
					}
					if a, b, c := closed(others), closed(browser), closed(late); a+b+c > 0 {
						t.Errorf("closed %d connections of a trainer, %d of a browser, %d late ones", a, b, c)
					}
					if len(p.known) != limit {
						t.Errorf("%d connections, want %d", len(p.known), limit)
					}
				})
			}
		}
	}
}

// Behind one address, an unfinished body is closed before a connection between two requests, and
// the one that has been awaited longest is the first.
func TestUnfinishedBodiesAreClosedFirst(t *testing.T) {
	p := newPort(60)
	kept := p.open(30, "192.0.2.1", "idle")
	bodies := p.open(30, "192.0.2.1", "body")
	late := p.open(10, "192.0.2.1", "answering")
	if closed(kept)+closed(late) > 0 || closed(bodies) != 10 || closed(bodies[:10]) != 10 {
		t.Errorf("closed %d idle connections, %d late ones, and %d bodies", closed(kept), closed(late), closed(bodies))
	}
	for _, c := range append(append(kept, bodies...), late...) {
		p.changed(c, http.StateClosed)
	}
	if len(p.known)+len(p.clients) != 0 {
		t.Errorf("%d connections of %d clients stay counted", len(p.known), len(p.clients))
	}
}

// A request whose body is incomplete is replaced, and one that is complete is answered.
func TestRequestsWithoutTheirBodyAreReplaced(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })}
	const limit = 4
	BoundConnections(server, limit)
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	var first net.Conn
	for i := range 3 * limit {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
		if i == 0 {
			first = conn
		}
	}
	response, err := http.Post("http://"+listener.Addr().String(), "text/plain", strings.NewReader("complete"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "complete" {
		t.Errorf("a complete request got %q, %v", body, err)
	}
	_ = first.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := first.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the first incomplete request is still open: %v", err)
	}
}

// deadlines records the deadlines of a request's reading.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// The time of reading ends with the request, so that an answer, such as a stream, may take longer.
func TestTheTimeOfReadingEndsWithTheRequest(t *testing.T) {
	for body, want := range map[string][2]int{"": {1, 1}, "body": {0, 1}} {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got := w.(*deadlines)
			if len(got.set) != want[0] {
				t.Errorf("%q: %d deadlines before it is read, want %d", body, len(got.set), want[0])
			}
			if _, err := io.ReadAll(r.Body); err != nil {
				t.Error(err)
			}
			if len(got.set) != want[1] || !got.set[0].IsZero() {
				t.Errorf("%q: the deadlines %v after it is read", body, got.set)
			}
		})}
		BoundConnections(server, 1)
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		server.Handler.ServeHTTP(&deadlines{ResponseWriter: httptest.NewRecorder()}, request)
	}
}

// A client that waits for 100 Continue is answered without its body.
func TestAnExpectedBodyIsNotAwaited(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	server.Config.ReadTimeout = time.Hour
	BoundConnections(server.Config, 1)
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
	answer := make([]byte, len("HTTP/1.1 401"))
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 401" {
		t.Errorf("%q, %v", answer, err)
	}
}
