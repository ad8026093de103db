package openenv

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/openenv/ors"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/openenv/slots"
)

const (
	// sweepInterval is the resolution of the timeouts of sessions.
	sweepInterval = time.Second
	// unusedTimeout ends a session that a request opened and nothing has used since.
	unusedTimeout = 5 * time.Minute
	// pingTimeout ends a session of an OpenReward client, which has no connection of its own, this
	// long after its last ping. The client sends one every 10 seconds; the official server waits as
	// long.
	pingTimeout = 15 * time.Minute
)

// session is an environment that holds a slot. A session that is owned by the socket that opened it
// ends with that socket. One that a request opened ends on request or when idle. One socket at a
// time can be attached to it.
type session struct {
	server *Server
	id     string
	client string // address and token
	opened time.Time
	ctx    context.Context
	cancel context.CancelFunc
	// turn holds a token while an operation runs, and guards player.
	turn   chan struct{}
	player *player.Player
	// tag is the current episode's tag, nil for none.
	tag atomic.Pointer[protocol.RunTag]
	// used is true once a socket was attached or an operation began, and begun once an episode was.
	// unbegun belongs to the registry.
	used, begun atomic.Bool
	unbegun     *list.Element
	// pinged is true for a session that its client keeps alive by pings. calls are its tools'
	// calls.
	pinged atomic.Bool
	calls  ors.Calls
	// lastActive is the Unix nanosecond of the last operation but state, attach or detach.
	lastActive atomic.Int64

	mu     sync.Mutex
	socket *socket
	owned  bool
	// adoptable is true for a fork: the first socket that attaches owns it, as if it had opened it.
	adoptable bool
	// closing is true when the session ends as soon as its socket is detached.
	closing bool
	ended   bool
	// lostAt is when an owned session lost its socket, zero while it has one. The session ends
	// SessionGrace or awaited later, whichever is longer.
	lostAt  time.Time
	awaited time.Duration
	// onEnd, if not nil, runs in a goroutine when the session has ended.
	onEnd func()
}

// errEnded is the error of an operation on a session that ended before its turn.
var errEnded = protocol.Error{Code: protocol.CodeSession, Message: "the session has ended: begin another one"}

// openSession makes a session with a slot and a new environment. The error is player.ErrFactory or
// one of registry.admit.
func (s *Server) openSession(ctx context.Context, id, client string) (*session, error) {
	return s.openWith(ctx, id, client, s.players.New)
}

// openWith makes a session with a slot and a player, which stores its tag in current.
func (s *Server) openWith(ctx context.Context, id, client string,
	newPlayer func(current *atomic.Pointer[protocol.RunTag]) (*player.Player, error)) (*session, error) {
	ss := &session{server: s, id: id, client: client, opened: time.Now(), turn: make(chan struct{}, 1)}
	ss.restartIdle()
	ss.ctx, ss.cancel = context.WithCancel(fairness.NewContext(s.ctx, s.processors, client))
	ss.turn <- struct{}{} // blocks operations until there is an environment
	defer func() { <-ss.turn }()
	if err := s.sessions.admitSession(ctx, ss); err != nil {
		ss.cancel()
		s.metrics.sessionsEnded.WithLabelValues(refusalResult(err)).Inc()
		return nil, err
	}
	var err error
	if ss.player, err = newPlayer(&ss.tag); err != nil {
		ss.end(endFactory, "")
		return nil, err
	}
	ss.noteEpisode()
	return ss, nil
}

func refusalResult(err error) string {
	if _, ok := errors.AsType[clientFullError](err); ok {
		return "refused_client"
	}
	if errors.Is(err, slots.ErrDraining) {
		return "refused_draining"
	}
	if errors.Is(err, errNoJudge) {
		return "refused_judge"
	}
	return "refused_full"
}

