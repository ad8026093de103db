// Package llm judges replies with a language model behind any endpoint that speaks OpenAI's chat
// completions.
//
// The model decides which facts of the scenario the reply tells and what else it earns points for,
// and has to quote its evidence; it also says whether the reply does harm and whether it is a
// letter that may be sent. Code looks the quotes up, adds the points up, and can only lower what
// the model credits: by the gates of package offline, and by facts stated beside the letter that
// are wrong. A reply is data to the model; if it deceives the model, the gates bound the damage. Of
// a workflow's reply the model decides about harm and the letter alone.
//
// A failure is never a score: it is an error with a cause or, if configured, the offline judge's
// verdict. Answers are cached under a digest of everything that they depend on, so the same reply
// is judged once, and a run can be graded again without the model.
package llm

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
)

// Judge calls a model. All sessions of a process share one Judge. It is safe for concurrent use.
type Judge struct {
	config    Config
	rules     *offline.Judge
	templates templates
	asker     *endpoint.Asker
	cache     *cache
	flight    singleflight.Group
	metrics   *metrics
	// suspects are the cases whose judgement failed once while a harmless reply was judged, with
	// the kind of the failure.
	suspects *lru.Cache[string, string]
}

var (
	_ grader.Judge   = (*Judge)(nil)
	_ grader.Bounded = (*Judge)(nil)
)

// maxSuspects bounds the cases that are kept between two calls. One that is forgotten needs another
// proof.
const maxSuspects = 10_000

// New makes a judge. The rules are the judge without a model.
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
	if j.suspects, err = lru.New[string, string](maxSuspects); err != nil {
		return nil, fmt.Errorf("making the judge's list of suspects: %w", err)
	}
	j.asker = endpoint.NewAsker(j.config.asking())
	return j, nil
}

// scale is the name of the scale of the model's verdicts.
func (j *Judge) scale() string { return "llm:" + j.config.Model + "@" + RubricVersion }

// Name is "llm:<model>@<rubric>", followed by "+" and the offline judge's name if that is the
// fallback.
func (j *Judge) Name() string {
	if j.config.OnFailure == FailureIsOffline {
		return j.scale() + "+" + offline.Name
	}
	return j.scale()
}

// Timeout is how long a judgement may take.
func (j *Judge) Timeout() time.Duration { return j.config.Timeout }

// LeftOut says what requests leave out because the endpoint refuses it, since when and of how many;
// "" for nothing.
func (j *Judge) LeftOut() string { return j.asker.LeftOut() }

// Judge grades one reply. It may wait for the endpoint, at most for the timeout.
func (j *Judge) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	began := j.config.Now()
	if c.Ticket == nil && c.Workflow == nil {
		return grader.Verdict{Judge: j.scale(), Status: grader.StatusError, Cause: grader.CauseFailed},
			errors.New("judging a reply: the case has no ticket and no workflow")
	}
	release, err := fairness.OccupyProcessor(ctx, len(c.Reply))
	if err != nil {
		return grader.Verdict{Judge: j.scale(), Status: grader.StatusError, Cause: grader.CauseFailed}, err
	}
	a := assess(j.rules, c)
	release()
	v, provoked, err := j.decide(ctx, c, a)
	if err != nil {
		v, err = j.failed(v.Usage, a, provoked, err)
	}
	j.metrics.judged(v, j.config.Now().Sub(began))
	return v, err
}

func (m *metrics) judged(v grader.Verdict, took time.Duration) {
	m.verdicts.WithLabelValues(string(v.Status)).Inc()
	if v.Cause != "" {
		m.failures.WithLabelValues(string(v.Cause)).Inc()
	}
	m.judgeSeconds.Observe(took.Seconds())
}

