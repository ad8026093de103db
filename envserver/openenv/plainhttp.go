package openenv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

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
		func(ctx context.Context, p *player.Player) player.Reply {
			return s.past.explainEnd(s.clientOf(r), p.Act(ctx, request.Action))
		},
		func(ctx context.Context, p *player.Player) player.Reply {
			if begun := p.ResetStateless(body); begun.Err != nil {
				return begun
			}
			return p.Act(ctx, request.Action)
		})
}

func (s *Server) serveState(w http.ResponseWriter, r *http.Request) {
	ss, ok := s.findHTTP(w, protocol.SessionIDOf(r))
	if !ok {
		return
	}
	var state bytes.Buffer
	var err, unwritten error
	read := func(p *player.Player) { unwritten = p.AppendState(&state) }
	if ss != nil { // unlike playOn, this doesn't restart the idle timeout
		err = ss.runOperation(r.Context(), read)
	} else {
		err = s.playOn(r.Context(), nil, func(_ context.Context, p *player.Player) { read(p) })
	}
	if s.answerError(w, errors.Join(err, unwritten)) {
		protocol.WriteBytes(w, http.StatusOK, state.Bytes())
	}
}

// serveGym plays on the session that the request names. Without one it plays alone on an
// environment that is dropped afterwards.
func (s *Server) serveGym(w http.ResponseWriter, r *http.Request, body []byte, inSession,
	alone func(context.Context, *player.Player) player.Reply) {
	id, items := protocol.SessionIDIn(body)
	if len(items) > 0 {
		protocol.WriteItems(w, items)
		return
	}
	ss, ok := s.findHTTP(w, cmp.Or(id, protocol.SessionIDOf(r)))
	if !ok {
		return
	}
	play := inSession
	if ss == nil {
		play = alone
	}
	var answer player.Reply
	err := s.playOn(r.Context(), ss, func(ctx context.Context, p *player.Player) { answer = play(ctx, p) })
	if s.answerError(w, err) {
		s.writeReply(w, answer)
	}
}

// findHTTP finds a session, nil for no id. It answers 404 if the session is unknown.
func (s *Server) findHTTP(w http.ResponseWriter, id string) (ss *session, ok bool) {
	if id == "" {
		return nil, true
	}
	if ss = s.sessions.findSession(id); ss == nil {
		protocol.WriteDetail(w, http.StatusNotFound, "unknown session: begin one with openenv/session/create at /mcp")
	}
	return ss, ss != nil
}

// answerError reports whether an operation succeeded. If not, it answers with the error.
func (s *Server) answerError(w http.ResponseWriter, err error) bool {
	status := http.StatusInternalServerError
	switch wire, _ := errors.AsType[protocol.Error](err); {
	case err == nil:
		return true
	case errors.As(err, new(busyError)):
		w.Header().Set("Retry-After", "1")
		status = http.StatusServiceUnavailable
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		status = http.StatusServiceUnavailable
	case wire.Code == protocol.CodeSession:
		status = http.StatusNotFound
	}
	protocol.WriteDetail(w, status, err.Error())
	return false
}

// replyStatus is the status of a reset or a step that was not played.
func replyStatus(err error) int {
	if _, ok := errors.AsType[*episode.JudgeError](err); ok {
		return http.StatusServiceUnavailable
	}
	if errors.Is(err, episode.ErrNotReset) {
		return http.StatusConflict
	}
	return http.StatusInternalServerError
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
		protocol.WriteDetail(w, replyStatus(err), protocol.ClipMessage(protocol.PlayError(err).Message))
		return
	}
	protocol.WriteBytes(w, http.StatusOK, out.Bytes())
}
