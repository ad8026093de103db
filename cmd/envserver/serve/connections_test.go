package serve

import (
	"io"
	"log/slog"
	"net"
	"net/http"
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
	server := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-leave
		}
		_, _ = io.WriteString(w, "ok")
	}), 0, limit, slog.New(slog.DiscardHandler))
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	url := "http://" + listener.Addr().String()
	slow := make(chan string, 1)
	go func() {
		_, body := get(t, url+"/slow")
		slow <- body
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
	if _, body := get(t, url); body != "ok" {
		t.Errorf("a new client got %q", body)
	}
	for i, conn := range silent[:2*limit] {
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second)) // half of the header's time
		if _, err := conn.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("connection %d of %d is still open: %v", i, len(silent), err)
		}
	}
	close(leave)
	if body := <-slow; body != "ok" {
		t.Errorf("the request that was being answered got %q", body)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	r := start(t, func(*options) {})
	for size, want := range map[int]int{8 << 10: 200, 32 << 10: 431} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.protocol+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X", strings.Repeat("x", size))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("a header of %d bytes: %d, want %d", size, response.StatusCode, want)
		}
	}
}
