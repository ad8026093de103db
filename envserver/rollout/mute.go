package rollout

import (
	"slices"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
)

// ClassMute names episodes in which no answer of the agent was an action. They are scored.
const ClassMute = "no_action"

// IsMute reports whether no answer of the agent was an action in an episode with an outcome.
func IsMute(outcome score.Outcome, turns []record.Turn) bool {
	return outcome == score.Failed && len(turns) == episode.MaxInvalidActions &&
		!slices.ContainsFunc(turns[:len(turns)-1], func(t record.Turn) bool { return t.Refused == "" })
}
