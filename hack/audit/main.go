// Command audit measures what shortcuts, strategies and attacks on the grader earn with the
// built-in scenarios, or with the scenarios of the named packs, and fails if they earn more than
// they may:
//
//	go run ./hack/audit
//	go run ./hack/audit ./acme
//
// The scenarios must be correct: `csenv scenarios lint` checks them.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/csenv/csenv/envserver/grader/audit"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/pack"
)

func main() {
	findings, err := measureScenarios(context.Background(), os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// measureScenarios prints the tables and returns what earns more than it may.
func measureScenarios(ctx context.Context, packs []string, w io.Writer) ([]scenarios.Finding, error) {
	c, err := scenarios.LoadFolders("", packs...)
	if err != nil {
		return nil, err
	}
	if len(packs) > 0 {
		c = c.Only(func(p pack.Info) bool { return slices.Contains(packs, p.Folder) })
	}
	if err := measureShortcuts(c, w); err != nil {
		return nil, err
	}
	attacks, err := audit.PlayAttacks(ctx, c, offline.New())
	if err != nil {
		return nil, err
	}
	printTable(w, "Scores of attacks on the grader, of which a reply earns at most 0.500",
		[]string{"attack", "episodes", "reply", "episode", "passed", "limits"}, attacks, attackCells)
	findings, err := audit.Lint(c)
	return append(findings, audit.AttackFindings(c, attacks)...), err
}

// measureShortcuts prints the distribution of the tickets, and what policies earn that don't
// understand them.
func measureShortcuts(c *scenarios.Catalog, w io.Writer) error {
	distribution, err := audit.CountMarginals(c)
	if err != nil {
		return err
	}
	printTable(w, "Distribution of the tickets at seed 0", append([]string{""}, audit.ListColumns()...), distribution,
		func(m audit.Marginal) []any {
			cells := []any{m.Of}
			for _, column := range audit.ListColumns() {
				cells = append(cells, m.Counts[column])
			}
			return cells
		})
	for _, by := range []struct {
		title string
		read  audit.Reader
	}{{"Scores of shortcuts on the tickets at seed 0, with the declared cues", audit.NewCueReader(c)},
		{"The same with keywords as cues, over all wordings", scenarios.ReadKeywords}} {
		figures, err := audit.GradeShortcuts(c, by.read, 0)
		if err != nil {
			return err
		}
		printTable(w, by.title, []string{"policy", "cls", "prio", "esc", "classify", "rules"}, figures,
			func(f audit.Figures) []any {
				return []any{f.Policy, score.FormatThousandths(f.Category), score.FormatThousandths(f.Priority),
					score.FormatThousandths(f.Escalation), score.FormatThousandths(f.Classify),
					score.FormatThousandths(f.Rules)}
			})
	}
	queues, err := audit.PlayQueues(c, audit.NewCueReader(c), 0)
	printTable(w, "Scores of strategies on the queues, with the declared cues",
		[]string{"strategy", "raw", "of the best"}, queues, func(f audit.QueueFigures) []any {
			return []any{f.Policy, score.FormatThousandths(f.Raw), score.FormatThousandths(f.Relative)}
		})
	return err
}

// printTable prints a title and a table, or nothing if there are no rows.
func printTable[T any](w io.Writer, title string, header []string, rows []T, cells func(T) []any) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n\n", title)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.ToUpper(strings.Join(header, "\t")))
	for _, row := range rows {
		texts := make([]string, 0, len(header))
		for _, cell := range cells(row) {
			texts = append(texts, fmt.Sprint(cell))
		}
		fmt.Fprintln(table, strings.Join(texts, "\t"))
	}
	_ = table.Flush() // to standard output
}

func attackCells(r audit.AttackRow) []any {
	cells := []any{r.Attack, r.Episodes}
	for _, figure := range []string{audit.MeanReply, audit.MeanEpisode, audit.PassedShare} {
		cell := "-"
		if value, ok := r.Figures[figure]; ok {
			cell = score.FormatThousandths(value)
		}
		cells = append(cells, cell)
	}
	limits := make([]string, len(r.Limits))
	for i, l := range r.Limits {
		sign := "<="
		if l.Least {
			sign = ">="
		}
		limits[i] = fmt.Sprintf("%s %s %s %s", l.Figure, score.FormatThousandths(r.Figures[l.Figure]), sign,
			score.FormatThousandths(l.Bound))
	}
	return append(cells, strings.Join(limits, ", "))
}
