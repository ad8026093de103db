package llm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csenv/csenv/envserver/grader"
)

// failure is an error with the cause that verdicts report.
type failure struct {
	cause grader.Cause
	// within is the time that the judgement has used up, 0 if it ended by itself.
	within time.Duration
	err    error
}

func newFailure(cause grader.Cause, err error) error { return &failure{cause: cause, err: err} }

func (f *failure) Error() string { return string(f.cause) + ": " + f.late() + f.err.Error() }

func (f *failure) late() string {
	if f.within == 0 {
		return ""
	}
	return fmt.Sprintf("no verdict within %v (--judge-timeout, timeoutSeconds): ", f.within)
}

// Public is the part of the error that quotes no reply and no answer.
func (f *failure) Public() string {
	var public interface{ Public() string }
	if errors.As(f.err, &public) {
		return f.late() + public.Public()
	}
	return f.late()
}

func (f *failure) Unwrap() error { return f.err }

func causeOf(err error) grader.Cause {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.cause
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return grader.CauseTimeout
	}
	return grader.CauseFailed
}
