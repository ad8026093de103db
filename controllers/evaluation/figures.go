package evaluation

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/stats"
)

// WritePlan writes the numbers of episodes and of shards of a plan, and its pass score.
func WritePlan(status *v1alpha1.EvaluationRunStatus, plan score.Plan) {
	status.PassScore = score.FormatExact(plan.PassScore)
	status.Episodes = &v1alpha1.RunEpisodes{Total: plan.Episodes()}
	status.Shards = &v1alpha1.Shards{Total: int32(plan.Shards)} //nolint:gosec // few
}

// WriteFigures writes the figures of the shards that are done into a status that WritePlan has
// written to.
func WriteFigures(status *v1alpha1.EvaluationRunStatus, sums score.Accumulator, done score.IndexSet) {
	text, err := sums.MarshalText()
	if err != nil {
		// MarshalText has no way to fail; its signature is encoding.TextMarshaler's.
		panic(fmt.Sprintf("encoding sums: %v", err))
	}
	status.Shards.Accumulator, status.Shards.CompletedIndexes = string(text), done.String()
	WriteTotals(status, sums.Figures())
}

// ClearScores removes the figures that WriteFigures has made of scores.
func ClearScores(status *v1alpha1.EvaluationRunStatus) {
	status.Score, status.PassRate, status.PassRateCI95, status.PassHatK = nil, "", nil, nil
	status.Tasks, status.Categories, status.Difficulties, status.Languages = nil, nil, nil, nil
}

// WriteTotals writes figures into a status that has a total of episodes.
func WriteTotals(status *v1alpha1.EvaluationRunStatus, f score.Figures) {
	status.Episodes.Scored, status.Episodes.Failed = f.Scored, f.Failed
	status.Episodes.Errored, status.Episodes.Retried = f.Errored, f.Retried
	status.Progress = fmt.Sprintf("%d/%d", f.Episodes+f.Errored, status.Episodes.Total)
	if f.EpisodeP50 > 0 {
		status.Durations = &v1alpha1.Durations{
			EpisodeP50: formatSeconds(f.EpisodeP50),
			EpisodeP99: formatSeconds(f.EpisodeP99),
		}
	}
	status.Errors, status.Tokens = nil, nil
	for _, e := range f.Errors {
		status.Errors = append(status.Errors, v1alpha1.ErrorCount{Class: e.Class, Retried: e.Retried,
			Errored: e.Errored})
	}
	status.Answers, status.Replies = nil, nil
	if f.Counts.Answers > 0 {
		share := 100 * float64(f.Counts.NoAction) / float64(f.Counts.Answers)
		status.Answers = &v1alpha1.RunAnswers{Total: f.Counts.Answers, NoAction: f.Counts.NoAction,
			NoActionPercent: strconv.FormatFloat(share, 'f', 1, 64)}
	}
	if unjudged := countUnjudged(f.Errors); unjudged+f.Counts.Unread > 0 {
		status.Replies = &v1alpha1.RunReplies{NotJudged: unjudged, Provoking: f.Counts.Unread}
	}
	status.Customer = nil
	if c := f.Counts.Customer; c != (score.CustomerCounts{}) {
		status.Customer = &v1alpha1.RunCustomer{Answers: c.Answers, Replaced: c.Replaced, Refused: c.Refused,
			Dropped: c.Dropped, Failed: c.Failed}
		if c.Tokens != (score.Tokens{}) {
			status.Customer.Tokens = &v1alpha1.Tokens{Prompt: c.Tokens.Prompt, Completion: c.Tokens.Completion}
		}
	}
	if f.Tokens != (score.Tokens{}) {
		status.Tokens = &v1alpha1.Tokens{Prompt: f.Tokens.Prompt, Completion: f.Tokens.Completion}
	}
	if f.Episodes == 0 {
		return
	}
	status.Score = newScore(f.Estimate, f.Min, f.P50, f.Max)
	status.PassRate, status.PassRateCI95 = score.FormatDecimal(f.PassRate), newInterval(f.PassRateCI95)
	status.PassHatK = nil
	for _, p := range f.PassHatK {
		hat := v1alpha1.PassHat{K: int32(p.K), //nolint:gosec // at most stats.MaxK
			Value: score.FormatDecimal(p.Value), Scenarios: p.Pairs}
		status.PassHatK = append(status.PassHatK, hat)
	}
	status.Tasks, status.Categories = taskResults(f.Tasks), groupResults(f.Categories)
	status.Difficulties, status.Languages = groupResults(f.Difficulties), groupResults(f.Languages)
}

