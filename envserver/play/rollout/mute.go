package rollout

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// CountAnswers counts the agent's answers in an episode with an outcome, the replies that alone
// made their judgement fail, and what a model did as the customer. An answer counts as no action if
// the environment refuses it; the last one that it refuses ends the episode.
func CountAnswers(outcome score.Outcome, turns []record.Turn, verdicts []json.RawMessage,
	exchanges []episode.Exchange) score.Counts {
	c := score.Counts{Answers: int64(len(turns))}
	for _, t := range turns {
		if t.Refused != "" {
			c.NoAction++
		}
	}
	if outcome == score.Failed && c.NoAction == episode.MaxInvalidActions-1 && turns[len(turns)-1].Refused == "" {
		c.NoAction++
	}
	for _, data := range verdicts {
		var v grader.Verdict
		if json.Unmarshal(data, &v) == nil && v.Unread() {
			c.Unread++
		}
	}
	for _, x := range exchanges {
		c.Customer.Add(x.Counts)
	}
	return c
}

// ClassMute names episodes in which no answer of the agent was an action. They are scored.
const ClassMute = "no_action"

// IsMute reports whether no answer of the agent was an action in an episode with an outcome.
func IsMute(outcome score.Outcome, turns []record.Turn) bool {
	return outcome == score.Failed && len(turns) == episode.MaxInvalidActions &&
		!slices.ContainsFunc(turns[:len(turns)-1], func(t record.Turn) bool { return t.Refused == "" })
}

// noteAnswers counts the answers of an episode, and the episode if none of them was an action, and
// then logs the first.
func (s *shard) noteAnswers(j job, p played) {
	turns := p.turns
	s.mu.Lock()
	s.counts.Add(CountAnswers(p.end.Metadata.Outcome, turns, p.end.Metadata.Verdicts, p.end.Metadata.Customer))
	s.mu.Unlock()
	if !IsMute(p.end.Metadata.Outcome, turns) {
		return
	}
	s.Log.Warn("No answer was an action", "episode", j.episode.Index, "task", j.episode.Task, "scenario",
		j.episode.Scenario, "class", ClassMute, "error",
		fmt.Errorf("%.200s: %s", quoteAnswer(turns[0].Action), turns[0].Refused))
	s.mu.Lock()
	s.mute++
	s.mu.Unlock()
}

// quoteAnswer is an answer as it was written: a text that is no action was recorded as the type of
// one.
func quoteAnswer(action json.RawMessage) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(action, &members) == nil && len(members) == 1 && members["action_type"] != nil {
		return string(members["action_type"])
	}
	return string(action)
}
