package figures

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
)

// Comparison is the JSON of a comparison: decimals as in a run's status.
type Comparison struct {
	A             string           `json:"a"`
	B             string           `json:"b"`
	Pairs         int64            `json:"pairs"`
	Scenarios     int64            `json:"scenarios"`
	OnlyA         int64            `json:"onlyA"`
	OnlyB         int64            `json:"onlyB"`
	Delta         string           `json:"delta"`
	StandardError string           `json:"standardError,omitempty"`
	Low           string           `json:"low,omitempty"`
	High          string           `json:"high,omitempty"`
	Better        int64            `json:"better"`
	Worse         int64            `json:"worse"`
	Same          int64            `json:"same"`
	Changes       []scenarioChange `json:"changes"`
}

type scenarioChange struct {
	Task     string `json:"task"`
	Scenario string `json:"scenario"`
	A        string `json:"a"`
	B        string `json:"b"`
	Delta    string `json:"delta"`
}

// maxChanges is the number of scenarios in a table without --all.
const maxChanges = 20

func NewCompareCommand() *cobra.Command {
	var from source.Flags
	var everything, force bool
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two runs, scenario by scenario",
		Args:  cli.Arguments("A", "B"),
	}
	cli.Help(cmd, "compare")
	from.Add(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	cmd.Flags().BoolVar(&everything, "all", false, "list all scenarios that changed")
	cmd.Flags().BoolVar(&force, "force", false, "compare runs even if their scenarios or graders differ")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		runs, err := from.Find(cmd.Context(), args...)
		if err != nil {
			return err
		}
		c, err := compareRuns(cmd.Context(), runs[0], runs[1], force)
		if err != nil {
			return err
		}
		return printComparison(cmd.OutOrStdout(), output, describe(args[0], args[1], c), everything)
	}
	return cmd
}

// compareRuns compares two runs if they are comparable.
func compareRuns(ctx context.Context, a, b *source.LoadedRun, force bool) (score.Comparison, error) {
	if err := mayCompare(a, b); err != nil && !force {
		return score.Comparison{}, fmt.Errorf("%w: --force compares them anyway", err)
	}
	of, err := a.Scores(ctx)
	if err != nil {
		return score.Comparison{}, err
	}
	with, err := b.Scores(ctx)
	if err != nil {
		return score.Comparison{}, err
	}
	c := score.Compare(of, with)
	if c.Pairs == 0 {
		return c, fmt.Errorf("%s and %s have no scenario in common", a.Name, b.Name)
	}
	return c, nil
}

func mayCompare(a, b *source.LoadedRun) error {
	of, err := a.Basis()
	if err != nil {
		return err
	}
	with, err := b.Basis()
	if err != nil {
		return err
	}
	return score.Comparable(of, with)
}

func describe(a, b string, c score.Comparison) Comparison {
	out := Comparison{
		A: a, B: b, Pairs: c.Pairs, Scenarios: c.Scenarios, OnlyA: c.OnlyA, OnlyB: c.OnlyB,
		Delta: score.Decimal(c.Delta), Better: c.Better, Worse: c.Worse, Same: c.Same, Changes: []scenarioChange{},
	}
	if c.CI95 != nil {
		out.StandardError, out.Low, out.High = score.Decimal(*c.StandardError), score.Decimal(
			c.CI95.Low), score.Decimal(c.CI95.High)
	}
	for _, ch := range c.Changes {
		out.Changes = append(out.Changes, scenarioChange{ch.Task, ch.Scenario, score.Decimal(ch.A), score.Decimal(ch.B),
			score.Decimal(ch.Delta)})
	}
	return out
}

func printComparison(w io.Writer, f *view.Format, c Comparison, everything bool) error {
	rows := view.Each(c.Changes, func(ch scenarioChange) []string {
		return []string{ch.Task, ch.Scenario, ch.A, ch.B, signed(ch.Delta)}
	})
	changes := view.Section{Heading: "Changes, largest first",
		Header: []string{"task", "scenario", c.A, c.B, "difference"}, Rows: rows}
	if !everything && len(rows) > maxChanges {
		changes.Rows, changes.Note = rows[:maxChanges], fmt.Sprintf("and %d more: --all lists them",
			len(rows)-maxChanges)
	}
	return f.Print(w, view.Result{Value: c, Header: []string{"task", "scenario", "a", "b", "difference"}, Rows: rows,
		Document: view.Document{Title: c.String(), Sections: []view.Section{changes}}})
}

// String describes the comparison in a few sentences.
func (c Comparison) String() string {
	verdict, interval := "too few scenarios for an interval", ""
	if c.Low != "" {
		verdict, interval = "no significant difference", fmt.Sprintf(" (95 %% interval %s to %s)", signed(c.Low),
			signed(c.High))
	}
	switch {
	case view.Decimal(c.Low) > 0:
		verdict = c.A + " is better"
	case view.Decimal(c.High) < 0:
		verdict = c.B + " is better"
	}
	verdict += interval
	text := fmt.Sprintf("%s minus %s: %s over %s: %s. %d better, %d worse, %d the same.", c.A, c.B, signed(c.Delta),
		view.Count(int(c.Scenarios), "scenario"), verdict, c.Better, c.Worse, c.Same)
	if c.OnlyA+c.OnlyB > 0 {
		text += fmt.Sprintf(" Excluded: %d played only by %s, %d played only by %s.", c.OnlyA, c.A, c.OnlyB, c.B)
	}
	return text
}

// signed adds a plus sign to a positive number.
func signed(decimal string) string {
	if value, err := strconv.ParseFloat(decimal, 64); err == nil && value > 0 {
		return "+" + decimal
	}
	return decimal
}
