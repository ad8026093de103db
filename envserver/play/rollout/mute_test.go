package rollout

import (
	"encoding/json"
	"testing"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// Refused answers are no actions, and so is the one that ends an episode of them. Replies under the
// gate of those that made their judgement fail are counted.
func TestCountAnswers(t *testing.T) {
	good, bad := record.Turn{}, record.Turn{Refused: "no"}
	unread := []json.RawMessage{json.RawMessage(`{"gates": [{"id": "unread"}]}`), json.RawMessage(`{"gates": [{"id": "x"}]}`)}
	for name, tc := range map[string]struct {
		outcome  score.Outcome
		turns    []record.Turn
		verdicts []json.RawMessage
		want     score.Counts
	}{
		"all":         {score.Scored, []record.Turn{good, good}, nil, score.Counts{Answers: 2}},
		"some":        {score.Scored, []record.Turn{good, bad, good}, unread, score.Counts{Answers: 3, NoAction: 1, Unread: 1}},
		"none":        {score.Failed, []record.Turn{bad, bad, bad, bad, good}, nil, score.Counts{Answers: 5, NoAction: 5}},
		"four of six": {score.Scored, []record.Turn{bad, bad, bad, bad, good, good}, nil, score.Counts{Answers: 6, NoAction: 4}},
		"no turn":     {score.Failed, nil, nil, score.Counts{}},
	} {
		if got := CountAnswers(tc.outcome, tc.turns, tc.verdicts, nil); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
