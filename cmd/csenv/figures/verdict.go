package figures

import (
	"cmp"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
	"github.com/csenv/csenv/tasks"
)

// Look is something to look at in a run, and the path of its episodes, "" for none.
type Look struct{ Text, Path string }

// Tile is a figure. Exact has all its digits.
type Tile struct{ Value, Exact, Name, Interval string }

// LostRow is a reason for lost points. Points is their sum over all episodes, Share its part of all
// lost points, and Path the path of its episodes, "" for none.
type LostRow struct {
	source.LostPoints
	Name, Share, Path string
}

// PointsText are the lost points of all episodes.
func (r LostRow) PointsText() string { return score.FormatThousandths(r.Points) }

// maxLostParts bounds the parts of a dimension that are shown by name.
const maxLostParts = 6

// countDecimals is the number of decimals of a figure that its interval supports: half its width is
// at least about one unit of the last one. Without an interval, or with one of no width, which few
// equal scores have, there are two.
func countDecimals(low, high string) int {
	if low == "" || high == "" {
		return 2
	}
	switch half := (chart.ParseDecimal(high) - chart.ParseDecimal(low)) / 2; {
	case half == 0 || half >= .01:
		return 2
	case half >= .001:
		return 3
	}
	return 4
}

// roundFigure is a decimal figure with fewer digits.
func roundFigure(figure string, digits int) string {
	exact, ok := new(big.Rat).SetString(figure)
	if !ok {
		return figure
	}
	return exact.FloatString(digits)
}

// RoundToInterval is a figure with the digits that an interval supports.
func RoundToInterval(figure string, ci v1alpha1.Interval) string {
	return roundFigure(figure, countDecimals(ci.Low, ci.High))
}

// formatPercent is a part of 1 as a whole number of hundredths.
func formatPercent(figure string) string {
	return strconv.FormatFloat(100*chart.ParseDecimal(figure), 'f', 0, 64)
}

// describeWork is what the episodes of a run are about: a verb and the noun of its object. Trainers
// choose the tasks of a run that names none.
func describeWork(run *v1alpha1.EvaluationRun) (verb, noun string) {
	names := view.MapItems(run.Spec.Tasks, func(t v1alpha1.TaskSelection) string { return t.Name })
	if len(names) == 0 {
		names = view.MapItems(run.Status.Tasks, func(t v1alpha1.TaskResult) string { return t.Name })
	}
	return tasks.Describe(names...)
}

// verdictOf says in a sentence what a run found.
func verdictOf(run *v1alpha1.EvaluationRun) string {
	s := &run.Status
	e := ptr.Deref(s.Episodes, v1alpha1.RunEpisodes{})
	ended := e.Scored + e.Failed + e.Errored
	complete := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionComplete)
	var b strings.Builder
	if s.Score != nil && s.PassRate != "" {
		verb, noun := describeWork(run)
		fmt.Fprintf(&b, "%s %s %% of the %s to the standard", verb, formatPercent(s.PassRate), noun)
		if ci := s.PassRateCI95; ci != nil {
			fmt.Fprintf(&b, " (%s to %s %%)", formatPercent(ci.Low), formatPercent(ci.High))
		}
		fmt.Fprintf(&b, ", in %s", view.FormatCount(int(e.Scored+e.Failed), "episode"))
		b.WriteString(describeThresholds(thresholdRows(run)))
	}
	switch {
	case complete && b.Len() > 0 && e.Errored > 0:
		return fmt.Sprintf("%s. Of all %d episodes, the other %d errored and have no score.", b.String(), e.Total,
			e.Errored)
	case complete && b.Len() > 0:
		return b.String() + "."
	case complete:
		return "No episode has a score."
	case b.Len() == 0:
		return fmt.Sprintf("No episode has a score yet: %d of %d have ended.", ended, e.Total)
	case evaluation.HasEnded(s.Conditions):
		state, _ := StateOf(run)
		return fmt.Sprintf("%s. %s: %d of %d episodes have ended.", b.String(), state, ended, e.Total)
	}
	return fmt.Sprintf("%s so far: %d of %d episodes have ended.", b.String(), ended, e.Total)
}

