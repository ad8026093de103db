package openenv

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/openenv/memory"
)

const (
	// mediumTime and largeTime bound the receiving of messages above memory.Small and above
	// memory.Medium.
	mediumTime = 20 * time.Second
	largeTime  = time.Minute
)

var errTooLarge = fmt.Errorf("a message is larger than %d bytes", memory.Large)

// buffers are shared by the frames of all sessions.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *bytes.Buffer {
	if buf, ok := b.pool.Get().(*bytes.Buffer); ok {
		return buf
	}
	return new(bytes.Buffer)
}

func (b *buffers) put(buf *bytes.Buffer) {
	if buf.Cap() > memory.Small {
		return
	}
	buf.Reset()
	b.pool.Put(buf)
}

// frame is an inbound message with what it occupies of the server's memory.
type frame struct {
	buf *bytes.Buffer
	// parts return what the message occupies of the budgets.
	parts []func()
}

// receiveFrame reads the next message of the socket.
func (s *socket) receiveFrame() (frame, error) {
	_, r, err := s.conn.NextReader()
	if err != nil {
		return frame{}, err
	}
	s.recordFrame()
	f := frame{buf: s.server.buffers.get()}
	s.limited = io.LimitedReader{R: r, N: memory.Small}
	if n, err := f.buf.ReadFrom(&s.limited); err != nil || n < memory.Small {
		return f, err
	}
	err = s.receiveMore(&f, r, s.server.medium, memory.Medium, mediumTime)
	if err == nil && f.buf.Len() == memory.Medium {
		f.buf.Grow(memory.Large - memory.Medium + 2*bytes.MinRead)
		err = s.receiveMore(&f, r, s.server.large, memory.Large+1, largeTime)
	}
	if err == nil && f.buf.Len() > memory.Large {
		err = errTooLarge
	}
	return f, err
}

// receiveMore reads a message on up to the size, within the budget and the time.
func (s *socket) receiveMore(f *frame, r io.Reader, budget *fairness.Budget, size int, within time.Duration) error {
	if err := s.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	release, err := budget.Read(s.session.ctx, s.session.client, f.buf, r, size-f.buf.Len(), within,
		func() { _ = s.conn.SetReadDeadline(time.Now()) })
	f.parts = append(f.parts, release)
	if err != nil {
		return err
	}
	return s.conn.SetReadDeadline(time.Time{})
}

// freeFrame releases the memory of a frame.
func (s *Server) freeFrame(f frame) {
	for _, release := range f.parts {
		release()
	}
	if f.buf != nil {
		s.buffers.put(f.buf)
	}
}
