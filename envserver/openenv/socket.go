package openenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/openenv/memory"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/openenv/slots"
	"github.com/gorilla/websocket"
)

// The server stops reading from a client that has this many messages, or this many bytes beyond the
// first message, queued.
const (
	maxQueued      = 32
	maxQueuedBytes = memory.Small
)

// closeTimeout bounds the closing handshake and the writing of a control frame; writeTimeout bounds
// the writing of a reply.
const (
	closeTimeout = 5 * time.Second
	writeTimeout = 2 * time.Minute
)

// reliefAfter is how long an answer may take before another goroutine continues reading.
const reliefAfter = 20 * time.Millisecond

// dialect is the protocol of a socket.
type dialect interface {
	// respond writes the reply to a message. It reports whether the message was a close, which has
	// no reply.
	respond(ctx context.Context, s *session, out *bytes.Buffer, raw []byte) (closing bool)
	// refuse writes an error message.
	refuse(out *bytes.Buffer, e protocol.Error)
}

// socket is one WebSocket connection with the session that it plays.
//
// One goroutine reads a message, answers it and reads the next, because passing each message to
// another goroutine would cost more than most steps. A slow step must not delay pongs and the
// detection of a lost connection: after reliefAfter a new goroutine continues reading, and the old
// one answers until the queue is empty.
type socket struct {
	server  *Server
	session *session
	dialect dialect
	conn    *websocket.Conn
	// lastHeard is the Unix nanosecond of the last frame of any kind.
	lastHeard atomic.Int64
	// lastPing belongs to the sweep.
	lastPing time.Time
	// limited belongs to the goroutine that reads.
	limited io.LimitedReader

	mu      sync.Mutex
	room    sync.Cond
	queue   []frame
	queued  int
	working bool
	// relieved is true while one goroutine answers and another one reads.
	relieved bool
	relief   *time.Timer
	ended    bool
	// writing is the Unix nanosecond at which an answer began to be written, 0 while none is.
	writing atomic.Int64
}

// call is the request of a handshake.
type call struct {
	dialect dialect
	// sessionID is the session to attach to, "" for a new session with the id freshID.
	sessionID, freshID string
	client             string
	// reservation is the slot reserved for a new session, nil for none.
	reservation *slots.Reservation
}

// connect runs a connection from the handshake to the end of its socket. It calls running.Done.
func (s *Server) connect(conn *websocket.Conn, c call) {
	defer c.reservation.Release()
	socket := s.newSocket(conn, c.dialect)
	if refusal := socket.enter(c); refusal != nil {
		s.refuse(conn, c.dialect, *refusal)
		_ = conn.Close()
		s.running.Done()
		return
	}
	socket.serve()
}

func (s *Server) newSocket(conn *websocket.Conn, d dialect) *socket {
	socket := &socket{server: s, conn: conn, dialect: d, lastPing: time.Now()}
	socket.room.L = &socket.mu
	socket.relief = time.AfterFunc(time.Hour, socket.relieve)
	socket.relief.Stop()
	socket.heard()
	conn.SetPingHandler(socket.pong)
	conn.SetPongHandler(func(string) error { socket.heard(); return nil })
	conn.SetCloseHandler(socket.closedByPeer)
	return socket
}

// enter gives the socket its session.
func (s *socket) enter(c call) *protocol.Error {
	if c.sessionID == "" {
		ss, err := s.server.open(c.reservation.NewContext(s.server.ctx), c.freshID, c.client)
		if err != nil {
			return s.server.openError(err)
		}
		return s.attach(ss, true)
	}
	if ss := s.server.sessions.find(c.sessionID); ss != nil {
		return s.attach(ss, false)
	}
	return s.attachError(errors.New("unknown session: begin another one, or connect without session_id"))
}

func (s *socket) attach(ss *session, owned bool) *protocol.Error {
	s.session = ss // before others find the socket by its session
	if err := ss.attach(s, owned); err != nil {
		return s.attachError(err)
	}
	return nil
}

func (s *socket) attachError(err error) *protocol.Error {
	s.server.metrics.sessionsEnded.WithLabelValues("refused_attach").Inc()
	return &protocol.Error{Code: protocol.CodeSession, Message: "attaching failed: " + err.Error()}
}

// refuse sends the error, waits up to refusalTimeout for the client's first message, and closes.
func (s *Server) refuse(conn *websocket.Conn, d dialect, e protocol.Error) {
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	if !s.refusals.TryAcquire(1) {
		writeClose(conn, websocket.CloseTryAgainLater, "too many refused connections")
		return
	}
	defer s.refusals.Release(1)
	var out bytes.Buffer
	d.refuse(&out, e)
	_ = conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	if conn.WriteMessage(websocket.TextMessage, out.Bytes()) != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(refusalTimeout))
	if _, _, err := conn.NextReader(); isClosed(err) {
		return
	}
	writeClose(conn, websocket.CloseNormalClosure, "")
	linger(conn)
}

// serve reads and answers messages until the connection or the session ends, or another goroutine
// reads.
func (s *socket) serve() {
	for {
		f, err := s.receive()
		if err != nil {
			s.server.free(f)
			s.failed(err)
			break
		}
		mine, ok := s.submit(f)
		if !ok {
			s.server.free(f)
			break
		}
		if mine && s.answerInTurn(f) {
			s.work()
			return
		}
	}
	s.relief.Stop()
	linger(s.conn)
	_ = s.conn.Close()
	s.server.running.Done()
}

// answerInTurn answers a message for which the queue was empty. It reports whether another
// goroutine reads now; if so, the caller must answer the queue.
func (s *socket) answerInTurn(f frame) (relieved bool) {
	s.relief.Reset(reliefAfter)
	s.answer(f)
	s.relief.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.relieved {
		s.working = false
	}
	return s.relieved
}

