// Package customer is a language model as the customer of a conversation. It reads what an agent
// writes, and words what the customer says. What the customer does is the scenario's: the model
// gets the acts of a turn and never the case, and code checks what it read and what it wrote. Any
// endpoint that speaks OpenAI's chat completions will do.
//
// A failure of the model is neither an error nor a score: what it doesn't read isn't heard, and
// what it doesn't word is said in the words of the scenario's template.
package customer

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // the instructions
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios/talk"
	"github.com/csenv/csenv/scenarios/text"
)

// Version is that of the instructions and of the checks here. It is part of the name.
const Version = "c1"

//go:embed prompt/hear.txt
var hearing string

//go:embed prompt/word.txt
var wording string

// DefaultTimeout leaves a step, which reads a message and words an answer, within the minute for
// which the stock clients of OpenEnv wait.
const DefaultTimeout = 20 * time.Second

// maxTokens bounds an answer: a few sentences, and the thoughts of a model that thinks a little.
// Small models may repeat themselves until they are stopped.
const maxTokens = 1024

// Config configures a customer: a model, and in Timeout the time for reading a message, and for
// wording an answer, each with all that is repeated.
type Config = endpoint.AskerConfig

// Customer calls a model. All sessions of a process share one. It is safe for concurrent use, and a
// prometheus.Collector.
type Customer struct {
	config  Config
	asker   *endpoint.Asker
	answers *prometheus.CounterVec
	refused *prometheus.CounterVec
	dropped prometheus.Counter
	failed  *prometheus.CounterVec
}

var _ workflow.Customer = (*Customer)(nil)

var askerMetrics = endpoint.AskerMetrics{
	Calls: "csenv_customer_calls_total", Retries: "csenv_customer_retries_total", Tokens: "csenv_customer_tokens_total",
	CallSeconds: "csenv_customer_call_duration_seconds", InFlight: "csenv_customer_in_flight",
	Waiting: "csenv_customer_waiting", Limit: "csenv_customer_concurrency_limit",
}

// New makes a customer.
func New(c Config) (*Customer, error) {
	c.Whom, c.Metrics, c.Timeout = "customer", askerMetrics, cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxTokens = cmp.Or(c.MaxTokens, maxTokens)
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Wait == nil {
		c.Wait = endpoint.SleepContext
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	return &Customer{config: c, asker: endpoint.NewAsker(c),
		answers: counters("csenv_customer_answers_total", "Answers of customers, by whose the words are: model, "+
			"template.", "words"),
		refused: counters("csenv_customer_refused_total", "Wordings of the model that code refused, by the reason.",
			"reason"),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "csenv_customer_dropped_total",
			Help: "Acts that the model read into messages which don't have them."}),
		failed: counters("csenv_customer_failures_total", "What the model failed to do: hear, word.", "what"),
	}, nil
}

// Name is "llm:<model>@<version>".
func (c *Customer) Name() string { return "llm:" + c.config.Model + "@" + Version }

// Describe implements prometheus.Collector.
func (c *Customer) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *Customer) Collect(ch chan<- prometheus.Metric) {
	for _, each := range []prometheus.Collector{c.asker, c.answers, c.refused, c.dropped, c.failed} {
		each.Collect(ch)
	}
}

// Try asks the model to word an answer of no case, to learn whether its endpoint answers. The error
// wraps an *endpoint.Error. Answers of no use are none: they are counted when they are met.
func (c *Customer) Try(ctx context.Context) error {
	return endpoint.AwaitStart(ctx, 1, c.config.Wait, func() error {
		var to episode.Exchange
		_, err := c.word(ctx, &talk.Turn{Language: "en", Voice: "plain", Mood: talk.Moods[0], Acts: []talk.Act{
			{Kind: talk.Close, Words: "No, that's all."}}, Said: []string{"Is there anything else?"}}, &to)
		if _, wrong := errors.AsType[*endpoint.WrongAnswer](err); err != nil && !wrong {
			return fmt.Errorf("trying the customer: %w", err)
		}
		return nil
	})
}

