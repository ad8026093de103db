package memory

import (
	"bufio"
	"context"
	"errors"
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

// A client that takes as much as it can leaves half of the budget to others, who don't wait for it.
func TestBudgetIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(4)
		take := func(name string) func() {
			t.Helper()
			release, err := b.Take(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return release
		}
		first, second := take("greedy"), take("greedy")
		waiting, cancel := context.WithCancel(t.Context())
		refused := make(chan error, 8)
		for range cap(refused) {
			go func() {
				_, err := b.Take(waiting, "greedy")
				refused <- err
			}()
		}
		synctest.Wait()
		third, fourth := take("other"), take("a third one")
		cancel()
		for range cap(refused) {
			if err := <-refused; !errors.Is(err, context.Canceled) {
				t.Errorf("above its share the client got %v", err)
			}
		}
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if _, err := b.Take(short, "late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("above the whole budget: %v", err)
		}
		for _, release := range []func(){first, second, third, fourth} {
			release()
			release() // counts once
		}
		if b.Users() != 0 || !b.whole.TryAcquire(4) {
			t.Errorf("not everything was returned: %d users", b.Users())
		}
	})
}

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
		stalled := make(chan int, mediumParts)
		for range cap(stalled) {
			go func() {
				status, _ := post(t, network, protocol.MaxBody, Small+1)
				stalled <- status
			}()
		}
		got := map[int]int{}
		for range cap(stalled) {
			got[<-stalled]++
		}
		if got[408] != mediumParts/2 || got[503] != mediumParts/2 || budget.Users() != 0 {
			t.Errorf("stalled bodies were answered with %v, and %d clients hold memory", got, budget.Users())
		}
	})
}
