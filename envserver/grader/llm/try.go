package llm

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
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
		claims: []offline.Claim{{ID: "canary"}, {ID: offline.LetterClaim}},
	}
}

// Try asks the model one made-up question, to learn whether it can judge. The question is neither
// counted as a verdict nor cached, and it is asked whatever the breaker's state. The error wraps an
// *endpoint.Error if a request failed; its Words are free of replies, because the question is.
func (j *Judge) Try(ctx context.Context) error {
	if j.config.CacheMode == CacheFrozen || j.config.OnFailure == FailureIsOffline {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, j.config.Timeout)
	defer cancel()
	return j.try(ctx, j.canary(), &grader.Usage{})
}

// try asks a question whatever the breaker's state, and adds what it costs to the usage.
func (j *Judge) try(ctx context.Context, q *question, usage *grader.Usage) error {
	complaint := ""
	for attempt := 0; ; attempt++ {
		p, err := j.write(q, canaryKey, attempt, complaint, j.client.lacks())
		if err != nil {
			return err
		}
		answer, err := j.client.post(ctx, p, usage)
		if e, ok := errors.AsType[*endpoint.Error](err); ok && e.Anew {
			attempt-- // each feature is refused once
			continue
		}
		if err != nil {
			return fmt.Errorf("trying the judge: %w", err)
		}
		text, err := extractContent(answer)
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
		}
		if err == nil {
			return nil
		}
		if attempt+1 == semanticAttempts || ctx.Err() != nil {
			return fmt.Errorf("trying the judge: model %s at %s answers, but with no verdict: %w", j.config.Model,
				endpoint.WithoutSecrets(j.config.BaseURL), err)
		}
		complaint = err.Error()
	}
}
