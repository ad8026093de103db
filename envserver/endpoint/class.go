// Package endpoint sends requests of all sessions of a process to a service that may be slow, full
// or down.
//
// A Caller bounds the requests in flight and adapts the bound to the service's load, keeps to a
// rate, waits as long as the service requests, and repeats a request where that may help.
// Completions is a client of OpenAI-compatible services. Both classify how a request ended; their
// users decide what that means for a verdict or an episode.
package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/score"
)

// Class is how a request ended.
type Class uint8

// The classes of requests.
const (
	Completed Class = iota
	// Throttled, ServerError, Broken (connections) and TimedOut may succeed another time.
	Throttled
	ServerError
	Broken
	TimedOut
	// Unclear: the response shows nothing, and that of a second request may.
	Unclear
	// Unparsable responses are too large, or not of the expected form.
	Unparsable
	// TooLong are the messages of a request for the model's context.
	TooLong
	// Filtered requests or answers were held back by the provider's filter.
	Filtered
	// Unauthorised requests fail regardless of their content, Rejected ones because of it.
	Unauthorised
	Rejected
	// Abandoned requests were cancelled by the caller, and Unsent ones never begun.
	Abandoned
	Unsent
)

// traits say what follows from each class, for agents and judges alike.
var traits = [...]struct {
	// name is the name in metrics.
	name string
	// again means that the same request may succeed another time.
	again bool
	// agent and judge are the classes of the errors of episodes.
	agent, judge string
}{
	Completed:    {name: "completed"},
	Throttled:    {"throttled", true, score.ClassAgentRateLimited, score.ClassJudgeUnavailable},
	ServerError:  {"server_error", true, score.ClassAgentUnavailable, score.ClassJudgeUnavailable},
	Broken:       {"transport", true, score.ClassAgentUnavailable, score.ClassJudgeUnavailable},
	TimedOut:     {"timeout", true, score.ClassAgentTimeout, score.ClassJudgeTimeout},
	Unclear:      {"unclear", true, score.ClassAgentError, score.ClassJudgeUnavailable},
	Unparsable:   {"unparsable", false, score.ClassAgentError, score.ClassJudgeUnparsable},
	TooLong:      {"too_long", false, score.ClassAgentContext, score.ClassJudgeFailed},
	Filtered:     {"filtered", false, score.ClassAgentError, score.ClassJudgeFailed},
	Unauthorised: {"unauthorised", false, score.ClassAgentError, score.ClassJudgeFailed},
	Rejected:     {"rejected", false, score.ClassAgentError, score.ClassJudgeFailed},
	Abandoned:    {"abandoned", false, score.ClassAgentUnavailable, score.ClassJudgeTimeout},
	Unsent:       {"stopped", false, score.ClassAgentUnavailable, score.ClassJudgeUnavailable},
}

// String is the class as metrics name it.
func (c Class) String() string { return traits[c].name }

// Again reports whether the same request may succeed another time.
func (c Class) Again() bool { return traits[c].again }

// OfAgent is the class of the error of an episode whose agent's request ended so.
func (c Class) OfAgent() string { return traits[c].agent }

// OfJudge is the class of the error of an episode whose judge's request ended so.
func (c Class) OfJudge() string { return traits[c].judge }

// Error is a request that didn't complete.
type Error struct {
	Class Class
	// Status is the response's, 0 without one.
	Status int
	// URL is where the request went, without a user, a password or a query, and Model the model
	// that it named. Both are "" if unknown.
	URL, Model string
	// Words are the endpoint's own, readable and without the key, at most MaxWords bytes. They may
	// repeat the request's text.
	Words string
	// After is the wait that the endpoint requests.
	After time.Duration
	// Lacks is the feature that the endpoint refuses, 0 for none.
	Lacks Feature
	// Anew means that the next attempt sends another request: it is sent at once, and not counted.
	Anew bool
	Err  error
}

// Error is Public and the endpoint's words.
func (e *Error) Error() string {
	if e.Words == "" {
		return e.Public()
	}
	return e.Public() + ": " + e.Words
}

// Public is the error without the endpoint's words, for readers who may not see the request.
func (e *Error) Public() string {
	where, model := "the endpoint", ""
	if e.URL != "" {
		where += " " + e.URL
	}
	if e.Model != "" {
		model = " for model " + e.Model
	}
	if e.Status != 0 {
		return strings.TrimSpace(fmt.Sprintf("%s answered %d %s", where, e.Status, http.StatusText(e.Status))) + model
	}
	return fmt.Sprintf("asking %s%s (%s): %v", where, model, e.Class, e.Err)
}

// Permanent reports whether the request fails, independently of its content, until the key, the
// model's name, the address or the endpoint is changed.
func (e *Error) Permanent() bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](e.Err)
	return untrusted || e.Class == Unauthorised || e.Class == Rejected || e.Class == Unparsable || e.Class == Unclear
}

