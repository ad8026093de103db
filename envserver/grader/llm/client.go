package llm

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader"
)

const (
	maxAttempts = 4 // the number of attempts before the endpoint counts as unavailable
	// firstBackoff is the maximum wait before the second attempt. It doubles up to maxBackoff.
	firstBackoff, maxBackoff = 500 * time.Millisecond, 8 * time.Second
	maxBody                  = 1 << 20 // bounds an endpoint's response, in bytes
	// minRequests is the number of requests before the breaker may open, breakerWindow the period
	// that it observes, and breakerPause the time that it stays open.
	minRequests                 = 20
	breakerWindow, breakerPause = time.Minute, 15 * time.Second
)

// client sends prompts to an endpoint, through the breaker and with retries.
type client struct {
	config      *Config
	completions *endpoint.Completions
	caller      *endpoint.Caller
	breaker     *gobreaker.CircuitBreaker[*endpoint.Answer]
	metrics     *metrics
	// last is the latest failure that the breaker counts.
	last atomic.Pointer[endpoint.Error]
}

func newClient(c *Config, m *metrics) *client {
	return &client{
		config: c, metrics: m,
		completions: endpoint.NewCompletions(endpoint.Service{BaseURL: c.BaseURL, Key: c.APIKey,
			Timeout: c.Timeout / 2, MaxBody: maxBody, HTTPClient: c.HTTPClient, Now: c.Now}),
		caller: endpoint.NewCaller(endpoint.Config{MaxConcurrency: c.MaxConcurrency, MaxQueue: c.MaxQueue,
			Attempts: maxAttempts, FirstBackoff: firstBackoff, MaxBackoff: maxBackoff,
			Now: c.Now, Random: c.Random, Wait: c.Wait}),
		breaker: gobreaker.NewCircuitBreaker[*endpoint.Answer](gobreaker.Settings{
			Interval: breakerWindow, BucketPeriod: breakerWindow / 6, Timeout: breakerPause,
			ReadyToTrip: func(n gobreaker.Counts) bool {
				return n.TotalSuccesses+n.TotalFailures >= minRequests && n.TotalFailures >= n.TotalSuccesses
			},
			IsSuccessful: func(err error) bool { return err == nil || endpoint.ClassOf(err) == endpoint.Unparsable },
			IsExcluded:   func(err error) bool { return err != nil && !endpoint.ClassOf(err).Outage() },
		}),
	}
}

// complete sends a prompt until it is answered, and returns the answer. Direct prompts pass an open
// breaker. Usage counts every attempt.
func (c *client) complete(ctx context.Context, build func(lacks endpoint.Feature) (prompt, error), direct bool,
	usage *grader.Usage) (text string, p prompt, err error) {
	send := c.send
	if direct {
		send = c.post
	}
	err = c.caller.Do(ctx, func(ctx context.Context) error {
		p, err = build(c.lacks())
		if err != nil {
			return err
		}
		answer, err := send(ctx, p, usage)
		if err != nil {
			return err
		}
		text, err = extractContent(answer)
		return err
	}, func(e *endpoint.Error) {
		usage.Retries++
		if !e.Anew {
			c.metrics.retries.WithLabelValues(e.Class.String()).Inc()
		}
	})
	return text, p, classifyError(ctx, err)
}

// classifyError wraps a call's error with its cause.
func classifyError(ctx context.Context, err error) error {
	class := endpoint.ClassOf(err)
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case errors.Is(err, endpoint.ErrQueueFull), refusedByBreaker(err):
		return newFailure(grader.CauseUnavailable, err)
	case errors.Is(err, endpoint.ErrNoJSON): // of a gateway, for example
		return newFailure(grader.CauseUnavailable, err)
	case class == endpoint.Unparsable, class == endpoint.Unclear, errors.Is(err, errNoVerdict):
		return newFailure(grader.CauseUnparsable, err)
	case class == endpoint.TimedOut && errors.Is(err, endpoint.ErrNoTime):
		return newFailure(grader.CauseTimeout, err)
	case class.Again():
		return newFailure(grader.CauseUnavailable, err)
	case class == endpoint.Unsent:
		return err
	}
	return newFailure(grader.CauseFailed, err)
}

