package wire

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"
)

// PipeNet is a network of net.Pipe connections, which testing/synctest supports.
type PipeNet struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewPipeNet makes a network without connections.
func NewPipeNet() *PipeNet { return &PipeNet{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept implements net.Listener.
func (p *PipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *PipeNet) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *PipeNet) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// Dial connects to the listener. It takes the arguments of net.Dialer.DialContext.
func (p *PipeNet) Dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- newBufferedPipe(far):
		return newBufferedPipe(near), nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// bufferedPipe is an end of a pipe whose writes don't wait for the reader, like writes to a socket
// with a buffer.
type bufferedPipe struct {
	net.Conn
	out    chan []byte
	closed chan struct{}
	once   sync.Once
}

func newBufferedPipe(c net.Conn) *bufferedPipe {
	r := &bufferedPipe{Conn: c, out: make(chan []byte, 1024), closed: make(chan struct{})}
	go r.pump()
	return r
}

func (r *bufferedPipe) Write(b []byte) (int, error) {
	select {
	case <-r.closed:
		return 0, net.ErrClosed
	case r.out <- bytes.Clone(b):
		return len(b), nil
	}
}

func (r *bufferedPipe) pump() {
	defer r.Conn.Close()
	for {
		select {
		case b := <-r.out:
			if _, err := r.Conn.Write(b); err != nil {
				return
			}
		case <-r.closed:
			if len(r.out) == 0 {
				return
			}
		}
	}
}

// Close allows a second for sending written data.
func (r *bufferedPipe) Close() error {
	r.once.Do(func() {
		_ = r.SetReadDeadline(time.Unix(1, 0))
		_ = r.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		close(r.closed)
	})
	return nil
}

func (r *bufferedPipe) SetWriteDeadline(time.Time) error { return nil }

func (r *bufferedPipe) SetDeadline(t time.Time) error { return r.SetReadDeadline(t) }
