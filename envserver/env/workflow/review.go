package workflow

import (
	"slices"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// Reviewed is a case with its gold and what the agent did. It is for tools of people who have the
// catalogue; no server sends it.
type Reviewed struct {
	Workflow *scenarios.Workflow
	History  []Entry
	// Stated are the facts beside the messages.
	Stated []facts.Fact
	// Told is what the reply tells the customer, nil without a reply.
	Told *grader.Told
	// Done reports for each step of the workflow whether it was done. Unmet are the goals that
	// aren't met.
	Done  []bool
	Unmet []scenarios.Predicate
}

// ReviewCase returns the case of the current episode, or nil if the environment is another one.
func ReviewCase(env episode.Environment) *Reviewed {
	e, ok := env.(*environment)
	if !ok || e.state == nil {
		return nil
	}
	s := e.state
	r := &Reviewed{Workflow: s.workflow, History: slices.Clone(s.history), Stated: s.stated, Told: s.told,
		Done: slices.Clone(s.satisfied)}
	r.Unmet = slices.DeleteFunc(slices.Clone(s.workflow.Goal), s.meetsPredicate)
	return r
}
