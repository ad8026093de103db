package figures

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
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
		Args:  cli.RequireArguments("A", "B"),
	}
	cli.SetHelp(cmd, "compare")
	from.Add(cmd)
	from.AddKeys(cmd)
	packs := cli.PackFlag(cmd.Flags())
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	cmd.Flags().BoolVar(&everything, "all", false, "list all scenarios that changed")
	cmd.Flags().BoolVar(&force, "force", false, "compare runs even if their scenarios or graders differ")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		runs, err := from.Find(cmd.Context(), args...)
		if err != nil {
			return err
		}
		if err := MayCompare(runs[0], runs[1]); err != nil && !force {
			return fmt.Errorf("%w: --force compares them anyway", err)
		}
		compared, _, err := CompareRuns(cmd.Context(), runs[0], runs[1])
		if err != nil {
			return err
		}
		c := compared[0]
		c.A, c.B = args[0], args[1]
		for i, run := range runs {
			if doubt := run.Doubt(); doubt != "" {
				view.WriteParagraph(cmd.ErrOrStderr(), "", fmt.Sprintf("nobody vouches for %s: %s", args[i], doubt))
			}
		}
		catalog, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		return output.Print(cmd.OutOrStdout(), c.result(everything, func(ch score.Change) string {
			return PlannedTitle(catalog, runs[0], ch.Task, ch.Scenario)
		}))
	}
	return cmd
}

// Comparison is run A minus run B, with the names of the runs and the trouble of each.
type Comparison struct {
	score.Comparison
	A, B    string
	Trouble [2]Trouble
}

