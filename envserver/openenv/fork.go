package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// maxForks bounds the sessions of one fork.
const maxForks = 256

// forkSession copies a session into n new ones, all or none. Each ends with the first socket that
// attaches to it. Used by requests alone, it ends like a session of openenv/session/create.
func (c rpcCall) forkSession(ctx context.Context, p rpcParams) (any, *protocol.RPCError) {
	n, fault := forksOf(p.n)
	if fault != nil {
		return nil, fault
	}
	parent, fault := c.ofEpisode(p)
	if fault != nil {
		return nil, fault
	}
	var forks []*session
	var refused error
	if fault := c.on(ctx, parent, func(ctx context.Context, from *player.Player) error {
		if err := from.CheckFork(); err != nil {
			return err
		}
		forks, refused = c.server.forkEpisode(ctx, from, n, c.client)
		return nil
	}); fault != nil {
		return nil, fault
	}
	if refused != nil {
		return nil, c.noSlot(refused)
	}
	ids := make([]string, n)
	for i, fork := range forks {
		ids[i] = fork.id
	}
	return map[string]any{"session_ids": ids}, nil
}

// forksOf reads the number of forks, 1 by default.
func forksOf(n jsontext.Value) (int, *protocol.RPCError) {
	if !protocol.IsGiven(n) {
		return 1, nil
	}
	count, err := strconv.Atoi(string(n))
	if err != nil || count < 1 || count > maxForks {
		return 0, forkFault(protocol.RPCInvalidParams, protocol.ForkCount,
			fmt.Sprintf("params.n should be an integer from 1 to %d", maxForks))
	}
	return count, nil
}

// forkEpisode makes sessions with the player's episode. It makes none if one of them gets no slot.
func (s *Server) forkEpisode(ctx context.Context, from *player.Player, n int, client string) (forks []*session,
	err error) {
	copied := func(current *atomic.Pointer[protocol.RunTag]) (*player.Player, error) { return from.Fork(current), nil }
	for range n {
		fork, err := s.openWith(ctx, newID(s.mesh.SessionPrefix()), client, copied)
		if err != nil {
			for _, fork := range forks {
				fork.end(endClosed, "")
			}
			return nil, err
		}
		fork.prepareAttach()
		forks = append(forks, fork)
	}
	return forks, nil
}

// prepareAttach prepares a session for the client that will attach to it. The session has an
// episode, so it isn't ended early as unused.
func (s *session) prepareAttach() {
	s.mu.Lock()
	s.adoptable = true
	s.mu.Unlock()
	s.noteUse()
}

// saveSession returns a session's episode as a checkpoint.
func (c rpcCall) saveSession(ctx context.Context, p rpcParams) (any, *protocol.RPCError) {
	ss, fault := c.ofEpisode(p)
	if fault != nil {
		return nil, fault
	}
	var text string
	failed := c.on(ctx, ss, func(_ context.Context, from *player.Player) (err error) {
		text, err = from.Checkpoint()
		return err
	})
	return map[string]any{"checkpoint": text}, failed
}

// restoreSession begins a session with the episode of a checkpoint. A socket's own session gets it
// if it plays none.
func (c rpcCall) restoreSession(ctx context.Context, p rpcParams) (any, *protocol.RPCError) {
	text, ok := protocol.ReadText(p.checkpoint)
	if !ok {
		return nil, invalidParams("params.checkpoint should be the text that session/checkpoint returned")
	}
	ss := c.own
	if ss == nil {
		var err error
		if ss, err = c.server.openSession(ctx, newID(c.server.mesh.SessionPrefix()), c.client); err != nil {
			return nil, c.noSlot(err)
		}
	}
	var last bytes.Buffer
	failed := c.on(ctx, ss, func(ctx context.Context, into *player.Player) error {
		if into.Playing() {
			return errPlaying
		}
		r := into.Restore(ctx, text)
		if r.Err != nil {
			return r.Err
		}
		return r.WriteResult(&last)
	})
	if failed != nil {
		if c.own == nil {
			ss.end(endClosed, "")
		}
		return nil, failed
	}
	return map[string]any{"session_id": ss.id, "result": json.RawMessage(last.Bytes())}, nil
}

// forkFault is the error of a refusal.
func forkFault(code int, reason protocol.ForkRefusal, message string) *protocol.RPCError {
	return &protocol.RPCError{Code: code, Message: message, Data: protocol.ForkRefused{Reason: reason}}
}

// noSlot is the error of sessions that can't begin.
func (c rpcCall) noSlot(err error) *protocol.RPCError {
	e := c.server.openError(err)
	fault := openFault(e)
	if e.Code == protocol.CodeCapacity {
		fault.Data = protocol.ForkRefused{Reason: protocol.ForkNoSlot, ActiveSessions: e.ActiveSessions,
			MaxSessions: e.MaxSessions}
	}
	return fault
}

var errPlaying = errors.New("an episode is being played here: restore on a new connection, or with POST /mcp")

// ofEpisode returns the session that the params name, or else the socket's own.
func (c rpcCall) ofEpisode(p rpcParams) (*session, *protocol.RPCError) {
	ss, fault := c.session(p)
	if fault == nil && ss == nil {
		return nil, invalidParams("params.session_id is required")
	}
	return ss, fault
}

// on runs an operation of a session.
func (c rpcCall) on(ctx context.Context, ss *session,
	f func(ctx context.Context, p *player.Player) error) *protocol.RPCError {
	var failed error
	err := c.server.playOn(ctx, ss, func(ctx context.Context, p *player.Player) { failed = f(ctx, p) })
	if err = errors.Join(err, failed); err == nil {
		return nil
	}
	if reason := player.ForkRefusal(err); reason != "" {
		return forkFault(protocol.RPCInvalidParams, reason, err.Error())
	}
	if errors.Is(failed, errPlaying) {
		return forkFault(protocol.RPCInvalidRequest, protocol.ForkPlaying, err.Error())
	}
	return toolFault(err)
}
