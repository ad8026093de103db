package openenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/go-json-experiment/json/jsontext"
)

// player plays the episodes of one session, one after the other, and books them. It is not safe for
// concurrent use.
type player struct {
	server *Server
	env    episode.Environment
	// playing is true between a reset and the end of its episode.
	playing bool
	// last answered the last reset or step, so that it can be asked for again. Its observation is
	// nil before the first reset.
	last episode.Result
	// task is what the episode's metrics are counted under if it ends without a result.
	task string
	// planned, tag and book are those of the current episode; tag and book are nil when it belongs
	// to no run.
	planned score.PlannedEpisode
	tag     *runTag
	book    book
	// held shows the tag to whoever counts what is being played; nil for a player whose session
	// nobody counts.
	held *atomic.Pointer[runTag]
}

// book is where the episodes of a run are counted: the ledger of one of its shards, or the rollouts
// that it collects.
type book interface {
	begin()
	// finish counts the end of an episode. The receipt is nil where none is given.
	finish(planned score.PlannedEpisode, e score.Episode) (*score.Receipt, error)
}

// bookOf opens the book of a tag. Its error is for whoever sent the tag.
func (s *Server) bookOf(tag runTag) (book, error) {
	if tag.rollout {
		return s.rollouts.open(tag.run)
	}
	return s.ledgers.open(tag)
}

// newPlayer makes an environment; an error means that the factory is broken.
func (s *Server) newPlayer() (p *player, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("Making an environment panicked", "cause", fmt.Sprint(cause))
			err = errors.New("the environment could not be made")
		}
	}()
	env := s.kind.New()
	if env == nil {
		return nil, errors.New("the environment could not be made")
	}
	return &player{server: s, env: env}, nil
}

// reply is the answer to a reset or a step, not yet encoded.
type reply struct {
	kind   episode.Kind
	result episode.Result
	err    error
}

// write appends the message.
func (r reply) write(out *bytes.Buffer) {
	err := r.err
	if err == nil {
		out.WriteString(`{"type":"observation","data":`)
		if err = writeResult(out, r.kind, r.result); err == nil {
			out.WriteByte('}')
			return
		}
		out.Reset()
	}
	writeError(out, playError(err))
}

// reset begins an episode. The running one, if any, is abandoned only if the options are valid.
// Where is the first element of the location of each fault in them.
func (p *player) reset(data []byte, rule seedRule, where string) reply {
	o, items := p.server.readOptions(data, rule, where)
	if len(items) > 0 {
		return p.fail(&episode.ActionError{Items: items})
	}
	var book book
	if o.tag != nil {
		if !o.tag.rollout {
			// An evaluation is played without hints, whatever the agent's side asks for.
			o.RewardMode = episode.Terminal
		}
		var err error
		if book, err = p.server.bookOf(*o.tag); err != nil {
			return p.fail(&episode.ActionError{Items: []episode.ErrorItem{errorItem("value_error", nil, err.Error(),
				where, "run")}})
		}
	}
	result, err := p.env.Reset(o.Options)
	if err != nil {
		err = optionError(err, o.Options, where)
		p.logFailure("A reset failed", err)
		return p.fail(err)
	}
	p.playing, p.task, p.last = true, o.Task, result
	p.hold(o.tag, book)
	if book != nil {
		p.planned = score.PlannedEpisode{Index: o.tag.episode, Seed: o.Seed, Pressure: o.Pressure}
		book.begin()
	}
	return reply{kind: p.server.kind, result: result}
}

// hold says which run the episode that begins belongs to, nil for none and at an episode's end.
func (p *player) hold(tag *runTag, book book) {
	p.tag, p.book = tag, book
	if p.held != nil {
		p.held.Store(tag)
	}
}

func (p *player) fail(err error) reply { return reply{kind: p.server.kind, err: err} }

// optionError points at the option that asks for what isn't there.
func optionError(err error, o episode.Options, where string) error {
	name, value := "", ""
	switch {
	case errors.Is(err, episode.ErrUnknownTask):
		name, value = "task", o.Task
	case errors.Is(err, episode.ErrUnknownScenario):
		name, value = "scenario", o.Scenario
	default:
		return err
	}
	item := errorItem("value_error", nil, err.Error(), where, name)
	item.Input, _ = jsontext.AppendQuote(nil, value) // an option is valid UTF-8
	return &episode.ActionError{Items: []episode.ErrorItem{item}}
}

// step plays one action.
func (p *player) step(ctx context.Context, action []byte) reply {
	began := time.Now()
	result, err := p.env.Step(ctx, action)
	p.server.metrics.stepped(time.Since(began), err)
	if err != nil {
		if ctx.Err() == nil {
			p.logFailure("A step failed", err)
		}
		return p.fail(err)
	}
	if result.Final != nil {
		p.finish(result.Final)
	}
	p.last = result
	return reply{kind: p.server.kind, result: result}
}

// logFailure logs an error that is not the client's fault.
func (p *player) logFailure(what string, err error) {
	if unjudged, ok := errors.AsType[*episode.JudgeError](err); ok {
		p.server.log.Warn("A reply could not be judged", "task", p.task, "cause", unjudged.Cause)
		p.server.log.Debug("A reply could not be judged", "task", p.task, "cause", unjudged.Cause, "error",
			unjudged.Err)
		return
	}
	if !isRefusal(err) {
		p.server.log.Error(what, "task", p.task, "error", err)
	}
}

// finish books the end of an episode.
func (p *player) finish(f *episode.Final) {
	p.playing = false
	p.server.metrics.ended(f.Task, f.Outcome, f.Score)
	if f.Outcome == score.Errored {
		p.server.log.Warn("An episode was given up", "task", f.Task, "scenario", f.Scenario, "cause", f.Cause)
	}
	if p.book == nil {
		return
	}
	p.planned.Task, p.planned.Scenario = f.Task, f.Scenario
	scenario := p.server.scenarios[f.Scenario]
	receipt, err := p.book.finish(p.planned, score.Episode{
		Outcome: f.Outcome, Score: f.Score, Dimensions: f.Dimensions,
		Category: f.Category, Difficulty: scenario.Difficulty, Language: scenario.Language,
	})
	if err == nil && receipt != nil {
		f.Receipt, err = receipt.Sign(p.server.key)
	}
	if err != nil {
		p.server.log.Error("An episode is missing from its ledger or has no receipt", "run", p.tag.run, "shard",
			p.tag.shard, "error", err)
	}
	p.hold(nil, nil)
}

// abandon gives up the episode after a panic: it is errored, and a fresh environment waits for the
// next reset.
func (p *player) abandon() wireError {
	if p.playing {
		p.playing = false
		p.server.metrics.ended(p.task, score.Errored, 0)
		if p.book != nil {
			// an errored one has no receipt, and nothing that could be wrong
			_, _ = p.book.finish(p.planned, score.Episode{Outcome: score.Errored})
		}
	}
	p.hold(nil, nil)
	p.last = episode.Result{}
	fresh, err := p.server.newPlayer()
	if err != nil {
		return wireError{Code: codeExecution,
			Message: "the environment failed and could not be made anew: connect again"}
	}
	p.env = fresh.env
	return wireError{Code: codeExecution, Message: "the environment failed and the episode is lost: send reset to " +
		"begin another"}
}

// writeState appends the answer to a state message.
func (p *player) writeState(out *bytes.Buffer) {
	out.WriteString(`{"type":"state","data":`)
	if err := encode(out, p.env.State()); err != nil {
		out.Reset()
		writeError(out, playError(fmt.Errorf("encoding the state: %w", err)))
		return
	}
	out.WriteByte('}')
}
