package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"github.com/sony/gobreaker/v2"

	"github.com/csenv/csenv/envserver/grader"
)

const (
	// maxAttempts is how often a request is sent before the endpoint counts as unavailable.
	maxAttempts = 4
	// firstBackoff is the most that is waited before the second attempt. It doubles up to maxBackoff.
	firstBackoff, maxBackoff = 500 * time.Millisecond, 8 * time.Second
	// maxBody bounds an endpoint's response, in bytes.
	maxBody = 1 << 20
	// minRequests is how many requests the breaker looks at, breakerWindow for how long it remembers them, and breakerPause how long it stays open.
	minRequests                 = 20
	breakerWindow, breakerPause = time.Minute, 15 * time.Second
)

// client sends prompts to an endpoint: one at a time for each caller, under the limiter and the breaker, with retries.
type client struct {
	config  *Config
	service openai.ChatCompletionService
	limiter *limiter
	breaker *gobreaker.CircuitBreaker[*openai.ChatCompletion]
	metrics *metrics
	// refused are the features that the endpoint has refused.
	refused atomic.Uint32
}

func newClient(c *Config, m *metrics) *client {
	options := []option.RequestOption{
		// Nothing is read from OPENAI_* variables, and retries are ours, because each attempt has to pass the limiter and the breaker.
		option.WithBaseURL(c.BaseURL), option.WithHTTPClient(c.HTTPClient), option.WithMaxRetries(0), option.WithRequestTimeout(c.Timeout / 2),
		option.WithMiddleware(boundBody),
	}
	if c.APIKey != "" {
		options = append(options, option.WithAPIKey(c.APIKey))
	}
	return &client{
		config: c, service: openai.NewChatCompletionService(options...), limiter: newLimiter(c.MaxConcurrency, c.MaxQueue), metrics: m,
		breaker: gobreaker.NewCircuitBreaker[*openai.ChatCompletion](gobreaker.Settings{
			Interval: breakerWindow, BucketPeriod: breakerWindow / 6, Timeout: breakerPause,
			ReadyToTrip: func(n gobreaker.Counts) bool {
				return n.TotalSuccesses+n.TotalFailures >= minRequests && n.TotalFailures >= n.TotalSuccesses
			},
			IsSuccessful: func(err error) bool { return err == nil || classOf(err) == unparsable },
			IsExcluded:   func(err error) bool { return err != nil && !classOf(err).outage() },
		}),
	}
}

// errTooLarge means that a response is longer than maxBody.
var errTooLarge = errors.New("the response is too large")

