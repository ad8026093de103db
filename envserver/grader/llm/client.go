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

const (
	maxAttempts = 4 // the number of times that a request is sent before its failure is looked into
	// firstBackoff is the maximum wait before the second attempt. It doubles up to maxBackoff.
	firstBackoff, maxBackoff = 500 * time.Millisecond, 8 * time.Second
	maxBody                  = 1 << 20 // bounds an endpoint's response, in bytes
)

// client sends prompts to an endpoint, with retries.
type client struct {
	config      *Config
	completions *endpoint.Completions
	caller      *endpoint.Caller
	metrics     *metrics
}

func newClient(c *Config, m *metrics) *client {
	return &client{
		config: c, metrics: m,
		completions: endpoint.NewCompletions(endpoint.Service{BaseURL: c.BaseURL, Key: c.APIKey,
			Timeout: c.round(), MaxBody: maxBody, HTTPClient: c.HTTPClient, Now: c.Now}),
		caller: endpoint.NewCaller(endpoint.Config{MaxConcurrency: c.MaxConcurrency, MaxQueue: c.MaxQueue,
			Attempts: maxAttempts, FirstBackoff: firstBackoff, MaxBackoff: maxBackoff, Refusals: true,
			Now: c.Now, Random: c.Random, Wait: c.Wait}),
	}
}

// complete sends a prompt until it is answered, and returns the answer. Usage counts every attempt.
func (c *client) complete(ctx context.Context, build func(lacks endpoint.Feature) (prompt, error),
	usage *grader.Usage) (text string, p prompt, err error) {
	err = c.caller.Do(ctx, func(ctx context.Context) error {
		p, err = build(c.lacks())
		if err != nil {
			return err
		}
		answer, err := c.post(ctx, p, usage)
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
	return text, p, wrapFailure(ctx, err)
}

// wrapFailure wraps a call's error with its cause.
func wrapFailure(ctx context.Context, err error) error {
	class := endpoint.ClassOf(err)
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case errors.Is(err, endpoint.ErrQueueFull):
		return newFailure(grader.CauseUnavailable, err)
	case errors.Is(err, errNoVerdict):
		return newFailure(grader.CauseUnparsable, err)
	case class == endpoint.Unsent:
		return err
	}
	return newFailure(grader.Cause(class.OfJudge()), err)
}

var (
	errRefusal = errors.New("the model refused to answer")
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
		return "", &endpoint.Error{Class: endpoint.Filtered, Err: errRefusal}
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
