package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// forfeit ends the episode of an agent that has acted and then refuses to go on, as if it answered
// with what is no action: it may not take its moves back. It returns the agent's error if the agent
// hasn't acted, or if it or its endpoint failed in another way, which a trial shows.
func (w *worker) forfeit(ctx context.Context, refused error, p *played) error {
	failed, ok := errors.AsType[*policy.EndpointError](refused)
	acted := slices.ContainsFunc(p.turns, func(t record.Turn) bool { return t.Refused == "" })
	if !ok || !failed.Own || failed.Class != score.ClassAgentError || !acted {
		return refused
	}
	if err := w.shard.tryNow(ctx); errors.Is(err, ErrAgentRefused) || ctx.Err() != nil {
		return err
	} else if err != nil {
		return refused
	}
	w.shard.Log.Warn("The agent refused to go on, which ends the episode as failed", "error", failed.Err)
	noAction := json.RawMessage(`{"agent_error":true}`)
	for range episode.MaxInvalidActions {
		seen, err := w.client.Step(ctx, noAction)
		turn := record.Turn{Action: noAction, Reward: seen.Reward, Refused: readRefusal(err)}
		if err != nil && turn.Refused == "" {
			return w.classifyFailure(err)
		}
		p.turns = append(p.turns, turn)
		if seen.Done {
			p.end = seen
			return nil
		}
	}
	return refused
}
