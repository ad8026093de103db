package openenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Connect returns a dialler of connections to the server within its process, for a client's
// Options.Connect. No other program can use them, and they need no port. Visitor is the address of
// whom they are opened for, which counts as the client's.
func (s *Server) Connect(visitor string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return s.memory().connect(ctx, visitor) }
}

// memoryListener accepts connections within the process until ended is closed.
type memoryListener struct {
	conns chan net.Conn
	ended <-chan struct{}
}

// Accept waits for a connection.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the listener ends with its server.
func (l *memoryListener) Close() error { return nil }

// Addr is the address of both ends.
func (l *memoryListener) Addr() net.Addr { return memoryAddr("memory") }

// listenMemory serves the handler within the process until the server is closed.
func (s *Server) listenMemory() *memoryListener {
	l := &memoryListener{conns: make(chan net.Conn), ended: s.ctx.Done()}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: refusalTimeout}
	s.spawn(func() {
		_ = server.Serve(l) // it ends with the server
		_ = server.Close()
	})
	return l
}

func (l *memoryListener) connect(ctx context.Context, visitor string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- memoryConn{far, memoryAddr(visitor)}:
		return near, nil
	case <-l.ended:
		return nil, fmt.Errorf("connecting to this server: %w", net.ErrClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(refusalTimeout):
		return nil, errors.New("this server doesn't accept the connection")
	}
}

// memoryConn is a connection from a visitor's address.
type memoryConn struct {
	net.Conn
	visitor memoryAddr
}

// RemoteAddr is the visitor's address.
func (c memoryConn) RemoteAddr() net.Addr { return c.visitor }

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }
