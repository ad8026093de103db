package figures

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
)

// Board holds comparable runs, the best first.
type Board struct {
	Basis string `json:"basis"`
	// Apart is why these runs are not on the first board.
	Apart string `json:"apart,omitempty"`
	// Trust says what scores of the board's judge are good for, "" for tasks without replies.
	Trust   string  `json:"trust,omitempty"`
	Entries []Entry `json:"entries"`

	// Parts are those of Basis: what the runs have in common.
	Parts []string `json:"-"`
}

// Entry is the place of a run on a board. Its figures are decimals, as in a run's status.
type Entry struct {
	// Rank is 1 + the number of significantly better runs. Tied runs share a rank.
	Rank int `json:"rank"`
	// Last is the number of runs minus that of significantly worse ones: the run's place is one
	// from Rank to Last.
	Last        int    `json:"last"`
	Tied        bool   `json:"tied"`
	Run         string `json:"run"`
	Agent       string `json:"agent"`
	Score       string `json:"score"`
	Low         string `json:"low,omitempty"`
	High        string `json:"high,omitempty"`
	PassRate    string `json:"passRate"`
	Scored      int64  `json:"scored"`
	Total       int64  `json:"total"`
	AgentDigest string `json:"agentDigest"`
	Trouble

	loaded *source.LoadedRun
}

// Unranked is a run without a place.
type Unranked struct {
	*source.LoadedRun
	// Reason is the run's state, or why it can't be ranked.
	Reason string
}

// NewLeaderboardCommand returns the command that ranks runs.
func NewLeaderboardCommand() *cobra.Command {
	var from source.Flags
	var selector string
	cmd := &cobra.Command{
		Use:   "leaderboard [RUN...]",
		Short: "Rank runs, with ties if scores don't differ significantly",
	}
	cli.SetHelp(cmd, "leaderboard")
	from.Add(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only runs with these `labels`, such as team=support")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		runs, err := from.All(cmd.Context(), selector, names)
		if err != nil {
			return err
		}
		boards, left := RankRuns(cmd.Context(), runs)
		if len(left) > 0 {
			names := view.MapItems(left, func(u Unranked) string { return fmt.Sprintf("%s (%s)", u.Name, u.Reason) })
			view.WriteParagraph(cmd.ErrOrStderr(), "", "not ranked because incomplete: "+strings.Join(names, ", "))
		}
		return output.Print(cmd.OutOrStdout(), BoardResult(boards))
	}
	return cmd
}

// RankRuns sorts the complete runs into boards, the largest first, and returns the others apart.
func RankRuns(ctx context.Context, runs []*source.LoadedRun) (boards []Board, left []Unranked) {
	groups, parts, trust := map[string][]*source.LoadedRun{}, map[string][]string{}, map[string]string{}
	for _, r := range runs {
		if !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionComplete) || r.Status.Score == nil {
			state, _ := StateOf(r.EvaluationRun)
			left = append(left, Unranked{r, state})
			continue
		}
		b, err := r.Basis()
		if err != nil {
			left = append(left, Unranked{r, err.Error()})
			continue
		}
		basis := basisParts(r.EvaluationRun, b)
		key := strings.Join(basis, ", ")
		groups[key], parts[key], trust[key] = append(groups[key], r), basis, grader.DescribeTrust(b.Judge, b.Tasks)
	}
	for key, group := range groups {
		boards = append(boards,
			Board{Basis: key, Entries: rankEntries(ctx, group), Parts: parts[key], Trust: trust[key]})
	}
	slices.SortFunc(boards, func(a, b Board) int {
		return cmp.Or(cmp.Compare(len(b.Entries), len(a.Entries)), cmp.Compare(a.Basis, b.Basis))
	})
	for i := 1; i < len(boards); i++ {
		boards[i].Apart = "Apart, because they differ from the first board in: " + listDifferences(boards[0], boards[i])
	}
	return boards, left
}

// listDifferences lists the parts of a board's basis that another has not.
func listDifferences(first, other Board) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(other.Parts), func(part string) bool {
		return slices.Contains(first.Parts, part)
	}), ", ")
}

// basisParts is everything that runs on one board have in common: the played episodes, and what
// they are graded by.
func basisParts(run *v1alpha1.EvaluationRun, b score.Basis) []string {
	var parts []string
	for _, t := range run.Spec.Tasks {
		parts = append(parts, "task "+t.Name+" "+describeSelection(t))
	}
	if len(parts) == 0 {
		parts = append(parts, "tasks "+strings.Join(slices.Sorted(slices.Values(b.Tasks)), ", "))
	}
	if seed := ptr.Deref(run.Status.Provenance, v1alpha1.Provenance{}).Seed; seed != nil {
		parts = append(parts, fmt.Sprintf("seed %d", *seed))
	}
	parts = append(parts, "catalogue "+view.ShortDigest(b.ScenarioDigest), "grader "+b.GraderVersion,
		"judge "+b.Judge, "pass score "+score.FormatDecimal(b.PassScore))
	if b.Pressure {
		parts = append(parts, "response-time pressure")
	}
	return parts
}

