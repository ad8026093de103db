// Package episodes lists, replays, grades again and plays single episodes.
package episodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	words "github.com/csenv/csenv/scenarios/source"
)

// episodeFilter selects episodes.
type episodeFilter struct {
	failed, errored bool
	tasks, only     []string
	below           string
}

// episodeRow is the summary of a stored episode.
type episodeRow struct {
	Index     int64         `json:"index"`
	Task      string        `json:"task"`
	Scenario  string        `json:"scenario"`
	Trial     int           `json:"trial"`
	Seed      int64         `json:"seed"`
	Outcome   score.Outcome `json:"outcome"`
	Class     string        `json:"class,omitempty"`
	Score     *float64      `json:"score"`
	Turns     int           `json:"turns"`
	Attempts  int           `json:"attempts"`
	Duration  int64         `json:"durationMilliseconds"`
	EpisodeID string        `json:"episodeID"`

	passed bool
}

// NewEpisodesCommand returns the command that lists the episodes of a run.
func NewEpisodesCommand() *cobra.Command {
	var from source.Flags
	var keep episodeFilter
	cmd := &cobra.Command{
		Use:   "episodes RUN",
		Short: "List the stored episodes of a run",
		Args:  cli.RequireArguments("RUN"),
	}
	cli.SetHelp(cmd, "episodes")
	from.Add(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	f := cmd.Flags()
	f.BoolVar(&keep.failed, "failed", false, "only episodes in which the agent failed")
	f.BoolVar(&keep.errored, "errored", false, "only episodes without a score because the infrastructure failed")
	f.StringSliceVar(&keep.tasks, "task", nil, "only this `task`; may be repeated")
	f.StringSliceVar(&keep.only, "scenario", nil, "only this `scenario`; may be repeated")
	f.StringVar(&keep.below, "below", "", "only episodes with a `score` below this")
	limit := view.LimitFlag(f, "episodes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		runs, err := from.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		rows, err := keep.rows(cmd.Context(), runs[0])
		if err != nil {
			return err
		}
		return printEpisodes(cmd.OutOrStdout(), output, view.TakeFirst(rows, *limit))
	}
	return cmd
}

func (k *episodeFilter) rows(ctx context.Context, run *source.LoadedRun) ([]episodeRow, error) {
	below := int64(-1)
	if k.below != "" {
		var err error
		if below, err = score.ParseDecimal(k.below); err != nil {
			return nil, fmt.Errorf("reading --below: %w", err)
		}
	}
	pass, err := evaluation.PassScore(run.EvaluationRun)
	if err != nil {
		return nil, err
	}
	rows, tasks, scenarios := []episodeRow{}, map[string]bool{}, map[string]bool{}
	for e, err := range run.Episodes(ctx) {
		if err != nil {
			return nil, err
		}
		tasks[strings.ToLower(e.Task)], scenarios[strings.ToLower(e.Scenario)] = true, true
		if k.keeps(e, below) {
			row := newEpisodeRow(e)
			row.passed = e.Score != nil && !e.Wrong && source.ToMicroPoints(*e.Score) >= pass
			rows = append(rows, row)
		}
	}
	has := "run " + run.Name + " has"
	if err := errors.Join(cli.CheckPlayed(has, "task", k.tasks, tasks),
		cli.CheckPlayed(has, "scenario", k.only, scenarios)); err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b episodeRow) int { return cmp.Compare(a.Index, b.Index) })
	return rows, nil
}

func (k *episodeFilter) keeps(e record.Episode, below int64) bool {
	if k.failed && e.Outcome != score.Failed && (!k.errored || e.Outcome != score.Errored) {
		return false
	}
	if k.errored && !k.failed && e.Outcome != score.Errored {
		return false
	}
	if below >= 0 && (e.Score == nil || source.ToMicroPoints(*e.Score) >= below) {
		return false
	}
	return cli.IsAmong(k.tasks, e.Task) && cli.IsAmong(k.only, e.Scenario)
}

func newEpisodeRow(e record.Episode) episodeRow {
	return episodeRow{
		Index: e.Index, Task: e.Task, Scenario: e.Scenario, Trial: e.Trial, Seed: e.Seed, Outcome: e.Outcome,
		Class: e.Class, Score: e.Score, Turns: len(e.Turns), Attempts: e.Attempts, Duration: e.DurationMS,
		EpisodeID: e.EpisodeID,
	}
}

func (r episodeRow) cells() []string {
	points := "-"
	if r.Score != nil {
		points = score.FormatDecimal(source.ToMicroPoints(*r.Score))
	}
	return []string{
		strconv.FormatInt(r.Index, 10), r.Task, r.Scenario, strconv.Itoa(r.Trial), r.Outcome.Word(r.passed), points,
		strconv.Itoa(r.Turns), strconv.Itoa(r.Attempts),
		fmt.Sprintf("%d.%03d", r.Duration/1000, r.Duration%1000), r.Class,
	}
}

func printEpisodes(w io.Writer, f *view.Format, rows []episodeRow) error {
	if len(rows) == 0 && (f.Name == "table" || f.Name == "markdown") {
		fmt.Fprintln(w, "no matching episodes")
		return nil
	}
	header := []string{"episode", "task", "scenario", "trial", "outcome", "score", "turns", "attempts", "seconds",
		"class"}
	cells := view.MapItems(rows, episodeRow.cells)
	return f.Print(w, view.Result{Value: rows, Header: header, Rows: cells,
		Document: view.Document{Sections: []view.Section{{Header: header, Rows: cells}}}})
}

// findEpisode finds an episode of a run.
func findEpisode(ctx context.Context, from *source.Flags, run, name string) (*source.LoadedRun, record.Episode, error) {
	runs, err := from.Find(ctx, run)
	if err != nil {
		return nil, record.Episode{}, err
	}
	e, err := pickEpisode(ctx, runs[0], name)
	return runs[0], e, err
}

// pickEpisode finds an episode by its index, its id, or its scenario if that was played once.
func pickEpisode(ctx context.Context, run *source.LoadedRun, name string) (record.Episode, error) {
	var found []record.Episode
	var indexes, known []string
	for e, err := range run.Episodes(ctx) {
		if err != nil {
			return record.Episode{}, err
		}
		if strconv.FormatInt(e.Index, 10) == name || e.EpisodeID == name {
			return e, nil
		}
		if strings.EqualFold(e.Scenario, name) {
			found, indexes = append(found, e), append(indexes, strconv.FormatInt(e.Index, 10))
		}
		if len(known) == 0 || known[len(known)-1] != e.Scenario {
			known = append(known, e.Scenario)
		}
	}
	switch len(found) {
	case 0:
		meant := ""
		if nearest := words.NearestWord(name, known); nearest != "" {
			meant = "did you mean " + nearest + "? "
		}
		return record.Episode{}, fmt.Errorf("run %s has no stored episode %s: %s`csenv episodes %s` lists them",
			run.Name, name, meant, run.Name)
	case 1:
		return found[0], nil
	}
	return record.Episode{}, errors.New("scenario " + name + " was played in episodes " +
		strings.Join(indexes, ", ") + ": choose one of these")
}
