package audit

import (
	_ "embed"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/pack"
)

// The rules of Lint.
const (
	ruleDistribution = "distribution" // the public tickets have the intended distribution
	ruleQueue        = "queue"        // a queue is passed only in the order of urgency
	ruleAttack       = "attack"       // attacks on the grader earn little
)

// publicPack is the name of the pack with a required distribution.
const publicPack = "csenv-public"

func isPublic(p pack.Info) bool { return p.Name == publicPack }

// Lint checks the rules that concern the built-in pack, and all queues together.
func Lint(c *scenarios.Catalog) ([]scenarios.Finding, error) {
	var findings []scenarios.Finding
	type check = func(*scenarios.Catalog) ([]scenarios.Finding, error)
	for _, check := range []check{checkDistribution, checkQueueOrder} {
		found, err := check(c)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

// publicTickets is the number of tickets of the complete public pack.
const publicTickets = 40

//go:embed distribution.txt
var distributionFile string

// parseEntries yields the lines "heading: text" of a file.
func parseEntries(file string) iter.Seq2[string, string] {
	return func(yield func(heading, text string) bool) {
		for line := range strings.Lines(file) {
			heading, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if !strings.HasPrefix(line, "#") && !yield(heading, text) {
				return
			}
		}
	}
}

// publicMarginals returns the required distribution of the public tickets.
func publicMarginals() []Marginal {
	var rows []Marginal
	for of, text := range parseEntries(distributionFile) {
		row := Marginal{of, map[string]int{}}
		for count := range strings.FieldsSeq(text) {
			column, n, _ := strings.Cut(count, "=")
			row.Counts[column], _ = strconv.Atoi(n)
		}
		rows = append(rows, row)
	}
	return rows
}

// checkDistribution compares the public pack with the required distribution. An incomplete pack
// must not have too many of anything.
func checkDistribution(c *scenarios.Catalog) ([]scenarios.Finding, error) {
	pack := c.Only(isPublic)
	got, err := CountMarginals(pack)
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
		for _, column := range ListColumns() {
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
