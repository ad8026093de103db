package openenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// What ended a session, as the metrics name it.
const (
	endClosed      = "closed"
	endLost        = "lost"
	endIdle        = "idle"
	endMaxDuration = "max_duration"
	endDead        = "dead_peer"
	endTooLarge    = "too_large"
	endDrained     = "drained"
	endFactory     = "factory_error"
)

// A client that doesn't wait for answers may have so many messages, and so many bytes beyond the first message, waiting in the server. After that the
// server stops reading from it.
const (
	maxQueued      = 32
	maxQueuedBytes = smallMessage
)

// session is one connection that has a slot.
type session struct {
	server *Server
	conn   *websocket.Conn
	player *player
	ctx    context.Context
	cancel context.CancelFunc
	opened time.Time
	// lastActive is the Unix nanosecond of the last reset or step, lastHeard of the last frame of any kind.
	lastActive atomic.Int64
	lastHeard  atomic.Int64
	// lastPing belongs to the sweep.
	lastPing time.Time

	mu      sync.Mutex
	room    sync.Cond
	queue   []frame
	queued  int
	working bool
	ended   bool
}

// connect runs a connection from the handshake to the end of its socket.
func (s *Server) connect(conn *websocket.Conn, sessionID string) {
	defer conn.Close()
	if sessionID != "" {
		s.metrics.sessionsEnded.WithLabelValues("refused_unknown").Inc()
		s.refuse(conn, wireError{Code: codeSession, Message: fmt.Sprintf("no session %.64q to attach to: connect without session_id", sessionID)})
		return
	}
	ss := s.newSession(conn)
	defer ss.cancel()
	if err := s.sessions.admit(ss); err != nil {
		s.metrics.sessionsEnded.WithLabelValues(refusalResult(err)).Inc()
		s.refuse(conn, s.capacityError(err))
		return
	}
	player, err := s.newPlayer()
	if err != nil {
		ss.end(endFactory)
		s.refuse(conn, wireError{Code: codeFactory, Message: err.Error(), FactoryName: s.kind.Name()})
		return
	}
	ss.player = player
	ss.read()
	linger(conn)
}

func (s *Server) newSession(conn *websocket.Conn) *session {
	ss := &session{server: s, conn: conn, opened: time.Now()}
	ss.room.L = &ss.mu
	ss.lastPing = ss.opened
	ss.lastActive.Store(ss.opened.UnixNano())
	ss.lastHeard.Store(ss.opened.UnixNano())
	ss.ctx, ss.cancel = context.WithCancel(s.ctx)
	conn.SetPingHandler(ss.pong)
	conn.SetPongHandler(func(string) error { ss.heard(); return nil })
	conn.SetCloseHandler(ss.closedByPeer)
	return ss
}

func refusalResult(err error) string {
	if errors.Is(err, errDraining) {
		return "refused_draining"
	}
	return "refused_full"
}

// refuse answers the client's first message with the error and closes. The error goes out at once, and the socket stays open until that message or
// for refusalHold.
func (s *Server) refuse(conn *websocket.Conn, e wireError) {
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	if !s.refusals.TryAcquire(1) {
		sayGoodbye(conn, websocket.CloseTryAgainLater, "too many refused connections")
		return
	}
	defer s.refusals.Release(1)
	var out bytes.Buffer
	writeError(&out, e)
	_ = conn.SetWriteDeadline(time.Now().Add(closeWait))
	if conn.WriteMessage(websocket.TextMessage, out.Bytes()) != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(refusalHold))
	if _, _, err := conn.NextReader(); isClosed(err) {
		return
	}
	sayGoodbye(conn, websocket.CloseNormalClosure, "")
	linger(conn)
}

// read takes in messages until the connection or the session ends.
func (s *session) read() {
	for {
		f, err := s.receive()
		if err != nil {
			s.server.free(f)
			s.failed(err)
			return
		}
		if !s.submit(f) {
			s.server.free(f)
			return
		}
	}
}

// failed ends the session for an error of reading.
func (s *session) failed(err error) {
	switch {
	case errors.Is(err, errTooLarge):
		s.close(endTooLarge, websocket.CloseMessageTooBig, err.Error())
	case isClosed(err):
		s.end(endClosed)
	default:
		s.end(endLost)
	}
}

// submit queues a message for the worker and starts one if there is none. It waits while the queue is full, and reports false when the session has ended.
func (s *session) submit(f frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended && (len(s.queue) >= maxQueued || (len(s.queue) > 0 && s.queued+f.buf.Len() > maxQueuedBytes)) {
		s.room.Wait()
	}
	if s.ended {
		return false
	}
	s.queue = append(s.queue, f)
	s.queued += f.buf.Len()
	if !s.working {
		s.working = true
		go s.work()
	}
	return true
}

// work answers queued messages in order until there are none.
func (s *session) work() {
	for {
		f, ok := s.next()
		if !ok {
			return
		}
		s.answer(f)
	}
}