// Advice is what to do about the failure.
func (e *Error) Advice() string {
	words := e.Words + " " + fmt.Sprint(e.Err)
	switch {
	case e.Status == http.StatusPaymentRequired || strings.Contains(words, "insufficient_"):
		return "pay for the account; then the same command goes on"
	case e.Class == Abandoned:
		return "the same command tries again"
	case e.Class == Unauthorised:
		return "set the right key"
	case e.Status == http.StatusForbidden:
		return "check that the key may use this model"
	case e.Status == http.StatusNotFound, errors.Is(e.Err, ErrNoJSON), e.Status == http.StatusMethodNotAllowed:
		return "check the model's name, and that the URL ends with its version, such as /v1"
	case e.Status >= 300 && e.Status < 400:
		return "use the URL that it redirects to: a key isn't sent elsewhere"
	case e.Class == Filtered:
		return "the provider's filter refuses csenv's texts: change its settings"
	case e.Class == TooLong:
		return "use a model or a server with a longer context"
	case e.Class == Throttled:
		return "lower requestsPerMinute or the concurrency"
	case e.Class == TimedOut:
		return "lower the concurrency (--concurrency), or raise timeoutSeconds"
	case e.Class == ServerError && !versioned.MatchString(e.URL):
		return "check that the URL ends with its version, such as /v1, and look at the endpoint's log"
	case e.Class == Unclear || e.Class == Unparsable:
		return "it answers, but with nothing that csenv can read: look at the endpoint's log"
	case e.Class.Again():
		return "check that the endpoint runs and that its URL is right"
	}
	return "it refuses csenv's requests, for the reason that it names"
}

// versioned finds the version of an API in a URL.
var versioned = regexp.MustCompile(`/v\d`)

// OfAccount reports whether the failure says something of the key, the account, the address or the
// model's name. What a request says can't cause it.
func (e *Error) OfAccount() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusProxyAuthRequired, http.StatusTooManyRequests:
		return true
	}
	return e.Class == Unauthorised || e.Class == Throttled || e.Status >= 300 && e.Status < 400
}

// isOverload reports whether an error may mean that the endpoint has too many requests.
func isOverload(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Class == Throttled || e.Class == TimedOut || e.Status == http.StatusServiceUnavailable ||
		e.Status == statusOverloaded)
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

// NewError classifies a failed request. The response is nil if there was none. A time in its
// headers is relative to now.
func NewError(ctx context.Context, err error, response *http.Response, now time.Time) *Error {
	e := &Error{Err: err}
	switch {
	case ctx.Err() != nil:
		e.Class = Abandoned
	case response != nil && response.StatusCode >= http.StatusMultipleChoices:
		e.Status, e.Class = response.StatusCode, statusClass(response.StatusCode)
		e.After = retryAfter(response.Header, now)
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

// isBroken reports whether a response was cut off while it was read.
func isBroken(err error) bool {
	_, large := errors.AsType[*http.MaxBytesError](err)
	return strings.HasPrefix(err.Error(), "reading") && !large
}

// The statuses of no standard that mean a failure of the service behind a gateway.
const (
	statusFull         = 498 // Groq: no capacity
	statusClientClosed = 499 // nginx: the connection between two of the gateway's parts ended
	statusOverloaded   = 529 // Anthropic: too many requests of all its clients
)

func statusClass(status int) Class {
	switch {
	case status == http.StatusTooManyRequests, status == statusFull:
		return Throttled
	case status >= http.StatusInternalServerError, status == http.StatusRequestTimeout,
		status == http.StatusConflict, status == http.StatusFailedDependency, status == http.StatusTooEarly,
		status == statusClientClosed:
		return ServerError
	case status == http.StatusUnauthorized:
		return Unauthorised
	}
	// 403 and 404 as well: gateways return them for the content of a request.
	return Rejected
}

// longestReset is the longest pause for the time at which a limit is back at its full height.
const longestReset = time.Minute

// retryAfter reads the headers with the pause before the next request: the header of RFC 9110,
// section 10.2.3, Azure's in milliseconds, and the ends of periods of limits, which are bounded: a
// request may succeed long before.
func retryAfter(header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil {
		return toDuration(ms / 1000)
	}
	if given := header.Get("Retry-After"); given != "" {
		return parseRetryAfter(given, now)
	}
	longest := time.Duration(0)
	for name, values := range header {
		name = strings.ToLower(name)
		if !strings.Contains(name, "ratelimit") || !strings.Contains(name, "reset") {
			continue
		}
		left := strings.Replace(name, "reset", "remaining", 1)
		if remaining := header.Get(left); remaining == "" || remaining == "0" {
			longest = max(longest, min(parseRetryAfter(values[0], now), longestReset))
		}
	}
	return longest
}

// parseRetryAfter reads seconds, a duration, or a time: a date or the seconds or milliseconds since
// 1970.
func parseRetryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	number, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil && number >= 1e12:
		return durationUntil(time.UnixMilli(int64(min(number, 1e15))), now)
	case err == nil && number >= 1e9:
		return durationUntil(time.Unix(int64(number), 0), now)
	case err == nil:
		return toDuration(number)
	}
	if d, err := time.ParseDuration(text); err == nil {
		return toDuration(d.Seconds())
	}
	at, err := http.ParseTime(text)
	if err != nil {
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			return 0
		}
	}
	return durationUntil(at, now)
}

func durationUntil(at, now time.Time) time.Duration { return toDuration(at.Sub(now).Seconds()) }

// toDuration is a number of seconds, 0 for one that is negative, no number, or more than a week.
func toDuration(n float64) time.Duration {
	if !(n > 0 && n <= 7*24*3600) {
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

// LimitBody bounds the bytes that may be read of a response's body.
func LimitBody(body io.ReadCloser, most int) io.ReadCloser {
	return http.MaxBytesReader(nil, body, int64(most))
}
