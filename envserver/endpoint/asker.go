package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	askAttempts = 4 // the number of times that a question is sent before its failure is looked into
	// firstAskBackoff is the maximum wait before the second attempt. It doubles up to
	// maxAskBackoff.
	firstAskBackoff, maxAskBackoff = 500 * time.Millisecond, 8 * time.Second
	// answerAttempts is the number of answers of the model before its answer counts as wrong.
	answerAttempts = 3
	maxAnswer      = 1 << 20 // bounds an endpoint's response, in bytes
)

// Asker asks a model for a JSON object of a schema, where an agent needs none of it: to judge and
// to play a customer. It repeats what the endpoint doesn't answer, leaves out what it refuses, asks
// again for a wrong answer, and counts what that costs. It is safe for concurrent use, and a
// prometheus.Collector.
type Asker struct {
	config      AskerConfig
	completions *Completions
	caller      *Caller

	calls, retries, tokens *prometheus.CounterVec
	callSeconds            prometheus.Histogram
	gauges                 [3]*prometheus.Desc // of what Caller.Load returns
}

// AskerConfig configures an Asker. BaseURL and Model are required; zero values are replaced by
// defaults.
type AskerConfig struct {
	// Whom says in the texts of metrics and messages who is asked: "judge".
	Whom string
	// Metrics are the names of its metrics.
	Metrics AskerMetrics
	// BaseURL is the URL of the endpoint without /chat/completions, Model the model's name there,
	// and APIKey is sent as a bearer token, unless it is "".
	BaseURL, Model, APIKey string
	// Timeout bounds one request.
	Timeout time.Duration
	// MaxTokens bounds an answer.
	MaxTokens int64
	// MaxConcurrency bounds the requests that run at a time, and MaxQueue those that wait.
	MaxConcurrency, MaxQueue int
	HTTPClient               *http.Client
	// Now, Random (from 0 to 1) and Wait are for tests; nil for the real ones.
	Now    func() time.Time
	Random func() float64
	Wait   func(ctx context.Context, d time.Duration) error
}

// AskerMetrics are the names of an asker's metrics: the counters of requests by result, of requests
// that were sent again by reason, and of tokens by kind; the histogram of seconds of a request; and
// the gauges of requests that run, that wait, and that may run at a time.
type AskerMetrics struct {
	Calls, Retries, Tokens, CallSeconds, InFlight, Waiting, Limit string
}

// The defaults of AskerConfig.
const (
	DefaultAskConcurrency = 64
	defaultAskQueue       = 4096
	defaultAskTokens      = 4096
)

// maxModel bounds the length of a model's name, which is part of what scores depend on.
const maxModel = 128

// Validate reports all invalid fields.
func (c AskerConfig) Validate() error {
	var errs []error
	if err := CheckBase(c.BaseURL); err != nil {
		errs = append(errs, fmt.Errorf("the %s's base URL is no URL of an endpoint: %w", c.Whom, err))
	}
	if c.Model == "" || len(c.Model) > maxModel ||
		strings.ContainsFunc(c.Model, func(r rune) bool { return r <= ' ' || r > '~' }) {
		errs = append(errs, fmt.Errorf("the %s's model is %.40q: name the endpoint's model in at most %d ASCII "+
			"characters without spaces", c.Whom, c.Model, maxModel))
	}
	return errors.Join(errs...)
}

// NewAsker makes an asker.
func NewAsker(c AskerConfig) *Asker {
	c.MaxConcurrency, c.MaxQueue = cmp.Or(c.MaxConcurrency, DefaultAskConcurrency), cmp.Or(c.MaxQueue, defaultAskQueue)
	c.MaxTokens, c.HTTPClient = cmp.Or(c.MaxTokens, defaultAskTokens), cmp.Or(c.HTTPClient, &http.Client{})
	if c.Now == nil {
		c.Now = time.Now
	}
	names := c.Metrics
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	gauge := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	requests := "Requests to the " + c.Whom + "'s endpoint"
	a := &Asker{
		config: c,
		completions: NewCompletions(Service{BaseURL: c.BaseURL, Key: c.APIKey, Timeout: c.Timeout, MaxBody: maxAnswer,
			HTTPClient: c.HTTPClient, Now: c.Now}),
		caller: NewCaller(Config{MaxConcurrency: c.MaxConcurrency, MaxQueue: c.MaxQueue, Attempts: askAttempts,
			FirstBackoff: firstAskBackoff, MaxBackoff: maxAskBackoff, Refusals: true, Now: c.Now, Random: c.Random,
			Wait: c.Wait}),
		calls:   counters(names.Calls, requests+" by result.", "result"),
		retries: counters(names.Retries, "Requests that were sent again, by the reason.", "reason"),
		tokens: counters(names.Tokens, "Tokens that the endpoint reported, of answers of no use too, by kind.",
			"kind"),
		callSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: names.CallSeconds,
			Help:    "Time of one request to the " + c.Whom + "'s endpoint.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 11)}),
		gauges: [3]*prometheus.Desc{gauge(names.InFlight, requests+" that are running."),
			gauge(names.Waiting, "Requests that wait for their turn."),
			gauge(names.Limit, "Requests that may run at a time: it falls when the endpoint says that there are too "+
				"many.")},
	}
	for _, kind := range []string{"prompt", "completion"} {
		a.tokens.WithLabelValues(kind) // shown as 0 before the first request
	}
	return a
}

