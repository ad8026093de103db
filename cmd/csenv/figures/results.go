// Package figures shows, compares, ranks and reports the figures of runs.
package figures

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/tasks"
)

// PrintRun writes a run: the object as JSON or YAML, its figures otherwise. The JSON of a stored
// run has the points that its episodes lost as lostPoints, and notRanked if no board ranks it.
func PrintRun(w io.Writer, f *view.Format, run *v1alpha1.EvaluationRun, lost []source.LostPoints,
	doubt string) error {
	rows := runRows(run)
	header := slices.Concat([]string{"run", "scope", "name", "episodes", "mean", "standard_error", "low", "high", "min",
		"p50", "max", "pass_rate", "offered"}, troubleHeader)
	value := any(run)
	if len(lost) > 0 || doubt != "" {
		value = struct {
			*v1alpha1.EvaluationRun
			LostPoints []source.LostPoints `json:"lostPoints,omitempty"`
			NotRanked  string              `json:"notRanked,omitempty"`
		}{run, lost, doubt}
	}
	document := runDocument(run, rows, lost)
	if doubt != "" {
		document.Title += "\nNot ranked: " + doubt + "."
	}
	return f.Print(w, view.Result{Value: value, Header: header, Rows: view.MapItems(rows, figureRow.cells),
		Document: document})
}

// PrintSummary writes for people what a run found: the verdict, the score, the dimensions, what was
// missed or failed, and where there is more.
func PrintSummary(w io.Writer, run *v1alpha1.EvaluationRun, more string) {
	d := view.Document{Title: verdictOf(run) + "\n" + summarizeRun(run)}
	if s := run.Status.Score; s != nil {
		ci := ptr.Deref(s.CI95, v1alpha1.Interval{})
		d.Title += "\nScore " + RoundToInterval(s.Mean, ci)
		if ci.Low != "" {
			d.Title += fmt.Sprintf(", 95 %% interval %s to %s", RoundToInterval(ci.Low, ci),
				RoundToInterval(ci.High, ci))
		}
		dimensions := view.Section{Header: []string{"task", "dimension", "points", "of", "share"}}
		for _, r := range runRows(run) {
			if r.Scope == "dimension" {
				dimensions.Rows = append(dimensions.Rows, []string{r.Task(), r.Dimension(), roundFigure(r.Mean, 2),
					roundFigure(r.Offered, 2), r.Bar().Text(20)})
			}
		}
		d.Sections = []view.Section{dimensions, thresholdSection(run), baselineSection(&run.Status),
			errorSection(&run.Status)}
	}
	if cost := costOf(run); cost != "" {
		d.Title += "\nCost " + cost
	}
	if c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionAgentReady); c != nil {
		d.Title += "\n" + c.Message // no store keeps it
	}
	d.Print(w, "table")
	fmt.Fprintln(w)
	view.WriteParagraph(w, "", more)
}

// runDocument presents the figures of a run.
func runDocument(run *v1alpha1.EvaluationRun, rows []figureRow, lost []source.LostPoints) view.Document {
	s := &run.Status
	d := view.Document{Title: verdictOf(run) + "\n" + summarizeRun(run)}
	if s.Score == nil {
		return d
	}
	groups := view.Section{Heading: "Scores, with 95 % intervals over scenarios",
		Header: []string{"", "episodes", "score", "low", "high", "min", "median", "max", "pass rate"}}
	dimensions := view.Section{Heading: "Points by dimension, per episode",
		Header: []string{"task", "dimension", "earned", "offered", "share"}}
	for _, r := range rows {
		if r.Scope == "dimension" {
			dimensions.Rows = append(dimensions.Rows, []string{r.Task(), r.Dimension(), r.Short.Mean, r.Short.Offered,
				r.Bar().Text(20)})
			if r.Task() == tasks.QueueManagement {
				dimensions.Note = "Those of a queue are means of its tickets, weighted by priority."
			}
			continue
		}
		groups.Rows = append(groups.Rows, []string{r.Label(), strconv.FormatInt(r.Episodes, 10), r.Short.Mean,
			r.Short.Low, r.Short.High, r.Short.Min, r.Short.P50, r.Short.Max, r.Short.PassRate})
	}
	d.Sections = []view.Section{groups, dimensions, lostSection(lost), passSection(run),
		thresholdSection(run), baselineSection(s),
		errorSection(s), provenanceSection(run)}
	return d
}

func (r figureRow) cells() []string {
	return append([]string{r.Run, r.Scope, r.Name, strconv.FormatInt(r.Episodes, 10), r.Mean, r.StdErr, r.Low, r.High,
		r.Min, r.P50, r.Max, r.PassRate, r.Offered}, r.Trouble...)
}

// OutcomeOf returns ErrOutcome if a run didn't complete, missed a threshold, is partly stored, or
// if no answer of its agent was an action.
func OutcomeOf(run *v1alpha1.EvaluationRun) error {
	conditions := run.Status.Conditions
	if !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete) ||
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionThresholdsMet) ||
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionResultsStored) ||
		evaluation.NothingPlayed(run.Status) {
		return cli.ErrOutcome
	}
	return nil
}

// StateOf returns the state of a run and the message of the condition that sets it.
func StateOf(run *v1alpha1.EvaluationRun) (state, message string) {
	if c := evaluation.FindState(run.Status.Conditions); c != nil {
		return c.Reason, c.Message
	}
	return "Pending", "The operator hasn't seen the run yet."
}

// summarizeRun summarizes a run in a sentence.
func summarizeRun(run *v1alpha1.EvaluationRun) string {
	state, message := StateOf(run)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", run.Name, state)
	if e := run.Status.Episodes; e != nil {
		fmt.Fprintf(&b, ", %d of %d episodes scored", e.Scored+e.Failed, e.Total)
		for _, part := range []struct {
			n    int64
			what string
		}{{e.Failed, "failed by the agent"}, {e.Errored, "errored"}, {e.Retried, "retried"}} {
			if part.n > 0 {
				fmt.Fprintf(&b, ", %d %s", part.n, part.what)
			}
		}
	}
	if trouble := evaluation.DescribeAnswers(run.Status); trouble != "" {
		fmt.Fprintf(&b, ". %s", strings.TrimSuffix(trouble, "."))
	}
	if start, end := run.Status.StartTime, run.Status.CompletionTime; start != nil && end != nil {
		fmt.Fprintf(&b, ", %s", end.Sub(start.Time))
	}
	if !meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionComplete) {
		fmt.Fprintf(&b, ". %s", message)
	}
	if meta.IsStatusConditionFalse(run.Status.Conditions, v1alpha1.ConditionResultsStored) {
		c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionResultsStored)
		fmt.Fprintf(&b, ". %s", c.Message)
	}
	return b.String()
}

// NewResultsCommand returns the command that shows the figures of a run.
func NewResultsCommand() *cobra.Command {
	var from source.Flags
	cmd := &cobra.Command{
		Use: "results RUN", SuggestFor: []string{"show"},
		Short: "Show a run's figures: overall, by task, dimension and category, errors, provenance",
		Args:  cli.RequireArguments("RUN"),
	}
	cli.SetHelp(cmd, "results")
	from.Add(cmd)
	from.AddKeys(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		runs, err := from.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		run := runs[0].EvaluationRun
		err = PrintRun(cmd.OutOrStdout(), output, run, runs[0].Lost, runs[0].Doubt())
		if err != nil || !evaluation.HasEnded(run.Status.Conditions) {
			return err
		}
		return OutcomeOf(run)
	}
	return cmd
}
