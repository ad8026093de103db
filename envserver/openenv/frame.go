package openenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// maxMessage bounds an inbound message, in bytes, as in the official server.
	maxMessage = 16 << 20
	// smallMessage is the size, in bytes, up to which a message isn't budgeted. Every action fits.
	smallMessage = 64 << 10
	// bulkBudget bounds the memory of all larger messages. A session that would exceed it waits.
	bulkBudget = 16 * maxMessage
	// bulkWait bounds the time for receiving a large message.
	bulkWait = time.Minute
)

var errTooLarge = fmt.Errorf("a message is larger than %d bytes", maxMessage)

// buffers are shared by the frames of all sessions.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *bytes.Buffer {
	if buf, ok := b.pool.Get().(*bytes.Buffer); ok {
		return buf
	}
	return new(bytes.Buffer)
}

func (b *buffers) put(buf *bytes.Buffer) {
	if buf.Cap() > smallMessage {
		return
	}
	buf.Reset()
	b.pool.Put(buf)
}

// frame is an inbound message with what it occupies of the server's memory.
type frame struct {
	buf  *bytes.Buffer
	bulk bool
}

// receive reads the next message of the socket.
func (s *socket) receive() (frame, error) {
	_, r, err := s.conn.NextReader()
	if err != nil {
		return frame{}, err
	}
	s.heard()
	f := frame{buf: s.server.buffers.get()}
	s.limited = io.LimitedReader{R: r, N: smallMessage}
	if n, err := f.buf.ReadFrom(&s.limited); err != nil || n < smallMessage {
		return f, err
	}
	return s.receiveBulk(f, r)
}

// receiveBulk reads the rest of a large message within the server's budget and bulkWait.
func (s *socket) receiveBulk(f frame, r io.Reader) (frame, error) {
	if err := s.server.bulk.Acquire(s.session.ctx, maxMessage); err != nil {
		return f, err
	}
	f.bulk = true
	if err := s.conn.SetReadDeadline(time.Now().Add(bulkWait)); err != nil {
		return f, err
	}
	n, err := f.buf.ReadFrom(io.LimitReader(r, maxMessage-smallMessage+1))
	if err != nil {
		return f, err
	}
	if n > maxMessage-smallMessage {
		return f, errTooLarge
	}
	return f, s.conn.SetReadDeadline(time.Time{})
}

// free releases the memory of a frame.
func (s *Server) free(f frame) {
	if f.bulk {
		s.bulk.Release(maxMessage)
	}
	if f.buf != nil {
		s.buffers.put(f.buf)
	}
}

// linger reads until the peer answers the close frame or closeTimeout is over. Closing a socket
// with unread bytes would reset it, and the peer might not receive the close frame.
func linger(conn *websocket.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(closeTimeout))
	for {
		if _, _, err := conn.NextReader(); err != nil {
			return
		}
	}
}

// writeClose sends a close frame and ignores errors.
func writeClose(conn *websocket.Conn, code int, reason string) {
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason),
		time.Now().Add(closeTimeout))
}

// isClosed reports whether the peer closed the WebSocket, rather than lost it.
func isClosed(err error) bool {
	closed, ok := errors.AsType[*websocket.CloseError](err)
	return ok && closed.Code != websocket.CloseAbnormalClosure
}