// next takes a message from the queue, or retires the worker.
func (s *session) next() (frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		s.drop()
	}
	if len(s.queue) == 0 {
		s.working = false
		return frame{}, false
	}
	f := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1) // keeps the array, which is of one place for a client that waits for its answers
	s.queued -= f.buf.Len()
	s.room.Signal()
	return f, true
}

// drop forgets the queue of an ended session.
func (s *session) drop() {
	for _, f := range s.queue {
		s.server.free(f)
	}
	s.queue, s.queued = nil, 0
}

// answer plays one message and sends its one reply.
func (s *session) answer(f frame) {
	out := s.server.buffers.get()
	defer s.server.buffers.put(out)
	closing := s.respond(out, f.buf.Bytes())
	s.server.free(f)
	if closing {
		s.close(endClosed, websocket.CloseNormalClosure, "")
		return
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeWait))
	if err := s.conn.WriteMessage(websocket.TextMessage, out.Bytes()); err != nil {
		if s.end(endLost) {
			_ = s.conn.Close()
		}
	}
}

// respond writes the reply to a message, and reports whether the message was a close. A panic becomes an EXECUTION_ERROR and costs the session its
// episode, whose state can't be trusted any more.
func (s *session) respond(out *bytes.Buffer, raw []byte) (closing bool) {
	defer func() {
		if cause := recover(); cause != nil {
			s.server.log.Error("A session panicked", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			out.Reset()
			writeError(out, s.player.abandon())
		}
	}()
	m, fault := decodeMessage(raw)
	if fault != nil {
		writeError(out, *fault)
		return false
	}
	switch m.kind {
	case closeMessage:
		return true
	case stateMessage:
		s.player.writeState(out)
	case resetMessage:
		s.active()
		s.player.reset(m.data).write(out)
	case stepMessage:
		s.active()
		s.player.step(s.ctx, m.data).write(out)
		s.active()
	}
	return false
}

// active notes that the client plays.
func (s *session) active() { s.lastActive.Store(time.Now().UnixNano()) }

// heard notes that the peer lives.
func (s *session) heard() { s.lastHeard.Store(time.Now().UnixNano()) }

func (s *session) pong(payload string) error {
	s.heard()
	// Not being able to answer is no reason to stop reading: if the peer is lost, reading will tell.
	_ = s.conn.WriteControl(websocket.PongMessage, []byte(payload), time.Now().Add(closeWait))
	return nil
}

// closedByPeer answers a close frame, after the slot is free again.
func (s *session) closedByPeer(code int, _ string) error {
	s.end(endClosed)
	if code == websocket.CloseNoStatusReceived {
		code = websocket.CloseNormalClosure
	}
	sayGoodbye(s.conn, code, "")
	return nil
}

// end frees the slot and stops what the session runs. It reports false if the session had ended before.
func (s *session) end(result string) bool {
	if !s.server.sessions.release(s) {
		return false
	}
	s.mu.Lock()
	s.ended = true
	if !s.working {
		s.drop()
	}
	s.room.Broadcast()
	s.mu.Unlock()
	s.cancel()
	s.server.metrics.sessionsEnded.WithLabelValues(result).Inc()
	s.server.log.Debug("A session ended", "result", result, "lasted", time.Since(s.opened).String())
	return true
}

// close ends the session and closes its socket with a reason. The goroutine that reads closes the connection when the peer has answered.
func (s *session) close(result string, code int, reason string) {
	if !s.end(result) {
		return
	}
	sayGoodbye(s.conn, code, reason)
	_ = s.conn.SetReadDeadline(time.Now().Add(closeWait))
}

// check applies the session's timeouts, and pings it. It never waits for the peer.
func (s *session) check(now time.Time) {
	server := s.server
	since := func(stamp *atomic.Int64) time.Duration { return now.Sub(time.Unix(0, stamp.Load())) }
	switch {
	case server.maxDuration > 0 && now.Sub(s.opened) >= server.maxDuration:
		server.spawn(func() {
			s.close(endMaxDuration, websocket.CloseGoingAway, fmt.Sprintf("the session has lasted %v, the most this server allows", server.maxDuration))
		})
	case server.idleTimeout > 0 && since(&s.lastActive) >= server.idleTimeout && !s.busy():
		server.spawn(func() {
			s.close(endIdle, websocket.CloseGoingAway, fmt.Sprintf("the session has been idle for %v", server.idleTimeout))
		})
	case since(&s.lastHeard) >= deadPeerAfter:
		s.end(endDead)
		_ = s.conn.Close()
	case now.Sub(s.lastPing) >= pingInterval:
		s.lastPing = now
		server.spawn(s.ping)
	}
}

// busy reports whether a message is being answered.
func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working
}

func (s *session) ping() {
	_ = s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(closeWait))
}
