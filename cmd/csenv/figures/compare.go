package figures

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
)

// maxRows is the number of scenarios in a table without --all.
const maxRows = 20

// NewCompareCommand returns the command that compares two runs.
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
		return output.Print(cmd.OutOrStdout(), comparison{c, args[0], args[1]}.result(everything))
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

// comparison is a comparison of two runs and their names.
type comparison struct {
	score.Comparison
	a, b string
}

func (c comparison) result(everything bool) view.Result {
	rows := view.Each(c.Changes, func(ch score.Change) []string {
		return []string{ch.Task, ch.Scenario, score.Decimal(ch.A), score.Decimal(ch.B), signed(score.Decimal(ch.Delta))}
	})
	section := view.Section{Heading: "Changes, largest first",
		Header: []string{"task", "scenario", c.a, c.b, "difference"}, Rows: rows}
	if !everything {
		section = shortened(section)
	}
	return view.Result{Value: c.encode(), Header: []string{"task", "scenario", "a", "b", "difference"}, Rows: rows,
		Document: view.Document{Title: c.String(), Sections: []view.Section{section}}}
}

// shortened returns a section with the first rows, and a note if there are more.
func shortened(s view.Section) view.Section {
	if more := len(s.Rows) - maxRows; more > 0 {
		s.Rows, s.Note = s.Rows[:maxRows], fmt.Sprintf("and %d more: --all lists them", more)
	}
	return s
}

// interval returns the decimals of the confidence interval, "" if there is none.
func (c comparison) interval() (low, high string) {
	if c.CI95 == nil {
		return "", ""
	}
	return score.Decimal(c.CI95.Low), score.Decimal(c.CI95.High)
}

// encode gives decimals as a run's status does.
func (c comparison) encode() view.Object {
	changes := make([]view.Object, len(c.Changes))
	for i, ch := range c.Changes {
		changes[i] = view.Object{"task", ch.Task, "scenario", ch.Scenario, "a", score.Decimal(ch.A),
			"b", score.Decimal(ch.B), "delta", score.Decimal(ch.Delta)}
	}
	low, high := c.interval()
	deviation := ""
	if c.CI95 != nil {
		deviation = score.Decimal(*c.StandardError)
	}
	return view.Object{"a", c.a, "b", c.b, "pairs", c.Pairs, "scenarios", c.Scenarios, "onlyA", c.OnlyA,
		"onlyB", c.OnlyB, "delta", score.Decimal(c.Delta), "standardError,omitempty", deviation,
		"low,omitempty", low, "high,omitempty", high, "better", c.Better, "worse", c.Worse, "same", c.Same,
		"changes", changes}
}

// String describes the comparison in a few sentences.
func (c comparison) String() string {
	verdict := "too few scenarios for an interval"
	if low, high := c.interval(); low != "" {
		verdict = "no significant difference"
		switch {
		case view.Decimal(low) > 0:
			verdict = c.a + " is better"
		case view.Decimal(high) < 0:
			verdict = c.b + " is better"
		}
		verdict += fmt.Sprintf(" (95 %% interval %s to %s)", signed(low), signed(high))
	}
	text := fmt.Sprintf("%s minus %s: %s over %s: %s. %d better, %d worse, %d the same.", c.a, c.b,
		signed(score.Decimal(c.Delta)), view.Count(int(c.Scenarios), "scenario"), verdict, c.Better, c.Worse, c.Same)
	if c.OnlyA+c.OnlyB > 0 {
		text += fmt.Sprintf(" Excluded: %d played only by %s, %d played only by %s.", c.OnlyA, c.a, c.OnlyB, c.b)
	}
	return text
}

// signed adds a plus sign to a positive number.
func signed(decimal string) string {
	if view.Decimal(decimal) > 0 {
		return "+" + decimal
	}
	return decimal
}