// describeThresholds says whether thresholds are met.
func describeThresholds(rows []thresholdRow) string {
	named := func(r thresholdRow) string {
		if r.Metric == string(v1alpha1.PassRateMetric) {
			return "threshold of " + formatPercent(r.Min) + " %"
		}
		return fmt.Sprintf("threshold for %s of %s", r.Metric, r.Min)
	}
	var missed []string
	for _, r := range rows {
		switch r.Result {
		case "missed":
			missed = append(missed, named(r))
		case "met":
		default:
			return ""
		}
	}
	switch {
	case len(missed) > 0:
		return "; does not meet its " + strings.Join(missed, " and its ")
	case len(rows) == 1:
		return "; meets its " + named(rows[0])
	case len(rows) > 1:
		return fmt.Sprintf("; meets all its %d thresholds", len(rows))
	}
	return ""
}

// MuteOf says that most answers of the agent contained no action, "" if they were.
func MuteOf(run *v1alpha1.EvaluationRun) string {
	var sums score.Accumulator
	s := &run.Status
	if s.Shards == nil || s.Episodes == nil || sums.UnmarshalText([]byte(s.Shards.Accumulator)) != nil {
		return ""
	}
	graded, mostly := evaluation.MostlyMute(sums.Mute, s.Episodes)
	if !mostly {
		return ""
	}
	return fmt.Sprintf("No answer was an action in %d of %s: the score says nothing of the agent's skill. "+
		"The endpoint may not read the model's calls, or cut its answers off.", sums.Mute,
		view.FormatCount(int(graded), "episode"))
}

// listTiles are the main figures. A figure that another one repeats is left out.
func listTiles(run *v1alpha1.EvaluationRun, passScore string) []Tile {
	s := &run.Status
	var out []Tile
	add := func(name, figure string, ci *v1alpha1.Interval) {
		interval := ptr.Deref(ci, v1alpha1.Interval{})
		digits := countDecimals(interval.Low, interval.High)
		t := Tile{Value: roundFigure(figure, digits), Exact: figure, Name: name}
		if ci != nil {
			t.Interval = roundFigure(ci.Low, digits) + " to " + roundFigure(ci.High, digits)
			t.Exact += ", " + ci.Low + " to " + ci.High
		}
		out = append(out, t)
	}
	if s.PassRate != "" {
		name := "pass rate"
		if passScore != "" {
			name += " at " + passScore
		}
		add(name, s.PassRate, s.PassRateCI95)
	}
	if s.Score != nil && s.Score.Mean != s.PassRate {
		add("mean score", s.Score.Mean, s.Score.CI95)
	}
	for _, p := range s.PassHatK {
		if p.K > 1 {
			add(passHatName(p), p.Value, nil)
		}
	}
	return out
}

// passHatName says in words what pass^k is, for a k above 1.
func passHatName(p v1alpha1.PassHat) string {
	name := fmt.Sprintf("passes all of %d tries", p.K)
	if p.K == 2 {
		name = "passes both of two tries"
	}
	name += fmt.Sprintf(" (pass^%d)", p.K)
	if p.Scenarios > 0 { // the figures of earlier versions don't have it
		name += ", over " + view.FormatCount(int(p.Scenarios), "scenario")
	}
	return name
}

