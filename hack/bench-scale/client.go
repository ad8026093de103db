package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/csenv/csenv/envserver/load"
)

// clientCommand makes this program a client, which takes orders on its standard input and reports
// on its standard output.
const clientCommand = "client"

// reporter writes reports.
type reporter struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (r *reporter) send(line report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A parent that is gone also closes the standard input.
	if err := r.out.Encode(line); err != nil {
		fmt.Fprintln(os.Stderr, "reporting:", err)
	}
}

func serveOrders(ctx context.Context, in io.Reader, out io.Writer) error {
	orders := json.NewDecoder(in)
	var first order
	if err := orders.Decode(&first); err != nil {
		return fmt.Errorf("reading the first order: %w", err)
	}
	later := make(chan order)
	go func() {
		defer close(later)
		for {
			var o order
			if orders.Decode(&o) != nil {
				return
			}
			later <- o
		}
	}()
	to := &reporter{out: json.NewEncoder(out)}
	if first.Kind == kindPlay {
		return playEpisodes(ctx, first, later, to)
	}
	return runLoad(ctx, first, later, to)
}

// episodeMessages are the messages of an episode after the reset's seed is known.
var (
	search          = json.RawMessage(`{"action_type":"search_knowledge_base","query":"refund"}`)
	classify        = json.RawMessage(`{"action_type":"classify","category":"billing","priority":"medium"}`)
	episodeMessages = []json.RawMessage{nil, search, classify}
)

// runLoad puts the load of package load on one server. It waits for an order before the steps and
// before it closes the sessions.
func runLoad(ctx context.Context, o order, later <-chan order, to *reporter) error {
	await := func(ctx context.Context, r report) error {
		to.send(r)
		select {
		case <-later:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	// The parent keeps the last report, so none of the connecting may follow that of all sessions.
	var mu sync.Mutex
	opened := false
	result, err := load.Run(ctx, load.Config{
		URL: o.Servers[0], Sessions: o.Sessions, Duration: o.Duration, Seed: o.Seed, Dialing: o.Dialing,
		Reset: json.RawMessage(`{"task":"ticket-classify"}`), Actions: []json.RawMessage{search, classify},
		Connect: newDialer(o.Source),
		Opened: func(ctx context.Context) error {
			mu.Lock()
			opened = true
			mu.Unlock()
			return await(ctx, report{Opened: true})
		},
		Stepped: func(ctx context.Context) error { return await(ctx, report{Opened: true, Stepped: true}) },
		Progress: func(p load.Progress) {
			mu.Lock()
			defer mu.Unlock()
			if !opened {
				to.send(report{Open: p.Sessions, Failed: p.Failed})
			}
		},
	})
	if err != nil {
		return err
	}
	failed := 0
	for _, n := range result.Failures {
		failed += n
	}
	to.send(report{Opened: true, Stepped: true, Done: true, Open: result.Sessions, Failed: failed, Steps: result.Steps,
		Rate: result.StepsPerSecond(), StepP99: result.Step.P99, Causes: result.Failures})
	return nil
}

// bindLate is IP_BIND_ADDRESS_NO_PORT: the kernel chooses the port when the connection's
// destination is known, so that the ports of an address are counted by destination.
const bindLate = 24

// newDialer returns a function that connects from an address.
func newDialer(source string) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)},
		Control: func(_, _ string, c syscall.RawConn) error {
			var failed error
			err := c.Control(func(fd uintptr) {
				failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, bindLate, 1)
			})
			if err != nil {
				return err
			}
			return failed
		}}
	return d.DialContext
}