// failed returns the verdict by facts on a reply that provoked its failure, or if facts stand in
// for the model, and otherwise the error with its cause.
func (j *Judge) failed(usage grader.Usage, a *assessment, provoked bool, err error) (
	grader.Verdict, error) {
	cause, standIn := causeOf(err), j.config.OnFailure == FailureIsOffline
	if !provoked && !standIn || errors.Is(err, context.Canceled) {
		v := grader.Verdict{Judge: j.scale(), Status: grader.StatusError, Cause: cause, Usage: usage}
		return v, fmt.Errorf("judging a reply: %w", err)
	}
	rules := a.Verdict()
	if !standIn {
		rules = markUnread(rules, j.scale())
	}
	rules.Status, rules.Usage, rules.Cause = grader.StatusFallback, usage, cause
	return rules, nil
}

// unreadCap is the cap on a reply that alone makes its judgement fail. Without the
// model nobody reads the letter, so failing must not pay.
const unreadCap = 150

// markUnread returns the verdict by facts on such a reply, on the model's scale.
func markUnread(rules grader.Verdict, scale string) grader.Verdict {
	rules.Judge = scale
	rules.Gates = append(rules.Gates, grader.Gate{ID: grader.GateUnread, Cap: unreadCap,
		Reason: "made the judgement fail twice, while a harmless reply was judged"})
	rules.PostGate = min(rules.PostGate, unreadCap)
	return rules
}

