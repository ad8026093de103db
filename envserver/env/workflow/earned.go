package workflow

import (
	"math/bits"

	"github.com/csenv/csenv/scenarios/desk"
)

// earnedSteps returns the points of the required steps that are done. In a generated case the share
// of the required look-ups is paid for a right reply alone. Before and without one each kind of
// look-up pays the same, whether or not it is required, so that no reward or score tells which are.
func (s *state) earnedSteps() int64 {
	if s.workflow.Rules.PaysLookUpsApart {
		done, all := s.lookUps()
		if s.isRight() {
			return stepPoints * done / max(all, 1)
		}
		return lookUpPoints * int64(min(bits.OnesCount32(s.lookedUp), paidLookUps))
	}
	var points int64
	for _, done := range s.satisfied {
		if done {
			points += stepPoints
		}
	}
	return points
}

// offeredSteps returns the points of all required steps. In a generated case these are the look-ups
// and questions alone, whatever their number. What its changes and its reply are worth is in the
// resolution. In a written workflow they are those of the required steps after a right reply, and
// otherwise of as many as the agent may take, so that the score doesn't tell how many are required.
func (s *state) offeredSteps() int64 {
	switch {
	case s.workflow.Rules.PaysLookUpsApart:
		return stepPoints
	case s.isRight():
		return stepPoints * int64(len(s.workflow.Steps))
	}
	return stepPoints * int64(s.workflow.MaxSteps)
}

// lookUps counts the required look-ups and questions of a generated case.
func (s *state) lookUps() (done, all int64) {
	for i, step := range s.workflow.Steps {
		if step.Terminal || desk.IsChange(step.Action) {
			continue
		}
		if all++; s.satisfied[i] {
			done++
		}
	}
	return done, all
}
