package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
)

// ErrUnfinished means that the actions of a record don't end its episode: a failure other than the
// judge's interrupted it, and only a new rollout can score it.
var ErrUnfinished = errors.New("the recorded actions don't end the episode: play it again")

// RegradeEpisode plays the actions of a record again in an environment of the kind and returns the
// record with the new grade and rewards; the old grade moves to Before. It returns ErrUnfinished
// for an interrupted episode, and an error if the kind has no such task or scenario. If the judge
// fails, the outcome is errored.
func RegradeEpisode(ctx context.Context, kind episode.Kind, e Episode) (Episode, error) {
	if kind.Name() != e.Environment {
		return Episode{}, fmt.Errorf("regrading episode %d: it was played in the %s environment, not in %s", e.Index,
			e.Environment, kind.Name())
	}
	env := kind.New()
	if _, err := e.Begin(env); err != nil {
		return Episode{}, fmt.Errorf("regrading episode %d: %w", e.Index, err)
	}
	again := e
	again.Turns, again.Before = make([]Turn, 0, len(e.Turns)), &e.Grade
	if e.Before != nil {
		again.Before = e.Before
	}
	final, err := again.replay(ctx, env, e.Turns)
	if err != nil {
		return Episode{}, fmt.Errorf("regrading episode %d: %w", e.Index, err)
	}
	again.Grade = gradeOf(kind, final)
	if name := episode.CustomerIn(e.GraderVersion); name != "" {
		again.GraderVersion = episode.WithCustomer(again.GraderVersion, name) // whose exchanges are recalled
	}
	return again, nil
}

// Options are those with which the episode began.
func (e *Episode) Options() episode.Options {
	return episode.Options{Seed: e.Seed, EpisodeID: e.EpisodeID, Task: e.Task, Scenario: e.Scenario,
		RewardMode: e.RewardMode, Pressure: e.Pressure, IDKey: e.IDKey}
}

// Begin resets an environment to the beginning of the episode. Its customer says what the record
// has.
func (e *Episode) Begin(env episode.Environment) (episode.Result, error) {
	begun, err := env.Reset(e.Options())
	if talking, ok := env.(episode.Conversing); ok && err == nil {
		talking.Recall(e.Customer)
	}
	return begun, err
}

// replay plays the turns until the episode is over.
func (e *Episode) replay(ctx context.Context, env episode.Environment, turns []Turn) (*episode.Final, error) {
	for _, turn := range turns {
		result, err := stepUntilJudged(ctx, env, turn.Action)
		turn.Reward, turn.Refused = float64(result.Reward)/1000, ""
		if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
			turn.Refused, err = invalid.Error(), nil
		}
		if err != nil {
			return nil, err
		}
		e.Turns = append(e.Turns, turn)
		if result.Final != nil {
			return result.Final, nil
		}
	}
	return nil, ErrUnfinished
}

// stepUntilJudged plays an action, and repeats it if it could not be judged. The environment ends
// the episode after several such failures.
func stepUntilJudged(ctx context.Context, env episode.Environment, action json.RawMessage) (episode.Result, error) {
	for {
		result, err := env.Step(ctx, action)
		if _, unjudged := errors.AsType[*episode.JudgeError](err); !unjudged {
			return result, err
		}
	}
}

func gradeOf(kind episode.Kind, final *episode.Final) Grade {
	g := Grade{
		Outcome: final.Outcome, Wrong: final.Wrong, Dimensions: final.Dimensions, Judge: final.Judge,
		GraderVersion: kind.GraderVersion(), ScenarioDigest: kind.ScenarioDigest(), Verdicts: final.Verdicts,
	}
	if final.Outcome == score.Errored {
		g.Class = cmp.Or(final.Cause, string(grader.CauseFailed))
		return g
	}
	points := float64(final.Score) / score.One
	g.Score = &points
	return g
}
