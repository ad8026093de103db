package openenv

import (
	"context"
	"net/http"

	"github.com/csenv/csenv/envserver/openenv/ors"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// orsHost opens and finds sessions for the routes of package ors.
type orsHost struct{ *Server }

func (h orsHost) Open(r *http.Request) (ors.Session, *protocol.Error) {
	ss, err := h.openSession(r.Context(), newID(h.mesh.SessionPrefix()), h.clientOf(r))
	if err != nil {
		return nil, h.openError(err)
	}
	ss.pinged.Store(true)
	return orsSession{ss}, nil
}

func (h orsHost) Find(id string) ors.Session {
	if ss := h.sessions.findSession(id); ss != nil {
		return orsSession{ss}
	}
	return nil
}

func (h orsHost) Ended(r *http.Request) string { return h.past.endReason(h.clientOf(r)) }

func (h orsHost) Spawn(f func()) bool { return h.spawn(f) }

// orsSession is a session for the routes of package ors.
type orsSession struct{ *session }

func (s orsSession) ID() string { return s.id }

func (s orsSession) Play(ctx context.Context, f func(ctx context.Context, p *player.Player)) error {
	return s.server.playOn(ctx, s.session, f)
}

func (s orsSession) Ping() { s.restartIdle() }

func (s orsSession) End() { s.endOnRequest() }

func (s orsSession) Calls() *ors.Calls { return &s.calls }
