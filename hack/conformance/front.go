package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// front imitates a Kubernetes Service: it forwards each connection to the next of several servers,
// without reading the traffic.
type front struct {
	listener net.Listener
	targets  []string
	running  sync.WaitGroup
}

func newFront(ctx context.Context, targets ...string) (*front, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the front's port: %w", err)
	}
	f := &front{listener: listener, targets: targets}
	f.running.Go(func() { f.serve(ctx) })
	return f, nil
}

func (f *front) address() string { return f.listener.Addr().String() }

// serve forwards connections until the front is closed.
func (f *front) serve(ctx context.Context) {
	for turn := 0; ; turn++ {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		target := f.targets[turn%len(f.targets)]
		f.running.Go(func() { forwardConnection(ctx, client, target) })
	}
}

// forwardConnection copies in both directions until both have ended. The end of one direction
// leaves the other open, as in a Service.
func forwardConnection(ctx context.Context, client net.Conn, target string) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _ = errors.Join(client.Close(), server.Close()) })()
	var answers sync.WaitGroup
	answers.Go(func() { copyUntilEnd(client, server) })
	copyUntilEnd(server, client)
	answers.Wait()
}

func copyUntilEnd(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// close stops the listener. Open connections end with the servers or the context.
func (f *front) close() error { return f.listener.Close() }
