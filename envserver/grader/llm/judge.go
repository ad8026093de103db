// Package llm judges replies with a language model behind any endpoint that speaks OpenAI's chat
// completions.
//
// The model decides as little as possible. The rules of package grader read the reply first; what
// they can't find (a fact in other words, the next step, whether a question was answered, tone,
// order) is asked as claims of one statement each, tied to a fact and its value, and each answer
// has to quote the words that it rests on. Points, caps and gates stay in code. A reply is data to
// the model, never an instruction, and if the model is taken in all the same, what it can give away
// is bounded by the gates.
//
// A failure is never a score: it is an error with a cause, or, where that was asked for, the
// offline judge's verdict under that judge's name. Answers are kept under a digest of all that they
// depend on, so that the same reply is judged once, and a run can be graded again without the
// model.
package llm

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
)

// OnFailure says what becomes of a reply that the model couldn't judge.
type OnFailure string

const (
	// FailureIsError makes it an error: the episode has no score.
	FailureIsError OnFailure = "error"
	// FailureIsOffline asks the offline judge instead. The two scales then mix, and the judge's
	// name says so.
	FailureIsOffline OnFailure = "offline"
)

// The defaults of Config.
const (
	DefaultTimeout        = time.Minute
	DefaultMaxConcurrency = 64
	DefaultVotes          = 3
)

// Config is what a judge needs. BaseURL and Model are required; the zero value of everything else
// is the default.
type Config struct {
	// BaseURL is the endpoint's, to which /chat/completions is added: "https://api.openai.com/v1".
	BaseURL string
	// Model is the endpoint's name of the model. Name a dated version: scores of different models
	// don't compare.
	Model string
	// APIKey is sent as a bearer token, unless it is "".
	APIKey string
	// Timeout bounds one judgement, waiting, retries and votes included.
	Timeout time.Duration
	// MaxConcurrency bounds the requests that run at a time, MaxQueue those that wait.
	MaxConcurrency, MaxQueue int
	// Votes is how often the model is asked about a reply that is hard to judge: the most votes
	// decide each claim. It is odd; 1 is never to ask again.
	Votes int
	// PassLine is what a reply earns in an episode that just passes, and Margin the distance from
	// it within which a second and third vote are worth their price, in milli-points. The default
	// of PassLine is that of an episode at 0.8 whose labels are all right.
	PassLine, Margin int64
	// Sample is the share of the other replies that are voted on as well, in thousandths: how often
	// votes differ tells how reliable the model is.
	Sample int
	// OnFailure is FailureIsError unless set.
	OnFailure OnFailure
	// CacheMode is CacheReadWrite unless set. Answers are kept in memory, the CacheSize latest
	// ones, and in CacheDir unless it is "".
	CacheMode CacheMode
	CacheDir  string
	CacheSize int
	// MaxTokens bounds what the model writes.
	MaxTokens int64
	// HTTPClient sends the requests.
	HTTPClient *http.Client
	// Now, Random (from 0 to 1) and Wait are the clock and the randomness of retries.
	Now    func() time.Time
	Random func() float64
	Wait   func(ctx context.Context, d time.Duration) error
}

func (c Config) withDefaults() Config {
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.MaxConcurrency, DefaultMaxConcurrency)
	setDefault(&c.MaxQueue, 4096)
	setDefault(&c.Votes, DefaultVotes)
	setDefault(&c.PassLine, 300)
	setDefault(&c.Margin, 50)
	setDefault(&c.OnFailure, FailureIsError)
	setDefault(&c.CacheMode, CacheReadWrite)
	setDefault(&c.CacheSize, 10_000)
	setDefault(&c.MaxTokens, 4096)
	setDefault(&c.HTTPClient, &http.Client{})
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Wait == nil {
		c.Wait = endpoint.Wait
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxModel bounds a model's name, which is part of every score's scale.
const maxModel = 128

// Validate reports every field that makes no sense.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if !plainURL(c.BaseURL) {
		errs = append(errs, errors.New("the judge's base URL must be http(s)://host[:port]/path, without a user, a "+
			"password, a query or a fragment, for example https://api.openai.com/v1"))
	}
	if !plainName(c.Model) {
		errs = append(errs, fmt.Errorf("the judge's model is %.40q: name the endpoint's model in at most %d ASCII "+
			"characters without spaces", c.Model, maxModel))
	}
	if c.Votes < 0 || c.Votes%2 == 0 || c.Votes > 9 {
		errs = append(errs, fmt.Errorf("the judge has %d votes: it must be 1, 3, 5, 7 or 9", c.Votes))
	}
	if c.Timeout < 0 || c.MaxConcurrency < 0 || c.MaxQueue < 0 || c.CacheSize < 0 || c.MaxTokens < 0 {
		errs = append(errs, errors.New("the judge's timeout, concurrency, queue, cache size and token bound must be "+
			"positive"))
	}
	if !slices.Contains([]OnFailure{FailureIsError, FailureIsOffline}, c.OnFailure) {
		errs = append(errs, fmt.Errorf("on failure the judge is to be %q: choose error or offline", c.OnFailure))
	}
	if !slices.Contains(CacheModes(), c.CacheMode) {
		errs = append(errs, fmt.Errorf("the judge's cache is %q: choose one of %v", c.CacheMode, CacheModes()))
	}
	return errors.Join(errs...)
}

func plainURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil &&
		!strings.ContainsAny(text, "?#")
}

func plainName(text string) bool {
	return text != "" && len(text) <= maxModel && !strings.ContainsFunc(text,
		func(r rune) bool { return r <= ' ' || r > '~' })
}

// Judge asks a model. It is safe for concurrent use and meant to be shared by all sessions of a
// process.
type Judge struct {
	config    Config
	rules     *offline.Judge
	templates templates
	client    *client
	cache     *cache
	flight    singleflight.Group
	metrics   *metrics
}

var _ grader.Judge = (*Judge)(nil)

// New makes a judge. The rules are those that read each reply first.
func New(c Config, rules *offline.Judge) (*Judge, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := &Judge{config: c.withDefaults(), rules: rules, metrics: newMetrics()}
	var err error
	if j.templates, err = parseTemplates(); err != nil {
		return nil, err
	}
	if j.cache, err = newCache(&j.config); err != nil {
		return nil, err
	}
	j.client = newClient(&j.config, j.metrics)
	return j, nil
}

// scale is the name of verdicts that the model gave.
func (j *Judge) scale() string { return "llm:" + j.config.Model + "@" + RubricVersion }

// Name is "llm:<model>@<rubric>", and with "+" and the offline judge's name where that stands in.
func (j *Judge) Name() string {
	if j.config.OnFailure == FailureIsOffline {
		return j.scale() + "+" + offline.Name
	}
	return j.scale()
}

// Judge grades one reply. It may wait for the endpoint, at most for the timeout.
func (j *Judge) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	began := j.config.Now()
	assessment, err := j.rules.Assess(c)
	if err != nil {
		return grader.Verdict{Judge: j.scale(), Status: grader.StatusError, Cause: grader.CauseFailed}, err
	}
	v, err := j.judge(ctx, c, assessment)
	if err != nil {
		v, err = j.failed(v.Usage, assessment, err)
	}
	j.metrics.judged(v, j.config.Now().Sub(began))
	return v, err
}

// failed is what becomes of a failure.
func (j *Judge) failed(usage grader.Usage, assessment *offline.Assessment, err error) (grader.Verdict, error) {
	v := grader.Verdict{Judge: j.scale(), Status: grader.StatusError, Usage: usage, Cause: causeOf(err)}
	if j.config.OnFailure != FailureIsOffline || errors.Is(err, context.Canceled) {
		return v, fmt.Errorf("judging a reply: %w", err)
	}
	rules := assessment.Rules()
	rules.Status, rules.Usage, rules.Cause = grader.StatusFallback, v.Usage, v.Cause
	return rules, nil
}

