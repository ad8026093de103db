package figures

import (
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
)

// listedRun is the summary of a run.
type listedRun struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Agent    string `json:"agent"`
	Task     string `json:"task"`
	Seed     string `json:"seed"`
	Score    string `json:"score"`
	PassRate string `json:"passRate"`
	Scored   int64  `json:"scored"`
	Total    int64  `json:"total"`
	Trouble
	Created time.Time `json:"created"`

	interval v1alpha1.Interval // of the score
}

// Trouble is what happened to the answers of a run's agent. All tables of runs show it.
type Trouble struct {
	// NoAction is the share of answers without an action, in percent, "" if unknown.
	NoAction string `json:"noActionPercent,omitempty"`
	// NotJudged and Provoking are the replies that a model could not judge.
	NotJudged int64 `json:"notJudged"`
	Provoking int64 `json:"provoking"`
}

// TroubleOf is the trouble of a run.
func TroubleOf(run *v1alpha1.EvaluationRun) Trouble {
	answers := ptr.Deref(run.Status.Answers, v1alpha1.RunAnswers{})
	replies := ptr.Deref(run.Status.Replies, v1alpha1.RunReplies{})
	return Trouble{answers.NoActionPercent, replies.NotJudged, replies.Provoking}
}

// TroubleText is the cell of a table: what there is of trouble, "" for none.
func (t Trouble) TroubleText() string {
	var parts []string
	if strings.Trim(t.NoAction, "0.") != "" {
		parts = append(parts, t.NoAction+" % no action")
	}
	if t.NotJudged > 0 {
		parts = append(parts, fmt.Sprintf("%d not judged", t.NotJudged))
	}
	if t.Provoking > 0 {
		parts = append(parts, fmt.Sprintf("%d provoking", t.Provoking))
	}
	return strings.Join(parts, ", ")
}

// troubleHeader names the cells of trouble in a file of values.
var troubleHeader = []string{"no_action_percent", "not_judged", "provoking"}

func (t Trouble) cells() []string {
	return []string{t.NoAction, fmt.Sprint(t.NotJudged), fmt.Sprint(t.Provoking)}
}

// addTrouble adds the column of trouble to a table whose rows are of these runs, if one has any.
func addTrouble(s *view.Section, of []Trouble) {
	if !slices.ContainsFunc(of, func(t Trouble) bool { return t.TroubleText() != "" }) {
		return
	}
	s.Header = append(s.Header, "answers")
	for i, t := range of {
		s.Rows[i] = append(s.Rows[i], view.OrDash(t.TroubleText()))
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
	limit := view.LimitFlag(cmd.Flags(), "runs, the latest first")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		runs, err := from.All(cmd.Context(), selector, names)
		if err != nil {
			return err
		}
		return output.Print(cmd.OutOrStdout(), runList(view.MapItems(runs, newListedRun), *limit))
	}
	return cmd
}

func newListedRun(r *source.LoadedRun) listedRun {
	episodes := ptr.Deref(r.Status.Episodes, v1alpha1.RunEpisodes{})
	state, _ := StateOf(r.EvaluationRun)
	return listedRun{Name: r.ID(), State: state, Agent: source.AgentName(r.EvaluationRun),
		Task: TaskNames(r.EvaluationRun), Seed: SeedOf(r.EvaluationRun),
		Score:    ptr.Deref(r.Status.Score, v1alpha1.Score{}).Mean,
		PassRate: r.Status.PassRate, Scored: episodes.Scored + episodes.Failed, Total: episodes.Total,
		Trouble:  TroubleOf(r.EvaluationRun),
		Created:  r.CreationTimestamp.Time,
		interval: ptr.Deref(ptr.Deref(r.Status.Score, v1alpha1.Score{}).CI95, v1alpha1.Interval{})}
}

// TaskNames lists the tasks of a run.
func TaskNames(run *v1alpha1.EvaluationRun) string {
	return strings.Join(view.MapItems(run.Spec.Tasks, func(t v1alpha1.TaskSelection) string { return t.Name }), ", ")
}

// SeedOf is the seed of a run, "" if it is unknown.
func SeedOf(run *v1alpha1.EvaluationRun) string {
	if run.Spec.Seed == nil {
		return ""
	}
	return fmt.Sprint(*run.Spec.Seed)
}

// runList lists the latest runs, the latest first.
func runList(runs []listedRun, limit uint) view.Result {
	slices.SortStableFunc(runs, func(a, b listedRun) int { return b.Created.Compare(a.Created) })
	runs = view.TakeFirst(runs, limit)
	header := []string{"run", "state", "agent", "task", "seed", "score", "pass rate", "scored", "created"}
	cells := func(r listedRun, score, passRate, created string) []string {
		return []string{r.Name, r.State, r.Agent, view.OrDash(r.Task), view.OrDash(r.Seed), view.OrDash(score),
			view.OrDash(passRate), fmt.Sprintf("%d/%d", r.Scored, r.Total), created}
	}
	rows := view.MapItems(runs, func(r listedRun) []string {
		return cells(r, r.Score, r.PassRate, view.FormatUTC(r.Created))
	})
	troubles := view.MapItems(runs, func(r listedRun) Trouble { return r.Trouble })
	shown := append(header[:len(header)-1:len(header)-1], "created (UTC)")
	table := view.Section{Header: shown, Rows: view.MapItems(runs, func(r listedRun) []string {
		return cells(r, RoundToInterval(r.Score, r.interval), RoundToInterval(r.PassRate, r.interval),
			r.Created.UTC().Format("2006-01-02 15:04"))
	})}
	addTrouble(&table, troubles)
	for i, t := range troubles {
		rows[i] = slices.Concat(rows[i], t.cells())
	}
	return view.Result{Value: runs, Header: append(header, troubleHeader...), Rows: rows,
		Document: view.Document{Sections: []view.Section{table}}}
}