var errNoObject = errors.New("it is not one JSON object of the form that was asked for")

// ask asks the model, and counts what that costs.
func (c *Customer) ask(ctx context.Context, instructions, answer string, schema, about any,
	to *episode.Exchange, read func(text string) error) error {
	material, err := json.Marshal(about)
	if err != nil {
		return fmt.Errorf("writing a question about a conversation: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	cost, err := c.asker.Ask(ctx, endpoint.Question{
		Write: func(attempt int, complaint string, _ endpoint.Feature) (endpoint.Prompt, error) {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", instructions, material, attempt))
			p := endpoint.Prompt{System: instructions, User: string(material), Answer: answer, Schema: schema,
				Seed: int64(binary.BigEndian.Uint32(sum[:]) >> 1)} // every endpoint accepts 31 bits
			if complaint != "" {
				p.User += "\n\nYour last answer could not be used: " + complaint + ". Give the whole answer again."
			}
			return p, nil
		},
		Read: read,
	})
	to.Counts.Tokens.Add(score.Tokens{Prompt: cost.PromptTokens, Completion: cost.CompletionTokens})
	return err
}

// fail counts what the model didn't do. The error is the context's, if that is why.
func (c *Customer) fail(ctx context.Context, what string, to *episode.Exchange) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	to.Counts.Failed++
	c.failed.WithLabelValues(what).Inc()
	return nil
}

// maxShown bounds what a model is shown of a message, in characters.
const maxShown = 4000

// Word implements workflow.Customer. A refused wording is worded again, twice.
func (c *Customer) Word(ctx context.Context, turn *talk.Turn, to *episode.Exchange) error {
	words, err := c.word(ctx, turn, to)
	whose := "model"
	if err != nil {
		if _, refused := errors.AsType[*talk.Refusal](err); !refused {
			if err := c.fail(ctx, "word", to); err != nil {
				return err
			}
		}
		words, whose = turn.Template(), "template"
		to.Counts.Replaced++
	}
	c.answers.WithLabelValues(whose).Inc()
	to.Words = words
	return nil
}

// word has the model word a turn. The error wraps a *talk.Refusal if its last wording is refused.
func (c *Customer) word(ctx context.Context, turn *talk.Turn, to *episode.Exchange) (words string, err error) {
	type act struct {
		Kind  talk.Kind `json:"kind"`
		Topic string    `json:"topic,omitempty"`
		Sense string    `json:"sense"`
		Quote bool      `json:"quote,omitempty"`
	}
	acts := make([]act, len(turn.Acts))
	for i, a := range turn.Acts {
		acts[i] = act{a.Kind, a.Topic, a.Words, a.IsQuoted()}
	}
	about := struct {
		Acts     []act  `json:"acts"`
		Language string `json:"language"`
		Voice    string `json:"voice"`
		Mood     string `json:"mood"`
		Message  string `json:"message"`
	}{acts, turn.Language, turn.Voice, turn.Mood, text.ClipRunes(turn.Said[len(turn.Said)-1], maxShown)}
	err = c.ask(ctx, wording, "answer", wordsSchema, about, to, func(answer string) error {
		read, ok := endpoint.ReadObject[struct {
			Words string `json:"words"`
		}](answer)
		if !ok {
			return errNoObject
		}
		words = strings.TrimSpace(read.Words)
		err := talk.Check(turn, words)
		if refusal, refused := errors.AsType[*talk.Refusal](err); refused {
			to.Counts.Refused++
			c.refused.WithLabelValues(string(refusal.Kind)).Inc()
		}
		return err
	})
	return words, err
}

// wordsSchema is that of a wording.
var wordsSchema = object(map[string]any{"words": textSchema})

// object is the schema of an object with all of the properties.
func object(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties,
		"required": slices.Sorted(maps.Keys(properties))}
}

var textSchema = map[string]any{"type": "string"}

func enum(values []string) map[string]any { return map[string]any{"type": "string", "enum": values} }

func list(properties map[string]any) map[string]any {
	return map[string]any{"type": "array", "items": object(properties)}
}
