package workflow

import (
	"slices"

	"github.com/csenv/csenv/envserver/grader"
)

// earnedSteps returns the points of the required steps that are done.
func (s *state) earnedSteps() int64 {
	var points int64
	right, all := s.settled()
	for i := range s.workflow.Steps {
		points += s.earnedBy(i, right, all)
	}
	return points
}

// earnedBy returns the points of a required step, given what is settled. A look-up or question of a
// generated case is paid in full only with what it was made for. Otherwise an agent that looks
// everything up and refuses would be paid for most of a case, because most of its steps are
// look-ups.
func (s *state) earnedBy(step int, right, all int64) int64 {
	switch required := s.workflow.Steps[step]; {
	case !s.satisfied[step]:
		return 0
	case s.desk == nil || required.Terminal || isChange(required.Action):
		return stepPoints
	}
	return lookUpPoints + (stepPoints-lookUpPoints)*right/all
}

// settled returns how much of a generated case is settled, as a fraction: each required change
// counts like the resolution. Nothing is settled before a reply that states something and breaks no
// rule, so that dense rewards don't tell how many changes are required, and a wrong change spoils
// the right ones.
func (s *state) settled() (right, all int64) {
	all = resolutionPoints
	spoiled := slices.ContainsFunc(s.breaches, func(g grader.Gate) bool { return isChange(g.ID) })
	for i, step := range s.workflow.Steps {
		if !isChange(step.Action) {
			continue
		}
		all += resolutionPoints
		if s.satisfied[i] && s.answered && !spoiled {
			right += resolutionPoints
		}
	}
	return right + s.earnedResolution, all
}
