package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
)

// listedRun is the summary of a run.
type listedRun struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Agent    string `json:"agent"`
	Score    string `json:"score"`
	PassRate string `json:"passRate"`
	Scored   int64  `json:"scored"`
	Total    int64  `json:"total"`
	Trouble
	Created time.Time `json:"created"`
}

// Trouble is what happened to the answers of a run's agent.
type Trouble struct {
	// NoAction is the share of answers that were no action, in percent, "" if unknown.
	NoAction string `json:"noActionPercent,omitempty"`
	// NotJudged and Provoking are the replies that a model could not judge.
	NotJudged int64 `json:"notJudged"`
	Provoking int64 `json:"provoking"`
}

// TroubleOf is the trouble of a run.
func TroubleOf(run *v1alpha1.EvaluationRun) Trouble {
	replies := ptr.Deref(run.Status.Replies, v1alpha1.RunReplies{})
	return Trouble{evaluation.NoActionPercent(run.Status.Answers), replies.NotJudged, replies.Provoking}
}

// troubleColumns are the columns of a table in which some run has trouble, and the cells of a run.
func troubleColumns(all []Trouble) (header []string, cells func(Trouble) []string) {
	columns := []struct {
		name string
		cell func(Trouble) string
	}{
		{"no action %", func(t Trouble) string { return cmp.Or(t.NoAction, "0.0") }},
		{"not judged", func(t Trouble) string { return fmt.Sprint(t.NotJudged) }},
		{"provoking", func(t Trouble) string { return fmt.Sprint(t.Provoking) }},
	}
	columns = slices.DeleteFunc(columns, func(c struct {
		name string
		cell func(Trouble) string
	}) bool {
		return !slices.ContainsFunc(all, func(t Trouble) bool { return strings.Trim(c.cell(t), "0.") != "" })
	})
	for _, c := range columns {
		header = append(header, c.name)
	}
	return header, func(t Trouble) (row []string) {
		for _, c := range columns {
			row = append(row, c.cell(t))
		}
		return row
	}
}

// NewRunsCommand returns the command that lists runs.
func NewRunsCommand() *cobra.Command {
	var from source.Flags
	var selector string
	cmd := &cobra.Command{
		Use:   "runs [RUN...]",
		Short: "List runs with their state, score and date",
	}
	cli.SetHelp(cmd, "runs")
	from.Add(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only runs with these `labels`, such as team=support")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		runs, err := from.All(cmd.Context(), selector, names)
		if err != nil {
			return err
		}
		return output.Print(cmd.OutOrStdout(), runList(view.MapItems(runs, newListedRun)))
	}
	return cmd
}

func newListedRun(r *source.LoadedRun) listedRun {
	episodes := ptr.Deref(r.Status.Episodes, v1alpha1.RunEpisodes{})
	state, _ := StateOf(r.EvaluationRun)
	return listedRun{Name: r.Name, State: state, Agent: source.AgentName(r.EvaluationRun),
		Score:    ptr.Deref(r.Status.Score, v1alpha1.Score{}).Mean,
		PassRate: r.Status.PassRate, Scored: episodes.Scored + episodes.Failed, Total: episodes.Total,
		Trouble: TroubleOf(r.EvaluationRun),
		Created: r.CreationTimestamp.Time}
}

// runList lists the latest run first.
func runList(runs []listedRun) view.Result {
	slices.SortStableFunc(runs, func(a, b listedRun) int { return b.Created.Compare(a.Created) })
	header := []string{"run", "state", "agent", "score", "pass rate", "scored", "created"}
	columns, cells := troubleColumns(view.MapItems(runs, func(r listedRun) Trouble { return r.Trouble }))
	header = append(header, columns...)
	rows := view.MapItems(runs, func(r listedRun) []string {
		return append([]string{r.Name, r.State, r.Agent, view.OrDash(r.Score), view.OrDash(r.PassRate),
			fmt.Sprintf("%d/%d", r.Scored, r.Total), r.Created.Local().Format(time.DateTime)}, cells(r.Trouble)...)
	})
	return view.Result{Value: runs, Header: header, Rows: rows,
		Document: view.Document{Sections: []view.Section{{Header: header, Rows: rows}}}}
}
