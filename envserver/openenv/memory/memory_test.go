package memory

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// post sends a request with a body of the given length, of which only a part is sent, and returns
// the status.
func post(t *testing.T, network *wire.PipeNet, length, sent int) (status int, took time.Duration) {
	t.Helper()
	conn, err := network.Dial(t.Context(), "", "")
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	defer conn.Close()
	began := time.Now()
	_, _ = io.WriteString(conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length,
		strings.Repeat("x", sent)))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	defer response.Body.Close()
	return response.StatusCode, time.Since(began)
}

func TestBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewMedium()
		network := wire.NewPipeNet()
		server := &http.Server{ReadHeaderTimeout: time.Minute,
			Handler: LimitBodies(budget, func(*http.Request) string { return "client" },
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, strings.Repeat("x", len(protocol.BodyOf(r))))
				}))}
		go func() { _ = server.Serve(network) }()
		defer func() {
			_ = server.Close()
			<-time.After(time.Second) // the connections linger
		}()
		for _, c := range []struct {
			length, sent, status int
			took                 time.Duration
		}{
			{0, 0, 200, 0}, {Small - 1, Small - 1, 200, 0}, {Small, Small, 200, 0},
			{protocol.MaxBody, protocol.MaxBody, 200, 0},
			{protocol.MaxBody + 1, 0, 413, 0}, // refused before it is sent
			{10, 5, 408, bodyTime}, {protocol.MaxBody, Small + 1, 408, bodyTime},
		} {
			if status, took := post(t, network, c.length, c.sent); status != c.status || took != c.took {
				t.Errorf("%d of %d bytes: %d after %v, want %d after %v", c.sent, c.length, status, took, c.status, c.took)
			}
		}
		began := time.Now()
		stalled := make(chan int, 4*mediumParts)
		for range cap(stalled) {
			go func() {
				status, _ := post(t, network, protocol.MaxBody, Small+mediumPart-1)
				stalled <- status
			}()
		}
		<-time.After(time.Second)
		if status, took := post(t, network, protocol.MaxBody, protocol.MaxBody); status != 200 || took > time.Second {
			t.Errorf("a body that arrives at once, while others stall: %d after %v", status, took)
		}
		got := map[int]int{}
		for range cap(stalled) {
			got[<-stalled]++
		}
		if got[408] != cap(stalled) || time.Since(began) > 2*bodyTime || budget.Users() != 0 {
			t.Errorf("stalled bodies were answered with %v, and %d clients hold memory", got, budget.Users())
		}
	})
}
