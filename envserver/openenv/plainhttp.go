package openenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// takeStateless takes a place among the requests without a session. There is none for one that
// would be one too many, nor for any while the server drains.
func (s *Server) takeStateless() (release func(), refusal string) {
	switch {
	case s.sessions.slots.Draining():
		return nil, "the server is draining: try again to reach another one"
	case !s.stateless.TryAcquire(1):
		return nil, fmt.Sprintf("%d requests are being answered: try again, or open a session at /ws", maxStateless)
	}
	return func() { s.stateless.Release(1) }, ""
}

// bounded answers 503 to a request that finds no place.
func (s *Server) bounded(w http.ResponseWriter) (release func(), ok bool) {
	release, refusal := s.takeStateless()
	if release == nil {
		w.Header().Set("Retry-After", "1")
		protocol.WriteDetail(w, http.StatusServiceUnavailable, refusal)
	}
	return release, release != nil
}

func (s *Server) serveReset(w http.ResponseWriter, r *http.Request) {
	body, ok := protocol.ReadObject(w, r, protocol.OptionalBody)
	if !ok {
		return
	}
	s.serveGym(w, r, body,
		func(_ context.Context, p *player.Player) player.Reply {
			return p.Reset(body, protocol.StrictSeed, "body")
		},
		func(_ context.Context, p *player.Player) player.Reply { return p.ResetStateless(body) })
}

func (s *Server) serveStep(w http.ResponseWriter, r *http.Request) {
	body, ok := protocol.ReadObject(w, r, protocol.RequiredBody)
	if !ok {
		return
	}
	request, items := protocol.ParseStep(body)
	if len(items) > 0 {
		protocol.WriteItems(w, items)
		return
	}
	if request.Timeout > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), request.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	s.serveGym(w, r, body,
		func(ctx context.Context, p *player.Player) player.Reply { return p.Act(ctx, request.Action) },
		func(ctx context.Context, p *player.Player) player.Reply {
			if begun := p.ResetStateless(body); begun.Err != nil {
				return begun
			}
			return p.Act(ctx, request.Action)
		})
}

func (s *Server) serveState(w http.ResponseWriter, r *http.Request) {
	if id := protocol.SessionIDOf(r); id != "" {
		var state any
		if ss, ok := s.findHTTP(w, id); ok && s.answered(w,
			ss.do(r.Context(), func(p *player.Player) { state = p.State() })) {
			protocol.WriteJSON(w, http.StatusOK, state)
		}
		return
	}
	if release, ok := s.bounded(w); ok {
		defer release()
		if p, ok := s.throwAway(w); ok {
			protocol.WriteJSON(w, http.StatusOK, p.State())
		}
	}
}

// serveGym plays on the session that the request names, or, if it names none, on an environment
// that is gone with the answer.
func (s *Server) serveGym(w http.ResponseWriter, r *http.Request, body []byte, inSession,
	alone func(context.Context, *player.Player) player.Reply) {
	id, items := protocol.SessionIDIn(body)
	if len(items) > 0 {
		protocol.WriteItems(w, items)
		return
	}
	if id == "" {
		id = protocol.SessionIDOf(r)
	}
	if id != "" {
		var answer player.Reply
		ss, ok := s.findHTTP(w, id)
		if ok && s.answered(w, s.playOn(r.Context(), ss,
			func(ctx context.Context, p *player.Player) { answer = inSession(ctx, p) })) {
			s.writeReply(w, answer)
		}
		return
	}
	if release, ok := s.bounded(w); ok {
		defer release()
		if p, ok := s.throwAway(w); ok {
			s.writeReply(w, alone(r.Context(), p))
		}
	}
}

// findHTTP finds a session, or answers 404.
func (s *Server) findHTTP(w http.ResponseWriter, id string) (*session, bool) {
	ss := s.sessions.find(id)
	if ss == nil {
		protocol.WriteDetail(w, http.StatusNotFound, "unknown session: begin one with openenv/session/create at /mcp")
	}
	return ss, ss != nil
}

// answered reports whether an operation on a session was done, and answers why not.
func (s *Server) answered(w http.ResponseWriter, err error) bool {
	if err == nil {
		return true
	}
	status := http.StatusInternalServerError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusServiceUnavailable
	} else if wire, ok := errors.AsType[protocol.Error](err); ok && wire.Code == protocol.CodeSession {
		status = http.StatusNotFound
	}
	protocol.WriteDetail(w, status, err.Error())
	return false
}

// throwAway makes the environment of one request.
func (s *Server) throwAway(w http.ResponseWriter) (*player.Player, bool) {
	p, err := s.players.New(nil)
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return nil, false
	}
	return p, true
}

func (s *Server) writeReply(w http.ResponseWriter, r player.Reply) {
	if invalid, ok := errors.AsType[*episode.ActionError](r.Err); ok {
		protocol.WriteItems(w, invalid.Items)
		return
	}
	var out bytes.Buffer
	err := r.Err
	if err == nil {
		err = r.WriteResult(&out)
	}
	if err != nil {
		s.log.Error("A request failed", "error", err)
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	protocol.WriteBytes(w, http.StatusOK, out.Bytes())
}
