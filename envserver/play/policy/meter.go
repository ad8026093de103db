package policy

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/score"
)

// bytesPerToken is the usual length of a token of English text and JSON.
const bytesPerToken = 4

// Meter estimates what a model would read and write if it acted as another policy does. It sends
// nothing. It is safe for concurrent use.
type Meter struct {
	model *model

	mu       sync.Mutex
	requests int64
	tokens   score.Tokens
}

// NewMeter makes the meter of an agent of type OpenAI.
func NewMeter(c Config, o Options) (*Meter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m, err := newModel(c.OpenAI, c.requestTimeout(), o)
	return &Meter{model: m}, err
}

// Measure returns the policy that is measured: it acts as the factory's policies do.
func (m *Meter) Measure(of Factory) Factory {
	return func(planned score.PlannedEpisode) (Policy, error) {
		inner, err := of(planned)
		return &measured{Policy: inner, meter: m, player: m.model.newPlayer(planned)}, err
	}
}

// Measured returns the number of requests and their tokens, by the length of what is sent.
func (m *Meter) Measured() (requests int64, tokens score.Tokens) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests, m.tokens
}

type measured struct {
	Policy
	meter  *Meter
	player *modelPlayer
}

func (p *measured) Act(ctx context.Context, turn Turn) (json.RawMessage, error) {
	if p.player.tools == nil {
		if err := p.player.readSchema(turn); err != nil {
			return nil, err
		}
	}
	p.player.talk.addObservation(turn)
	request, err := json.Marshal(p.player.buildRequest(0))
	if err != nil {
		return nil, err
	}
	action, err := p.Policy.Act(ctx, turn)
	if err != nil {
		return nil, err
	}
	p.player.readAction(&endpoint.Answer{Text: string(action)})
	p.meter.mu.Lock()
	defer p.meter.mu.Unlock()
	p.meter.requests++
	p.meter.tokens.Add(score.Tokens{Prompt: int64(len(request) / bytesPerToken),
		Completion: int64(len(action) / bytesPerToken)})
	return action, nil
}
