package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	coder "github.com/coder/websocket"
	"github.com/gorilla/websocket"
	"github.com/lxzan/gws"
)

// Every server answers each message with the same kilobyte, from a goroutine that no longer belongs
// to net/http.
func servers(tb testing.TB) map[string]http.Handler {
	reply, err := json.Marshal(sampleObservation())
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]http.Handler{
		"coder":           coderServer(reply),
		"gorilla":         gorillaServer(reply, false, serveInline),
		"gorilla-deflate": gorillaServer(reply, true, serveInline),
		"gorilla-worker":  gorillaServer(reply, false, serveByWorker),
		"gws":             gwsServer(reply),
	}
}

func coderServer(reply []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := coder.Accept(w, r, &coder.AcceptOptions{InsecureSkipVerify: true,
			CompressionMode: coder.CompressionDisabled})
		if err != nil {
			return
		}
		go func() {
			defer c.CloseNow()
			for ctx := context.Background(); ; {
				if _, _, err := c.Read(ctx); err != nil {
					return
				}
				if err := c.Write(ctx, coder.MessageText, reply); err != nil {
					return
				}
			}
		}()
	}
}

// gorillaServer compresses if compress is set and the client offers it (permessage-deflate without
// context takeover).
func gorillaServer(reply []byte, compress bool, serve func(*websocket.Conn, []byte)) http.HandlerFunc {
	up := websocket.Upgrader{
		CheckOrigin: func(*http.Request) bool { return true }, ReadBufferSize: 1024, WriteBufferSize: 4096,
		WriteBufferPool: &sync.Pool{}, EnableCompression: compress,
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if c, err := up.Upgrade(w, r, nil); err == nil {
			go serve(c, reply)
		}
	}
}

func serveInline(c *websocket.Conn, reply []byte) {
	defer c.Close()
	for {
		if _, _, err := c.ReadMessage(); err != nil {
			return
		}
		if err := c.WriteMessage(websocket.TextMessage, reply); err != nil {
			return
		}
	}
}

// serveByWorker reads in one goroutine, which also answers pings. A second goroutine answers the
// messages in order, and ends when none is waiting.
func serveByWorker(c *websocket.Conn, reply []byte) {
	defer c.Close()
	var mu sync.Mutex
	var queue [][]byte
	working := false
	work := func() {
		for {
			mu.Lock()
			if len(queue) == 0 {
				working = false
				mu.Unlock()
				return
			}
			queue = queue[:len(queue)-1]
			mu.Unlock()
			if err := c.WriteMessage(websocket.TextMessage, reply); err != nil {
				return
			}
		}
	}
	for {
		_, msg, err := c.ReadMessage()
		if err != nil {
			return
		}
		mu.Lock()
		queue = append(queue, msg)
		start := !working
		working = true
		mu.Unlock()
		if start {
			go work()
		}
	}
}

type gwsHandler struct {
	gws.BuiltinEventHandler
	reply []byte
}

func (h *gwsHandler) OnMessage(c *gws.Conn, m *gws.Message) {
	defer m.Close()
	_ = c.WriteMessage(gws.OpcodeText, h.reply)
}

func gwsServer(reply []byte) http.HandlerFunc {
	up := gws.NewUpgrader(&gwsHandler{reply: reply}, &gws.ServerOption{ReadBufferSize: 1024})
	return func(w http.ResponseWriter, r *http.Request) {
		if c, err := up.Upgrade(w, r); err == nil {
			go c.ReadLoop()
		}
	}
}

func dial(tb testing.TB, server *httptest.Server) *websocket.Conn {
	dialer := websocket.Dialer{EnableCompression: true}
	c, _, err := dialer.Dial("ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func BenchmarkWebSocketRoundTrip(b *testing.B) {
	for _, sessions := range []int{1, 100} {
		for name, handler := range servers(b) {
			b.Run(fmt.Sprintf("sessions=%d/%s", sessions, name),
				func(b *testing.B) { roundTrips(b, handler, sessions) })
		}
	}
}

func roundTrips(b *testing.B, handler http.Handler, sessions int) {
	server := httptest.NewServer(handler)
	defer server.Close()
	conns := make([]*websocket.Conn, sessions)
	for i := range conns {
		conns[i] = dial(b, server)
		defer conns[i].Close()
	}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, c := range conns {
		n := b.N / sessions
		if i < b.N%sessions {
			n++
		}
		wg.Go(func() {
			for range n {
				if err := c.WriteMessage(websocket.TextMessage, []byte(stepFrame)); err != nil {
					b.Error(err)
					return
				}
				if _, _, err := c.ReadMessage(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkWebSocketIdle reports the memory of an idle connection after one message: heap and
// stacks, of the server and the client. The client's share is the same for every server.
func BenchmarkWebSocketIdle(b *testing.B) {
	for name, handler := range servers(b) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(bytesPerConnection(b, handler, 500), "B/conn")
			}
		})
	}
}

func bytesPerConnection(b *testing.B, handler http.Handler, sessions int) float64 {
	server := httptest.NewServer(handler)
	defer server.Close()
	before := memoryInUse()
	conns := make([]*websocket.Conn, sessions)
	for i := range conns {
		conns[i] = dial(b, server)
		defer conns[i].Close()
		if err := conns[i].WriteMessage(websocket.TextMessage, []byte(stepFrame)); err != nil {
			b.Fatal(err)
		}
		if _, _, err := conns[i].ReadMessage(); err != nil {
			b.Fatal(err)
		}
	}
	return float64(memoryInUse()-before) / float64(sessions)
}

func memoryInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
