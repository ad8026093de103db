package endpoint

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// Service is an OpenAI-compatible endpoint.
type Service struct {
	// BaseURL is the URL to which /chat/completions is added.
	BaseURL string
	// Key is sent as a bearer token, unless it is "".
	Key string
	// Timeout bounds one request.
	Timeout time.Duration
	// MaxBody bounds a response, in bytes.
	MaxBody    int
	HTTPClient *http.Client
	Now        func() time.Time
}

// Completions requests chat completions from an OpenAI-compatible endpoint. It sends each request
// once; a Caller repeats it.
type Completions struct {
	service openai.ChatCompletionService
	about   Service
	url     string
}

// NewCompletions makes the client.
func NewCompletions(s Service) *Completions {
	options := []option.RequestOption{
		// Nothing is read from OPENAI_* variables.
		option.WithBaseURL(s.BaseURL), option.WithHTTPClient(s.HTTPClient), option.WithMaxRetries(0),
		option.WithRequestTimeout(s.Timeout),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			response, err := next(r)
			if err == nil {
				response.Body = Bound(response.Body, s.MaxBody)
			}
			return response, err
		}),
	}
	if s.Key != "" {
		options = append(options, option.WithAPIKey(s.Key))
	}
	return &Completions{openai.NewChatCompletionService(options...), s,
		WithoutSecrets(strings.TrimSuffix(s.BaseURL, "/") + "/chat/completions")}
}

// Send makes one request. Its error is an *Error, with a Complaint where the endpoint rejects the
// request.
func (c *Completions) Send(ctx context.Context, params openai.ChatCompletionNewParams,
	options ...option.RequestOption) (*openai.ChatCompletion, error) {
	var response *http.Response
	var body []byte
	answer, err := c.service.New(ctx, params, append(options, option.WithResponseInto(&response),
		option.WithMiddleware(copyError(&body)))...)
	if err == nil && response != nil && response.StatusCode >= http.StatusMultipleChoices {
		err = http.ErrNotSupported // a redirect is no completion, even if its body is JSON
	}
	if err != nil {
		e := NewError(ctx, err, response, c.about.Now())
		e.URL, e.Model, e.Complaint = c.url, params.Model, complaint(err, e.Status)
		e.Words = Words(body, c.about.Key)
		return nil, e
	}
	return answer, nil
}

// complaint is the reason of a rejection: the error's param, or its text.
func complaint(err error, status int) string {
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return ""
	}
	e, ok := errors.AsType[*openai.Error](err)
	switch {
	case !ok:
		return ""
	case e.Param == "" || e.Param == "null" || e.Param == "None":
		return e.Message
	}
	return e.Param
}
