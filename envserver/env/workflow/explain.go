package workflow

import "github.com/csenv/csenv/envserver/grader"

// explainPoints explains the points of an ended episode by what was done: the required steps that
// were, the resolution, and each penalty. It doesn't say what else would have been right, because
// the same seed can be played again.
func (s *state) explainPoints() grader.Verdict {
	v := grader.Verdict{Judge: s.scale, Status: grader.StatusOK, PreGate: s.earnedResolution,
		PostGate: s.earnedResolution, Right: s.isRight()}
	if s.told != nil {
		v.Gates = s.told.Gates
	}
	if l := s.letter; l != nil {
		v.Judge, v.Case, v.Status, v.Harm, v.Letter, v.Usage, v.Cause = l.Judge, l.Case, l.Status, l.Harm, l.Letter,
			l.Usage, l.Cause
	}
	v.Criteria = []grader.Criterion{
		{ID: "steps", Earned: s.earnedSteps(), Offered: s.offeredSteps()},
		{ID: "resolution", Earned: s.earnedResolution, Offered: s.offeredResolution()},
	}
	for _, f := range s.listFines() {
		v.Criteria = append(v.Criteria, grader.Criterion{ID: "penalty", Step: f.step, Action: f.action,
			Earned: -f.points, Reason: f.why})
	}
	return v
}
