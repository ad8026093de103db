package openenv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

const (
	// handOverTimeout bounds the time of a hand-over of all sessions.
	handOverTimeout = 10 * time.Second
	// unreadTimeout is how long a hand-over waits for a client to read an answer.
	unreadTimeout = time.Second
	// returnTime is how long a session that was moved waits for its client.
	returnTime = time.Minute
	maxMoves   = 16 // sessions that are handed over at a time
	// answerPoll and longestPoll bound the delay between polls of a busy session.
	answerPoll, longestPoll = time.Millisecond, 50 * time.Millisecond
)

// HandOver moves the episodes of sockets to peers and closes the sockets with protocol.CloseMoved
// and the id under which each session continues. It does the same for the sockets that it relays.
// What can't be moved stays: sessions of planned runs, those without a socket, those whose client
// doesn't read, and those for which no peer has a free slot. Call it after Drain, which prevents
// new sessions.
func (s *Server) HandOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	moves := semaphore.NewWeighted(maxMoves)
	var moving sync.WaitGroup
	for _, ss := range s.sessions.listSessions() {
		moving.Go(func() {
			if err := ss.handOver(ctx, moves); err != nil {
				s.log.Warn("A session was not handed over", "error", err)
			}
		})
	}
	moving.Go(func() { s.mesh.SendAway(ctx) })
	moving.Wait()
	_ = s.mesh.WaitDrained(ctx) // until the clients have closed their sockets
}

// handOver moves the session's episode to a peer and closes the socket. Between two episodes the
// client begins another session. Only the move itself counts among the moves: a client that doesn't
// read delays no other.
func (s *session) handOver(ctx context.Context, moves *semaphore.Weighted) error {
	if err := s.takeAnswered(ctx, moves); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	id, err := s.moveEpisode(ctx)
	moves.Release(1)
	if err != nil {
		return err
	}
	s.end(endMoved, protocol.MovedTo(id))
	return nil
}

// moveEpisode moves the session's episode to a peer and returns its id there, "" between two
// episodes.
func (s *session) moveEpisode(ctx context.Context) (id string, err error) {
	if !s.player.Playing() {
		return "", nil
	}
	episode, err := s.player.Move()
	if err != nil {
		return "", err
	}
	if id, err = s.server.mesh.HandOver(ctx, s.client, episode); err != nil {
		return "", fmt.Errorf("moving an episode to a peer: %w", err)
	}
	return id, nil
}

// errBusy means that an operation runs or an answer isn't written yet.
var errBusy = errors.New("it is busy")

// takeAnswered takes one of the moves and the turn of a session with a socket when every message
// that was processed has been answered, so that the client knows which ones to send again. It
// fails once the client hasn't read an answer for unreadTimeout.
func (s *session) takeAnswered(ctx context.Context, moves *semaphore.Weighted) error {
	for poll := answerPoll; ; {
		if err := moves.Acquire(ctx, 1); err != nil {
			return err
		}
		err := s.tryAnswered()
		if err == nil {
			return nil
		}
		moves.Release(1)
		for errors.Is(err, errBusy) && s.isBusy(s.attachedSocket()) { // without a move, which others may use
			select {
			case <-time.After(poll):
				poll = min(2*poll, longestPoll)
			case <-ctx.Done():
				return ctx.Err()
			}
			if socket := s.attachedSocket(); socket != nil && socket.unreadSince(time.Now()) >= unreadTimeout {
				err = errors.New("its client doesn't read")
			}
		}
		if !errors.Is(err, errBusy) {
			return err
		}
	}
}

// tryAnswered takes the turn of a session with a socket. It fails with errBusy while a message is
// being answered.
func (s *session) tryAnswered() error {
	select {
	case s.turn <- struct{}{}:
	default:
		return errBusy
	}
	socket := s.attachedSocket()
	switch {
	case s.player == nil || socket == nil:
		<-s.turn
		return errors.New("no socket is attached to it")
	case socket.isAnswering():
		<-s.turn
		return errBusy
	}
	return nil
}

// attachedSocket returns the session's socket, nil for none.
func (s *session) attachedSocket() *socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.socket
}

// awaitClient keeps the session, without a socket, for a client that is to attach to it soon.
func (s *session) awaitClient() {
	s.mu.Lock()
	s.socket, s.lostAt, s.awaited = nil, time.Now(), returnTime
	s.mu.Unlock()
	s.prepareAttach()
}

// sendAway closes the socket of a session, which continues when its client connects again.
func (s *Server) sendAway(ctx context.Context, id string) error {
	ss := s.sessions.findSession(id)
	if ss == nil {
		return errors.New("unknown session")
	}
	moves := semaphore.NewWeighted(1)
	if err := ss.takeAnswered(ctx, moves); err != nil {
		return err
	}
	defer func() { <-ss.turn }()
	socket := ss.attachedSocket()
	if socket == nil || !socket.stopAnswering() {
		return nil
	}
	ss.awaitClient()
	s.spawn(func() { socket.closeConnection(protocol.CloseMoved, protocol.MovedTo(id)) }) // its client may not read
	return nil
}

// takeEpisode begins a session with an episode that a peer hands over.
func (s *Server) takeEpisode(ctx context.Context, client, checkpoint string) (id string, err error) {
	ss, err := s.openSession(ctx, newID(s.mesh.SessionPrefix()), client)
	if err != nil {
		return "", err
	}
	var restored player.Reply
	if err = ss.runOperation(ctx, func(p *player.Player) { restored = p.Restore(ctx, checkpoint) }); err == nil {
		err = restored.Err
	}
	if err != nil {
		ss.end(endClosed, "")
		return "", err
	}
	ss.awaitClient()
	return ss.id, nil
}
