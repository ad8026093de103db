package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Service is an OpenAI-compatible endpoint.
type Service struct {
	// BaseURL is the URL to whose path /chat/completions is added.
	BaseURL string
	// Key is sent as a bearer token, unless it is "".
	Key string
	// Timeout bounds one request.
	Timeout time.Duration
	// MaxBody bounds a response, in bytes.
	MaxBody    int
	HTTPClient *http.Client
	Now        func() time.Time
	// Fixed are features that requests keep, even if the endpoint refuses them.
	Fixed Feature
}

// key is the key without the end of its line, which files and Secrets often have.
func (s Service) key() string { return strings.TrimSpace(s.Key) }

// Authorise adds the key to a request.
func (s Service) Authorise(request *http.Request) {
	if key := s.key(); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
		if request.URL.Query().Has("api-version") { // Azure's older form reads the key here
			request.Header.Set("Api-Key", key)
		}
	}
}

// Completions requests chat completions from an OpenAI-compatible endpoint. It sends each request
// once; a Caller repeats it.
type Completions struct {
	service  Service
	url      string
	refusals refusals
	// counts means that the endpoint has counted tokens.
	counts atomic.Bool
}

// NewCompletions makes the client.
func NewCompletions(s Service) *Completions {
	path, query, found := strings.Cut(s.BaseURL, "?")
	url := strings.TrimSuffix(strings.TrimSuffix(path, "/"), "/chat/completions") + "/chat/completions"
	if found {
		url += "?" + query
	}
	return &Completions{service: s, url: url}
}

// Send makes one request, without what the endpoint lacks as far as the caller knew when it wrote
// the request. The answer is never nil: after a failure it has the tokens that were used. The error
// is an *Error.
func (c *Completions) Send(ctx context.Context, r ChatRequest, lacks Feature) (*Answer, error) {
	r = r.withoutFeatures(lacks)
	c.refusals.countRequest(lacks)
	limited, cancel := context.WithTimeout(ctx, c.service.Timeout)
	defer cancel()
	response, err := c.postRequest(limited, r)
	var body []byte
	if err == nil {
		defer response.Body.Close()
		body, err = c.bodyOf(response)
	}
	if err != nil {
		return &Answer{}, c.describeError(NewError(ctx, err, response, c.service.Now()), r, "")
	}
	answer, e := c.readAnswer(ctx, response, body, r)
	if answer == nil {
		answer = &Answer{}
	}
	if answer.Usage.CompletionTokens > 0 {
		c.counts.Store(true)
	}
	if e == nil {
		if answer.Slip == "" {
			c.refusals.noteAnswered(r.usedFeatures())
		}
		return answer, nil
	}
	if e.Lacks != 0 {
		c.doubtFeature(e, r)
	}
	words := cmp.Or(complaintOf(body).text(), string(body))
	if location := response.Header.Get("Location"); location != "" {
		words = "it redirects to " + WithoutSecrets(location)
	}
	return answer, c.describeError(e, r, words)
}

// doubtFeature decides what follows from a complaint about a feature: the next request leaves it
// out, or is sent again with it.
func (c *Completions) doubtFeature(e *Error, r ChatRequest) {
	believed, worked := c.refusals.countComplaint(e.Lacks, r.Messages)
	if !believed {
		e.Lacks = 0
	}
	if e.Anew = believed || !worked; !e.Anew {
		e.Class = Unclear
	}
}

// describeError adds to an error what it is about.
func (c *Completions) describeError(e *Error, r ChatRequest, words string) *Error {
	e.URL, e.Model, e.Words = WithoutSecrets(c.url), r.Model, sanitizeText(words, c.service.key())
	return e
}

func (c *Completions) postRequest(ctx context.Context, r ChatRequest) (*http.Response, error) {
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
	c.service.Authorise(request)
	return c.service.HTTPClient.Do(request)
}

func (c *Completions) bodyOf(response *http.Response) ([]byte, error) {
	if response.StatusCode >= http.StatusMultipleChoices {
		return startOf(response.Body), nil
	}
	body, err := io.ReadAll(LimitBody(response.Body, c.service.MaxBody))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff"))), nil
}

