package llm

import (
	"context"
	"errors"
	"fmt"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
)

// harmless replaces a reply to learn whether that caused a failure.
const harmless = "Thank you for your message."

// probe reports whether the reply caused the failure: the model refused to read it, or judges the
// same ticket with a harmless reply. If such replies weren't graded, agents could have their bad
// replies left out. A failure that may have been an outage has to happen again with the reply
// first; if it doesn't, probe returns the verdict. It waits at most for the timeout.
func (j *Judge) probe(ctx context.Context, c grader.Case, usage *grader.Usage, assessment *offline.Assessment,
	err error) (v grader.Verdict, provoked bool) {
	if errors.Is(err, errContent) {
		return v, true
	}
	if errors.Is(err, errFrozen) || ctx.Err() != nil || refusedByBreaker(err) && j.knownDown() {
		return v, false
	}
	ctx, cancel := context.WithTimeout(ctx, j.config.Timeout)
	defer cancel()
	if !j.judgesOthers(ctx, c, usage, assessment) {
		return v, false
	}
	if cause := causeOf(err); cause != grader.CauseUnavailable && cause != grader.CauseTimeout {
		return v, true
	}
	v, err = j.judge(ctx, c, assessment, true)
	usage.Add(v.Usage)
	return v, err != nil && !errors.Is(err, context.Canceled) && !isUnsent(err)
}

// knownDown reports whether a harmless reply could not be judged a moment ago. While the breaker is
// open, no reply asks sooner again.
func (j *Judge) knownDown() bool {
	failed := j.downSince.Load()
	return failed != nil && j.config.Now().Sub(*failed) < breakerPause
}

// isUnsent reports whether a failed request was never made, so that its reply can't be the cause.
func isUnsent(err error) bool {
	return refusedByBreaker(err) || errors.Is(err, endpoint.ErrQueueFull) ||
		causeOf(err) == grader.CauseTimeout && endpoint.ClassOf(err) == endpoint.Unsent
}

// judgesOthers reports whether the model judges the ticket with a harmless reply. At most one such
// question is asked at a time, so that an outage doesn't multiply the requests: it answers for all
// replies that fail meanwhile.
func (j *Judge) judgesOthers(ctx context.Context, c grader.Case, usage *grader.Usage,
	assessment *offline.Assessment) bool {
	q, err := j.ask(c, assessment, assessment.Claims())
	if err != nil {
		return false
	}
	q.Reply, q.Cut = datamarkText(harmless), false
	var led grader.Usage // stays 0 if another reply's question answers
	answer := j.flight.DoChan("harmless", func() (_ any, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("panic: %v", cause) // which would end the process with all its sessions
			}
		}()
		// Half of the time, so that the reply can be judged once more.
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.config.Timeout/2)
		defer cancel()
		if err = j.try(asking, q, &led); err != nil {
			now := j.config.Now()
			j.downSince.Store(&now)
		}
		return nil, err
	})
	select {
	case <-ctx.Done():
		return false
	case r := <-answer:
		usage.Add(led)
		return r.Err == nil
	}
}
