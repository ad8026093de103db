// Package endpoint sends requests to a service that may be slow, full or down, as all sessions of a
// process together should.
//
// A Caller bounds how many requests are in flight, follows what the service says of its load, keeps
// to a rate, waits as long as it is asked to, and sends a request again where that may help.
// Completions is the client of an OpenAI-compatible service that goes with it. Both tell by a Class
// how a request ended: what that means for a verdict or an episode is for their users to say.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Class is how a request ended.
type Class uint8

// The classes of requests.
const (
	Completed Class = iota
	// Throttled, ServerError, Broken (connections) and TimedOut may go well another time.
	Throttled
	ServerError
	Broken
	TimedOut
	// Unparsable responses were served and aren't what was asked for.
	Unparsable
	// Unauthorised requests won't do whatever they hold, Rejected ones because of what they hold.
	Unauthorised
	Rejected
	// Abandoned requests were given up by the caller, and Unsent ones never begun.
	Abandoned
	Unsent
)

// String is the class as metrics name it.
func (c Class) String() string {
	return [...]string{"completed", "throttled", "server_error", "transport", "timeout", "unparsable", "unauthorised",
		"rejected", "abandoned", "stopped"}[c]
}

// Again tells whether the same request may go well another time.
func (c Class) Again() bool {
	return c == Throttled || c == ServerError || c == Broken || c == TimedOut
}

// Outage tells whether the class says something of the endpoint's health. What a single request
// holds doesn't: whoever writes its texts could break the service for all by it.
func (c Class) Outage() bool {
	return c == ServerError || c == Broken || c == TimedOut || c == Unauthorised
}

// Error is a request that didn't complete. Its text holds nothing of what the endpoint wrote.
type Error struct {
	Class Class
	// Status is the response's, 0 without one.
	Status int
	// After is what the endpoint asks to wait.
	After time.Duration
	// Complaint is what the endpoint says of a request that it finds wrong. It is the endpoint's
	// text and may repeat what it was sent.
	Complaint string
	// Anew means that the next request will be another one: it is sent at once, and not counted.
	Anew bool
	Err  error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return strings.TrimSpace(fmt.Sprintf("the endpoint answered %d %s", e.Status, http.StatusText(e.Status)))
	}
	return fmt.Sprintf("asking the endpoint (%s): %v", e.Class, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf is the class of a request's error.
func ClassOf(err error) Class {
	if err == nil {
		return Completed
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Unsent
}

// NewError tells what a failed request means. The response is nil if there was none; now is the
// time at which a date in its Retry-After is looked at.
func NewError(ctx context.Context, err error, response *http.Response, now time.Time) *Error {
	e := &Error{Err: err}
	switch {
	case ctx.Err() != nil:
		e.Class = Abandoned
	case response != nil && response.StatusCode >= http.StatusMultipleChoices:
		e.Status, e.Class, e.After = response.StatusCode, statusClass(response.StatusCode), retryAfter(
			response.Header.Get("Retry-After"), now)
	case errors.Is(err, context.DeadlineExceeded):
		e.Class = TimedOut
	case response == nil, isBroken(err):
		e.Class = Broken
	default:
		e.Class = Unparsable
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		e.Err = outer.Err // a URL may hold a secret
	}
	return e
}

// isBroken tells whether a response ended before its end.
func isBroken(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, io.ErrUnexpectedEOF) && strings.Contains(err.Error(), "reading") || errors.As(err, &timeout)
}

func statusClass(status int) Class {
	switch {
	case status == http.StatusTooManyRequests:
		return Throttled
	case status >= http.StatusInternalServerError, status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		return ServerError
	case status == http.StatusUnauthorized:
		return Unauthorised
	}
	// 403 and 404 as well: gateways give them for what a request holds.
	return Rejected
}

// retryAfter reads the header of RFC 9110, section 10.2.3: seconds or a date.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		return max(time.Duration(seconds)*time.Second, 0)
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// errTooLarge means that a response is longer than it may be.
var errTooLarge = errors.New("the response is too large")

// Bound keeps a response's body from filling the memory: reading fails past the bound, in bytes.
func Bound(body io.ReadCloser, most int) io.ReadCloser { return &boundedBody{body, most} }

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read fails past the bound.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
