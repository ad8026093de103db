package audit

import (
	"fmt"
	"slices"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/pack"
)

// The rules of Lint.
const (
	ruleCue          = "cue"          // the wordings bear out the cue
	ruleDistribution = "distribution" // the public tickets are spread as they are meant to be
	ruleReadOnly     = "read-only"    // few workflows are settled without changing anything
	ruleQueue        = "queue"        // only the order of urgency passes a queue
)

// publicPack is the name of the pack whose distribution is laid down.
const publicPack = "csenv-public"

func isPublic(p pack.Info) bool { return p.Name == publicPack }

// maxReadOnly is the largest share of workflows, in percent, that may be settled by looking things
// up and answering. Beyond it a fixed sequence of look-ups would pass too often.
const maxReadOnly = 45

// minWorkflows is the number of workflows of a pack from which on that share means something.
const minWorkflows = 8

// Lint checks what scenarios.Catalog.Lint can't, because it takes all tickets together or a reader
// of keywords.
func Lint(c *scenarios.Catalog) ([]scenarios.Finding, error) {
	var findings []scenarios.Finding
	for _, check := range []func(*scenarios.Catalog) ([]scenarios.Finding, error){cues, distribution, readOnly,
		orders} {
		found, err := check(c)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

// cues checks that at least half of a ticket's wordings read as its cue says.
func cues(c *scenarios.Catalog) ([]scenarios.Finding, error) {
	var findings []scenarios.Finding
	for _, s := range c.Tickets() {
		tickets, err := s.Variants(0)
		if err != nil {
			return nil, fmt.Errorf("instantiating %s: %w", s.ID, err)
		}
		var read []string
		right := 0
		for _, t := range tickets {
			read = append(read, Keywords(t))
			if read[len(read)-1] == s.Cue {
				right++
			}
		}
		if 2*right < len(tickets) {
			findings = append(findings, scenarios.Finding{Position: s.File, Rule: ruleCue,
				Message: fmt.Sprintf("metadata.cue is %s, a reader of keywords says %v of its wordings: reword them, "+
					"or correct the cue", s.Cue, read)})
		}
	}
	return findings, nil
}

// publicTickets is the number of tickets of the complete public pack.
const publicTickets = 40

// publicMarginals is how the public tickets are spread at seed 0: priority and escalation are
// independent of category, and neither follows account level or tone.
func publicMarginals() []Marginal {
	prio := func(tickets, low, medium, high, urgent, escalate, resolve int) map[string]int {
		return map[string]int{"tickets": tickets, "low": low, "medium": medium, "high": high, "urgent": urgent,
			"escalate": escalate, "resolve": resolve}
	}
	levels := func(m map[string]int, basic, premium, enterprise int) map[string]int {
		m["basic"], m["premium"], m["enterprise"] = basic, premium, enterprise
		return m
	}
	held := func() map[string]int {
		m := prio(8, 2, 2, 2, 2, 4, 4)
		for _, c := range scenarios.Categories() {
			m[c] = 2
		}
		return m
	}
	return []Marginal{
		{"all", levels(prio(40, 10, 10, 10, 10, 20, 20), 14, 13, 13)},
		{"category billing", levels(prio(10, 3, 2, 3, 2, 5, 5), 4, 3, 3)},
		{"category shipping", levels(prio(10, 2, 3, 2, 3, 5, 5), 3, 3, 4)},
		{"category technical", levels(prio(10, 3, 2, 2, 3, 5, 5), 4, 4, 2)},
		{"category general", levels(prio(10, 2, 3, 3, 2, 5, 5), 3, 3, 4)},
		{"escalate", levels(prio(20, 5, 5, 5, 5, 20, 0), 6, 7, 7)},
		{"resolve", levels(prio(20, 5, 5, 5, 5, 0, 20), 8, 6, 6)},
		{"level basic", prio(14, 3, 3, 4, 4, 6, 8)},
		{"level premium", prio(13, 4, 4, 2, 3, 7, 6)},
		{"level enterprise", prio(13, 3, 3, 4, 3, 7, 6)},
		{"tone angry", prio(10, 3, 3, 2, 2, 5, 5)},
		{"tone calm", map[string]int{"tickets": 11, "urgent": 4}},
		{"tone neutral", map[string]int{"tickets": 15}},
		{"tone worried", map[string]int{"tickets": 4}},
		{"cue wrong", map[string]int{"tickets": 16}},
		{"language en", map[string]int{"tickets": 36}},
		{"language es", map[string]int{"tickets": 2}},
		{"language de", map[string]int{"tickets": 1}},
		{"language fr", map[string]int{"tickets": 1}},
		{"split public-train", map[string]int{"tickets": 24}},
		{"split public-dev", held()},
		{"split public-test", held()},
	}
}

// distribution compares the public pack with what is laid down. A pack that isn't complete must not
// have too many of anything.
func distribution(c *scenarios.Catalog) ([]scenarios.Finding, error) {
	pack := c.Only(isPublic)
	got, err := Distribution(pack)
	if err != nil || len(got) == 0 {
		return nil, err
	}
	complete := got[0].Counts["tickets"] >= publicTickets
	var findings []scenarios.Finding
	for _, want := range publicMarginals() {
		var counts map[string]int
		if i := slices.IndexFunc(got, func(m Marginal) bool { return m.Of == want.Of }); i >= 0 {
			counts = got[i].Counts
		}
		for _, column := range Columns() {
			n, laidDown := want.Counts[column]
			if have := counts[column]; laidDown && (have > n || complete && have < n) {
				findings = append(findings, scenarios.Finding{
					Position: pack.Tickets()[0].Pack.Folder, Rule: ruleDistribution,
					Message: fmt.Sprintf("%s: %d are %s at seed 0, %d are laid down", want.Of, have, column, n),
				})
			}
		}
	}
	return findings, nil
}

// readOnly looks for packs in which too many workflows change nothing.
func readOnly(c *scenarios.Catalog) ([]scenarios.Finding, error) {
	workflows, reading := map[pack.Info]int{}, map[pack.Info]int{}
	for _, s := range c.Workflows() {
		w, err := s.Instantiate(0)
		if err != nil {
			return nil, fmt.Errorf("instantiating %s: %w", s.ID, err)
		}
		workflows[s.Pack]++
		if !slices.ContainsFunc(w.Steps, func(s scenarios.WorkflowStep) bool {
			return s.Action == scenarios.InitiateRefund || s.Action == scenarios.EscalateIssue
		}) {
			reading[s.Pack]++
		}
	}
	var findings []scenarios.Finding
	for _, p := range c.Packs() {
		if n := workflows[p]; n >= minWorkflows && 100*reading[p] > maxReadOnly*n {
			findings = append(findings, scenarios.Finding{
				Position: p.Folder, Rule: ruleReadOnly,
				Message: fmt.Sprintf("%d of %d workflows need no refund and no escalation: at most %d %% may",
					reading[p], n, maxReadOnly),
			})
		}
	}
	return findings, nil
}