// Prompt is one request to the model.
type Prompt struct {
	System, User string
	Seed         int64
	// Answer names the answer, and Schema is its JSON schema.
	Answer string
	Schema any
}

// Question is what a model is asked.
type Question struct {
	// Write writes the prompt of an attempt, from 0. The complaint is what was wrong with the
	// answer before, "" for nothing, and lacks are the features that the request leaves out.
	Write func(attempt int, complaint string, lacks Feature) (Prompt, error)
	// Read reads an answer. The text of its error is the complaint.
	Read func(text string) error
}

// ReadObject reads the JSON object in an answer. It reports false if there is none of this type, or
// if it has other members.
func ReadObject[T any](answer string) (T, bool) {
	for _, object := range ListObjects(answer) {
		var read T
		if json.Unmarshal([]byte(object), &read, json.RejectUnknownMembers(true)) == nil {
			return read, true
		}
	}
	return *new(T), false
}

// Cost is what a question cost, of attempts without an answer too.
type Cost struct {
	Calls, Retries, PromptTokens, CompletionTokens int64
}

// WrongAnswer is why the model's last answer to a question is wrong.
type WrongAnswer struct{ error }

// Unwrap returns the error of Question.Read, or ErrNoObject.
func (w *WrongAnswer) Unwrap() error { return w.error }

var (
	// ErrNoObject means that the model's answer is no JSON.
	ErrNoObject = errors.New("it was not a complete JSON object")
	errRefusal  = errors.New("the model refused to answer")
)

// Ask asks until an answer is right. The error is a *WrongAnswer if the endpoint answers, that of
// Write, or the caller's.
func (a *Asker) Ask(ctx context.Context, q Question) (cost Cost, err error) {
	complaint := ""
	for attempt := range answerAttempts {
		if attempt > 0 {
			cost.Retries++
			a.retries.WithLabelValues("answer").Inc()
		}
		var text string
		text, err = a.complete(ctx, func(lacks Feature) (Prompt, error) {
			return q.Write(attempt, complaint, lacks)
		}, &cost)
		if err == nil {
			err = q.Read(text)
		} else if !errors.Is(err, ErrNoObject) {
			return cost, err
		}
		if err == nil {
			return cost, nil
		}
		complaint, err = err.Error(), &WrongAnswer{err}
	}
	return cost, err
}

// complete sends a prompt until it is answered, and returns the answer.
func (a *Asker) complete(ctx context.Context, write func(lacks Feature) (Prompt, error), cost *Cost) (
	text string, err error) {
	err = a.caller.Do(ctx, func(ctx context.Context) error {
		lacks := a.Lacks()
		p, err := write(lacks)
		if err != nil {
			return err
		}
		answer, err := a.post(ctx, p, lacks, cost)
		switch {
		case err != nil:
			return err
		case answer.Refusal != "":
			return &Error{Class: Filtered, Err: errRefusal}
		case answer.Cut, answer.Slip != "":
			return ErrNoObject
		}
		text = answer.Text
		return nil
	}, func(e *Error) {
		cost.Retries++
		if !e.Anew {
			a.retries.WithLabelValues(e.Class.String()).Inc()
		}
	})
	return text, err
}

// post makes one request. If the endpoint refuses a part of it, the next one is sent without.
func (a *Asker) post(ctx context.Context, p Prompt, lacks Feature, cost *Cost) (*Answer, error) {
	request := ChatRequest{
		Model:    a.config.Model,
		Messages: []ChatMessage{NewMessage(RoleSystem, p.System), NewMessage(RoleUser, p.User)},
		Seed:     &p.Seed, Temperature: new(float64), TopP: new(1.0), MaxTokens: a.config.MaxTokens,
	}
	if lacks&JSONSchema == 0 {
		request.ResponseFormat = JSONFormat(p.Answer, p.Schema)
	}
	began := a.config.Now()
	answer, err := a.completions.Send(ctx, request, lacks)
	a.callSeconds.Observe(a.config.Now().Sub(began).Seconds())
	a.calls.WithLabelValues(ClassOf(err).String()).Inc()
	in, out := max(answer.Usage.PromptTokens, 0), max(answer.Usage.CompletionTokens, 0)
	a.tokens.WithLabelValues("prompt").Add(float64(in))
	a.tokens.WithLabelValues("completion").Add(float64(out))
	cost.Calls++
	cost.PromptTokens += in
	cost.CompletionTokens += out
	return answer, err
}

// Lacks are the features that requests leave out.
func (a *Asker) Lacks() Feature { return a.completions.Lacks() }

// LeftOut says what requests leave out, since when and of how many; "" for nothing.
func (a *Asker) LeftOut() string { return a.completions.LeftOut() }

// Load is that of the caller.
func (a *Asker) Load() (inFlight, waiting, limit int) { return a.caller.Load() }

// Describe implements prometheus.Collector.
func (a *Asker) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(a, ch) }

// Collect implements prometheus.Collector.
func (a *Asker) Collect(ch chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{a.calls, a.retries, a.tokens, a.callSeconds} {
		c.Collect(ch)
	}
	inFlight, waiting, limit := a.Load()
	for i, value := range []int{inFlight, waiting, limit} {
		ch <- prometheus.MustNewConstMetric(a.gauges[i], prometheus.GaugeValue, float64(value))
	}
}
