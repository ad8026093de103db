package workflow

import (
	"maps"
	"slices"
)

// clone returns a copy of the state that can be played on without changing this one.
func (s *state) clone() *state {
	c := *s
	c.records = s.records.Clone()
	c.history, c.fines = slices.Clone(s.history), slices.Clone(s.fines)
	c.calls = maps.Clone(s.calls)
	c.topics = slices.Clone(s.topics)
	c.satisfied, c.neutrals = slices.Clone(s.satisfied), slices.Clone(s.neutrals)
	c.needless = slices.Clone(s.needless)
	c.said, c.exchanges = slices.Clone(s.said), slices.Clone(s.exchanges)
	c.breaches = slices.Clone(s.breaches)
	return &c
}
