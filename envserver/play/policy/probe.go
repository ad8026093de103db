package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/endpoint"
)

// Ability is something that runs or readers may use of an endpoint.
type Ability struct {
	Name string `json:"name"`
	// State is Yes, No or Unknown.
	State string `json:"state"`
	Found string `json:"found"`
}

// The names of abilities.
const (
	AbilityTurns    = "two turns"
	AbilityTools    = "tools"
	AbilityStrict   = "strict schemas"
	AbilityForced   = "forced calls"
	AbilityJSON     = "JSON schema"
	AbilitySeed     = "seed"
	AbilityLogProbs = "log-probabilities"
	AbilityUsage    = "usage"
	AbilityContext  = "context length"
	AbilityLeftOut  = "left out of requests"
)

// The states of an ability.
const (
	Yes     = "yes"
	No      = "no"
	Unknown = "unknown"
)

// Probe finds out what a model's endpoint can do: by a rehearsal in the agent's own mode, the first
// request in mode JSON and once more with the same seed, a request for log-probabilities, and the
// list of models. Found is called with each ability as soon as it is known: a slow model takes
// minutes for all. The error comes from the rehearsal. An agent that is no model has none.
func (a *Agent) Probe(ctx context.Context, turn Turn, found func(Ability)) error {
	m, is := a.endpoint.(*model)
	if !is {
		return nil
	}
	own, err := m.playRehearsal(ctx, turn)
	if err != nil {
		return err
	}
	turn.Observation = rehearsed[0]
	turns := Ability{AbilityTurns, formatYesNo(own.Actions == 2),
		fmt.Sprintf("%d of 2 answers were actions", own.Actions)}
	if own.Why != "" {
		turns.Found += ", but " + own.Why
	}
	found(turns)
	for _, ability := range m.toolAbilities(own) {
		found(ability)
	}
	found(Ability{AbilityUsage, formatYesNo(own.Tokens.Prompt > 0),
		fmt.Sprintf("%d tokens in two turns", own.Tokens.Prompt+own.Tokens.Completion)})
	found(m.probeJSON(ctx, turn))
	found(m.probeSeed(ctx, turn))
	found(m.probeLogProbs(ctx))
	length := Ability{AbilityContext, Unknown, "GET /models doesn't say"}
	if n := m.completions.ContextLength(ctx, m.config.Model); n > 0 {
		length.State, length.Found = Yes, fmt.Sprintf("%d tokens", n)
	}
	found(length)
	left := strings.Join(m.completions.Lacks().Names(), ", ")
	found(Ability{AbilityLeftOut, formatYesNo(left != ""), cmp.Or(left, "nothing")})
	return nil
}

func formatYesNo(is bool) string {
	if is {
		return Yes
	}
	return No
}

// toolAbilities are what the endpoint made of the tools of the rehearsal.
func (m *model) toolAbilities(own Rehearsal) []Ability {
	lacks := m.completions.Lacks()
	tools := Ability{AbilityTools, formatYesNo(own.Calls), "the model called them"}
	switch {
	case m.config.Mode == ModeJSON:
		return []Ability{{AbilityTools, Unknown, "not used in mode JSON"}}
	case lacks&endpoint.Tools != 0:
		tools.Found = "refused: the run is played in mode JSON"
	case !own.Calls:
		tools.Found = "accepted, but no answer was a call of one"
	}
	out := []Ability{tools}
	for _, f := range []struct {
		name    string
		feature endpoint.Feature
	}{{AbilityStrict, endpoint.Strict}, {AbilityForced, endpoint.ToolChoice}} {
		refused := lacks&(f.feature|endpoint.Tools) != 0
		found := "accepted"
		if refused {
			found = "refused: left out"
		}
		out = append(out, Ability{f.name, formatYesNo(!refused), found})
	}
	return out
}

// probeJSON sends the first request in mode JSON.
func (m *model) probeJSON(ctx context.Context, turn Turn) Ability {
	p := m.newPlayer(turn.Planned)
	p.mode = ModeJSON
	action, err := p.Act(ctx, turn)
	out := Ability{AbilityJSON, No, "refused: only the instructions describe the answer"}
	lacks := m.completions.Lacks()
	switch {
	case err != nil:
		out.Found = err.Error()
	case lacks&endpoint.JSONObject != 0:
	case lacks&endpoint.JSONSchema != 0:
		out.Found = "refused: json_object is used"
	case !p.isAction(action):
		out.Found = "accepted, but the answer was no action"
	default:
		out.State, out.Found = Yes, "the answer follows it"
	}
	return out
}

// probeSeed sends the first request twice.
func (m *model) probeSeed(ctx context.Context, turn Turn) Ability {
	var answers [2]string
	for i := range answers {
		p := m.newPlayer(turn.Planned)
		action, err := p.Act(ctx, turn)
		if err != nil {
			return Ability{AbilitySeed, Unknown, err.Error()}
		}
		answers[i] = p.answer.Said + string(action)
	}
	switch {
	case m.completions.Lacks()&endpoint.Seed != 0:
		return Ability{AbilitySeed, No, "refused: left out"}
	case answers[0] != answers[1]:
		return Ability{AbilitySeed, No, "two answers to the same request differ"}
	}
	return Ability{AbilitySeed, Yes, "two answers to the same request are the same"}
}

// probeLogProbs asks for the log-probabilities that a trace has.
func (m *model) probeLogProbs(ctx context.Context) Ability {
	request := endpoint.ChatRequest{Model: m.config.Model,
		Messages: []endpoint.ChatMessage{endpoint.NewMessage(endpoint.RoleUser, "Answer with the word: ready")},
		Extra:    map[string]json.RawMessage{"logprobs": json.RawMessage("true")}}
	answer, err := m.completions.Send(ctx, request, m.completions.Lacks())
	switch {
	case err != nil:
		return Ability{AbilityLogProbs, No, err.Error()}
	case len(answer.LogProbs.Content) == 0:
		return Ability{AbilityLogProbs, No, "asked for by logprobs, and not given"}
	}
	return Ability{AbilityLogProbs, Yes, fmt.Sprintf("of %d tokens", len(answer.LogProbs.Content))}
}
