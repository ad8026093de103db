package llm

import (
	"context"
	"errors"

	"github.com/csenv/csenv/envserver/grader"
)

// failure is an error with the cause that verdicts report.
type failure struct {
	cause grader.Cause
	err   error
}

func newFailure(cause grader.Cause, err error) error { return &failure{cause, err} }

func (f *failure) Error() string { return string(f.cause) + ": " + f.err.Error() }

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
