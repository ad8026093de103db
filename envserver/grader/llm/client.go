package llm

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader"
)

// The waits of decide between two judgements of a reply: the first is at most firstBackoff, and it
// doubles up to maxBackoff.
const firstBackoff, maxBackoff = 500 * time.Millisecond, 8 * time.Second

var askerMetrics = endpoint.AskerMetrics{
	Calls: "csenv_judge_calls_total", Retries: "csenv_judge_retries_total", Tokens: "csenv_judge_tokens_total",
	CallSeconds: "csenv_judge_call_duration_seconds", InFlight: "csenv_judge_in_flight",
	Waiting: "csenv_judge_waiting", Limit: "csenv_judge_concurrency_limit",
}

// asking configures the requests.
func (c *Config) asking() endpoint.AskerConfig {
	return endpoint.AskerConfig{Whom: "judge", Metrics: askerMetrics,
		BaseURL: c.BaseURL, Model: c.Model, APIKey: c.APIKey,
		Timeout: c.round(), MaxTokens: c.MaxTokens, MaxConcurrency: c.MaxConcurrency, MaxQueue: c.MaxQueue,
		HTTPClient: c.HTTPClient, Now: c.Now, Random: c.Random, Wait: c.Wait}
}

// wrapFailure wraps a question's error with its cause.
func wrapFailure(ctx context.Context, err error) error {
	class := endpoint.ClassOf(err)
	_, wrong := errors.AsType[*endpoint.WrongAnswer](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errRevealed):
		return newFailure(grader.CauseFailed, err)
	case wrong:
		return newFailure(grader.CauseUnparsable, err)
	case ctx.Err() != nil:
		return err
	case errors.Is(err, endpoint.ErrQueueFull):
		return newFailure(grader.CauseUnavailable, err)
	case class == endpoint.Unsent:
		return err
	}
	return newFailure(grader.Cause(class.OfJudge()), err)
}

// answerSchema returns the JSON schema of an answer. Endpoints generate properties in its order, so
// quote and reason come before the verdict, and the letter comes last.
func answerSchema(ids []string) map[string]any {
	properties := `{"id":{"enum":["` + strings.Join(ids, `","`) + `"],"type":"string"},` +
		`"evidence_quote":{"type":"string"},"reason":{"type":"string"},` +
		`"verdict":{"enum":["met","unmet","cannot_judge"],"type":"string"}}`
	const letter = `{"additionalProperties":false,"properties":{"reason":{"type":"string"},` +
		`"may_be_sent":{"type":"boolean"}},"required":["reason","may_be_sent"],"type":"object"}`
	verdicts := `{"items":{"additionalProperties":false,"properties":` + properties +
		`,"required":["id","evidence_quote","reason","verdict"],"type":"object"},"type":"array"}`
	return map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"verdicts", "letter"},
		"properties": stdjson.RawMessage(`{"verdicts":` + verdicts + `,"letter":` + letter + `}`),
	}
}
