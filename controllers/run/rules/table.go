package rules

import (
	"slices"

	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/rule"
)

// Rule is one reason for the state of a run that had not ended before the pass.
type Rule = rule.Rule[*pass, evaluation.State]

// Table has all reasons, in the order in which they are asked. A complete run keeps its figures,
// even if its pool has changed since.
var Table = slices.Concat(starts, figures, changes, failures, delays)

// The stages of passes. The rules of a stage are asked after its steps.
const (
	Reading    rule.Stage = 1 << iota // what has been read
	Beginning                         // a run that has not begun
	Planned                           // its plan has been made
	Counted                           // the summaries of a Job's runners are in the figures
	Playing                           // the Job is as it should be
	Refused                           // the API server has refused an object that the pass writes
	Collected                         // the segments of trainers' episodes are in the figures
	Collecting                        // more of them are requested
)

// newFinding is a finding that the rule's advice follows.
func newFinding(what string) rule.Finding { return rule.Finding{What: what} }

// newAdvisedFinding is a finding whose text says itself what to do.
func newAdvisedFinding(what string) rule.Finding { return rule.Finding{What: what, Advised: true} }

// Names are the names in advices.
func (p *pass) Names() []string {
	names := []string{"RESUME", evaluation.HowToResume(p.s.Run), "LOGS", writeLogsCommand(p.s.Run),
		"POOL", evaluation.PoolOf(p.s.Run).Name}
	if rollouts := p.d.Status.Rollouts; rollouts != nil {
		names = append(names, "TAG", rollouts.Tag)
	}
	if pod := p.findLostNode(); pod != nil {
		names = append(names, "NODE", pod.Spec.NodeName)
	}
	return names
}