func refusedByBreaker(err error) bool {
	return errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}

// send makes one request, unless the breaker is open.
func (c *client) send(ctx context.Context, p prompt, usage *grader.Usage) (*endpoint.Answer, error) {
	answer, err := c.breaker.Execute(func() (*endpoint.Answer, error) { return c.post(ctx, p, usage) })
	if refusedByBreaker(err) {
		return nil, &blockedError{last: c.last.Load(), err: err}
	}
	return answer, err
}

// blockedError means that the breaker held a request back.
type blockedError struct {
	last *endpoint.Error
	err  error
}

func (b *blockedError) Error() string { return b.Public() + ": " + b.err.Error() }

func (b *blockedError) Unwrap() error { return b.err }

// Public names the latest failure.
func (b *blockedError) Public() string {
	text := "the judge's endpoint has failed too often"
	if b.last != nil {
		text += ", most recently: " + b.last.Public()
	}
	return text
}

var (
	// errContent means that the model or its filter refused what it was to read. A reply provokes
	// that, so it is graded by the rules: an agent must not be able to have its bad replies left
	// out.
	errContent = errors.New("the model refused to answer")
	// errNoVerdict means that the model's answer is no JSON.
	errNoVerdict = errors.New("the answer is not a complete JSON object")
)

// post makes one request. If the endpoint refuses a part of it, the next one is sent without.
func (c *client) post(ctx context.Context, p prompt, usage *grader.Usage) (*endpoint.Answer, error) {
	usage.Calls++
	began := c.config.Now()
	answer, err := c.completions.Send(ctx, c.request(p), p.lacks)
	c.metrics.called(endpoint.ClassOf(err), c.config.Now().Sub(began))
	c.count(answer, usage)
	if e, ok := errors.AsType[*endpoint.Error](err); ok {
		if e.Class == endpoint.Filtered {
			e.Err = errContent
		}
		if e.Class.Outage() {
			c.last.Store(e)
		}
	}
	return answer, err
}

func (m *metrics) called(c endpoint.Class, took time.Duration) {
	m.calls.WithLabelValues(c.String()).Inc()
	m.callSeconds.Observe(took.Seconds())
}

// count adds up the tokens as the endpoint reports them, also of useless answers.
func (c *client) count(answer *endpoint.Answer, usage *grader.Usage) {
	in, out := max(answer.Usage.PromptTokens, 0), max(answer.Usage.CompletionTokens, 0)
	usage.PromptTokens += in
	usage.CompletionTokens += out
	c.metrics.promptTokens.Add(float64(in))
	c.metrics.completionTokens.Add(float64(out))
}

func extractContent(answer *endpoint.Answer) (string, error) {
	switch {
	case answer.Refusal != "":
		return "", &endpoint.Error{Class: endpoint.Filtered, Err: errContent}
	case answer.Cut, answer.Slip != "":
		return "", errNoVerdict
	}
	return answer.Text, nil
}

func (c *client) request(p prompt) endpoint.ChatRequest {
	request := endpoint.ChatRequest{
		Model: c.config.Model,
		Messages: []endpoint.ChatMessage{endpoint.NewMessage(endpoint.RoleSystem, p.system),
			endpoint.NewMessage(endpoint.RoleUser, p.user)},
		Seed: &p.seed, Temperature: new(float64), TopP: new(1.0), MaxTokens: c.config.MaxTokens,
	}
	if p.lacks&endpoint.JSONSchema == 0 {
		request.ResponseFormat = endpoint.JSONFormat("verdicts", answerSchema(p.ids))
	}
	return request
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

func (c *client) lacks() endpoint.Feature { return c.completions.Lacks() }
