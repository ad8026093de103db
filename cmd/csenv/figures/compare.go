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

// Comparison is what compare prints as JSON: decimals as in a run's status.
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

// maxChanges is how many scenarios a table of changes lists unless all are asked for.
const maxChanges = 20

func NewCompareCommand() *cobra.Command {
	var from source.Flags
	var everything, force bool
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two runs, scenario by scenario",
		Long: `Compare two runs, scenario by scenario: the mean of A's scores less B's over the scenarios that both
played, with its 95 % interval, and what got better and worse. What scenarios have in common, that
some are hard for everybody, so drops out. An interval without 0 in it separates the runs.

Runs compare only where scenarios, grader, judge, pass score and tasks agree.`,
		Example: `  csenv compare this-week last-week
  csenv compare gpt heuristic --results ./results -o markdown`,
		Args: cli.Arguments("A", "B"),
	}
	from.Add(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	cmd.Flags().BoolVar(&everything, "all", false, "list all scenarios that changed")
	cmd.Flags().BoolVar(&force, "force", false, "compare runs of different scenarios or graders all the same")
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

// compareRuns compares two runs that may be compared.
func compareRuns(ctx context.Context, a, b *source.LoadedRun, force bool) (score.Comparison, error) {
	if err := mayCompare(a, b); err != nil && !force {
		return score.Comparison{}, fmt.Errorf("%w: --force compares them all the same", err)
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
		return c, fmt.Errorf("%s and %s played no scenario that both have", a.Name, b.Name)
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
	if f.Name == "json" || f.Name == "yaml" {
		return f.Encode(w, c)
	}
	rows := view.Each(c.Changes, func(ch scenarioChange) []string {
		return []string{ch.Task, ch.Scenario, ch.A, ch.B,
			signed(ch.Delta)}
	})
	header := []string{"task", "scenario", c.A, c.B, "difference"}
	if f.Name == "csv" {
		return view.WriteCSV(w, []string{"task", "scenario", "a", "b", "difference"}, rows)
	}
	changes := view.Section{Heading: "What changed, the most first", Header: header, Rows: rows}
	if !everything && len(rows) > maxChanges {
		changes.Rows, changes.Note = rows[:maxChanges], fmt.Sprintf("and %d more: --all lists them",
			len(rows)-maxChanges)
	}
	view.Document{Title: c.String(), Sections: []view.Section{changes}}.Print(w, f.Name)
	return nil
}

// String is the comparison in a few sentences.
func (c Comparison) String() string {
	verdict := "too few scenarios for an interval"
	switch {
	case c.Low == "":
	case view.Decimal(c.Low) > 0:
		verdict = fmt.Sprintf("%s is better (95 %% interval %s to %s)", c.A, signed(c.Low), signed(c.High))
	case view.Decimal(c.High) < 0:
		verdict = fmt.Sprintf("%s is better (95 %% interval %s to %s)", c.B, signed(c.Low), signed(c.High))
	default:
		verdict = fmt.Sprintf("no difference is shown (95 %% interval %s to %s)", signed(c.Low), signed(c.High))
	}
	text := fmt.Sprintf("%s less %s: %s over %s: %s. %d better, %d worse, %d the same.", c.A, c.B, signed(c.Delta),
		view.Count(int(c.Scenarios), "scenario"), verdict, c.Better, c.Worse, c.Same)
	if c.OnlyA+c.OnlyB > 0 {
		text += fmt.Sprintf(" Left out: %d that only %s played, %d that only %s played.", c.OnlyA, c.A, c.OnlyB, c.B)
	}
	return text
}

// signed writes a plus before what is above 0.
func signed(decimal string) string {
	if value, err := strconv.ParseFloat(decimal, 64); err == nil && value > 0 {
		return "+" + decimal
	}
	return decimal
}
