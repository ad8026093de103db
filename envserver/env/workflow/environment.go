package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// environment belongs to one session. Its state is nil before the first reset.
type environment struct {
	kind  *Kind
	opts  episode.Options
	state *state
	// shared is true while a fork may have the same state, which the next step then copies.
	shared bool
	// recalled are exchanges with a customer that is a model, for which the model isn't called.
	recalled []episode.Exchange
	// unjudged counts the judge's failures since the last verdict.
	unjudged int
}

// Reset begins an episode. If it fails, the current episode continues.
func (e *environment) Reset(opts episode.Options) (episode.Result, error) {
	if opts.RewardMode == "" {
		opts.RewardMode = episode.Terminal
	}
	task, scenario, err := e.kind.chooseScenario(opts)
	if err != nil {
		return episode.Result{}, err
	}
	workflow, err := e.kind.instances.Get(scenario.ID, opts.Seed, func() (*scenarios.Workflow, error) {
		return scenario.Instantiate(opts.Seed)
	})
	if err != nil {
		return episode.Result{}, &episode.InstanceError{Scenario: scenario.ID, Seed: opts.Seed, Err: err}
	}
	return e.beginEpisode(task, workflow, opts), nil
}

func (k *Kind) chooseScenario(opts episode.Options) (*task, *scenarios.WorkflowScenario, error) {
	t, err := episode.ChooseTask(k.tasks, opts.Task, func(t *task) string { return t.Name })
	if err != nil {
		return nil, nil, err
	}
	if opts.Scenario == "" {
		return t, t.scenarios[episode.DrawIndex(opts.Seed, len(t.scenarios))], nil
	}
	at := slices.IndexFunc(t.scenarios, func(s *scenarios.WorkflowScenario) bool { return s.ID == opts.Scenario })
	if at < 0 {
		return nil, nil, fmt.Errorf("%w %q of task %s", episode.ErrUnknownScenario, opts.Scenario, t.Name)
	}
	return t, t.scenarios[at], nil
}

func (e *environment) beginEpisode(task *task, workflow *scenarios.Workflow, opts episode.Options) episode.Result {
	e.opts, e.shared, e.unjudged, e.recalled = opts, false, 0, nil
	e.state = newState(task, workflow, e.kind.reader, opts.RewardMode)
	e.state.scale = cmp.Or(e.kind.scale, unread)
	return episode.Result{Observation: e.state.observation()}
}

func (e *environment) Step(ctx context.Context, action json.RawMessage) (episode.Result, error) {
	s := e.state
	if s == nil {
		return episode.Result{}, episode.ErrNotReset
	}
	if s.outcome != "" {
		return episode.Result{Observation: s.observation(), Done: true}, nil
	}
	if e.shared || e.kind.judge != nil || e.kind.customer != nil { // what a model can't read is sent again
		s = s.clone()
	}
	message, invalid, err := e.takeTurn(ctx, s, action)
	if message != nil {
		err = e.converse(ctx, s, *message)
	}
	if err == nil {
		err = e.judgeLetter(ctx, s)
	}
	if unjudged, ok := errors.AsType[*episode.JudgeError](err); ok {
		if e.unjudged++; e.unjudged >= episode.MaxJudgeFailures {
			err = s.giveUp(unjudged)
		}
	}
	if err != nil {
		return episode.Result{}, err
	}
	e.state, e.shared = s, false
	if invalid != nil && s.outcome == "" {
		return episode.Result{}, invalid
	}
	final, err := s.makeFinal()
	if err != nil {
		return episode.Result{}, err
	}
	return episode.Result{Observation: s.observation(), Reward: s.payReward(), Done: s.outcome != "", Final: final}, nil
}

// judgeLetter has the letter that ends an episode read. A verdict without a score is a failure of
// the judge.
func (e *environment) judgeLetter(ctx context.Context, s *state) error {
	if e.kind.judge == nil || s.told == nil {
		return nil
	}
	read := grader.Case{Workflow: s.workflow, Reply: s.message, Stated: s.stated, Done: s.listChanges()}
	v, err := e.kind.judge.Judge(ctx, read)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("judging the reply: %w", ctx.Err())
	case err == nil && !v.Scored():
		err = fmt.Errorf("the verdict's status is %q", v.Status)
	}
	if err != nil {
		return &episode.JudgeError{Cause: string(cmp.Or(v.Cause, grader.CauseFailed)), Err: err}
	}
	v.Case = read.Digest()
	s.capResolution(v)
	return nil
}

// takeTurn decodes an action and plays it, or counts it as invalid. A message to a customer that
// isn't the embedded one is returned instead.
func (e *environment) takeTurn(ctx context.Context, s *state, action json.RawMessage) (message *episode.Action,
	invalid *episode.ActionError, err error) {
	release, err := fairness.OccupyProcessor(ctx, len(action))
	if err != nil {
		return nil, nil, err
	}
	defer release()
	decoded, err := actionForm.Decode(action)
	switch {
	case errors.As(err, &invalid):
		err = s.refuseAction(invalid)
	case err == nil && s.isToCustomer(decoded) && e.conversesWith(s):
		message = &decoded
	case err == nil:
		err = s.playAction(decoded)
	}
	return message, invalid, err
}

// refuseAction counts an action outside the schema, which costs no step. The last one allowed ends
// the episode.
func (s *state) refuseAction(invalid *episode.ActionError) (err error) {
	s.invalid++
	s.addFine("malformed", wrongPenalty, invalid.Error())
	if s.invalid == episode.MaxInvalidActions {
		s.outcome = score.Failed
		s.last, err = encodeDocument(
			newFailure("%v. This was invalid action %d: the episode is over", invalid, s.invalid),
		)
	}
	return err
}

// Fork shares the state until one of both takes a step.
func (e *environment) Fork() episode.Environment {
	e.shared = true
	fork := *e
	return &fork
}

// State reports the episode without gold labels.
func (e *environment) State() any {
	s := e.state
	if s == nil {
		return State{}
	}
	return State{
		EpisodeID: new(e.opts.EpisodeID), StepCount: s.step, Seed: e.opts.Seed, Task: s.task.Name,
		Done: s.outcome != "", MaxSteps: s.workflow.MaxSteps, RewardMode: s.mode, InvalidActions: s.invalid,
	}
}
