package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// remote is a policy behind a URL: a Request is posted for each action and answered by a Response.
type remote struct {
	service endpoint.Service
	caller  *endpoint.Caller
	idKey   string
	// startup is nil for a policy that runs already.
	startup *startup
}

// Request is sent to an HTTP policy before each action.
type Request struct {
	// Observation is the environment's latest answer, in full.
	Observation json.RawMessage `json:"observation"`
	// History are the turns before, oldest first.
	History []Past `json:"history"`
	// Schema is the JSON Schema of actions.
	Schema json.RawMessage `json:"schema"`
	// Environment is "ticket" or "workflow".
	Environment string `json:"environment"`
	Task        string `json:"task"`
	// Episode identifies the episode within the run, as EpisodeID does. If it is played again it
	// has the same id and an empty history.
	Episode string `json:"episode"`
	// Step counts the actions from 0, refused ones included.
	Step int `json:"step"`
	// Refused is why the last action was refused, "" if it wasn't.
	Refused string `json:"refused,omitempty"`
}

// Past is an earlier turn: the observation, the action, and why it was refused if it was.
type Past struct {
	Observation json.RawMessage `json:"observation"`
	Action      json.RawMessage `json:"action"`
	Refused     string          `json:"refused,omitempty"`
}

// Response is an HTTP policy's answer.
type Response struct {
	// Action is played as it is.
	Action json.RawMessage `json:"action"`
	// Said is stored in the transcript.
	Said string `json:"said,omitempty"`
	// Usage are the tokens of this answer, if a model gave it.
	Usage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// maxResponse bounds an HTTP policy's answer, in bytes.
const maxResponse = 1 << 20

func newRemote(url string, timeout time.Duration, o Options) *remote {
	return &remote{
		service: endpoint.Service{BaseURL: url, Key: o.Key, Timeout: timeout, HTTPClient: httpClient(o), Now: time.Now},
		caller:  newCaller(0, o),
		idKey:   o.IDKey,
	}
}

func (r *remote) play(planned score.PlannedEpisode) (Policy, error) {
	id, _ := EpisodeID(r.idKey, planned)
	return &remotePlayer{remote: r, episode: id, history: []Past{}}, nil
}

// try waits for the container, or requests an answer of a program that runs already.
func (r *remote) try(ctx context.Context) error {
	if r.startup != nil {
		return r.startup.awaitListening(ctx)
	}
	return endpoint.TryURL(ctx, r.service)
}

type remotePlayer struct {
	*remote
	episode string
	history []Past
	usage   score.Tokens
	answer  record.Answer
}

func (p *remotePlayer) Usage() score.Tokens   { return p.usage }
func (p *remotePlayer) Answer() record.Answer { return p.answer }

func (p *remotePlayer) Act(ctx context.Context, turn Turn) (json.RawMessage, error) {
	if p.startup != nil {
		if err := p.startup.awaitListening(ctx); err != nil {
			return nil, err
		}
	}
	if n := len(p.history); n > 0 {
		p.history[n-1].Refused = turn.Refused
	}
	body, err := json.Marshal(Request{Observation: turn.Observation, History: p.history, Schema: turn.Schema,
		Environment: turn.Environment, Task: turn.Task, Episode: p.episode, Step: turn.Step, Refused: turn.Refused})
	if err != nil {
		return nil, fmt.Errorf("writing the policy's request: %w", err)
	}
	var answer Response
	post := func(ctx context.Context) error { return p.postRequest(ctx, body, &answer) }
	if err := p.caller.Do(ctx, post, nil); err != nil {
		err = newEndpointError(ctx, err)
		if failed, ok := errors.AsType[*EndpointError](err); ok {
			failed.Own = true
		}
		return nil, err
	}
	p.answer = record.Answer{Said: clipText(answer.Said, maxSaid)}
	if used := tokensOf(answer.Usage.Prompt, answer.Usage.Completion); used != (score.Tokens{}) {
		p.usage.Add(used)
		p.answer.Tokens = &used
	}
	action := parseAction(answer.Action)
	p.history = append(p.history, Past{Observation: turn.Observation, Action: action})
	return action, nil
}

// errNoAnswer means that an answer violates the protocol.
var errNoAnswer = errors.New(`the policy's answer is no JSON object with a member "action": see docs/agents.md`)

func (r *remote) postRequest(ctx context.Context, body []byte, answer *Response) (err error) {
	limited, cancel := context.WithTimeout(ctx, r.service.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(limited, http.MethodPost, r.service.BaseURL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making the policy's request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	r.service.Authorise(request)
	span := r.startPost(ctx, request)
	defer func() { endPost(span, answer, err) }()
	response, err := r.service.HTTPClient.Do(request)
	if err != nil {
		return r.service.Failed(ctx, err, nil)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return r.service.Failed(ctx, errNoAnswer, response)
	}
	data, err := io.ReadAll(endpoint.LimitBody(response.Body, maxResponse))
	if err != nil {
		return r.service.Failed(ctx, fmt.Errorf("reading the policy's answer: %w", err), response)
	}
	*answer = Response{}
	if err := json.Unmarshal(data, answer); err != nil || answer.Action == nil {
		fault := errNoAnswer
		if member, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && member.Field != "" {
			fault = fmt.Errorf("the policy's answer has the %s in %q, not of type %s: see docs/agents.md", member.Value,
				member.Field, member.Type)
		}
		return &endpoint.Error{Class: endpoint.Unparsable, URL: endpoint.WithoutSecrets(r.service.BaseURL),
			Err: fault}
	}
	return nil
}

const (
	// maxStartup is the time that the runner waits for a container, which may load models, to
	// listen.
	maxStartup  = 10 * time.Minute
	startupPoll = 250 * time.Millisecond
)

// startup waits for a container that starts together with the runner. All episodes share the wait.
type startup struct {
	address string

	mu       sync.Mutex
	up       bool
	deadline time.Time
}

// awaitListening waits until the address accepts connections, until the deadline. After the
// deadline it tries once.
func (s *startup) awaitListening(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up {
		return nil
	}
	if s.deadline.IsZero() {
		s.deadline = time.Now().Add(maxStartup)
	}
	for {
		conn, err := (&net.Dialer{Timeout: startupPoll}).DialContext(ctx, "tcp", s.address)
		if err == nil {
			s.up = true
			return conn.Close()
		}
		if time.Now().After(s.deadline) {
			return &EndpointError{Class: score.ClassAgentUnavailable, Err: fmt.Errorf(
				"the agent's container does not listen on %s after %v: is the port right?", s.address, maxStartup)}
		}
		if err := endpoint.SleepContext(ctx, startupPoll); err != nil {
			return err
		}
	}
}