// relieve starts a goroutine that reads while another one answers.
func (s *socket) relieve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working && !s.relieved {
		s.relieved = true
		go s.serve()
	}
}

// failed ends the socket after a read error.
func (s *socket) failed(err error) {
	switch {
	case errors.Is(err, errTooLarge):
		s.close(endTooLarge, websocket.CloseMessageTooBig, err.Error())
	case isClosed(err):
		s.end(endClosed)
	default:
		s.end(endLost)
	}
}

// submit queues a message; if no goroutine answers, the caller must answer it (mine). It waits
// while the queue is full, and reports false when the socket has ended.
func (s *socket) submit(f frame) (mine, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended && (len(s.queue) >= maxQueued || (len(s.queue) > 0 && s.queued+f.buf.Len() > maxQueuedBytes)) {
		s.room.Wait()
	}
	switch {
	case s.ended:
		return false, false
	case !s.working:
		s.working = true
		return true, true
	}
	s.queue = append(s.queue, f)
	s.queued += f.buf.Len()
	return false, true
}

// work answers queued messages in order until there are none.
func (s *socket) work() {
	for {
		f, ok := s.next()
		if !ok {
			return
		}
		s.answer(f)
	}
}

// next takes a message from the queue, or ends the worker.
func (s *socket) next() (frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		s.drop()
	}
	if len(s.queue) == 0 {
		s.working, s.relieved = false, false
		return frame{}, false
	}
	f := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	s.queued -= f.buf.Len()
	s.room.Signal()
	return f, true
}

// drop frees the queue of an ended socket.
func (s *socket) drop() {
	for _, f := range s.queue {
		s.server.free(f)
	}
	s.queue, s.queued = nil, 0
}

// answer plays one message and sends the reply.
func (s *socket) answer(f frame) {
	out := s.server.buffers.get()
	defer s.server.buffers.put(out)
	closing := s.respond(out, f.buf.Bytes())
	s.server.free(f)
	if closing {
		s.close(endClosed, websocket.CloseNormalClosure, "")
		return
	}
	if s.session.ctx.Err() != nil {
		return // the session ended; the close frame has the reason
	}
	if s.write(out.Bytes()) != nil && s.end(endLost) {
		_ = s.conn.Close()
	}
}

// write sends a message. The sweep enforces writeTimeout, because a deadline per message costs
// more.
func (s *socket) write(message []byte) error {
	s.writing.Store(time.Now().UnixNano())
	defer s.writing.Store(0)
	return s.conn.WriteMessage(websocket.TextMessage, message)
}

// respond answers in the dialect. A panic outside the environment fails only this message.
func (s *socket) respond(out *bytes.Buffer, raw []byte) (closing bool) {
	defer func() {
		if cause := recover(); cause != nil {
			s.server.log.Error("Answering a message panicked", "cause", fmt.Sprint(cause), "stack",
				string(debug.Stack()))
			out.Reset()
			s.dialect.refuse(out, protocol.Error{Code: protocol.CodeExecution,
				Message: "the server failed to answer this message"})
		}
	}()
	return s.dialect.respond(s.session.ctx, s.session, out, raw)
}

// heard records that the peer is alive.
func (s *socket) heard() { s.lastHeard.Store(time.Now().UnixNano()) }

func (s *socket) pong(payload string) error {
	s.heard()
	// Ignore the error: if the peer is lost, reading fails.
	_ = s.conn.WriteControl(websocket.PongMessage, []byte(payload), time.Now().Add(closeTimeout))
	return nil
}

// closedByPeer answers a close frame after it has freed the slot.
func (s *socket) closedByPeer(code int, _ string) error {
	s.end(endClosed)
	if code == websocket.CloseNoStatusReceived {
		code = websocket.CloseNormalClosure
	}
	writeClose(s.conn, code, "")
	return nil
}

// stop ends the answering. It reports false if the socket has ended already.
func (s *socket) stop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.ended = true
	if !s.working {
		s.drop()
	}
	s.room.Broadcast()
	return true
}

// end stops the socket and detaches it from its session, which ends if the socket owned it. It
// reports false if the socket has ended already.
func (s *socket) end(result string) bool {
	if !s.stop() {
		return false
	}
	if s.session != nil {
		s.session.detach(s, result)
	}
	return true
}

// close ends the socket with a reason.
func (s *socket) close(result string, code int, reason string) {
	if s.end(result) {
		s.hangUp(code, reason)
	}
}

// hangUp sends a stopped socket's peer the close frame, after whose answer the reading goroutine
// closes the connection. With code 0 it closes the connection at once.
func (s *socket) hangUp(code int, reason string) {
	if code == 0 {
		_ = s.conn.Close()
		return
	}
	writeClose(s.conn, code, reason)
	_ = s.conn.SetReadDeadline(time.Now().Add(closeTimeout))
}

// check ends the socket of a dead peer and pings a living one. It never waits for the peer.
func (s *socket) check(now time.Time) {
	writing := s.writing.Load()
	switch {
	case writing != 0 && now.UnixNano()-writing >= int64(writeTimeout):
		s.end(endLost)
		_ = s.conn.Close()
	case now.Sub(time.Unix(0, s.lastHeard.Load())) >= deadPeerAfter:
		s.end(endDead)
		_ = s.conn.Close()
	case now.Sub(s.lastPing) >= protocol.PingInterval:
		s.lastPing = now
		s.server.spawn(s.ping)
	}
}

// busy reports whether a message is being answered.
func (s *socket) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working
}

func (s *socket) ping() {
	_ = s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(closeTimeout))
}
