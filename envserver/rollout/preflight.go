package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
)

var (
	// ErrAgentRefused means that the agent's endpoint refuses every request: its key, its model's
	// name or its address is wrong. No further attempt helps until somebody changes that.
	ErrAgentRefused = errors.New("the agent can't play: correct its address, its model's name or its key")
	// ErrAgentUnavailable means that the agent's endpoint didn't answer within agentPatience.
	ErrAgentUnavailable = errors.New("the agent's endpoint can't be used")
)

const (
	// agentPatience is how long an endpoint that may start or recover is tried.
	agentPatience = 2 * time.Minute
	// confirmAfter is the pause before a refusal is confirmed: gateways that start refuse too.
	confirmAfter = 5 * time.Second
	// betweenTrials is the least time between two trials while episodes are played.
	betweenTrials = 30 * time.Second
)

// tryAgent tries the agent's endpoint before anything is played.
func (c *Config) tryAgent(ctx context.Context) error {
	began := c.Clock.Now()
	for round := 0; ; round++ {
		err := c.tryOnce(ctx)
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

// tryOnce tries the agent's endpoint, and once more if that refuses the request. An endpoint that
// asks to wait is there.
func (c *Config) tryOnce(ctx context.Context) error {
	if c.Try == nil {
		return nil
	}
	for refused := false; ; refused = true {
		err := c.Try(ctx)
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

// tryAgain tries the agent's endpoint after an episode failed as others may, so that a key that was
// revoked doesn't cost all of the remaining episodes. It fails with ErrAgentRefused only.
func (s *shard) tryAgain(ctx context.Context) error {
	s.agent.Lock()
	defer s.agent.Unlock()
	if now := s.Clock.Now(); ctx.Err() != nil || now.Sub(s.tried) < betweenTrials {
		return ctx.Err()
	}
	err := s.tryOnce(ctx)
	s.tried = s.Clock.Now()
	if errors.Is(err, ErrAgentRefused) {
		return err
	}
	return ctx.Err()
}
