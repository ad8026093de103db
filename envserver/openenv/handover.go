package openenv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/csenv/csenv/envserver/openenv/protocol"
)

const (
	// handOverTimeout bounds the time of a hand-over of all sessions.
	handOverTimeout = 10 * time.Second
	// returnTime is how long a session that was moved waits for its client.
	returnTime = time.Minute
	maxMoves   = 16 // sessions that are handed over at a time
	// answerPoll is the pause between two looks at a socket whose answer is being written.
	answerPoll = time.Millisecond
)

// HandOver moves the episodes of sockets to peers and closes the sockets with protocol.CloseMoved
// and the id under which each session continues. It does the same for the sockets that it relays.
// What can't be moved stays: sessions of planned runs, those without a socket, and those for which
// no peer has a free slot. Call it after Drain, which prevents new sessions.
func (s *Server) HandOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	var moving errgroup.Group
	moving.SetLimit(maxMoves)
	for _, ss := range s.sessions.all() {
		moving.Go(func() error {
			if err := ss.handOver(ctx); err != nil {
				s.log.Warn("A session was not handed over", "error", err)
			}
			return nil
		})
	}
	_ = moving.Wait()
	s.mesh.SendAway(ctx)
	_ = s.mesh.WaitDrained(ctx) // until the clients have closed their sockets
}

// handOver moves the session's episode to a peer and closes the socket. Between two episodes the
// client begins another session.
func (s *session) handOver(ctx context.Context) error {
	if err := s.takeAnswered(ctx); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	id := ""
	if s.player.Playing() {
		episode, err := s.player.Move()
		if err != nil {
			return err
		}
		if id, err = s.server.mesh.HandOver(ctx, s.client, episode); err != nil {
			return fmt.Errorf("moving an episode to a peer: %w", err)
		}
	}
	s.end(endMoved, protocol.MovedTo(id))
	return nil
}

// takeAnswered takes the turn of a session with a socket when every message that was processed has
// been answered, so that the client knows which ones to send again.
func (s *session) takeAnswered(ctx context.Context) error {
	for {
		if err := s.takeTurn(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		socket := s.socket
		s.mu.Unlock()
		switch {
		case s.player == nil || socket == nil:
			<-s.turn
			return errors.New("no socket is attached to it")
		case !socket.busy():
			return nil
		}
		<-s.turn
		select {
		case <-time.After(answerPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitClient keeps the session, without a socket, for a client that is to attach to it soon.
func (s *session) awaitClient() {
	s.mu.Lock()
	s.socket, s.lostAt, s.awaited = nil, time.Now(), returnTime
	s.mu.Unlock()
	s.adopt()
}
