package scenarios

import (
	"fmt"
	"slices"

	"github.com/csenv/csenv/scenarios/pack"
)

// maxReadOnly is the maximum percentage of workflows that look-ups and an answer alone may resolve.
// Above it a fixed sequence of look-ups would pass too often.
const maxReadOnly = 45

// minWorkflows is the number of workflows from which that percentage is meaningful.
const minWorkflows = 8

// cues checks that keywords indicate the cue in at least half of the wordings of each ticket.
func (l *linter) cues(tickets []*TicketScenario) {
	for _, s := range tickets {
		if s.Generated() {
			continue // it declares no cue
		}
		wordings, err := s.Variants(0)
		if err != nil {
			continue // a finding of the rule instance
		}
		var read []string
		right := 0
		for _, t := range wordings {
			read = append(read, ReadKeywords(t))
			if read[len(read)-1] == s.Cue {
				right++
			}
		}
		if 2*right < len(wordings) {
			l.findings = append(l.findings, Finding{Position: s.File, Rule: ruleCue,
				Message: fmt.Sprintf("metadata.cue is %s, a reader of keywords says %v of its wordings: reword them, "+
					"or correct the cue", s.Cue, read)})
		}
	}
}

// readOnly finds packs in which too many workflows change nothing.
func (l *linter) readOnly(c *Catalog) {
	workflows, reading := map[pack.Info]int{}, map[pack.Info]int{}
	for _, s := range c.Workflows() {
		w, err := s.Instantiate(0)
		if err != nil {
			continue // a finding of the rule instance
		}
		workflows[s.Pack]++
		if !slices.ContainsFunc(w.Steps, func(s WorkflowStep) bool {
			return s.Action == InitiateRefund || s.Action == EscalateIssue
		}) {
			reading[s.Pack]++
		}
	}
	for _, p := range c.Packs() {
		if n := workflows[p]; n >= minWorkflows && 100*reading[p] > maxReadOnly*n {
			l.findings = append(l.findings, Finding{Position: p.Folder, Rule: ruleReadOnly,
				Message: fmt.Sprintf("%d of %d workflows need no refund and no escalation: at most %d %% may",
					reading[p], n, maxReadOnly)})
		}
	}
}
