package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"
)

// trialTokens bounds the answer to a trial, where the endpoint accepts a bound.
const trialTokens = 16

// Try sends one tiny request that no endpoint refuses for its content, to learn whether the
// address, the key and the model's name are right. A completion is requested, because gateways need
// not list their models, and list them without a key. All requests have the extra members.
// The error is an *Error.
func (c *Completions) Try(ctx context.Context, model string, extra map[string]json.RawMessage) error {
	request := ChatRequest{
		Model:     model,
		Messages:  []ChatMessage{NewMessage(RoleUser, "Answer with the word: ready")},
		MaxTokens: trialTokens,
		Extra:     extra,
	}
	_, err := c.Send(ctx, request, 0)
	e, ok := errors.AsType[*Error](err)
	if ok && (e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity) {
		// Some models don't support max_tokens; others refuse a bound below the length of their
		// reasoning.
		request.MaxTokens = 0
		_, err = c.Send(ctx, request, 0)
	}
	return err
}

// The waits between trials.
const firstTrialWait, maxTrialWait = time.Second, 10 * time.Second

// AwaitStart tries an endpoint up to so many times, where a failure says nothing of its settings.
// One that isn't ready, because it loads its model, is waited for.
func AwaitStart(ctx context.Context, attempts int, wait func(context.Context, time.Duration) error,
	try func() error) error {
	waited := time.Duration(0)
	for attempt := 1; ; attempt++ {
		err := try()
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Class != ServerError && e.Class != Throttled && e.Class != Unclear {
			return err
		}
		pause := max(min(firstTrialWait<<(attempt-1), maxTrialWait), min(e.After, LongestAsked))
		ready := e.Status != http.StatusServiceUnavailable && !loading.MatchString(e.Words)
		if ready && attempt >= attempts || waited+pause > Patience || wait(ctx, pause) != nil {
			return err
		}
		waited += pause
	}
}

// loading finds the words of servers that load their model.
var loading = regexp.MustCompile(`(?i)\bloading\b`)

// TryURL learns whether something answers at the service's BaseURL and accepts its key. The request
// is a GET: only an answer that refuses the key counts as a failure, because nothing is known of
// how a program answers a GET. The error is an *Error.
func TryURL(ctx context.Context, s Service) error {
	limited, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	response, err := s.get(limited, s.BaseURL)
	if err != nil {
		return s.Failed(ctx, err, nil)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusForbidden {
		return nil
	}
	return s.Failed(ctx, errRefused, response)
}

// get requests a URL of the service with its key.
func (s Service) get(ctx context.Context, at string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	s.Authorise(request)
	return s.HTTPClient.Do(request)
}

var errRefused = errors.New("the key was refused")

// Failed is the error of a request to the service's BaseURL. The response is nil if there was none.
func (s Service) Failed(ctx context.Context, err error, response *http.Response) *Error {
	e := NewError(ctx, err, response, s.Now())
	e.URL = WithoutSecrets(s.BaseURL)
	if e.Status != 0 {
		e.Words = ErrorWords(startOf(response.Body), s.key())
	}
	return e
}
