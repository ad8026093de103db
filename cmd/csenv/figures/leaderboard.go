package figures

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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
	// Task names the tasks of the runs.
	Task  string `json:"task"`
	Basis string `json:"basis"`
	// Apart is why these runs are not on the first board.
	Apart string `json:"apart,omitempty"`
	// Trust says what scores of the board's judge are good for, "" for tasks without replies.
	Trust   string  `json:"trust,omitempty"`
	Entries []Entry `json:"entries"`
	// Unranked are the runs without a place, on a board of their own.
	Unranked []Unranked `json:"unranked,omitempty"`

	// Parts are the parts of Basis: what the runs have in common.
	Parts []string `json:"-"`
}

// Entry is the place of a run on a board. Its figures are decimals, as in a run's status.
type Entry struct {
	// Rank is 1 + the number of significantly better runs. Tied runs share a rank.
	Rank int `json:"rank"`
	// Last is the number of runs that aren't significantly worse: the run's place is one
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
	// Runs is the number of runs of the same namespace and pool that are there, and Begun of those
	// that it has ever begun on the pool: the others were deleted. Begun is 0 if it isn't known.
	Runs  int64 `json:"runs,omitempty"`
	Begun int64 `json:"begun,omitempty"`
	Trouble

	loaded *source.LoadedRun
}

// Unranked is a run without a place.
type Unranked struct {
	Run   string `json:"run"`
	Agent string `json:"agent"`
	// Reason is the run's state, or why nobody vouches for it.
	Reason string `json:"reason"`

	loaded *source.LoadedRun
}

// notRanked is the basis of the board that has the runs without a place.
const notRanked = "not ranked"

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
	from.AddKeys(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only runs with these `labels`, such as team=support")
	limit := view.LimitFlag(cmd.Flags(), "runs of a board")
	builtin := cmd.Flags().Bool("builtin", false, "rank built-in agents beside others")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		runs, err := from.All(cmd.Context(), selector, names)
		if err != nil {
			return err
		}
		if len(names) == 0 && !*builtin {
			runs = WithoutBuiltin(runs)
		}
		boards, left := RankRuns(cmd.Context(), runs)
		for i := range boards {
			boards[i].Entries = view.TakeFirst(boards[i].Entries, *limit)
		}
		return output.Print(cmd.OutOrStdout(), BoardResult(boards, view.TakeFirst(left, *limit)))
	}
	return cmd
}

// WithoutBuiltin leaves out the runs of built-in agents, unless there are no others.
func WithoutBuiltin(runs []*source.LoadedRun) []*source.LoadedRun {
	others := slices.DeleteFunc(slices.Clone(runs), func(r *source.LoadedRun) bool {
		return r.Spec.Agent.Type == v1alpha1.BuiltinAgent
	})
	if len(others) == 0 {
		return runs
	}
	return others
}

// rankable is a run that may have a place, and its scores by scenario.
type rankable struct {
	*source.LoadedRun
	scores []score.ScenarioScore
}

// RankRuns sorts the runs that may have a place into boards, the largest first, and returns the
// others apart.
func RankRuns(ctx context.Context, runs []*source.LoadedRun) (boards []Board, left []Unranked) {
	groups, made := map[string][]rankable{}, map[string]Board{}
	for _, r := range runs {
		b, err := r.Basis()
		scores, reason := r.Rankable(ctx)
		if reason == "" && err != nil {
			reason = err.Error()
		}
		if reason != "" {
			left = append(left, Unranked{r.Name, source.AgentName(r.EvaluationRun), reason, r})
			continue
		}
		basis := basisParts(r, b)
		key := strings.Join(basis, ", ")
		groups[key] = append(groups[key], rankable{r, scores})
		made[key] = Board{Task: strings.Join(b.Tasks, ", "), Basis: key, Parts: basis,
			Trust: grader.DescribeTrust(b.Judge, b.Tasks)}
	}
	for key, group := range groups {
		board := made[key]
		board.Entries = rankEntries(group)
		countRuns(ctx, board.Entries, runs)
		boards = append(boards, board)
	}
	slices.SortFunc(boards, func(a, b Board) int {
		return cmp.Or(cmp.Compare(len(b.Entries), len(a.Entries)), cmp.Compare(a.Basis, b.Basis))
	})
	for i := 1; i < len(boards); i++ {
		boards[i].Apart = "Apart, because they differ from the first board in: " + listDifferences(boards[0], boards[i])
	}
	return boards, left
}

// countRuns says how many runs the namespace of each entry has begun on the board's pool, so that
// picking the best of many is seen. All entries of a board have the same pool.
func countRuns(ctx context.Context, entries []Entry, runs []*source.LoadedRun) {
	first := entries[0].loaded
	if first.Pool == nil {
		return
	}
	pool, err := first.Pool(ctx)
	if err != nil {
		return // the user may not be allowed to read it
	}
	there := map[string]int64{}
	for _, r := range runs {
		if r.PoolName() == first.PoolName() {
			there[r.Namespace]++
		}
	}
	for i, e := range entries {
		entries[i].Begun = pool.Status.RunsOf(e.loaded.Namespace)
		entries[i].Runs = there[e.loaded.Namespace]
	}
}

// listDifferences lists the parts of a board's basis that another has not.
func listDifferences(first, other Board) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(other.Parts), func(part string) bool {
		return slices.Contains(first.Parts, part)
	}), ", ")
}

