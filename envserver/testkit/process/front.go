package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Front imitates a Kubernetes Service: it forwards connections without reading the traffic. Close
// stops the listening; open connections end with their server or the context.
type Front struct {
	net.Listener
	running sync.WaitGroup
}

// NewFront opens a port, each of whose connections is forwarded to the address that choose returns.
func NewFront(ctx context.Context, choose func() string) (*Front, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the front's port: %w", err)
	}
	f := &Front{Listener: listener}
	f.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			target := choose()
			f.running.Go(func() { forwardConnection(ctx, client, target) })
		}
	})
	return f, nil
}

// Address is HOST:PORT of the front.
func (f *Front) Address() string { return f.Addr().String() }

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
