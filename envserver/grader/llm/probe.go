package llm

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader"
)

// harmless replaces a reply to learn whether that caused a failure.
const harmless = "Thank you for your message."

// decide judges a reply until there is a verdict, or the timeout is over. While the model doesn't
// judge a harmless reply either, the endpoint is at fault, and is waited for.
//
// A failure is the reply's only if it is shown twice: it happens again after the model has judged a
// harmless reply, and that is judged again. Then provoked is true. If such replies weren't graded,
// agents could have their bad replies left out. The first proof is kept for the next call, because
// a failure may take all the time of one.
func (j *Judge) decide(ctx context.Context, c grader.Case, a *assessment) (
	v grader.Verdict, provoked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.config.Timeout)
	defer cancel()
	var usage grader.Usage
	var last error
	left := j.config.Timeout // of the waits
	for round := 1; ; round++ {
		v, err = j.judge(ctx, a)
		usage.Add(v.Usage)
		v.Usage = usage
		switch {
		case err == nil:
			j.suspects.Remove(c.Digest())
			return v, false, nil
		case errors.Is(err, context.Canceled) || errors.Is(err, errFrozen) || j.config.OnFailure == FailureIsOffline:
			return v, false, err
		case ctx.Err() != nil:
			return v, false, j.late(last, err)
		case isOfAccount(err):
			return v, false, err
		}
		last = err
		judged := j.judgesOthers(ctx, &v.Usage, a)
		usage = v.Usage
		switch {
		case judged && j.isSecond(c, err):
			return v, true, err
		case ctx.Err() != nil:
			return v, false, j.late(last, err)
		case !judged && !endpoint.ClassOf(err).Again():
			return v, false, err
		case !judged:
			j.suspects.Remove(c.Digest())
		}
		wait := endpoint.Backoff(firstBackoff, maxBackoff, round, func() float64 { return (1 + j.config.Random()) / 2 })
		if e, ok := errors.AsType[*endpoint.Error](err); ok {
			wait = max(wait, e.After)
		}
		if left -= wait; left < 0 || j.config.Wait(ctx, wait) != nil {
			return v, false, j.late(last, err)
		}
	}
}

// late is the failure of a judgement that has used up its time: the last one but its end, if any.
func (j *Judge) late(last, err error) error {
	if last == nil {
		last = newFailure(grader.CauseTimeout, err)
	}
	return &failure{cause: causeOf(last), within: j.config.Timeout, err: last}
}

// isOfAccount reports whether a failure says something of the key, the account or the address: no
// reply causes it.
func isOfAccount(err error) bool {
	e, ok := errors.AsType[*endpoint.Error](err)
	return ok && e.OfAccount() && e.Class != endpoint.Throttled
}

// isSecond keeps the failure of a reply after which the model judged a harmless one, and reports
// whether it is the second of its kind. A refusal for too many requests proves nothing.
func (j *Judge) isSecond(c grader.Case, err error) bool {
	class := endpoint.ClassOf(err)
	if class == endpoint.Throttled || errors.Is(err, endpoint.ErrQueueFull) {
		return false
	}
	kind := fmt.Sprint(causeOf(err), class)
	before, known := j.suspects.Get(c.Digest())
	if known && before == kind {
		j.suspects.Remove(c.Digest())
		return true
	}
	j.suspects.Add(c.Digest(), kind)
	return false
}

// judgesOthers reports whether the model judges the ticket with a harmless reply. At most one such
// question is asked at a time, so that an outage doesn't multiply the requests: it answers for all
// replies that fail meanwhile.
func (j *Judge) judgesOthers(ctx context.Context, usage *grader.Usage,
	a *assessment) bool {
	q, err := j.ask(a)
	if err != nil {
		return false
	}
	q.Reply, q.Cut = datamarkText(harmless), false
	var led grader.Usage // stays 0 if another reply's question answers
	var leads atomic.Bool
	answer := j.flight.DoChan("harmless", func() (_ any, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("panic: %v", cause) // which would end the process with all its sessions
			}
		}()
		leads.Store(true)
		asking, cancel := detachContext(ctx)
		defer cancel()
		return nil, j.try(asking, q, &led)
	})
	select {
	case <-ctx.Done():
		if leads.Load() && !errors.Is(ctx.Err(), context.Canceled) {
			<-answer // which has the same deadline; its usage is counted
			usage.Add(led)
		}
		return false
	case r := <-answer:
		usage.Add(led)
		return r.Err == nil
	}
}

// round is how long a judgement may take before it is asked whether the reply is at fault: the
// question needs the rest of the time.
func (c *Config) round() time.Duration { return c.Timeout * 2 / 3 }
