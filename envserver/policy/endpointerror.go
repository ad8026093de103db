package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/score"
)

// Class is how an agent's endpoint failed. None of them is the agent's fault in the sense of a
// score: the episode is played again, and errored in the end.
type Class string

// The classes of an endpoint's failures.
const (
	// RateLimited endpoints have said that there are too many requests.
	RateLimited Class = score.ClassAgentRateLimited
	// TimedOut endpoints have not answered in time.
	TimedOut Class = score.ClassAgentTimeout
	// Unavailable endpoints can't be reached or have failed.
	Unavailable Class = score.ClassAgentUnavailable
	// Refused requests and answers that are none would not get better by waiting: a wrong key, a
	// wrong model, an answer that isn't the protocol's.
	Refused Class = score.ClassAgentError
)

// EndpointError means that an agent's endpoint gave no action. It holds nothing that is secret: no
// key and no text of an answer.
type EndpointError struct {
	Class Class
	// After is how long the endpoint asked to be left alone, 0 if it didn't.
	After time.Duration
	Err   error
}

func (e *EndpointError) Error() string { return e.Err.Error() }

// Unwrap returns the failure itself.
func (e *EndpointError) Unwrap() error { return e.Err }

// Usage are the tokens that an agent's model took, as its endpoint counts them; 0 where it doesn't
// say.
type Usage struct {
	Prompt, Completion int64
}

// maxTokenCount bounds what an endpoint may say of one answer: more than any model reads or writes,
// and so little that no sum overflows.
const maxTokenCount = 10_000_000

// add counts an answer's tokens, which are the endpoint's word.
func (u *Usage) add(prompt, completion int64) {
	u.Prompt += min(max(prompt, 0), maxTokenCount)
	u.Completion += min(max(completion, 0), maxTokenCount)
}

// Metered is a policy that uses tokens.
type Metered interface {
	// Usage is what the episode has used so far, requests without use included.
	Usage() Usage
}

// Speaker is a policy that has words for what it does.
type Speaker interface {
	// Said is what came with the last action, "" for nothing: the model's text. It is bounded.
	Said() string
}

// The bounds of what is tried within an attempt at an episode.
const (
	attempts     = 5
	firstBackoff = time.Second
	maxBackoff   = 20 * time.Second
	// patience is the longest pause that an endpoint may ask for before the attempt is given up.
	patience = 90 * time.Second
	// maxWaiting bounds the episodes that wait for the endpoint: far above the sessions of any
	// runner.
	maxWaiting = 1 << 20
)

// newCaller calls an agent's endpoint, for all episodes of the process.
func newCaller(perMinute float64, o Options) *endpoint.Caller {
	return endpoint.NewCaller(endpoint.Config{
		MaxConcurrency: max(o.Concurrency, 1), MaxQueue: maxWaiting, Attempts: attempts, FirstBackoff: firstBackoff,
		MaxBackoff: maxBackoff,
		Patience:   patience, PerMinute: perMinute, Hold: true, Wait: o.Wait,
	})
}

// ActTimeout is how long the agent may take for an action, all attempts and waiting included; 0 for
// one without an endpoint.
func (c Config) ActTimeout(o Options) time.Duration {
	timeout := c.timeout()
	if timeout == 0 {
		return 0
	}
	total := attempts*timeout + (attempts-1)*patience
	if c.OpenAI != nil && c.OpenAI.RequestsPerMinute > 0 {
		// All other episodes may have their turns first.
		total += time.Duration(max(o.Concurrency, 1)*max(o.Share, 1)) * time.Minute / time.Duration(
			c.OpenAI.RequestsPerMinute)
	}
	if c.Container != nil {
		total += maxStartup
	}
	return total
}

// maxComplaint bounds what is told of an endpoint's own words, in bytes.
const maxComplaint = 300

// unanswered gives a call's error the class by which the episode is played again. The end of the
// context is no failure of the endpoint.
func unanswered(ctx context.Context, err error, key string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := &EndpointError{Class: Unavailable, Err: err}
	e, ok := errors.AsType[*endpoint.Error](err)
	if !ok {
		return failed
	}
	failed.After = e.After
	switch e.Class {
	case endpoint.Throttled:
		failed.Class = RateLimited
	case endpoint.TimedOut:
		failed.Class = TimedOut
	case endpoint.ServerError, endpoint.Broken:
		failed.Class = Unavailable
	default:
		failed.Class = Refused
	}
	if e.Complaint != "" {
		failed.Err = fmt.Errorf("%w: %s", err, clip(redact(e.Complaint, key), maxComplaint))
	}
	return failed
}

// redact takes a key out of a text that isn't ours.
func redact(text, key string) string {
	if key == "" {
		return text
	}
	return strings.ReplaceAll(text, key, "[key]")
}
