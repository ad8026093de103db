package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The observations of a rehearsal. They have no member of an environment's, so that a model doesn't
// take them for a case.
var rehearsed = [2]json.RawMessage{
	json.RawMessage(`{"trial":"This is a trial of the connection. Answer with any one action."}`),
	json.RawMessage(`{"trial":"Your action was received. Answer with any one action again."}`),
}

// rehearse plays the two turns.
func (m *model) rehearse(ctx context.Context, turn Turn) (Rehearsal, error) {
	p := m.player(turn.Planned)
	var r Rehearsal
	for i, seen := range rehearsed {
		turn.Observation, turn.Step = seen, i
		action, err := p.Act(ctx, turn)
		r.Tokens = p.usage
		if err != nil {
			return r, err
		}
		if p.isAction(action) {
			r.Actions++
		}
		r.Calls = r.Calls || p.talk.turns[i].call != nil
	}
	r.LeftOut = m.completions.Lacks().Names()
	return r, nil
}

// isAction reports whether the type of what the model answered is one of the environment's.
func (p *modelPlayer) isAction(answer json.RawMessage) bool {
	var named struct {
		Type string `json:"action_type"`
	}
	return json.Unmarshal(answer, &named) == nil &&
		slices.ContainsFunc(p.tools, func(t tool) bool { return t.Name == named.Type })
}

// String is a sentence or two.
func (r Rehearsal) String() string {
	how := "no action in two answers"
	switch {
	case r.Calls:
		how = "actions as calls of tools"
	case r.Actions > 0:
		how = "actions as JSON text"
	}
	text := fmt.Sprintf("The endpoint answers with %s.", how)
	if len(r.LeftOut) > 0 {
		text += fmt.Sprintf(" It refuses, and requests leave out: %s.", strings.Join(r.LeftOut, ", "))
	}
	return text
}
