package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/score"
)

// The observations of a rehearsal. They have no member of an environment's, so that a model doesn't
// take them for a case.
var rehearsed = [2]json.RawMessage{
	json.RawMessage(`{"trial":"This is a trial of the connection. Answer with any one action."}`),
	json.RawMessage(`{"trial":"Your action was received. Answer with any one action again."}`),
}

// playRehearsal plays the two turns.
func (m *model) playRehearsal(ctx context.Context, turn Turn) (Rehearsal, error) {
	p := m.newPlayer(turn.Planned)
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
			r.Calls = r.Calls || p.talk.turns[i].call != nil
		} else if r.Why == "" {
			r.Why = fmt.Sprintf("%q", clipText(typeOf(action), maxWhy))
		}
	}
	return r, nil
}

// isAction reports whether the type of what the model answered is one of the environment's.
func (p *modelPlayer) isAction(answer json.RawMessage) bool {
	named := typeOf(answer)
	return slices.ContainsFunc(p.tools, func(t tool) bool { return t.Name == named })
}

// typeOf is the type of an action, or the text of what is none.
func typeOf(action json.RawMessage) string {
	var named struct {
		Type string `json:"action_type"`
	}
	if json.Unmarshal(action, &named) != nil {
		return ""
	}
	return named.Type
}

// maxWhy bounds, in bytes, why an answer was no action.
const maxWhy = 100

// String is a sentence or two.
func (r Rehearsal) String() string {
	how := "no action in two turns"
	switch {
	case r.Calls:
		how = "actions as calls of tools"
	case r.Actions > 0:
		how = "actions as JSON text"
	}
	if r.Actions == 1 {
		how += " in one of two turns"
	}
	text := fmt.Sprintf("The endpoint answers with %s.", how)
	if r.Why != "" {
		text = strings.TrimSuffix(text, ".") + ", but with " + r.Why + "."
	}
	if r.Actions == 0 {
		text += " If the model can't call tools, try --mode json; `csenv doctor` with the same endpoint and model " +
			"shows what it answers."
	}
	if r.Tokens == (score.Tokens{}) {
		text += " It counts no tokens, so no budget ends the run."
	}
	return text
}
