package policy

import (
	"context"
	"errors"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// EndpointError means that an agent's endpoint gave no action. Such an episode gets no score: it is
// played again, and errored after the last attempt. The error quotes at most endpoint.MaxWords
// bytes of an answer, and never the key.
type EndpointError struct {
	// Class is one of score's classes of errors. ClassAgentError means that waiting doesn't help: a
	// wrong key, a wrong model, an answer that violates the protocol. Nor does it help for
	// ClassAgentContext: the conversation is too long for the model, even shortened.
	Class string
	// After is the pause that the endpoint asked for, 0 for none.
	After time.Duration
	// Own is set if the agent itself refused, as HTTP and Container agents can: what a model's
	// endpoint does is no choice of the model.
	Own bool
	Err error
}

func (e *EndpointError) Error() string { return e.Err.Error() }

func (e *EndpointError) Unwrap() error { return e.Err }

// maxTokenCount bounds the tokens of one answer: more than any model uses, and no sum overflows.
const maxTokenCount = 10_000_000

// tokensOf counts an answer's tokens. The endpoint's numbers aren't trusted.
func tokensOf(prompt, completion int64) score.Tokens {
	return score.Tokens{Prompt: min(max(prompt, 0), maxTokenCount), Completion: min(max(completion, 0), maxTokenCount)}
}

// Metered is a policy that uses tokens.
type Metered interface {
	// Usage is the episode's use so far, including requests that gave no action.
	Usage() score.Tokens
}

// Speaker is a policy whose actions a model writes.
type Speaker interface {
	// Answer is the model's answer that contained the last action. It is bounded.
	Answer() record.Answer
}

// The bounds of what is tried within an attempt at an episode.
const (
	attempts     = 5
	firstBackoff = time.Second
	maxBackoff   = 20 * time.Second
	// maxWaiting bounds the episodes that wait for the endpoint, far above any runner's sessions.
	maxWaiting = 1 << 20
)

// newCaller makes the caller of an agent's endpoint, which all episodes of the process share.
func newCaller(perMinute float64, o Options) *endpoint.Caller {
	return endpoint.NewCaller(endpoint.Config{
		MaxConcurrency: max(o.Concurrency, 1), MaxQueue: maxWaiting, Attempts: attempts,
		Patience: endpoint.Patience, FirstBackoff: firstBackoff, MaxBackoff: maxBackoff,
		MaxRetryAfter: endpoint.LongestAsked, PerMinute: perMinute, PauseAll: true, Wait: o.Wait,
	})
}

// ActTimeout is the longest time that an action may take, with all attempts and waiting; 0 for an
// agent without an endpoint.
func (c Config) ActTimeout(o Options) time.Duration {
	timeout := c.requestTimeout()
	if timeout == 0 {
		return 0
	}
	total := attempts*timeout + (attempts-1)*endpoint.LongestAsked
	if c.OpenAI != nil && c.OpenAI.RequestsPerMinute > 0 {
		// All other episodes may come first.
		others := time.Duration(max(o.Concurrency, 1) * max(o.Share, 1))
		total += others * time.Minute / time.Duration(c.OpenAI.RequestsPerMinute)
	}
	if c.Container != nil {
		total += maxStartup
	}
	return total
}

// newEndpointError gives a call's error its class. The end of the context is no failure of the
// endpoint.
func newEndpointError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := &EndpointError{Class: score.ClassAgentUnavailable, Err: err}
	e, ok := errors.AsType[*endpoint.Error](err)
	if !ok {
		return failed
	}
	failed.After, failed.Class = e.After, e.Class.OfAgent()
	return failed
}