// boundBody keeps a response from filling the memory.
func boundBody(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	response, err := next(r)
	if err == nil {
		response.Body = &boundedBody{ReadCloser: response.Body, left: maxBody}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read fails past the bound.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// class is how a request ended.
type class uint8

const (
	completed class = iota
	// throttledRequest, serverError, brokenTransport and attemptTimeout may go well another time.
	throttledRequest
	serverError
	brokenTransport
	attemptTimeout
	// unparsable responses were served and aren't a completion.
	unparsable
	// unauthorised requests won't do whatever they hold, rejected ones because of what they hold.
	unauthorised
	rejected
	// abandoned requests were given up by the caller, and stopped ones never sent by the breaker.
	abandoned
	stopped
)

// String is the class as the metrics name it.
func (c class) String() string {
	return [...]string{"completed", "throttled", "server_error", "transport", "timeout", "unparsable", "unauthorised", "rejected", "abandoned", "stopped"}[c]
}

// again tells whether the same request may go well another time.
func (c class) again() bool {
	return c == throttledRequest || c == serverError || c == brokenTransport || c == attemptTimeout
}

// outage tells whether the class says something of the endpoint's health. What a single request holds doesn't: agents could break the judge by it.
func (c class) outage() bool {
	return c == serverError || c == brokenTransport || c == attemptTimeout || c == unauthorised
}

// callError is a request that didn't complete.
type callError struct {
	class  class
	status int
	// after is what the endpoint asks to wait.
	after time.Duration
	// param is the parameter that was refused.
	param feature
	err   error
}

func (e *callError) Error() string {
	if e.status != 0 {
		return fmt.Sprintf("the judge's endpoint answered %d %s", e.status, http.StatusText(e.status))
	}
	return fmt.Sprintf("asking the judge (%s): %v", e.class, e.err)
}

func (e *callError) Unwrap() error { return e.err }

func classOf(err error) class {
	if err == nil {
		return completed
	}
	if e, ok := errors.AsType[*callError](err); ok {
		return e.class
	}
	return stopped
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

// features are named as the protocol does.
var features = [...]struct {
	feature feature
	names   []string
}{
	{responseFormat, []string{"response_format", "json_schema"}}, {seedParam, []string{"seed"}}, {temperature, []string{"temperature"}}, {topP, []string{"top_p"}},
	{maxTokens, []string{"max_tokens"}},
}

// complete sends a prompt until it is answered, and returns what the model wrote. Usage counts every attempt.
func (c *client) complete(ctx context.Context, build func(fenced bool) (prompt, error), usage *grader.Usage) (string, prompt, error) {
	for attempt := 0; ; {
		refused := feature(c.refused.Load())
		p, err := build(refused&responseFormat != 0)
		if err != nil {
			return "", p, err
		}
		p.refused = refused
		content, err := c.attempt(ctx, p, usage)
		if err == nil {
			return content, p, nil
		}
		if ctx.Err() != nil {
			return "", p, errors.Join(ctx.Err(), err)
		}
		e, ok := errors.AsType[*callError](err)
		switch {
		case !ok:
			return "", p, err
		case e.param != 0:
			c.refused.Or(uint32(e.param))
			usage.Retries++
			continue
		case !e.class.again():
			return "", p, e.final()
		}
		if attempt++; attempt == maxAttempts {
			return "", p, fail(grader.CauseUnavailable, fmt.Errorf("%d attempts: %w", attempt, err))
		}
		if err := c.pause(ctx, attempt, e); err != nil {
			return "", p, err
		}
		usage.Retries++
		c.metrics.retries.WithLabelValues(e.class.String()).Inc()
	}
}

// final is the failure of a request that isn't sent again.
func (e *callError) final() error {
	if e.class == unparsable {
		return fail(grader.CauseUnparsable, e)
	}
	return fail(grader.CauseFailed, e)
}

// pause waits before the next attempt: a random part of the backoff, and at least what the endpoint asks for. It gives up at once if there is no time for that.
func (c *client) pause(ctx context.Context, attempt int, e *callError) error {
	backoff := min(firstBackoff<<(attempt-1), maxBackoff)
	wait := max(time.Duration(c.config.Random()*float64(backoff)), e.after)
	if deadline, ok := ctx.Deadline(); ok && c.config.Now().Add(wait).After(deadline) {
		cause := grader.CauseUnavailable
		if e.class == attemptTimeout {
			cause = grader.CauseTimeout
		}
		return fail(cause, fmt.Errorf("no time to wait %v: %w", wait, e))
	}
	return c.config.Wait(ctx, wait)
}

// attempt sends a prompt once, in its turn.
func (c *client) attempt(ctx context.Context, p prompt, usage *grader.Usage) (string, error) {
	round, err := c.limiter.acquire(ctx)
	if err != nil {
		return "", err
	}
	answer, err := c.breaker.Execute(func() (*openai.ChatCompletion, error) {
		usage.Calls++
		began := c.config.Now()
		answer, err := c.send(ctx, p, ^p.refused)
		c.metrics.called(classOf(err), c.config.Now().Sub(began))
		return answer, err
	})
	switch classOf(err) {
	case throttledRequest:
		c.limiter.release(round, throttled)
	case completed, unparsable:
		c.limiter.release(round, served)
	default:
		c.limiter.release(round, neutral)
	}
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return "", fail(grader.CauseUnavailable, fmt.Errorf("the judge's endpoint has failed too often: %w", err))
	}
	if err != nil {
		return "", err
	}
	c.count(answer, usage)
	return content(answer)
}

// count adds the tokens up. They are the endpoint's word, and paid for also when the answer is of no use.
func (c *client) count(answer *openai.ChatCompletion, usage *grader.Usage) {
	in, out := max(answer.Usage.PromptTokens, 0), max(answer.Usage.CompletionTokens, 0)
	usage.PromptTokens += in
	usage.CompletionTokens += out
	c.metrics.promptTokens.Add(float64(in))
	c.metrics.completionTokens.Add(float64(out))
}

// content is what the model wrote.
func content(answer *openai.ChatCompletion) (string, error) {
	if len(answer.Choices) == 0 {
		return "", &callError{class: unparsable, err: errors.New("no choices")}
	}
	choice := answer.Choices[0]
	switch {
	case choice.Message.Refusal != "" || choice.FinishReason == "content_filter":
		return "", &callError{class: rejected, err: errors.New("the model refused to answer")}
	case choice.FinishReason == "length":
		return "", &callError{class: unparsable, err: errors.New("the answer was cut off")}
	}
	return choice.Message.Content, nil
}

// send makes one request.
func (c *client) send(ctx context.Context, p prompt, with feature) (*openai.ChatCompletion, error) {
	params := openai.ChatCompletionNewParams{
		Model: c.config.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(p.system), openai.UserMessage(p.user)},
	}
	if with&responseFormat != 0 {
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "verdicts", Strict: openai.Bool(true), Schema: schema(p.ids),
		}}
	}
	if with&seedParam != 0 {
		params.Seed = openai.Int(p.seed)
	}
	if with&temperature != 0 {
		params.Temperature = openai.Float(0)
	}
	if with&topP != 0 {
		params.TopP = openai.Float(1)
	}
	if with&maxTokens != 0 {
		params.MaxTokens = openai.Int(c.config.MaxTokens)
	} else {
		params.MaxCompletionTokens = openai.Int(c.config.MaxTokens)
	}
	var response *http.Response
	answer, err := c.service.New(ctx, params, option.WithResponseInto(&response))
	if err != nil {
		return nil, c.classify(ctx, err, response, with)
	}
	return answer, nil
}

