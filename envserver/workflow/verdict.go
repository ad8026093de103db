package workflow

import (
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
)

// verdict explains the points of an ended episode: a criterion for each required step, one for the
// resolution and one for each penalty, and a gate for each rule that was broken.
func (s *state) verdict() grader.Verdict {
	v := grader.Verdict{Judge: scale, Status: grader.StatusOK, Gates: s.breaches,
		PreGate: s.earnedResolution, PostGate: s.earnedResolution}
	right, all := s.settled()
	for i, step := range s.workflow.Steps {
		c := grader.Criterion{ID: step.ID + " " + step.Action, Earned: s.earnedBy(i, right, all), Offered: stepPoints}
		switch {
		case !s.satisfied[i]:
			c.Reason = "not done"
		case c.Earned < stepPoints:
			c.Reason = "the rest is paid with the right changes and the resolution"
		}
		v.Criteria = append(v.Criteria, c)
	}
	v.Criteria = append(v.Criteria, grader.Criterion{ID: "resolution", Earned: s.earnedResolution,
		Offered: resolutionPoints, Reason: s.unresolved()})
	for _, f := range s.fines {
		v.Criteria = append(v.Criteria, grader.Criterion{ID: fmt.Sprintf("action %d %s", f.step, f.action),
			Earned: -f.points, Reason: f.why})
	}
	return v
}

// unresolved returns why the resolution isn't paid in full, or "".
func (s *state) unresolved() string {
	if s.earnedResolution == resolutionPoints {
		return ""
	}
	var why []string
	switch {
	case !s.replied:
		why = append(why, "the customer got no reply")
	case len(s.breaches) > 0:
		why = append(why, "a rule was broken")
	}
	for i, step := range s.workflow.Steps {
		if !s.satisfied[i] && !step.Terminal {
			why = append(why, fmt.Sprintf("%s isn't done", step.ID))
		}
	}
	for i, finding := range s.told {
		if f := s.workflow.Facts[i]; finding != grader.Stated && !f.Optional {
			why = append(why, fmt.Sprintf("%s %s is %s", f.ID, f.Slot, finding))
		}
	}
	if !s.meetsGoal() {
		why = append(why, "the records aren't as they should be at the end")
	}
	return strings.Join(why, ", ")
}