// readAnswer decides what the body of an answer means. An answer beside an error is what it cost.
func (c *Completions) readAnswer(ctx context.Context, response *http.Response, body []byte,
	r ChatRequest) (*Answer, *Error) {
	used := r.usedFeatures() &^ c.service.Fixed
	if response.StatusCode >= http.StatusMultipleChoices {
		e := NewError(ctx, errError, response, c.service.Now())
		if slip := c.classifyAnswer(e, complaintOf(body), r, used); slip != nil {
			return slip, nil
		}
		return nil, e
	}
	var read completion
	err := parseCompletion(body, &read)
	if errors.Is(err, errEnded) {
		return nil, &Error{Class: Broken, Err: err}
	}
	if err != nil {
		e := &Error{Class: Unclear, Err: fmt.Errorf("%w: %w", ErrNoJSON, err)}
		if encoding := response.Header.Get("Content-Encoding"); encoding != "" {
			e.Err = fmt.Errorf("%w: it has the encoding %.40q, which wasn't asked for", ErrNoJSON, encoding)
		}
		if response.StatusCode != http.StatusOK {
			e.Status = response.StatusCode
		}
		return nil, e
	}
	answer, odd := newAnswer(&read, r.Tools)
	if said := read.failure(body); said != nil {
		e := &Error{Class: ServerError, Err: errError, After: retryAfter(response.Header, c.service.Now())}
		if e.Status = said.status; e.Status != 0 {
			e.Class = statusClass(e.Status)
		}
		if slip := c.classifyAnswer(e, said, r, used); slip != nil {
			slip.Usage = answer.Usage
			return slip, nil
		}
		return answer, e
	}
	return answer, answer.decide(odd, c.counts.Load())
}

// decide reports whether the model has answered: its error is the endpoint's. Odd is a part
// of the answer that couldn't be read, and counts means that the endpoint counts tokens.
func (a *Answer) decide(odd error, counts bool) *Error {
	reason := strings.ToLower(a.FinishReason)
	known := false
	for _, ending := range endings {
		if !ending.words.MatchString(reason) {
			continue
		}
		known = true
		switch {
		case ending.class != Completed:
			err := fmt.Errorf("the answer ended with finish_reason %.60q", a.FinishReason)
			return &Error{Class: ending.class, Err: err}
		case ending.slip:
			a.Slip = "the answer ended with finish_reason " + a.FinishReason
		case ending.refusal && a.Refusal == "":
			a.Refusal = "(refused)"
		}
		a.Cut = ending.cut
		break
	}
	text := strings.TrimSpace(a.Text)
	object, _, length := objectAt(text[max(strings.IndexByte(text, '{'), 0):])
	says := strings.HasPrefix(reason, "tool") || strings.HasPrefix(reason, "function")
	switch {
	case a.Slip != "", a.Refusal != "":
	case odd != nil:
		return &Error{Class: Unclear, Err: odd}
	case len(a.Calls) > 0:
	case length == len(text) && object["error"] != nil:
		return &Error{Class: Unclear, Err: fmt.Errorf("%w: %.100s", errError, text)}
	case length > 0:
	case a.Usage == Usage{} && counts:
		return &Error{Class: Unclear, Err: errUncounted}
	case known && a.Cut:
	case !known:
		return &Error{Class: Unclear, Err: fmt.Errorf("the answer ended with finish_reason %.60q and holds no action",
			a.FinishReason)}
	case says:
		return &Error{Class: Unclear, Err: fmt.Errorf("the answer ended with finish_reason %.60q and holds no call",
			a.FinishReason)}
	case text != "", a.thought, a.Usage.CompletionTokens > 0: // what the model wrote, if only thoughts
	default:
		return &Error{Class: Unclear, Err: errEmpty}
	}
	return nil
}