// CompareFigures names the figures that differ between two statuses, of those that every release
// writes alike.
func CompareFigures(a, b v1alpha1.EvaluationRunStatus) []string {
	var names []string
	compare := func(name string, a, b any) {
		if !equality.Semantic.DeepEqual(a, b) {
			names = append(names, name)
		}
	}
	x, y := ptr.Deref(a.Episodes, v1alpha1.RunEpisodes{}), ptr.Deref(b.Episodes, v1alpha1.RunEpisodes{})
	compare("episodes", []int64{x.Scored, x.Failed, x.Errored}, []int64{y.Scored, y.Failed, y.Errored})
	compare("score", listExtremes(a.Score), listExtremes(b.Score))
	compare("passRate", a.PassRate, b.PassRate)
	compare("passHatK", a.PassHatK, b.PassHatK)
	compare("tokens", a.Tokens, b.Tokens)
	compare("cost", a.Cost, b.Cost)
	tasks := func(results []v1alpha1.TaskResult) (figures []any) {
		for _, r := range results {
			figures = append(figures, r.Name, r.Episodes, listExtremes(r.Score), r.PassRate)
		}
		return figures
	}
	compare("tasks", tasks(a.Tasks), tasks(b.Tasks))
	groups := func(results []v1alpha1.CategoryResult) (figures []any) {
		for _, r := range results {
			figures = append(figures, r.Name, r.Episodes, listExtremes(r.Score), r.PassRate)
		}
		return figures
	}
	compare("categories", groups(a.Categories), groups(b.Categories))
	return names
}

// listExtremes are the figures of a score that aren't estimates.
func listExtremes(s *v1alpha1.Score) []string {
	if s == nil {
		return nil
	}
	return []string{s.Mean, s.Min, s.Max}
}

// countUnjudged counts the episodes that errored because a reply could not be judged.
func countUnjudged(errors []score.ErrorFigures) (n int64) {
	for _, e := range errors {
		if strings.HasPrefix(e.Class, judgeClass) {
			n += e.Errored
		}
	}
	return n
}

// judgeClass begins the classes of the judge's failures.
const judgeClass = "judge_"

// ReadCounts are the counts of a status, as WriteTotals writes them.
func ReadCounts(status *v1alpha1.EvaluationRunStatus) score.Counts {
	answers := ptr.Deref(status.Answers, v1alpha1.RunAnswers{})
	replies := ptr.Deref(status.Replies, v1alpha1.RunReplies{})
	counts := score.Counts{Answers: answers.Total, NoAction: answers.NoAction, Unread: replies.Provoking}
	if c := status.Customer; c != nil {
		tokens := ptr.Deref(c.Tokens, v1alpha1.Tokens{})
		counts.Customer = score.CustomerCounts{Answers: c.Answers, Replaced: c.Replaced, Refused: c.Refused,
			Dropped: c.Dropped, Failed: c.Failed,
			Tokens: score.Tokens{Prompt: tokens.Prompt, Completion: tokens.Completion}}
	}
	return counts
}

// formatSeconds writes milliseconds as seconds.
func formatSeconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

func taskResults(tasks []score.TaskFigures) []v1alpha1.TaskResult {
	results := make([]v1alpha1.TaskResult, len(tasks))
	for i, t := range tasks {
		results[i] = v1alpha1.TaskResult{Name: t.Name, Episodes: t.Episodes, Score: newScore(t.Estimate, t.Min, t.P50,
			t.Max), PassRate: score.FormatDecimal(t.PassRate)}
		for _, dim := range t.Dimensions {
			results[i].Dimensions = append(results[i].Dimensions, v1alpha1.DimensionResult{Name: dim.Name,
				Mean: score.FormatDecimal(dim.Mean), Max: score.FormatDecimal(dim.Max)})
		}
	}
	return results
}

// groupResults leave out scenarios that say nothing of what they are grouped by.
func groupResults(groups []score.GroupFigures) []v1alpha1.CategoryResult {
	var results []v1alpha1.CategoryResult
	for _, g := range groups {
		if g.Name == "" {
			continue
		}
		s := newScore(g.Estimate, 0, 0, 0)
		s.Min, s.P50, s.Max = "", "", ""
		results = append(results, v1alpha1.CategoryResult{Name: g.Name, Episodes: g.Episodes, Score: s,
			PassRate: score.FormatDecimal(g.PassRate)})
	}
	return results
}

func newScore(e stats.Estimate, least, median, most int64) *v1alpha1.Score {
	s := &v1alpha1.Score{
		Mean: score.FormatDecimal(e.Mean),
		Min:  score.FormatDecimal(least),
		P50:  score.FormatDecimal(median),
		Max:  score.FormatDecimal(most),
	}
	if e.CI95 != nil {
		s.StandardError = score.FormatDecimal(*e.StandardError)
		s.CI95 = newInterval(e.CI95)
	}
	return s
}

func newInterval(i *stats.Interval) *v1alpha1.Interval {
	if i == nil {
		return nil
	}
	return &v1alpha1.Interval{Low: score.FormatDecimal(i.Low), High: score.FormatDecimal(i.High)}
}
