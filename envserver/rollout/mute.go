package rollout

import (
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
)

// ClassMute names episodes in which no answer of the agent was an action. They are scored.
const ClassMute = "no_action"

// Mute reports whether no answer of the agent was an action in an episode with an outcome.
func Mute(outcome score.Outcome, turns []record.Turn) bool {
	return outcome == score.Failed && len(turns) == episode.MaxInvalidActions &&
		!slices.ContainsFunc(turns[:len(turns)-1], func(t record.Turn) bool { return t.Refused == "" })
}

// noteMute counts the episode if no answer in it was an action, and logs the first. The last one
// ended the episode.
func (s *shard) noteMute(j job, p played) {
	turns := p.turns
	if !Mute(p.end.Metadata.Outcome, turns) {
		return
	}
	s.Log.Warn("No answer was an action", "episode", j.episode.Index, "task", j.episode.Task, "scenario",
		j.episode.Scenario, "class", ClassMute, "error", fmt.Errorf("%.200s: %s", turns[0].Action, turns[0].Refused))
	s.mu.Lock()
	s.mute++
	s.mu.Unlock()
}