// look lists what to look at first.
func (v *RunView) look(run *v1alpha1.EvaluationRun) {
	path := func(name, value string) string {
		if v.Episodes == "" {
			return ""
		}
		return v.Episodes + "?" + url.Values{name: {value}, "sort": {"score"}}.Encode()
	}
	categories := slices.DeleteFunc(slices.Clone(run.Status.Categories),
		func(c v1alpha1.CategoryResult) bool { return c.Score == nil })
	if len(categories) > 1 {
		worst := slices.MinFunc(categories, func(a, b v1alpha1.CategoryResult) int {
			return cmp.Compare(chart.ParseDecimal(a.Score.Mean), chart.ParseDecimal(b.Score.Mean))
		})
		v.Looks = append(v.Looks, Look{fmt.Sprintf(
			"Worst category: %s, mean score %s over %s.",
			worst.Name,
			roundFigure(worst.Score.Mean, 2),
			view.FormatCount(int(worst.Episodes), "episode"),
		), path("category", worst.Name)})
	}
	if len(v.Lost) > 0 {
		most := v.Lost[0]
		text := fmt.Sprintf("Most points are lost in %s", most.Name)
		if len(v.Lost) > 1 && v.Lost[1].Part != "" {
			most = v.Lost[1]
			text += ", for " + most.Name
		}
		v.Looks = append(v.Looks, Look{fmt.Sprintf("%s (%s), in %s.", text, most.Task,
			view.FormatCount(int(most.Episodes), "episode")), most.Path})
	}
	if e := run.Status.Episodes; e != nil && e.Failed > 0 {
		v.Looks = append(v.Looks, Look{fmt.Sprintf("%s failed by their format or end: the agent broke the rules of "+
			"answers.", view.FormatCount(int(e.Failed), "episode")), path("outcome", string(score.Failed))})
	}
	for _, text := range []string{evaluation.DescribeAnswers(run.Status), describeUsage(run), TrustIn(&run.Status)} {
		if text != "" {
			v.Looks = append(v.Looks, Look{Text: text})
		}
	}
}

// describeUsage says what the agent's model has used, "" if that isn't known.
func describeUsage(run *v1alpha1.EvaluationRun) string {
	s := &run.Status
	if s.Tokens == nil || s.Tokens.Prompt+s.Tokens.Completion == 0 {
		return ""
	}
	used := fmt.Sprintf("%d tokens of prompts and %d of answers.", s.Tokens.Prompt, s.Tokens.Completion)
	if cost := costOf(run); cost != "" {
		return "Cost: " + cost + ", for " + used
	}
	return "Used: " + used
}

// costOf is the cost of a run with the prices that it follows from, "" if it has none. Prices have
// no currency of their own.
func costOf(run *v1alpha1.EvaluationRun) string {
	p := run.Spec.Prices
	if run.Status.Cost == "" || p == nil {
		return run.Status.Cost
	}
	return fmt.Sprintf("%s, in the currency of the prices: %s for a million tokens of prompts and %s of answers",
		run.Status.Cost, p.Input, p.Output)
}

// TrustIn says what the scores are good for, "" if none rests on a judge.
func TrustIn(s *v1alpha1.EvaluationRunStatus) string {
	if s.Provenance == nil {
		return ""
	}
	return grader.DescribeTrust(s.Provenance.Judge,
		view.MapItems(s.Tasks, func(t v1alpha1.TaskResult) string { return t.Name }))
}

// lostRows are the reasons for lost points, each dimension with the most costly of its parts and
// the others together.
func lostRows(lost []source.LostPoints, episodes string) []LostRow {
	var all int64
	for _, l := range lost {
		if l.Part == "" {
			all += l.Points
		}
	}
	var rows []LostRow
	parts := 0
	for _, l := range lost {
		if parts++; l.Part == "" {
			parts = 0
		}
		row := LostRow{LostPoints: l, Name: l.Name()}
		if episodes != "" {
			row.Path = episodes + "?" + url.Values{"lost": {l.Reason()}, "sort": {"score"}}.Encode()
		}
		if last := len(rows) - 1; parts > maxLostParts {
			rows[last].Points += l.Points
			rows[last].Episodes = max(rows[last].Episodes, l.Episodes)
			rows[last].Name, rows[last].Path = "others", ""
			continue
		}
		rows = append(rows, row)
	}
	for i := len(rows) - 2; i >= 0; i-- {
		if rows[i].Part == "" && rows[i+1].Part != "" && (i+2 == len(rows) || rows[i+2].Part == "") {
			rows[i].Name += ": " + rows[i+1].Name // the only part is the dimension
			rows = slices.Delete(rows, i+1, i+2)
		}
	}
	for i := range rows {
		if all > 0 {
			rows[i].Share = fmt.Sprintf("%.0f %%", 100*float64(rows[i].Points)/float64(all))
		}
	}
	return rows
}