// judge takes the votes that the reply needs and counts them.
func (j *Judge) judge(ctx context.Context, a *assessment) (grader.Verdict, error) {
	if len(a.claims) == 0 {
		return a.grade(j.scale(), nil)
	}
	q, err := j.ask(a)
	if err != nil {
		return grader.Verdict{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, j.config.round())
	defer cancel()
	b := ballot{question: q}
	for vote := 0; vote < 1 || vote < j.config.Votes && (vote > 1 || j.doubtful(&b)); vote++ {
		if err := j.vote(ctx, &b, vote); err != nil {
			return grader.Verdict{Usage: b.usage}, err
		}
	}
	return b.count(j.scale())
}

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

// doubtful reports whether further votes are needed: the first one leaves a claim open, or finds
// harm or no letter at the cost of points, the reply is close to the pass line, or it is in the
// sample.
func (j *Judge) doubtful(b *ballot) bool {
	if !isDecided(b.votes[0]) {
		return true
	}
	v, err := b.question.assessment.grade("", b.votes[0])
	if err != nil || absInt(v.PostGate-j.config.PassLine) <= j.config.Margin || b.spared() > v.PostGate {
		return true
	}
	raw, err := hex.DecodeString(b.first[:4])
	return err == nil && (int(raw[0])<<8|int(raw[1]))%1000 < j.config.Sample
}

// spared returns the points by the first vote if that had found no harm and no fault of the letter.
func (b *ballot) spared() int64 {
	answers := slices.Clone(b.votes[0])
	for i, claim := range b.question.claims {
		switch {
		case claim.Harm != nil:
			answers[i].Verdict = grader.Unmet
		case claim.Claim == letterClaim:
			answers[i].Verdict = grader.Met
		}
	}
	v, err := b.question.assessment.grade("", answers)
	if err != nil {
		return 0 // the vote isn't valid with harm either
	}
	return v.PostGate
}

func absInt(n int64) int64 { return max(n, -n) }

// errFrozen means that a frozen cache doesn't hold the verdict.
var errFrozen = errors.New("the verdict isn't in the frozen cache")

// result is a vote and its cost.
type result struct {
	answers []grader.Evidence
	usage   grader.Usage
	cached  bool
	err     error
}

// fetch looks up a vote, or calls the model for it.
func (j *Judge) fetch(ctx context.Context, q *question, key string, vote int) result {
	if e, ok := j.lookUp(q, key); ok {
		j.metrics.hits.Inc()
		return result{answers: e.Answers, usage: grader.Usage{CacheHits: 1}, cached: true}
	}
	j.metrics.misses.Inc()
	if j.config.CacheMode == CacheFrozen {
		return result{err: newFailure(grader.CauseFailed, errFrozen)}
	}
	if j.config.CacheMode == CacheOff {
		return j.consult(ctx, q, key, vote)
	}
	return j.share(ctx, q, key, vote)
}

// lookUp finds the answer to the request that would be sent now. With a frozen cache it also finds
// answers to requests without any of the features.
func (j *Judge) lookUp(q *question, key string) (entry, bool) {
	if j.config.CacheMode != CacheFrozen {
		return j.cache.get(deriveCacheKey(key, j.asker.Lacks()), q)
	}
	for refused := range cached + 1 {
		if e, ok := j.cache.get(deriveCacheKey(key, refused), q); ok {
			return e, true
		}
	}
	return entry{}, false
}

// share calls the model. Concurrent sessions that need the same vote share one request, which
// continues if the session that started it ends.
func (j *Judge) share(ctx context.Context, q *question, key string, vote int) result {
	for {
		if errors.Is(ctx.Err(), context.Canceled) {
			return result{err: ctx.Err()}
		}
		var led atomic.Bool
		shared := j.flight.DoChan(key, func() (any, error) {
			led.Store(true)
			// Another session's request may have ended since the last look-up.
			if e, ok := j.lookUp(q, key); ok {
				return result{answers: e.Answers, usage: grader.Usage{CacheHits: 1}, cached: true}, nil
			}
			detached, cancel := detachContext(ctx)
			defer cancel()
			return j.consult(detached, q, key, vote), nil
		})
		select {
		case <-ctx.Done():
			if !led.Load() || errors.Is(ctx.Err(), context.Canceled) {
				return result{err: ctx.Err()}
			}
			// The request has the same deadline, so it ends soon. Its usage is counted.
			got, _ := (<-shared).Val.(result)
			return got
		case r := <-shared:
			got, _ := r.Val.(result)
			switch {
			case led.Load():
				return got
			case got.err != nil && causeOf(got.err) == grader.CauseTimeout && ctx.Err() == nil:
				// The session that sent the request had less time left.
				continue
			}
			return got.free()
		}
	}
}

// free returns the result for sessions that waited for another's request.
func (r result) free() result {
	r.usage = grader.Usage{}
	if r.err == nil {
		r.usage, r.cached = grader.Usage{CacheHits: 1}, true
	}
	return r
}

// detachContext returns a context with the context's deadline only.
func detachContext(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, _ := ctx.Deadline()
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

var errRevealed = errors.New("it held what must not be written")

// consult calls the model until its answer is valid, and caches it.
func (j *Judge) consult(ctx context.Context, q *question, key string, vote int) (r result) {
	defer func() {
		if cause := recover(); cause != nil {
			// A panic here would end the process with all its sessions.
			r.err = newFailure(grader.CauseFailed, fmt.Errorf("panic: %v", cause))
		}
	}()
	answers, p, err := j.answers(ctx, q, key, false, &r.usage)
	if r.answers, r.err = answers, err; err == nil {
		j.keep(q, deriveCacheKey(key, p.lacks), vote, &r)
	}
	return r
}

// answers calls the model until its answer is valid and, if it has to be sure, decided. If the last
// answer is wrong too, the error wraps an *endpoint.WrongAnswer.
func (j *Judge) answers(ctx context.Context, q *question, key string, sure bool, usage *grader.Usage) (
	found []grader.Evidence, p prompt, err error) {
	cost, err := j.asker.Ask(ctx, endpoint.Question{
		Write: func(attempt int, complaint string, lacks endpoint.Feature) (_ endpoint.Prompt, err error) {
			p, err = j.write(q, key, attempt, complaint, lacks)
			return p.Prompt, err
		},
		Read: func(text string) (err error) {
			if strings.Contains(text, p.canary) {
				return errRevealed
			}
			if found, err = parseAnswer(text, q); err == nil && sure && !isDecided(found) {
				err = errors.New("the model doesn't decide")
			}
			return err
		},
	})
	usage.Add(grader.Usage{Calls: cost.Calls, Retries: cost.Retries, PromptTokens: cost.PromptTokens,
		CompletionTokens: cost.CompletionTokens})
	if err != nil {
		return nil, p, wrapFailure(ctx, err)
	}
	return found, p, nil
}

// keep counts refused evidence and caches the answer. An error of the cache is only counted.
func (j *Judge) keep(q *question, key string, vote int, r *result) {
	for i, a := range r.answers {
		if a.Verdict == grader.Met && q.assessment.refuse(q.claims[i], a.Quote) != "" {
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
