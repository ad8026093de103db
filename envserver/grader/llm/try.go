package llm

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

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
		claims: []claim{{ID: "canary"}, {ID: letterClaim}},
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
	complaint := ""
	for attempt := range semanticAttempts {
		build := func(lacks endpoint.Feature) (prompt, error) {
			return j.write(q, canaryKey, attempt, complaint, lacks)
		}
		text, p, err := j.client.complete(ctx, build, usage)
		if err != nil && !errors.Is(err, errNoVerdict) {
			return fmt.Errorf("trying the judge: %w", err)
		}
		var verdicts []grader.Evidence
		if err == nil {
			verdicts, err = parseAnswer(text, q)
		}
		switch {
		case err != nil:
		case strings.Contains(text, p.canary):
			err = errRevealed
		case !isDecided(verdicts):
			err = errors.New("the model doesn't decide")
		default:
			return nil
		}
		complaint = err.Error()
	}
	return fmt.Errorf("trying the judge: model %s at %s answers, but with no verdict: %s", j.config.Model,
		endpoint.WithoutSecrets(j.config.BaseURL), complaint)
}
