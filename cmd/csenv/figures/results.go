// Package figures shows, compares, ranks and reports the figures of runs.
package figures

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
)

// PrintRun writes a run: the object as JSON or YAML, its figures otherwise.
// With the points that its stored episodes lost, the JSON has them as lostPoints.
func PrintRun(w io.Writer, f *view.Format, run *v1alpha1.EvaluationRun, lost []source.LostPoints) error {
	rows := runRows(run)
	header := []string{"run", "scope", "name", "episodes", "mean", "standard_error", "low", "high", "min", "p50", "max",
		"pass_rate", "offered"}
	value := any(run)
	if len(lost) > 0 {
		value = struct {
			*v1alpha1.EvaluationRun
			LostPoints []source.LostPoints `json:"lostPoints"`
		}{run, lost}
	}
	return f.Print(w, view.Result{Value: value, Header: header, Rows: view.Each(rows, figureRow.cells),
		Document: runDocument(run, rows, lost)})
}

// OutcomeOf returns ErrOutcome if a run didn't complete, missed a threshold or is partly stored.
func OutcomeOf(run *v1alpha1.EvaluationRun) error {
	conditions := run.Status.Conditions
	if !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete) ||
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionThresholdsMet) ||
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionResultsStored) {
		return cli.ErrOutcome
	}
	return nil
}

// StateOf returns the state of a run and the message of the condition that sets it.
func StateOf(run *v1alpha1.EvaluationRun) (state, message string) {
	failed := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionFailed)
	complete := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionComplete)
	switch {
	case failed != nil && failed.Status == metav1.ConditionTrue:
		return failed.Reason, failed.Message
	case complete != nil:
		return complete.Reason, complete.Message
	}
	return "Pending", "The operator hasn't seen the run yet."
}

// title summarizes a run in a sentence.
func title(run *v1alpha1.EvaluationRun) string {
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
		Use:   "results RUN",
		Short: "Show a run's figures: overall, by task, dimension and category, errors, provenance",
		Args:  cli.Arguments("RUN"),
	}
	cli.Help(cmd, "results")
	from.Add(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		runs, err := from.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		run := runs[0].EvaluationRun
		err = PrintRun(cmd.OutOrStdout(), output, run, runs[0].Lost)
		if err != nil || !evaluation.Ended(run.Status.Conditions) {
			return err
		}
		return OutcomeOf(run)
	}
	return cmd
}