// failure is the error in an answer, nil if there is none. An answer without choices that says
// something else is an error too.
func (c *completion) failure(body []byte) *complaint {
	errs := []any{c.Error.Value}
	for _, each := range c.Choices.Value {
		errs = append(errs, each.Error.Value)
	}
	for _, value := range errs {
		if text := fmt.Sprint(value); value == nil || text == "" || text == "false" || text == "map[]" {
			continue
		}
		said := &complaint{}
		said.addValue(map[string]any{"error": value}, 0)
		said.after = complaintOf(body).after
		return said
	}
	if said := complaintOf(body); len(c.Choices.Value) == 0 && (said.text() != "" || said.status != 0) {
		return said
	}
	return nil
}

// ErrNoJSON means that something else than a model's endpoint answered.
var ErrNoJSON = errors.New("the answer is no JSON of a completion")

var errEnded = errors.New("the stream of the answer ended early")

// parseCompletion reads a completion, or joins the events of one that was streamed without being
// asked.
func parseCompletion(body []byte, to *completion) error {
	if len(body) == 0 || strings.IndexByte("{[\"<", body[0]) >= 0 {
		body = bytes.TrimSuffix(body, []byte("data: [DONE]"))
		err := json.Unmarshal(body, to)
		if loose, n := LooseJSON(string(body)); err != nil && n == len(body) {
			*to = completion{}
			err = json.Unmarshal([]byte(loose), to)
		}
		return err
	}
	message, ended, events := map[string]any{}, false, 0
	for line := range strings.Lines(string(body)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if data = strings.TrimSpace(data); !ok || data == "[DONE]" {
			ended = ended || data == "[DONE]"
			continue
		}
		var event completion
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return err
		}
		events++
		ended = event.add(to, message) || ended
	}
	switch {
	case events == 0:
		return json.Unmarshal(body, to)
	case !ended:
		return errEnded
	}
	to.Choices.Value = append(to.Choices.Value, choice{})[:1]
	to.Choices.Value[0].Message.Value = message
	return nil
}

// add adds an event to the completion and the message so far, and reports whether it is the last.
func (c *completion) add(to *completion, message map[string]any) bool {
	to.ID.Value, to.Model.Value = cmp.Or(to.ID.Value, c.ID.Value), cmp.Or(to.Model.Value, c.Model.Value)
	if c.Error.Value != nil {
		to.Error = c.Error
	}
	if c.Usage.Value != (Usage{}) {
		to.Usage = c.Usage
	}
	if len(c.Choices.Value) == 0 {
		return to.Error.Value != nil
	}
	first := c.Choices.Value[0]
	mergeDelta(message, first.Delta.Value)
	mergeDelta(message, first.Message.Value)
	if first.FinishReason.Value == "" && first.Error.Value == nil {
		return false
	}
	to.Choices.Value = []choice{first}
	return true
}

// mergeDelta adds the next part of a message: texts and arguments grow, names and ids don't.
func mergeDelta(to, from map[string]any) {
	for name, value := range from {
		switch have := to[name].(type) {
		case nil:
			to[name] = value
		case string:
			more, _ := value.(string)
			if name != "role" && name != "id" && name != "type" && name != "name" {
				to[name] = have + more
			}
		case map[string]any:
			if more, ok := value.(map[string]any); ok {
				mergeDelta(have, more)
			}
		case []any:
			more, _ := value.([]any)
			to[name] = mergeList(have, more)
		}
	}
}

// mergeList adds parts to the last elements with the same index.
func mergeList(to, from []any) []any {
	for _, value := range from {
		part, _ := value.(map[string]any)
		found := false
		for _, each := range slices.Backward(to) {
			have, ok := each.(map[string]any)
			if found = ok && part["index"] != nil && have["index"] == part["index"] && !isNewCall(have, part); found {
				mergeDelta(have, part)
				break
			}
		}
		if !found {
			to = append(to, value)
		}
	}
	return to
}

// isNewCall reports whether a part begins another call than the one with the same index: some
// servers give all calls one index, and others give every part of a call another id.
func isNewCall(have, part map[string]any) bool {
	id, _ := part["id"].(string)
	function, _ := part["function"].(map[string]any)
	name, _ := function["name"].(string)
	return id != "" && name != "" && have["id"] != nil && have["id"] != id
}
