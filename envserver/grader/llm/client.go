package llm

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
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
	breaker     *gobreaker.CircuitBreaker[*endpoint.Completion]
	metrics     *metrics
	refused     atomic.Uint32 // the features that the endpoint has refused
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
		breaker: gobreaker.NewCircuitBreaker[*endpoint.Completion](gobreaker.Settings{
			Interval: breakerWindow, BucketPeriod: breakerWindow / 6, Timeout: breakerPause,
			ReadyToTrip: func(n gobreaker.Counts) bool {
				return n.TotalSuccesses+n.TotalFailures >= minRequests && n.TotalFailures >= n.TotalSuccesses
			},
			IsSuccessful: func(err error) bool { return err == nil || endpoint.ClassOf(err) == endpoint.Unparsable },
			IsExcluded:   func(err error) bool { return err != nil && !endpoint.ClassOf(err).Outage() },
		}),
	}
}

// feature is a part of a request that some endpoints refuse.
type feature uint32

const (
	responseFormat feature = 1 << iota
	seedParam
	temperature
	topP
	maxTokens
)

// features are named as in the protocol.
var features = [...]struct {
	feature feature
	names   []string
}{
	{responseFormat, []string{"response_format", "json_schema"}}, {seedParam, []string{"seed"}},
	{temperature, []string{"temperature"}}, {topP, []string{"top_p"}},
	{maxTokens, []string{"max_tokens"}},
}

// complete sends a prompt until it is answered, and returns the answer. Usage counts every attempt.
func (c *client) complete(ctx context.Context, build func(fenced bool) (prompt, error),
	usage *grader.Usage) (text string, p prompt, err error) {
	err = c.caller.Do(ctx, func(ctx context.Context) error {
		refused := feature(c.refused.Load())
		if p, err = build(refused&responseFormat != 0); err != nil {
			return err
		}
		p.refused = refused
		answer, err := c.send(ctx, p, usage)
		if err != nil {
			return err
		}
		c.count(answer, usage)
		text, err = content(answer)
		return err
	}, func(e *endpoint.Error) {
		usage.Retries++
		if !e.Anew {
			c.metrics.retries.WithLabelValues(e.Class.String()).Inc()
		}
	})
	return text, p, failed(ctx, err)
}

// failed wraps a call's error with its cause.
func failed(ctx context.Context, err error) error {
	class := endpoint.ClassOf(err)
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case errors.Is(err, endpoint.ErrQueueFull), refusedByBreaker(err):
		return fail(grader.CauseUnavailable, err)
	case class == endpoint.TimedOut && errors.Is(err, endpoint.ErrNoTime):
		return fail(grader.CauseTimeout, err)
	case class.Again():
		return fail(grader.CauseUnavailable, err)
	case class == endpoint.Unparsable:
		return fail(grader.CauseUnparsable, err)
	case class == endpoint.Unsent:
		return err
	}
	return fail(grader.CauseFailed, err)
}

func refusedByBreaker(err error) bool {
	return errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}

// send makes one request, unless the breaker is open.
func (c *client) send(ctx context.Context, p prompt, usage *grader.Usage) (*endpoint.Completion, error) {
	answer, err := c.breaker.Execute(func() (*endpoint.Completion, error) { return c.post(ctx, p, usage) })
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

// post makes one request. If the endpoint refuses a part of it, the next one is sent without.
// errContent means that the model or its filter refused what it was to read. A reply provokes that,
// so it is graded by the rules: an agent must not be able to have its bad replies left out.
var errContent = errors.New("the model refused to answer")

// filtered finds the refusals of providers whose filter reads a prompt before the model does.
var filtered = regexp.MustCompile(`(?i)content[_ ](filter|management|policy)|ResponsibleAIPolicyViolation`)

func (c *client) post(ctx context.Context, p prompt, usage *grader.Usage) (*endpoint.Completion, error) {
	usage.Calls++
	began := c.config.Now()
	answer, err := c.completions.Send(ctx, c.params(p, ^p.refused))
	c.metrics.called(endpoint.ClassOf(err), c.config.Now().Sub(began))
	if e, ok := errors.AsType[*endpoint.Error](err); ok {
		if e.Status == http.StatusBadRequest && filtered.MatchString(e.Complaint) {
			e.Err = errContent
		}
		if e.Class.Outage() {
			c.last.Store(e)
		}
		if param := named(e.Complaint) &^ p.refused; param != 0 {
			c.refused.Or(uint32(param))
			e.Anew = true
		}
	}
	return answer, err
}

// count adds up the tokens as the endpoint reports them, also of useless answers.
func (c *client) count(answer *endpoint.Completion, usage *grader.Usage) {
	in, out := max(answer.Usage.PromptTokens, 0), max(answer.Usage.CompletionTokens, 0)
	usage.PromptTokens += in
	usage.CompletionTokens += out
	c.metrics.promptTokens.Add(float64(in))
	c.metrics.completionTokens.Add(float64(out))
}

func content(answer *endpoint.Completion) (string, error) {
	if len(answer.Choices) == 0 {
		return "", &endpoint.Error{Class: endpoint.Unparsable, Err: errors.New("no choices")}
	}
	choice := answer.Choices[0]
	switch {
	case choice.Message.Refusal != "" || choice.FinishReason == "content_filter":
		return "", &endpoint.Error{Class: endpoint.Rejected, Err: errContent}
	case choice.FinishReason == "length":
		return "", &endpoint.Error{Class: endpoint.Unparsable, Err: errors.New("the answer was cut off")}
	}
	return choice.Message.Content, nil
}

func (c *client) params(p prompt, with feature) endpoint.ChatRequest {
	request := endpoint.ChatRequest{
		Model: c.config.Model,
		Messages: []endpoint.ChatMessage{endpoint.Message(endpoint.RoleSystem, p.system),
			endpoint.Message(endpoint.RoleUser, p.user)},
	}
	if with&responseFormat != 0 {
		request.ResponseFormat = endpoint.JSONSchema("verdicts", schema(p.ids))
	}
	if with&seedParam != 0 {
		request.Seed = &p.seed
	}
	if with&temperature != 0 {
		request.Temperature = new(float64)
	}
	if with&topP != 0 {
		request.TopP = new(1.0)
	}
	if with&maxTokens != 0 {
		request.MaxTokens = c.config.MaxTokens
	} else {
		request.MaxCompletionTokens = c.config.MaxTokens
	}
	return request
}

func named(complaint string) feature {
	for _, f := range features {
		if slices.ContainsFunc(f.names, func(name string) bool { return strings.Contains(complaint, name) }) {
			return f.feature
		}
	}
	return 0
}
