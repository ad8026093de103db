package ticket

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/scenarios"
)

// environment belongs to one session. Its state is nil before the first reset.
type environment struct {
	kind  *Kind
	opts  episode.Options
	state *state
	// unjudged counts the judge's failures since the last verdict.
	unjudged int
}

// Reset begins an episode. If it fails, the current episode continues.
func (e *environment) Reset(opts episode.Options) (episode.Result, error) {
	if opts.RewardMode == "" {
		opts.RewardMode = episode.Terminal
	}
	choice, err := e.kind.choose(opts)
	if err != nil {
		return episode.Result{}, err
	}
	tickets, err := scenarios.Together(choice.tickets, opts.Seed)
	if err != nil {
		return episode.Result{}, &episode.InstanceError{Scenario: choice.scenario, Seed: opts.Seed, Err: err}
	}
	return e.begin(choice, tickets, opts), nil
}

func (e *environment) begin(c *choice, tickets []*scenarios.Ticket, opts episode.Options) episode.Result {
	e.opts, e.state, e.unjudged = opts, newState(c, tickets, opts), 0
	return episode.Result{Observation: e.state.observation()}
}

func (e *environment) Step(ctx context.Context, action json.RawMessage) (episode.Result, error) {
	if e.state == nil {
		return episode.Result{}, episode.ErrNotReset
	}
	if e.state.outcome != "" {
		observation := e.state.observation()
		observation.Feedback = "The episode is over: send reset to begin the next one."
		return episode.Result{Observation: observation, Done: true}, nil
	}
	next := e.state.clone()
	decoded, err := actionForm.Decode(action)
	var invalid *episode.ActionError
	switch {
	case errors.As(err, &invalid):
		next.refuse(invalid)
	case err != nil:
		return episode.Result{}, err
	default:
		next.apply(decoded)
	}
	reward, final, err := next.grade(ctx, e.kind.judge)
	if unjudged, ok := errors.AsType[*episode.JudgeError](err); ok {
		if e.unjudged++; e.unjudged >= episode.MaxJudgeFailures {
			final, err = next.giveUp(unjudged), nil
		}
	}
	if err != nil {
		return episode.Result{}, err
	}
	if next.verdicts() > e.state.verdicts() {
		e.unjudged = 0
	}
	e.state = next
	if invalid != nil && final == nil {
		return episode.Result{}, invalid
	}
	return episode.Result{Observation: next.observation(), Reward: reward, Done: final != nil, Final: final}, nil
}

// State reports the episode without gold labels.
func (e *environment) State() any {
	s := e.state
	if s == nil {
		return State{}
	}
	return State{
		EpisodeID: new(e.opts.EpisodeID), StepCount: s.step, Seed: e.opts.Seed, Task: s.task.name,
		TicketID: s.selected().id, Status: s.selected().status, Done: s.outcome != "", MaxSteps: s.task.maxSteps,
		RewardMode: s.mode, InvalidActions: s.invalid, Pressure: s.pressure, ClockMinutes: s.clock,
	}
}
