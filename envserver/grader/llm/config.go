package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/tasks"
)

// OnFailure is the handling of replies that the model fails to judge.
type OnFailure string

// The ways to handle failures.
const (
	FailureIsError OnFailure = "error" // returns an error: the episode has no score
	// FailureIsOffline uses the offline judge's verdict. The judge's name then contains both
	// scales.
	FailureIsOffline OnFailure = "offline"
)

// The defaults of Config.
const (
	// DefaultTimeout leaves a step within the minute for which the stock clients of OpenEnv wait.
	DefaultTimeout        = 45 * time.Second
	DefaultMaxConcurrency = endpoint.DefaultAskConcurrency
	DefaultVotes          = 3
)

// Config configures a judge. BaseURL and Model are required; zero values are replaced by defaults.
type Config struct {
	BaseURL string // the URL of the endpoint without /chat/completions: "https://api.openai.com/v1"
	// Model is the name of the model at the endpoint. Use a dated version, because scores of
	// different models are not comparable.
	Model                    string
	APIKey                   string        // sent as a bearer token if set
	Timeout                  time.Duration // bounds one judgement and all that it is repeated for
	MaxConcurrency, MaxQueue int           // bounds on the concurrent and the waiting requests
	// Votes is the number of votes on a reply that is hard to judge; the majority decides each
	// claim. It is odd; 1 means a single vote always.
	Votes int
	// PassLine is the points of a reply in an episode that just passes, and Margin the distance
	// from it within which further votes are taken, in milli-points. The default PassLine is that
	// of a ticket-resolve with the right labels: 250.
	PassLine, Margin int64
	// Sample is the share of all other replies with further votes, in thousandths. It serves to
	// measure the model's reliability.
	Sample    int
	OnFailure OnFailure // FailureIsError unless set
	// CacheMode is CacheReadWrite by default. The CacheSize most recent answers are kept in memory,
	// and all of them in CacheDir if set.
	CacheMode  CacheMode
	CacheDir   string
	CacheSize  int
	MaxTokens  int64        // bounds the tokens of an answer
	HTTPClient *http.Client // sends the requests
	// Now, Random (from 0 to 1) and Wait are the clock and the randomness of retries.
	Now    func() time.Time
	Random func() float64
	Wait   func(ctx context.Context, d time.Duration) error
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxConcurrency = cmp.Or(c.MaxConcurrency, DefaultMaxConcurrency)
	c.Votes = cmp.Or(c.Votes, DefaultVotes)
	c.PassLine = cmp.Or(c.PassLine, tasks.PassScore(tasks.TicketResolve)/1000-(1000-grader.ResponsePoints))
	c.Margin = cmp.Or(c.Margin, 50)
	c.OnFailure = cmp.Or(c.OnFailure, FailureIsError)
	c.CacheMode = cmp.Or(c.CacheMode, CacheReadWrite)
	c.CacheSize = cmp.Or(c.CacheSize, 10_000)
	c.MaxTokens = cmp.Or(c.MaxTokens, 4096) // which cache keys depend on
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Wait == nil {
		c.Wait = endpoint.SleepContext
	}
	return c
}

// Validate reports all invalid fields.
func (c Config) Validate() error {
	c = c.withDefaults()
	errs := []error{c.asking().Validate()}
	if c.Votes < 0 || c.Votes%2 == 0 || c.Votes > 9 {
		errs = append(errs, fmt.Errorf("the judge has %d votes: it must be 1, 3, 5, 7 or 9", c.Votes))
	}
	if c.Timeout < 0 || c.MaxConcurrency < 0 || c.MaxQueue < 0 || c.CacheSize < 0 || c.MaxTokens < 0 {
		errs = append(errs,
			errors.New("the judge's timeout, concurrency, queue, cache size and token bound must be positive"))
	}
	if !slices.Contains([]OnFailure{FailureIsError, FailureIsOffline}, c.OnFailure) {
		errs = append(errs, fmt.Errorf("the judge's handling of failures is %q: choose error or offline", c.OnFailure))
	}
	if !slices.Contains(CacheModes(), c.CacheMode) {
		errs = append(errs, fmt.Errorf("the judge's cache is %q: choose one of %v", c.CacheMode, CacheModes()))
	}
	return errors.Join(errs...)
}
