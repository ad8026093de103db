package workflow

// earnedSteps returns the points of the required steps that are done. A look-up of a generated case
// pays the same at once in every case, and the rest at the end, so that dense rewards don't tell
// how many are required.
func (s *state) earnedSteps() int64 {
	if s.workflow.Rules.PaysLookUpsApart {
		done, all := s.lookUps()
		if s.outcome == "" {
			return lookUpPoints * done
		}
		return stepPoints * done / max(all, 1)
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
// and questions alone, whatever their number: an agent that looks everything up and settles nothing
// is paid for a fifth of the case. What its changes and its reply are worth is in the resolution.
func (s *state) offeredSteps() int64 {
	if s.workflow.Rules.PaysLookUpsApart {
		return stepPoints
	}
	return stepPoints * int64(len(s.workflow.Steps))
}

// lookUps counts the required look-ups and questions of a generated case.
func (s *state) lookUps() (done, all int64) {
	for i, step := range s.workflow.Steps {
		if step.Terminal || isChange(step.Action) {
			continue
		}
		if all++; s.satisfied[i] {
			done++
		}
	}
	return done, all
}
