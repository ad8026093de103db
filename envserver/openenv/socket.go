package openenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/openenv/memory"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/openenv/slots"
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

// refusalTimeout is how long a refused connection stays open for the client's first message. A
// client that finds the socket closed never reads the reason.
const refusalTimeout = 5 * time.Second

// secondReaderAfter is how long an answer may take before another goroutine continues reading.
const secondReaderAfter = 20 * time.Millisecond

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
// detection of a lost connection: after secondReaderAfter a new goroutine continues reading, and
// the old one answers until the queue is empty.
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
	notFull sync.Cond
	queue   []frame
	queued  int
	working bool
	// secondReader is true while one goroutine answers and another one reads.
	secondReader bool
	readTimer    *time.Timer
	ended        bool
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

// runConnection runs a connection from the handshake to the end of its socket. It calls
// running.Done.
func (s *Server) runConnection(conn *websocket.Conn, c call) {
	defer c.reservation.Release()
	socket := s.newSocket(conn, c.dialect)
	if refusal := socket.enterSession(c); refusal != nil {
		s.refuse(conn, c, *refusal)
		_ = conn.Close()
		s.running.Done()
		return
	}
	socket.serve()
}

func (s *Server) newSocket(conn *websocket.Conn, d dialect) *socket {
	socket := &socket{server: s, conn: conn, dialect: d, lastPing: time.Now()}
	socket.notFull.L = &socket.mu
	socket.readTimer = time.AfterFunc(time.Hour, socket.startSecondReader)
	socket.readTimer.Stop()
	socket.recordFrame()
	conn.SetPingHandler(socket.writePong)
	conn.SetPongHandler(func(string) error { socket.recordFrame(); runtime.Gosched(); return nil })
	conn.SetCloseHandler(socket.answerClose)
	return socket
}

// enterSession gives the socket its session.
func (s *socket) enterSession(c call) *protocol.Error {
	if c.sessionID == "" {
		ss, err := s.server.openSession(c.reservation.NewContext(s.server.ctx), c.freshID, c.client)
		if err != nil {
			return s.server.openError(err)
		}
		return s.attachSession(ss, true)
	}
	if ss := s.server.sessions.findSession(c.sessionID); ss != nil {
		return s.attachSession(ss, false)
	}
	return s.attachError(errors.New("unknown session: begin another one, or connect without session_id"))
}

func (s *socket) attachSession(ss *session, owned bool) *protocol.Error {
	s.session = ss // before others find the socket by its session
	if err := ss.attachSocket(s, owned); err != nil {
		return s.attachError(err)
	}
	return nil
}

func (s *socket) attachError(err error) *protocol.Error {
	s.server.metrics.sessionsEnded.WithLabelValues("refused_attach").Inc()
	return &protocol.Error{Code: protocol.CodeSession, Message: "attaching failed: " + err.Error()}
}

// refuse sends the error, waits up to refusalTimeout for the client's first message, and closes.
func (s *Server) refuse(conn *websocket.Conn, c call, e protocol.Error) {
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	release, ok := s.refusals.TryTake(c.client)
	if !ok {
		writeClose(conn, websocket.CloseTryAgainLater, "too many refused connections")
		return
	}
	defer release()
	var out bytes.Buffer
	c.dialect.refuse(&out, e)
	_ = conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	if conn.WriteMessage(websocket.TextMessage, out.Bytes()) != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(refusalTimeout))
	if _, _, err := conn.NextReader(); isClosed(err) {
		return
	}
	writeClose(conn, websocket.CloseNormalClosure, "")
	drainConnection(conn)
}

// serve reads and answers messages until the connection or the session ends, or another goroutine
// reads.
func (s *socket) serve() {
	for {
		f, err := s.receiveFrame()
		if err != nil {
			s.server.freeFrame(f)
			s.endByReadError(err)
			break
		}
		mine, ok := s.submitFrame(f)
		if !ok {
			s.server.freeFrame(f)
			break
		}
		if mine && s.answerInTurn(f) {
			s.answerQueued()
			return
		}
	}
	s.readTimer.Stop()
	drainConnection(s.conn)
	_ = s.conn.Close()
	s.server.running.Done()
}

// answerInTurn answers a message for which the queue was empty. It reports whether another
// goroutine reads now; if so, the caller must answer the queue.
func (s *socket) answerInTurn(f frame) (secondReader bool) {
	s.readTimer.Reset(secondReaderAfter)
	s.answerFrame(f)
	s.readTimer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.secondReader {
		s.working = false
	}
	return s.secondReader
}

// startSecondReader starts a goroutine that reads while another one answers.
func (s *socket) startSecondReader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working && !s.secondReader {
		s.secondReader = true
		go s.serve()
	}
}

// endByReadError ends the socket when nothing more can be read.
func (s *socket) endByReadError(err error) {
	switch {
	case errors.Is(err, errTooLarge):
		s.end(endTooLarge, err.Error())
	case errors.Is(err, fairness.ErrInterrupted), errors.Is(err, fairness.ErrNoPart):
		s.end(endSlow, "reading a message: "+err.Error()+": send it faster, or in smaller parts")
	case isClosed(err):
		s.detachSession(endClosed)
	default:
		s.detachSession(endLost)
	}
}

