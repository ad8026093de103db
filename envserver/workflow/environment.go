package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/scenarios"
)

// environment is one session's. Its course is nil before the first reset.
type environment struct {
	kind  *Kind
	opts  episode.Options
	state *state
}

// Reset begins an episode. When it fails the last episode goes on.
func (e *environment) Reset(opts episode.Options) (episode.Result, error) {
	if opts.RewardMode == "" {
		opts.RewardMode = episode.Dense
	}
	task, scenario, err := e.kind.choose(opts)
	if err != nil {
		return episode.Result{}, err
	}
	workflow, err := scenario.Instantiate(opts.Seed)
	if err != nil {
		return episode.Result{}, fmt.Errorf("instantiating scenario %s: %w", scenario.ID, err)
	}
	return e.begin(task, workflow, opts), nil
}

func (e *environment) begin(task *task, workflow *scenarios.Workflow, opts episode.Options) episode.Result {
	e.opts, e.state = opts, newState(task, workflow, e.kind.reader, opts.RewardMode)
	return episode.Result{Observation: e.state.observation()}
}

// Step plays one action.
func (e *environment) Step(_ context.Context, action json.RawMessage) (episode.Result, error) {
	c := e.state
	if c == nil {
		return episode.Result{}, episode.ErrNotReset
	}
	if c.outcome != "" {
		return episode.Result{Observation: c.observation(), Done: true}, nil
	}
	decoded, err := actionForm.Decode(action)
	var invalid *episode.ActionError
	switch {
	case errors.As(err, &invalid):
		err = c.refuse(invalid)
	case err == nil:
		err = c.play(decoded)
	}
	if err != nil {
		return episode.Result{}, err
	}
	if invalid != nil && c.outcome == "" {
		return episode.Result{}, invalid
	}
	return episode.Result{Observation: c.observation(), Reward: c.pay(), Done: c.outcome != "", Final: c.final()}, nil
}

// State reports the episode without anything that the agent must find out.
func (e *environment) State() any {
	c, id := e.state, e.opts.EpisodeID
	if c == nil {
		return State{}
	}
	return State{
		EpisodeID: &id, StepCount: c.step, Seed: e.opts.Seed, Task: c.task.name, Done: c.outcome != "",
		MaxSteps:   c.workflow.MaxSteps,
		RewardMode: c.mode, InvalidActions: c.invalid,
	}
}