// CompareRuns compares a run with each of others, scenario by scenario. It also returns the scores
// of all, the run's first.
func CompareRuns(ctx context.Context, run *source.LoadedRun, others ...*source.LoadedRun) ([]Comparison,
	[][]score.ScenarioScore, error) {
	of, err := run.Scores(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, scores := make([]Comparison, len(others)), [][]score.ScenarioScore{of}
	for i, other := range others {
		with, err := other.Scores(ctx)
		if err != nil {
			return nil, nil, err
		}
		found[i] = Comparison{score.Compare(of, with), run.Name, other.Name,
			[2]Trouble{TroubleOf(run.EvaluationRun), TroubleOf(other.EvaluationRun)}}
		if found[i].Pairs == 0 {
			return nil, nil, fmt.Errorf("%s and %s have no scenario in common", run.Name, other.Name)
		}
		scores = append(scores, with)
	}
	return found, scores, nil
}

// MayCompare returns an error that names what differs if the scores of two runs can't be compared.
func MayCompare(a, b *source.LoadedRun) error {
	of, err := a.Basis()
	if err != nil {
		return err
	}
	with, err := b.Basis()
	if err != nil {
		return err
	}
	return score.CheckComparable(of, with)
}

// result presents the comparison. The title of a change is what its scenario is about.
func (c Comparison) result(everything bool, title func(score.Change) string) view.Result {
	rows := view.MapItems(c.Changes, func(ch score.Change) []string {
		return []string{
			ch.Task,
			ch.Scenario,
			score.FormatDecimal(ch.A),
			score.FormatDecimal(ch.B),
			FormatSigned(score.FormatDecimal(ch.Delta)),
			title(ch),
		}
	})
	section := view.Section{Heading: "Changes, largest first",
		Header: []string{"task", "scenario", c.A, c.B, "difference", "about"}, Rows: rows}
	if !everything {
		section = shortenSection(section)
	}
	troubles := view.Section{Header: []string{"run"}, Rows: [][]string{{c.A}, {c.B}}}
	sections := []view.Section{section}
	if addTrouble(&troubles, c.Trouble[:]); len(troubles.Header) > 1 {
		sections = []view.Section{troubles, section}
	}
	return view.Result{Value: c.encode(title), Rows: rows,
		Header:   []string{"task", "scenario", "a", "b", "difference", "about"},
		Document: view.Document{Title: c.String(), Sections: sections}}
}

// shortenSection returns a section with the first rows, and a note if there are more.
func shortenSection(s view.Section) view.Section {
	if more := len(s.Rows) - maxRows; more > 0 {
		s.Rows, s.Note = s.Rows[:maxRows], fmt.Sprintf("and %d more: --all lists them", more)
	}
	return s
}

// interval returns the decimals of the confidence interval, "" if there is none.
func (c Comparison) interval() (low, high string) {
	if c.CI95 == nil {
		return "", ""
	}
	return score.FormatDecimal(c.CI95.Low), score.FormatDecimal(c.CI95.High)
}

// Lead is B minus A with its interval, with the digits that the interval supports.
func (c Comparison) Lead() string {
	if c.CI95 == nil {
		return FormatSigned(score.FormatDecimal(-c.Delta))
	}
	ci := v1alpha1.Interval{Low: score.FormatDecimal(-c.CI95.High), High: score.FormatDecimal(-c.CI95.Low)}
	digits := func(figure string) string { return FormatSigned(RoundToInterval(figure, ci)) }
	return fmt.Sprintf("%s (%s to %s)", digits(score.FormatDecimal(-c.Delta)), digits(ci.Low), digits(ci.High))
}

// Chart is the difference with its interval.
func (c Comparison) Chart() chart.Interval {
	low, high := c.interval()
	return chart.Interval{Low: low, Middle: score.FormatDecimal(c.Delta), High: high, Difference: true}
}

// encode gives decimals as a run's status does.
func (c Comparison) encode(title func(score.Change) string) view.Object {
	changes := make([]view.Object, len(c.Changes))
	for i, ch := range c.Changes {
		changes[i] = view.Object{"task", ch.Task, "scenario", ch.Scenario, "a", score.FormatDecimal(ch.A),
			"b", score.FormatDecimal(ch.B), "delta", score.FormatDecimal(ch.Delta),
			"about,omitempty", title(ch)}
	}
	low, high := c.interval()
	deviation := ""
	if c.CI95 != nil {
		deviation = score.FormatDecimal(*c.StandardError)
	}
	return view.Object{"a", c.A, "b", c.B, "pairs", c.Pairs, "scenarios", c.Scenarios, "onlyA", c.OnlyA,
		"onlyB", c.OnlyB, "delta", score.FormatDecimal(c.Delta), "standardError,omitempty", deviation,
		"low,omitempty", low, "high,omitempty", high, "better", c.Better, "worse", c.Worse, "same", c.Same,
		"troubleA", c.Trouble[0], "troubleB", c.Trouble[1], "changes", changes}
}

// String describes the comparison in a few sentences.
func (c Comparison) String() string {
	verdict := "too few scenarios for an interval"
	if low, high := c.interval(); low != "" {
		verdict = "no significant difference"
		switch {
		case chart.ParseDecimal(low) > 0:
			verdict = c.A + " is better"
		case chart.ParseDecimal(high) < 0:
			verdict = c.B + " is better"
		}
		verdict += fmt.Sprintf(" (95 %% interval %s to %s)", FormatSigned(low), FormatSigned(high))
	}
	text := fmt.Sprintf(
		"%s minus %s: %s over %s: %s. %d better, %d worse, %d the same.",
		c.A,
		c.B,
		FormatSigned(
			score.FormatDecimal(c.Delta),
		),
		view.FormatCount(int(c.Scenarios), "scenario"),
		verdict,
		c.Better,
		c.Worse,
		c.Same,
	)
	if c.OnlyA+c.OnlyB > 0 {
		text += fmt.Sprintf(" Excluded: %d played only by %s, %d played only by %s.", c.OnlyA, c.A, c.OnlyB, c.B)
	}
	return text
}

// FormatSigned adds a plus sign to a positive number.
func FormatSigned(decimal string) string {
	if chart.ParseDecimal(decimal) > 0 {
		return "+" + decimal
	}
	return decimal
}
