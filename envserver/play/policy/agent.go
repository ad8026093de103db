package policy

import (
	"context"

	"github.com/csenv/csenv/envserver/score"
)

// Agent plays episodes, and can be tried before that. It is safe for concurrent use.
type Agent struct {
	factory Factory
	// endpoint is nil for a built-in policy.
	endpoint external
}

// external is an agent behind an endpoint.
type external interface {
	play(planned score.PlannedEpisode) (Policy, error)
	try(ctx context.Context) error
}

// New makes the agent. It contacts no endpoint before it plays or is tried.
func New(c Config, o Options) (*Agent, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Type == TypeBuiltin {
		factory, err := NewBuiltin(c.Builtin.Policy, o.Environment, o.Catalog)
		return &Agent{factory: factory}, err
	}
	e, err := newExternal(c, o)
	if err != nil {
		return nil, err
	}
	return &Agent{e.play, e}, nil
}

func newExternal(c Config, o Options) (external, error) {
	switch c.Type {
	case TypeOpenAI:
		return newModel(c.OpenAI, c.requestTimeout(), o)
	case TypeHTTP:
		return newRemote(c.HTTP.URL, c.requestTimeout(), o), nil
	default:
		r := newRemote(c.Container.url(), c.requestTimeout(), o)
		r.startup = &startup{address: c.Container.address()}
		return r, nil
	}
}

// Play makes the policy of one episode: it is a Factory.
func (a *Agent) Play(planned score.PlannedEpisode) (Policy, error) { return a.factory(planned) }

// Try tries the agent's endpoint once, without playing: a model is sent a tiny request, a program
// behind a URL a GET, and a container is waited for. The error is nil for an agent without an
// endpoint. An *endpoint.Error that is Permanent means that no episode can be played.
func (a *Agent) Try(ctx context.Context) error {
	if a.endpoint == nil {
		return nil
	}
	return a.endpoint.try(ctx)
}

// Rehearsal is what was seen of a model in two turns of a made-up episode.
type Rehearsal struct {
	// Actions is the number of the two answers that were actions.
	Actions int
	// Calls means that the actions were calls of tools, not text.
	Calls bool
	// Why is why the first answer without an action was none, "" if both were.
	Why    string
	Tokens score.Tokens
}

// LeftOut says what requests leave out because the endpoint refuses it, since when and of how many;
// "" for nothing.
func (a *Agent) LeftOut() string {
	if m, is := a.endpoint.(*model); is {
		return m.completions.LeftOut()
	}
	return ""
}

// Lowered is the number of requests in flight if the endpoint answers no more at a time than so
// many, fewer than configured, and otherwise 0.
func (a *Agent) Lowered() int {
	switch e := a.endpoint.(type) {
	case *model:
		return e.caller.Lowered()
	case *remote:
		return e.caller.Lowered()
	}
	return 0
}

// Rehearse plays two turns of a made-up episode as a run does: with the same instructions, tools or
// schema, parameters and a result between the two. So an endpoint that can't continue a
// conversation is known before anything counts. The turn has the environment, the task and the
// schema of the run. It returns errors as Act does. It reports false for an agent that is no model.
func (a *Agent) Rehearse(ctx context.Context, turn Turn) (Rehearsal, bool, error) {
	m, is := a.endpoint.(*model)
	if !is {
		return Rehearsal{}, false, nil
	}
	r, err := m.playRehearsal(ctx, turn)
	return r, true, err
}