// basisParts is everything that runs on one board have in common: who vouches for the scores, the
// played episodes, and what they are graded by.
func basisParts(run *source.LoadedRun, b score.Basis) []string {
	made := ptr.Deref(run.Status.Provenance, v1alpha1.Provenance{})
	parts := []string{run.Signer, "key " + shortenKey(made.LedgerKey)}
	if run.Apart != "" {
		parts = append(parts, run.Apart)
	}
	for _, t := range run.Spec.Tasks {
		parts = append(parts, "task "+t.Name+" "+describeSelection(t))
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

// keyDigits are enough of a public key to tell keys apart that others choose: 96 bits.
const keyDigits = 16

// shortenKey is a public key for people.
func shortenKey(key string) string {
	if key == "" {
		return "not recorded"
	}
	return key[:min(len(key), keyDigits)]
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

// sortSelection lists the values of a selection, and orders those within each list.
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
func rankEntries(runs []rankable) []Entry {
	entries := make([]Entry, len(runs))
	slices.SortFunc(runs, func(a, b rankable) int {
		return cmp.Or(cmp.Compare(chart.ParseDecimal(b.Status.Score.Mean), chart.ParseDecimal(a.Status.Score.Mean)),
			cmp.Compare(a.Name, b.Name))
	})
	for i, r := range runs {
		entries[i] = newEntry(r.LoadedRun)
	}
	ranks := map[int]int{}
	for i := range entries {
		entries[i].Rank, entries[i].Last = 1, len(entries)
		for j := range entries {
			if isBetter(entries[j], entries[i], runs[j].scores, runs[i].scores) {
				entries[i].Rank++
			}
			if isBetter(entries[i], entries[j], runs[i].scores, runs[j].scores) {
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

// isBetter reports whether one run is significantly better than another. Without scores by
// scenario, the intervals decide.
func isBetter(better, worse Entry, a, b []score.ScenarioScore) bool {
	if len(a) > 0 && len(b) > 0 {
		c := score.Compare(a, b)
		return c.CI95 != nil && c.CI95.Low > 0
	}
	return better.Low != "" && worse.High != "" && chart.ParseDecimal(better.Low) > chart.ParseDecimal(worse.High)
}

// BoardResult presents boards in the formats of csenv leaderboard, and below them the runs without
// a place.
func BoardResult(boards []Board, left []Unranked) view.Result {
	r := view.Result{Header: slices.Concat([]string{"basis", "rank", "run", "agent", "score", "low", "high",
		"pass_rate", "scored", "total", "agent_digest"}, troubleHeader, []string{"runs", "begun", "reason"})}
	for _, b := range boards {
		s := view.Section{Heading: b.Task,
			Note: strings.TrimSpace(strings.TrimSpace(b.Basis+". "+b.Trust) + " " + b.Apart)}
		s.Header = []string{"rank", "run", "agent", "score", "low", "high", "", "pass rate", "scored"}
		begun := slices.ContainsFunc(b.Entries, func(e Entry) bool { return e.Begun > 0 })
		if begun {
			s.Header = append(s.Header, "runs")
		}
		for _, e := range b.Entries {
			row := []string{e.Place(), e.Run, e.Agent, e.Score, e.Low, e.High, e.Interval().Text(20), e.PassRate,
				fmt.Sprintf("%d/%d", e.Scored, e.Total)}
			if begun {
				row = append(row, e.RunsText())
			}
			s.Rows = append(s.Rows, row)
			r.Rows = append(r.Rows, slices.Concat([]string{b.Basis, e.Place(), e.Run, e.Agent, e.Score, e.Low, e.High,
				e.PassRate, fmt.Sprint(e.Scored), fmt.Sprint(e.Total), e.AgentDigest}, e.cells(),
				[]string{fmt.Sprint(e.Runs), fmt.Sprint(e.Begun), ""}))
		}
		addTrouble(&s, view.MapItems(b.Entries, func(e Entry) Trouble { return e.Trouble }))
		r.Document.Sections = append(r.Document.Sections, s)
	}
	if len(left) > 0 {
		s := view.Section{Heading: "Not ranked", Header: []string{"run", "agent", "reason"}}
		for _, u := range left {
			s.Rows = append(s.Rows, []string{u.Run, u.Agent, u.Reason})
			r.Rows = append(r.Rows, []string{notRanked, "", u.Run, u.Agent, "", "", "", "", "", "", "", "", "", "",
				"", "", u.Reason})
		}
		r.Document.Sections = append(r.Document.Sections, s)
		boards = append(slices.Clone(boards), Board{Basis: notRanked, Entries: []Entry{}, Unranked: left})
	}
	r.Value = boards
	return r
}

// RunsText says how many of a namespace's runs are there, "" if it isn't known.
func (e Entry) RunsText() string {
	if e.Begun == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d made", e.Runs, e.Begun)
}

// Interval is the chart of the score.
func (e Entry) Interval() chart.Interval {
	return chart.Interval{Low: e.Low, Middle: e.Score, High: e.High}
}

// Loaded is the run.
func (u Unranked) Loaded() *source.LoadedRun { return u.loaded }

// Loaded is the run.
func (e Entry) Loaded() *source.LoadedRun { return e.loaded }

// Place is the place of the run, or the band of the places that it may have.
func (e Entry) Place() string {
	if e.Last > e.Rank {
		return fmt.Sprintf("%d–%d", e.Rank, e.Last)
	}
	return fmt.Sprint(e.Rank)
}
