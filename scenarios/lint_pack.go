package scenarios

import (
	"fmt"
	"slices"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/pack"
)

// maxReadOnly is the maximum percentage of workflows that look-ups and an answer alone may resolve.
// Above it a fixed sequence of look-ups would pass too often.
const maxReadOnly = 45

// minWorkflows is the number of workflows from which that percentage is meaningful.
const minWorkflows = 8

// checkCues checks that keywords indicate the cue in at least half of the wordings of each ticket,
// and that something besides tells of another right category.
func (l *linter) checkCues(tickets []*TicketScenario) {
	for _, s := range tickets {
		if s.Generated() {
			continue // it declares no cue
		}
		wordings, err := s.Variants(0)
		if err != nil {
			continue // a finding of the rule instance
		}
		var read []string
		right, hints := 0, 0
		for _, t := range wordings {
			hints += countHits(servedText(t), lexicons()[t.Language[:2]][t.Gold.Category])
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
		if gold := wordings[0].Gold.Category; gold != s.Cue && gold != "general" && hints == 0 {
			l.findings = append(l.findings, Finding{Position: s.File, Rule: ruleCue,
				Message: fmt.Sprintf("gold.category is %s, metadata.cue %s, and no text has a keyword of %[1]s: "+
					"correct the category, or say in the ticket what it follows from", gold, s.Cue)})
		}
	}
}

// checkChanges finds packs in which too many workflows change nothing.
func (l *linter) checkChanges(c *Catalog) {
	workflows, reading := map[pack.Info]int{}, map[pack.Info]int{}
	for _, s := range c.Workflows() {
		w, err := s.Instantiate(0)
		if err != nil {
			continue // a finding of the rule instance
		}
		workflows[s.Pack]++
		if !slices.ContainsFunc(w.Steps, func(s WorkflowStep) bool {
			return s.Action == desk.Refunding || s.Action == desk.Escalating
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
