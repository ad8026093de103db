package llm

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader"
)

// canaryKey stands for the cache key of the question that Try asks.
var canaryKey = hex.EncodeToString(make([]byte, 32))

// canary is a question about a made-up ticket. Its form is that of every other question, so that an
// endpoint which answers it can judge.
func (j *Judge) canary() *question {
	return &question{
		Model: j.config.Model, MaxTokens: j.config.MaxTokens, Actions: describeActions(grader.Actions{}),
		Facts:  []string{"delivery day: Monday"},
		Ticket: datamarkText("When will my parcel arrive?"), Reply: datamarkText("Your parcel will arrive on Monday."),
		Claims: []asked{{ID: "c1", Statement: "The reply says on which day the parcel will arrive."}},
		claims: []claim{{Claim: grader.Claim{Kind: "canary"}}, {Claim: letterClaim}},
	}
}

// Try asks the model one made-up question, to learn whether it can judge. The question is neither
// counted as a verdict nor cached. It is repeated as any other request. The error wraps an
// *endpoint.Error if a request failed; its Words are free of replies, because the question is.
func (j *Judge) Try(ctx context.Context) error {
	if j.config.CacheMode == CacheFrozen || j.config.OnFailure == FailureIsOffline {
		return nil
	}
	return endpoint.AwaitStart(ctx, 1, j.config.Wait, func() error {
		ctx, cancel := context.WithTimeout(ctx, j.config.Timeout)
		defer cancel()
		return j.try(ctx, j.canary(), &grader.Usage{})
	})
}

// try asks a question, and adds what it costs to the usage.
func (j *Judge) try(ctx context.Context, q *question, usage *grader.Usage) error {
	_, _, err := j.answers(ctx, q, canaryKey, true, usage)
	if _, answered := errors.AsType[*endpoint.WrongAnswer](err); answered {
		return fmt.Errorf("trying the judge: model %s at %s answers, but with no verdict: %w", j.config.Model,
			endpoint.WithoutSecrets(j.config.BaseURL), err)
	}
	if err != nil {
		return fmt.Errorf("trying the judge: %w", err)
	}
	return nil
}
