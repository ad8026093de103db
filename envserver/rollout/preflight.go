package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/score"
)

var (
	// ErrAgentRefused means that the agent's endpoint refuses every request: its key, its model's
	// name or its address is wrong. Further attempts fail until that is corrected.
	ErrAgentRefused = errors.New("the agent can't play: correct its address, its model's name or its key")
	// ErrAgentUnavailable means that the agent's endpoint didn't answer within agentPatience.
	ErrAgentUnavailable = errors.New("the agent's endpoint can't be used")
)

const (
	// agentPatience is the maximum time of the trials of an endpoint that may be starting or
	// recovering.
	agentPatience = 2 * time.Minute
	// confirmAfter is the pause before a refusal is confirmed, because starting gateways refuse
	// too.
	confirmAfter = 5 * time.Second
	// betweenTrials is the least time between two trials while episodes are played.
	betweenTrials = 30 * time.Second
)

// tryAgent tries the agent's endpoint before the first episode.
func (c *Config) tryAgent(ctx context.Context) error {
	began := c.Clock.Now()
	for round := 0; ; round++ {
		err := c.tryOnce(ctx, c.Try)
		switch {
		case err == nil || errors.Is(err, ErrAgentRefused):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case c.Clock.Now().Sub(began) >= agentPatience:
			return fmt.Errorf("%w: %w", ErrAgentUnavailable, err)
		}
		if err := c.Clock.backOff(ctx, round); err != nil {
			return err
		}
	}
}

// tryOnce tries the agent's endpoint, and once more if it refuses the request. An endpoint that
// requests a wait counts as reachable.
func (c *Config) tryOnce(ctx context.Context, try func(context.Context) error) error {
	if try == nil {
		return nil
	}
	for refused := false; ; refused = true {
		err := try(ctx)
		if err == nil || endpoint.ClassOf(err) == endpoint.Throttled {
			return nil
		}
		e, ok := errors.AsType[*endpoint.Error](err)
		permanent := ok && e.Permanent()
		c.Log.Warn("The agent's endpoint was tried in vain", "shard", c.Shard, "permanent", permanent, "error", err)
		switch {
		case !permanent:
			return err
		case refused:
			return fmt.Errorf("%w: %w", ErrAgentRefused, err)
		}
		if err := c.Clock.Sleep(ctx, confirmAfter); err != nil {
			return err
		}
	}
}

// tryAgain tries the agent's endpoint after a failed episode, so that a revoked key doesn't make
// all remaining episodes fail. It returns only ErrAgentRefused.
func (s *shard) tryAgain(ctx context.Context) error {
	s.agent.Lock()
	defer s.agent.Unlock()
	if now := s.Clock.Now(); ctx.Err() != nil || now.Sub(s.tried) < betweenTrials {
		return ctx.Err()
	}
	err := s.tryOnce(ctx, s.Try)
	s.tried = s.Clock.Now()
	if errors.Is(err, ErrAgentRefused) {
		return err
	}
	return ctx.Err()
}

// rehearse plays a made-up episode with the agent before the plan's first one. Its tokens aren't
// counted: those of a run are the sum of its episodes'. It returns only ErrAgentRefused: after any
// other failure the episodes tell whether the agent can play.
func (s *shard) rehearse(ctx context.Context) error {
	if s.Rehearse == nil || s.Shard != 0 {
		return nil
	}
	first := s.Plan.Tasks[0].Name
	err := s.tryOnce(ctx, func(ctx context.Context) error {
		seen, is, err := s.Rehearse(ctx, policy.Turn{Environment: s.Environment, Task: first, Schema: s.schema,
			Planned: score.PlannedEpisode{Task: first, Scenario: "trial", Seed: s.Plan.Seed}})
		if is && err == nil {
			s.seen = seen.String()
		}
		return err
	})
	if errors.Is(err, ErrAgentRefused) {
		return err
	}
	return ctx.Err()
}
