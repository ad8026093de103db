package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
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
	service Service
	url     string
}

// NewCompletions makes the client.
func NewCompletions(s Service) *Completions {
	return &Completions{s, strings.TrimSuffix(s.BaseURL, "/") + "/chat/completions"}
}

// Send makes one request. Its error is an *Error, with a Complaint where the endpoint rejects the
// request.
func (c *Completions) Send(ctx context.Context, r ChatRequest) (*Completion, error) {
	limited, cancel := context.WithTimeout(ctx, c.service.Timeout)
	defer cancel()
	response, err := c.post(limited, r)
	var body []byte
	var answer Completion
	if err == nil {
		defer response.Body.Close()
		if response.StatusCode >= http.StatusMultipleChoices {
			body, err = startOf(response.Body), errStatus
		} else {
			err = decode(Bound(response.Body, c.service.MaxBody), &answer)
		}
	}
	if err != nil {
		e := NewError(ctx, err, response, c.service.Now())
		e.URL, e.Model, e.Complaint = WithoutSecrets(c.url), r.Model, complaint(body, e.Status)
		e.Words = Words(body, c.service.Key)
		return nil, e
	}
	return &answer, nil
}

var errStatus = errors.New("the answer is an error")

func (c *Completions) post(ctx context.Context, r ChatRequest) (*http.Response, error) {
	body, err := r.encode()
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if c.service.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.service.Key)
	}
	return c.service.HTTPClient.Do(request)
}

// decode reads JSON. Members of another type than expected are left out.
func decode(body io.Reader, to any) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	err = json.Unmarshal(text, to)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd {
		return nil
	}
	return err
}

// complaint is the reason of a rejection: the error's param, or its text.
func complaint(body []byte, status int) string {
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return ""
	}
	var e struct {
		Error struct{ Message, Param string }
	}
	_ = json.Unmarshal(body, &e) // an error of another form has no param
	switch e.Error.Param {
	case "", "null", "None":
		return e.Error.Message
	}
	return e.Error.Param
}