// submitFrame queues a message; if no goroutine answers, the caller must answer it (mine). It waits
// while the queue is full, and reports false when the socket has ended.
func (s *socket) submitFrame(f frame) (mine, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended && (len(s.queue) >= maxQueued || (len(s.queue) > 0 && s.queued+f.buf.Len() > maxQueuedBytes)) {
		s.notFull.Wait()
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

// answerQueued answers queued messages in order until there are none.
func (s *socket) answerQueued() {
	for {
		f, ok := s.takeFrame()
		if !ok {
			return
		}
		s.answerFrame(f)
	}
}

// takeFrame takes a message from the queue, or ends the worker.
func (s *socket) takeFrame() (frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		s.clearQueue()
	}
	if len(s.queue) == 0 {
		s.working, s.secondReader = false, false
		return frame{}, false
	}
	f := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	s.queued -= f.buf.Len()
	s.notFull.Signal()
	return f, true
}

// clearQueue frees the memory of the messages that an ended socket does not answer.
func (s *socket) clearQueue() {
	for _, f := range s.queue {
		s.server.freeFrame(f)
	}
	s.queue, s.queued = nil, 0
}

// answerFrame plays one message and sends the reply. Sockets take turns: one whose next message is
// there already would keep its processor for 10 ms.
func (s *socket) answerFrame(f frame) {
	defer runtime.Gosched()
	out := s.server.buffers.get()
	defer s.server.buffers.put(out)
	closing := s.respondSafely(out, f.buf.Bytes())
	s.server.freeFrame(f)
	if closing {
		s.end(endClosed, "")
		return
	}
	if s.session.ctx.Err() != nil {
		return // the session ended; the close frame has the reason
	}
	if s.writeMessage(out.Bytes()) != nil {
		s.end(endLost, "")
	}
}

// writeMessage sends a message. The sweep enforces writeTimeout, because a deadline per message
// costs more.
func (s *socket) writeMessage(message []byte) error {
	s.writing.Store(time.Now().UnixNano())
	defer s.writing.Store(0)
	return s.conn.WriteMessage(websocket.TextMessage, message)
}

// respondSafely answers in the dialect. A panic outside the environment fails only this message.
func (s *socket) respondSafely(out *bytes.Buffer, raw []byte) (closing bool) {
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

// recordFrame records that the peer is alive.
func (s *socket) recordFrame() { s.lastHeard.Store(time.Now().UnixNano()) }

func (s *socket) writePong(payload string) error {
	s.recordFrame()
	// Ignore the error: if the peer is lost, reading fails.
	_ = s.conn.WriteControl(websocket.PongMessage, []byte(payload), time.Now().Add(closeTimeout))
	runtime.Gosched() // see answer
	return nil
}

// answerClose answers the peer's close frame after it has freed the slot.
func (s *socket) answerClose(code int, _ string) error {
	s.detachSession(endClosed)
	if code == websocket.CloseNoStatusReceived {
		code = websocket.CloseNormalClosure
	}
	writeClose(s.conn, code, "")
	return nil
}

// stopAnswering ends the answering. It reports false if the socket has ended already.
func (s *socket) stopAnswering() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.ended = true
	if !s.working {
		s.clearQueue()
	}
	s.notFull.Broadcast()
	return true
}

// detachSession stops the socket and detaches it from its session, which ends if the socket owned
// it. The connection stays. It reports false if the socket has ended already.
func (s *socket) detachSession(why ending) bool {
	if !s.stopAnswering() {
		return false
	}
	if s.session != nil {
		s.session.detachSocket(s, why)
	}
	return true
}

// end detaches the socket and closes its connection.
func (s *socket) end(why ending, details string) {
	if s.detachSession(why) {
		s.closeConnection(endings[why].code, details)
	}
}

// closeConnection sends a stopped socket's peer the close frame, after whose answer the reading
// goroutine closes the connection. With code 0 it closes the connection at once.
func (s *socket) closeConnection(code int, details string) {
	if code == 0 {
		_ = s.conn.Close()
		return
	}
	writeClose(s.conn, code, details)
	_ = s.conn.SetReadDeadline(time.Now().Add(closeTimeout))
}

// checkPeer ends the socket of a dead peer and pings a living one. It never waits for the peer.
func (s *socket) checkPeer(now time.Time) {
	switch {
	case s.unreadSince(now) >= writeTimeout:
		s.end(endLost, "")
	case now.Sub(time.Unix(0, s.lastHeard.Load())) >= deadPeerAfter:
		s.end(endDead, "")
	case now.Sub(s.lastPing) >= protocol.PingInterval:
		s.lastPing = now
		s.server.spawn(s.pingPeer)
	}
}

// unreadSince is how long an answer has been written, because the peer doesn't read, 0 if none is.
func (s *socket) unreadSince(now time.Time) time.Duration {
	if began := s.writing.Load(); began != 0 {
		return now.Sub(time.Unix(0, began))
	}
	return 0
}

// isAnswering reports whether a message is being answered.
func (s *socket) isAnswering() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working
}

func (s *socket) pingPeer() {
	_ = s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(closeTimeout))
}

// upgradeConnection serves the connection in a new goroutine: net/http's has a larger stack and
// keeps the request alive.
func (s *Server) upgradeConnection(w http.ResponseWriter, r *http.Request, c call) {
	c.client = s.clientOf(r)
	c.reservation = slots.FromContext(r.Context()).Move()
	header := http.Header{}
	if c.sessionID == "" {
		c.freshID = newID(s.mesh.SessionPrefix())
		header.Set(protocol.SessionHeader, c.freshID)
	}
	conn, err := s.upgrader.Upgrade(w, r, header)
	if err != nil {
		c.reservation.Release()
		return // Upgrade has answered
	}
	if !s.begin(func() { s.runConnection(conn, c) }) {
		c.reservation.Release()
		_ = conn.Close()
	}
}

// drainConnection reads until the peer answers the close frame or closeTimeout is over. Closing a
// socket with unread bytes would reset it, and the peer might not receive the close frame.
func drainConnection(conn *websocket.Conn) {
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