// judge asks for as many votes as the reply needs and adds them up.
func (j *Judge) judge(ctx context.Context, c grader.Case, assessment *offline.Assessment) (grader.Verdict, error) {
	claims := assessment.Claims()
	if len(claims) == 0 {
		return assessment.Grade(j.scale(), nil)
	}
	q, err := j.ask(c, assessment, claims)
	if err != nil {
		return grader.Verdict{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, j.config.Timeout)
	defer cancel()
	b := ballot{question: q}
	for vote := 0; vote < 1 || vote < j.config.Votes && (vote > 1 || j.doubtful(&b)); vote++ {
		if err := j.vote(ctx, &b, vote); err != nil {
			return grader.Verdict{Usage: b.usage}, err
		}
	}
	return b.count(j.scale())
}

// vote adds a vote to the ballot.
func (j *Judge) vote(ctx context.Context, b *ballot, vote int) error {
	key, err := b.question.key(vote)
	if err != nil {
		return err
	}
	r := j.fetch(ctx, b.question, key, vote)
	b.usage.Add(r.usage)
	if r.err != nil {
		return r.err
	}
	if vote == 0 {
		b.first = key
	}
	b.votes = append(b.votes, r.answers)
	b.fresh = b.fresh || !r.cached
	return nil
}

// doubtful tells whether one vote isn't enough: it leaves a claim open, the reply is close to the
// pass line, or it is in the sample. All of that is the same each time.
func (j *Judge) doubtful(b *ballot) bool {
	if !decided(b.votes[0]) {
		return true
	}
	v, err := b.question.assessment.Grade("", b.votes[0])
	if err != nil || abs(v.PostGate-j.config.PassLine) <= j.config.Margin {
		return true
	}
	raw, err := hex.DecodeString(b.first[:4])
	return err == nil && (int(raw[0])<<8|int(raw[1]))%1000 < j.config.Sample
}

func abs(n int64) int64 { return max(n, -n) }

// result is a vote, and what it took.
type result struct {
	answers []grader.Evidence
	usage   grader.Usage
	cached  bool
	err     error
}

// fetch looks a vote up or asks the model for it.
func (j *Judge) fetch(ctx context.Context, q *question, key string, vote int) result {
	if e, ok := j.lookUp(q, key); ok {
		j.metrics.hits.Inc()
		return result{answers: e.Answers, usage: grader.Usage{CacheHits: 1}, cached: true}
	}
	j.metrics.misses.Inc()
	if j.config.CacheMode == CacheFrozen {
		return result{err: fail(grader.CauseFailed, errors.New("the verdict isn't in the frozen cache"))}
	}
	if j.config.CacheMode == CacheOff {
		return j.consult(ctx, q, key, vote)
	}
	return j.share(ctx, q, key, vote)
}

// lookUp finds an answer that was given as the endpoint would be asked now. A frozen cache's
// endpoint isn't asked, so that its refusals aren't known: any will do.
func (j *Judge) lookUp(q *question, key string) (entry, bool) {
	if j.config.CacheMode != CacheFrozen {
		return j.cache.get(address(key, feature(j.client.refused.Load())), q)
	}
	for refused := range feature(1) << len(features) {
		if e, ok := j.cache.get(address(key, refused), q); ok {
			return e, true
		}
	}
	return entry{}, false
}

// share asks the model. Sessions that need the same vote at once share one request, which goes on
// when the session that began it is gone; no lock is held while they wait.
func (j *Judge) share(ctx context.Context, q *question, key string, vote int) result {
	for {
		var led atomic.Bool
		shared := j.flight.DoChan(key, func() (any, error) {
			led.Store(true)
			// The request of another session may have ended since this one looked.
			if e, ok := j.lookUp(q, key); ok {
				return result{answers: e.Answers, usage: grader.Usage{CacheHits: 1}, cached: true}, nil
			}
			detached, cancel := detach(ctx)
			defer cancel()
			return j.consult(detached, q, key, vote), nil
		})
		select {
		case <-ctx.Done():
			if !led.Load() || errors.Is(ctx.Err(), context.Canceled) {
				return result{err: ctx.Err()}
			}
			// The request has the same deadline: it is over, and what it cost is to be told.
			got, _ := (<-shared).Val.(result)
			return got
		case r := <-shared:
			got, _ := r.Val.(result)
			switch {
			case led.Load():
				return got
			case got.err != nil && causeOf(got.err) == grader.CauseTimeout && ctx.Err() == nil:
				// The one who asked had less time left.
				continue
			}
			return got.free()
		}
	}
}

// free is the result for those who only waited for it.
func (r result) free() result {
	r.usage = grader.Usage{}
	if r.err == nil {
		r.usage, r.cached = grader.Usage{CacheHits: 1}, true
	}
	return r
}

// detach is the context with its deadline alone.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, _ := ctx.Deadline()
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

// semanticAttempts is how often the model may answer before its answer counts as unparsable.
const semanticAttempts = 3

// consult asks the model until its answer can be read, and keeps it.
func (j *Judge) consult(ctx context.Context, q *question, key string, vote int) (r result) {
	defer func() {
		if cause := recover(); cause != nil {
			// Without this the process would end with all its sessions.
			r.err = fail(grader.CauseFailed, fmt.Errorf("panic: %v", cause))
		}
	}()
	complaint := ""
	for attempt := range semanticAttempts {
		content, p, err := j.client.complete(ctx, func(fenced bool) (prompt, error) {
			return j.write(q, key, attempt,
				complaint, fenced)
		}, &r.usage)
		switch {
		case err != nil && causeOf(err) != grader.CauseUnparsable:
			r.err = err
			return r
		case err != nil:
			r.err, complaint = err, "it was not a complete JSON object"
		case strings.Contains(content, p.canary):
			r.err, complaint = fail(grader.CauseFailed,
				errors.New("the answer gives the instructions away")), "it held what must not be written"
		default:
			if r.answers, err = parse(content, q); err == nil {
				r.err = nil
				j.keep(q, address(key, p.refused), vote, &r)
				return r
			}
			r.err, complaint = fail(grader.CauseUnparsable, err), err.Error()
		}
		if attempt+1 < semanticAttempts {
			r.usage.Retries++
			j.metrics.retries.WithLabelValues("answer").Inc()
		}
	}
	return r
}

// keep counts what an answer rests on and puts it into the cache. Not being able to is no reason to
// lose the verdict.
func (j *Judge) keep(q *question, key string, vote int, r *result) {
	for i, a := range r.answers {
		if a.Verdict == grader.Met && q.assessment.Refuse(q.claims[i], a.Quote) != "" {
			j.metrics.refused.Inc()
		}
	}
	e := entry{
		Key: key, Model: q.Model, Rubric: q.Rubric, Scenario: q.Scenario, Vote: vote,
		At: j.config.Now().UTC().Truncate(time.Second), Answers: r.answers, Usage: r.usage,
	}
	if err := j.cache.put(e); err != nil {
		j.metrics.unkept.Inc()
	}
}