// classify tells what a failed request means.
func (c *client) classify(ctx context.Context, err error, response *http.Response, with feature) error {
	e := &callError{err: err}
	switch {
	case ctx.Err() != nil:
		e.class = abandoned
	case response != nil && response.StatusCode >= http.StatusBadRequest:
		e.status, e.class, e.after = response.StatusCode, statusClass(response.StatusCode), c.retryAfter(response.Header.Get("Retry-After"))
		if e.class == rejected {
			e.param = refusedParam(err, response) & with
		}
	case errors.Is(err, context.DeadlineExceeded):
		e.class = attemptTimeout
	case response == nil, isBroken(err):
		e.class = brokenTransport
	default:
		e.class = unparsable
	}
	return e
}

// isBroken tells whether a response ended before its end.
func isBroken(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, io.ErrUnexpectedEOF) && strings.Contains(err.Error(), "reading") || errors.As(err, &timeout)
}

func statusClass(status int) class {
	switch {
	case status == http.StatusTooManyRequests:
		return throttledRequest
	case status >= http.StatusInternalServerError, status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		return serverError
	case status == http.StatusUnauthorized:
		return unauthorised
	}
	// 403 and 404 as well: gateways give them for what a request holds.
	return rejected
}

// refusedParam is the feature that a rejection names: in the error's param, or in its text.
func refusedParam(err error, response *http.Response) feature {
	if response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusUnprocessableEntity {
		return 0
	}
	text := ""
	if e, ok := errors.AsType[*openai.Error](err); ok {
		if text = e.Param; text == "" || text == "null" || text == "None" {
			text = e.Message
		}
	}
	for _, f := range features {
		for _, name := range f.names {
			if strings.Contains(text, name) {
				return f.feature
			}
		}
	}
	return 0
}

// retryAfter reads the header of RFC 9110, section 10.2.3: seconds or a date.
func (c *client) retryAfter(header string) time.Duration {
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		return max(time.Duration(seconds)*time.Second, 0)
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(c.config.Now()), 0)
	}
	return 0
}
