package audit

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/pack"
)

// The rules of Lint.
const (
	ruleCue          = "cue"          // the wordings support the cue
	ruleDistribution = "distribution" // the public tickets have the intended distribution
	ruleReadOnly     = "read-only"    // few workflows are resolved without changing anything
	ruleQueue        = "queue"        // a queue is passed only in the order of urgency
	ruleAttack       = "attack"       // attacks on the grader earn little
)

// publicPack is the name of the pack with a required distribution.
const publicPack = "csenv-public"

func isPublic(p pack.Info) bool { return p.Name == publicPack }

// maxReadOnly is the maximum percentage of workflows that look-ups and an answer alone may resolve.
// Above it a fixed sequence of look-ups would pass too often.
const maxReadOnly = 45

// minWorkflows is the number of workflows from which that percentage is meaningful.
const minWorkflows = 8

// Lint checks the rules that scenarios.Catalog.Lint can't check, because they concern all tickets
// together or the keywords.
func Lint(c *scenarios.Catalog) ([]scenarios.Finding, error) {
	var findings []scenarios.Finding
	type check = func(*scenarios.Catalog) ([]scenarios.Finding, error)
	for _, check := range []check{cues, distribution, readOnly, orders} {
		found, err := check(c)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

// cues checks that keywords indicate the cue in at least half of the wordings of each ticket.
func cues(c *scenarios.Catalog) ([]scenarios.Finding, error) {
	var findings []scenarios.Finding
	for _, s := range c.Tickets() {
		if s.Generated() {
			continue // it declares no cue
		}
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

//go:embed distribution.txt
var distributionFile string

// publicMarginals returns the required distribution of the public tickets.
func publicMarginals() []Marginal {
	var rows []Marginal
	for of, text := range entries(distributionFile) {
		row := Marginal{of, map[string]int{}}
		for count := range strings.FieldsSeq(text) {
			column, n, _ := strings.Cut(count, "=")
			row.Counts[column], _ = strconv.Atoi(n)
		}
		rows = append(rows, row)
	}
	return rows
}

// distribution compares the public pack with the required distribution. An incomplete pack must not
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

// readOnly finds packs in which too many workflows change nothing.
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
