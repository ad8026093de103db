package figures

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
)

// listedRun is the summary of a run.
type listedRun struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	Agent    string    `json:"agent"`
	Score    string    `json:"score"`
	PassRate string    `json:"passRate"`
	Scored   int64     `json:"scored"`
	Total    int64     `json:"total"`
	Created  time.Time `json:"created"`
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
		Created: r.CreationTimestamp.Time}
}

// runList lists the latest run first.
func runList(runs []listedRun) view.Result {
	slices.SortStableFunc(runs, func(a, b listedRun) int { return b.Created.Compare(a.Created) })
	header := []string{"run", "state", "agent", "score", "pass rate", "scored", "created"}
	rows := view.MapItems(runs, func(r listedRun) []string {
		return []string{r.Name, r.State, r.Agent, view.OrDash(r.Score), view.OrDash(r.PassRate),
			fmt.Sprintf("%d/%d", r.Scored, r.Total), r.Created.Local().Format(time.DateTime)}
	})
	return view.Result{Value: runs, Header: header, Rows: rows,
		Document: view.Document{Sections: []view.Section{{Header: header, Rows: rows}}}}
}
