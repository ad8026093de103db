package workflow

import (
	"math/bits"

	"github.com/csenv/csenv/scenarios"
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

// offeredSteps returns the points of all required steps. In a written workflow without a right
// reply they are the points of as many steps as the agent may take, so that the score doesn't tell
// how many are required.
func (s *state) offeredSteps() int64 {
	if s.workflow.Rules.PaysLookUpsApart || s.isRight() {
		return PayRequired(s.workflow)
	}
	return stepPoints * int64(s.workflow.MaxSteps)
}

// PayRequired returns the milli-points of the required steps of a workflow. In a generated case
// these are the look-ups and questions alone, whatever their number: what its changes and its reply
// are worth is in the resolution.
func PayRequired(w *scenarios.Workflow) int64 {
	if w.Rules.PaysLookUpsApart {
		return stepPoints
	}
	return stepPoints * int64(len(w.Steps))
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