// runOperation runs an operation when the previous ones have ended. A panic becomes an
// EXECUTION_ERROR and ends the episode, whose state is no longer reliable. The error is a
// protocol.Error or the context's.
func (s *session) runOperation(ctx context.Context, f func(p *player.Player)) (err error) {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer func() {
		if cause := recover(); cause != nil {
			s.server.log.Error("A session panicked", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = s.player.Abandon()
		}
		<-s.turn
	}()
	if s.ctx.Err() != nil {
		return errEnded
	}
	f(s.player)
	s.noteEpisode()
	return nil
}

func (s *session) takeTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-s.ctx.Done():
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// withSession returns a context that also ends with the session.
func (s *session) withSession(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// restartIdle restarts the idle timeout.
func (s *session) restartIdle() { s.lastActive.Store(time.Now().UnixNano()) }

// noteUse restarts the idle timeout, and records that the session is used.
func (s *session) noteUse() {
	s.restartIdle()
	s.used.Store(true)
}

// noteEpisode records that the session has begun an episode. The caller holds the turn.
func (s *session) noteEpisode() {
	if !s.begun.Load() && s.player.Playing() {
		s.begun.Store(true)
		s.server.sessions.noteEpisode(s)
	}
}

// attachSocket binds a socket to the session.
func (s *session) attachSocket(socket *socket, owned bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended || s.closing:
		return errors.New("the session is closing")
	case s.socket != nil:
		return errors.New("another socket is attached to the session: close that one first")
	}
	s.socket, s.lostAt, s.awaited = socket, time.Time{}, 0
	s.owned = s.owned || owned || s.adoptable
	s.noteUse()
	return nil
}

// detachSocket releases a socket that has ended. It ends the session if the socket owned it or a
// close was requested, but keeps it for SessionGrace if the client may come back.
func (s *session) detachSocket(socket *socket, why ending) {
	s.mu.Lock()
	if s.socket != socket {
		s.mu.Unlock()
		return
	}
	s.socket = nil
	s.restartIdle()
	keep := !s.closing && (!s.owned || endings[why].kept && s.server.cfg.SessionGrace > 0)
	if s.owned {
		s.lostAt = time.Now()
	}
	s.mu.Unlock()
	if !keep {
		s.end(why, "")
	}
}

// endOnRequest ends the session at once, or together with the attached socket. It reports whether
// the session has ended.
func (s *session) endOnRequest() (ended bool) {
	s.mu.Lock()
	attached := s.socket != nil
	s.closing = true
	s.mu.Unlock()
	if attached {
		return false
	}
	s.end(endClosed, "")
	return true
}

// end frees the slot, cancels running operations, and closes an attached socket. The details are
// for the client: the close frame has them. Later calls do nothing.
func (s *session) end(why ending, details string) {
	if s.server.sessions.releaseSlot(s) {
		s.conclude(why, details)
	}
}

// conclude is the rest of end, once the registry has no longer the session.
func (s *session) conclude(why ending, details string) {
	s.mu.Lock()
	s.ended = true
	socket, onEnd := s.socket, s.onEnd
	s.socket = nil
	s.mu.Unlock()
	s.cancel()
	s.server.metrics.sessionsEnded.WithLabelValues(endings[why].result).Inc()
	if why == endDrained {
		s.server.metrics.cut.Add(1)
	}
	s.server.past.addEnd(s.client, why, details)
	s.server.log.Debug("A session ended", "result", endings[why].result, "lasted", time.Since(s.opened).String())
	if onEnd != nil {
		s.server.spawn(onEnd)
	}
	if socket != nil && socket.stopAnswering() {
		socket.closeConnection(endings[why].code, details)
	}
}

// endSoon ends the session without waiting for its peer.
func (s *session) endSoon(why ending, details string) {
	s.server.spawn(func() { s.end(why, details) })
}

// checkTimeouts applies the session's timeouts and checks its socket. It never waits for the peer.
func (s *session) checkTimeouts(now time.Time) {
	server := s.server
	s.mu.Lock()
	socket, owned, lostAt, grace := s.socket, s.owned, s.lostAt, max(s.awaited, server.cfg.SessionGrace)
	s.mu.Unlock()
	idle := now.Sub(time.Unix(0, s.lastActive.Load()))
	switch {
	case server.cfg.MaxDuration > 0 && now.Sub(s.opened) >= 2*server.cfg.MaxDuration:
		s.endSoon(endMaxDuration,
			fmt.Sprintf("the session has lasted the maximum of %v, and its last episode as long again",
				server.cfg.MaxDuration))
	case server.cfg.MaxDuration > 0 && now.Sub(s.opened) >= server.cfg.MaxDuration && s.preventOperations():
		s.endSoon(endMaxDuration, fmt.Sprintf("the session has lasted the maximum of %v", server.cfg.MaxDuration))
	case server.releasing.Load() && s.preventOperations():
		s.endSoon(endReleased, protocol.MovedTo(""))
	case server.cfg.IdleTimeout > 0 && idle >= server.cfg.IdleTimeout && (owned || socket == nil) && !s.isBusy(socket):
		s.endSoon(endIdle, fmt.Sprintf("the session has been idle for %v", server.cfg.IdleTimeout))
	case socket == nil && s.isAbandoned(idle):
		s.endSoon(endIdle, fmt.Sprintf("its client sent nothing, not even a ping, for %v", pingTimeout))
	case !s.used.Load() && now.Sub(s.opened) >= unusedTimeout:
		s.endSoon(endUnused, fmt.Sprintf("nobody used the session in its first %v", unusedTimeout))
	case !lostAt.IsZero() && now.Sub(lostAt) >= grace:
		s.endSoon(endLost, "")
	case socket != nil:
		socket.checkPeer(now)
	}
}

// isAbandoned reports whether the client that keeps the session alive by pings is gone.
func (s *session) isAbandoned(idle time.Duration) bool {
	return s.pinged.Load() && idle >= pingTimeout && !s.isBusy(nil)
}

// preventOperations prevents operations if none runs, the last one is answered and no episode is
// being played. It reports whether it did.
func (s *session) preventOperations() bool {
	select {
	case s.turn <- struct{}{}:
		s.mu.Lock()
		socket := s.socket
		s.mu.Unlock()
		if s.player == nil || s.player.Playing() || socket != nil && socket.isAnswering() {
			<-s.turn
			return false
		}
		return true
	default:
		return false
	}
}

// isBusy reports whether an operation runs or a message waits.
func (s *session) isBusy(socket *socket) bool {
	return len(s.turn) > 0 || socket != nil && socket.isAnswering()
}

// playOn plays on a session, or without one on an environment that is dropped afterwards.
func (s *Server) playOn(ctx context.Context, ss *session, f func(ctx context.Context, p *player.Player)) error {
	if ss == nil {
		release, err := s.takeStateless(ctx)
		if err != nil {
			return err
		}
		defer release()
		p, err := s.players.New(nil)
		if err == nil {
			f(ctx, p)
		}
		return err
	}
	ctx, cancel := ss.withSession(ctx)
	defer cancel()
	ss.noteUse()
	defer ss.restartIdle()
	return ss.runOperation(ctx, func(p *player.Player) { f(ctx, p) })
}

// busyError is the error of a request without a session that can't be answered now.
type busyError string

func (e busyError) Error() string { return string(e) }

// takeStateless takes a place among the requests without a session. One client gets at most half.
// The error is a busyError.
func (s *Server) takeStateless(ctx context.Context) (release func(), err error) {
	if err := s.sessions.slots.Closed(); err != nil {
		return nil, busyError(err.Error() + ": try again to reach another one")
	}
	release, ok := s.stateless.TryTake(fairness.ClientIn(ctx))
	if !ok {
		return nil, busyError(fmt.Sprintf("%d requests are being answered, or %d of this client: try again, or open a "+
			"session at /ws", maxStateless, maxStateless/2))
	}
	return release, nil
}

// sweepSessions checks the timeouts and pings of all sessions in one goroutine.
func (s *Server) sweepSessions() {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-ticker.C:
			for _, session := range s.sessions.listSessions() {
				session.checkTimeouts(now)
			}
			s.ledgers.Expire(now)
			s.rollouts.Expire(now)
		}
	}
}