// describeSelection describes the scenarios of a task. A digest tells selections of the same size
// apart.
func describeSelection(t v1alpha1.TaskSelection) string {
	text := "on all scenarios"
	if s := t.Scenarios; s != nil {
		if chosen := sortSelection(*s); len(chosen) > 0 {
			sum := sha256.Sum256([]byte(strings.Join(chosen, "\n")))
			text = fmt.Sprintf("on a selection (%x)", sum[:4])
			if len(s.IDs) > 0 {
				text = fmt.Sprintf("on %s (%x)", view.FormatCount(len(s.IDs), "scenario"), sum[:4])
			}
		}
	}
	return text + " in " + view.FormatCount(int(max(t.Trials, 1)), "trial")
}

// sortSelection lists the values of a selection, those of each list ordered.
func sortSelection(s v1alpha1.ScenarioSelection) []string {
	lists := [][]string{s.IDs, s.Categories, s.Modifiers,
		view.MapItems(s.Difficulties, func(d v1alpha1.Difficulty) string { return string(d) }),
		view.MapItems(s.Splits, v1alpha1.ScenarioSplit.Name)}
	for i, list := range lists {
		lists[i] = slices.Sorted(slices.Values(list))
	}
	return slices.Concat(lists...)
}

// rankEntries ranks comparable runs.
func rankEntries(ctx context.Context, runs []*source.LoadedRun) []Entry {
	entries := make([]Entry, len(runs))
	scores := make([][]score.ScenarioScore, len(runs))
	slices.SortFunc(runs, func(a, b *source.LoadedRun) int {
		return cmp.Or(cmp.Compare(chart.ParseDecimal(b.Status.Score.Mean), chart.ParseDecimal(a.Status.Score.Mean)),
			cmp.Compare(a.Name, b.Name))
	})
	for i, r := range runs {
		entries[i] = newEntry(r)
		// Without scores by scenario, the intervals decide.
		scores[i], _ = r.Scores(ctx)
	}
	ranks := map[int]int{}
	for i := range entries {
		entries[i].Rank, entries[i].Last = 1, len(entries)
		for j := range entries {
			if isBetter(entries[j], entries[i], scores[j], scores[i]) {
				entries[i].Rank++
			}
			if isBetter(entries[i], entries[j], scores[i], scores[j]) {
				entries[i].Last--
			}
		}
		ranks[entries[i].Rank]++
	}
	for i := range entries {
		entries[i].Tied = ranks[entries[i].Rank] > 1
	}
	return entries
}

func newEntry(r *source.LoadedRun) Entry {
	s, episodes := r.Status.Score, ptr.Deref(r.Status.Episodes, v1alpha1.RunEpisodes{})
	ci, made := ptr.Deref(s.CI95, v1alpha1.Interval{}), ptr.Deref(r.Status.Provenance, v1alpha1.Provenance{})
	return Entry{
		Run: r.Name, Agent: source.AgentName(r.EvaluationRun), Score: s.Mean, Low: ci.Low, High: ci.High,
		PassRate: r.Status.PassRate, Scored: episodes.Scored + episodes.Failed, Total: episodes.Total,
		AgentDigest: made.AgentDigest, Trouble: TroubleOf(r.EvaluationRun), loaded: r,
	}
}

// isBetter reports whether one run is significantly better than another.
func isBetter(better, worse Entry, a, b []score.ScenarioScore) bool {
	if len(a) > 0 && len(b) > 0 {
		c := score.Compare(a, b)
		return c.CI95 != nil && c.CI95.Low > 0
	}
	return better.Low != "" && worse.High != "" && chart.ParseDecimal(better.Low) > chart.ParseDecimal(worse.High)
}

// BoardResult presents boards in the formats of csenv leaderboard.
func BoardResult(boards []Board) view.Result {
	r := view.Result{Value: boards, Header: []string{"basis", "rank", "run", "agent", "score", "low", "high",
		"pass_rate", "scored", "total", "agent_digest", "no_action_percent", "not_judged", "provoking"}}
	for _, b := range boards {
		s := view.Section{Heading: strings.TrimSpace(strings.TrimSpace(b.Basis+". "+b.Trust) + " " + b.Apart)}
		columns, cells := troubleColumns(view.MapItems(b.Entries, func(e Entry) Trouble { return e.Trouble }))
		s.Header = append([]string{"rank", "run", "agent", "score", "low", "high", "", "pass rate", "scored"},
			columns...)
		for _, e := range b.Entries {
			s.Rows = append(s.Rows, append([]string{e.Place(), e.Run, e.Agent, e.Score, e.Low, e.High,
				e.Interval().Text(20), e.PassRate, fmt.Sprintf("%d/%d", e.Scored, e.Total)}, cells(e.Trouble)...))
			r.Rows = append(r.Rows, []string{b.Basis, e.Place(), e.Run, e.Agent, e.Score, e.Low, e.High, e.PassRate,
				fmt.Sprint(e.Scored), fmt.Sprint(e.Total), e.AgentDigest, e.NoAction,
				fmt.Sprint(e.NotJudged), fmt.Sprint(e.Provoking)})
		}
		r.Document.Sections = append(r.Document.Sections, s)
	}
	return r
}

// Interval is the chart of the score.
func (e Entry) Interval() chart.Interval {
	return chart.Interval{Low: e.Low, Middle: e.Score, High: e.High}
}

// Loaded is the run.
func (e Entry) Loaded() *source.LoadedRun { return e.loaded }

// Place is the place of the run, or the band of the places that it may have.
func (e Entry) Place() string {
	if e.Last > e.Rank {
		return fmt.Sprintf("%d–%d", e.Rank, e.Last)
	}
	return fmt.Sprint(e.Rank)
}
