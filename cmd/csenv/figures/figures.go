package figures

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
)

func passSection(run *v1alpha1.EvaluationRun) view.Section {
	s := &run.Status
	out := view.Section{Heading: "Pass rate, and the probability that k trials of a scenario all pass",
		Header: []string{"figure", "value", "low", "high"}}
	rate := ptr.Deref(s.PassRateCI95, v1alpha1.Interval{})
	name := "pass rate"
	if pass, err := evaluation.PassScore(run); err == nil {
		name += " at " + score.FormatExact(pass)
	}
	out.Rows = append(out.Rows, []string{name, RoundToInterval(s.PassRate, rate), RoundToInterval(rate.Low, rate),
		RoundToInterval(rate.High, rate)})
	for _, p := range s.PassHatK {
		name := fmt.Sprintf("pass^%d", p.K)
		if p.Scenarios > 0 { // the figures of earlier versions don't have it
			name += " over " + view.FormatCount(int(p.Scenarios), "scenario")
		}
		out.Rows = append(out.Rows, []string{name, RoundToInterval(p.Value, rate), "", ""})
	}
	return out
}

// thresholdRow is a threshold with the figure that it limits.
type thresholdRow struct {
	Metric, Min, Value string
	// Result is met, missed, or not final.
	Result string
}

func thresholdRows(run *v1alpha1.EvaluationRun) []thresholdRow {
	var sums score.Accumulator
	known := run.Status.Shards != nil && sums.UnmarshalText([]byte(run.Status.Shards.Accumulator)) == nil
	pending := meta.IsStatusConditionPresentAndEqual(run.Status.Conditions, v1alpha1.ConditionThresholdsMet,
		metav1.ConditionUnknown)
	return view.MapItems(
		evaluation.CheckThresholds(run.Spec.Thresholds, run.Status, sums),
		func(c evaluation.Checked) thresholdRow {
			result := "missed"
			switch {
			case !known || pending:
				result = "not final"
			case c.Met:
				result = "met"
			}
			return thresholdRow{c.Name, c.Threshold.Min.String(), view.OrDash(c.Value), result}
		},
	)
}

func thresholdSection(run *v1alpha1.EvaluationRun) view.Section {
	out := view.Section{Heading: "Thresholds", Header: []string{"metric", "at least", "is", "result"},
		Rows: view.MapItems(thresholdRows(run), func(r thresholdRow) []string {
			return []string{r.Metric, r.Min, r.Value, r.Result}
		})}
	if c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionThresholdsMet); c != nil {
		out.Note = c.Message
	}
	return out
}

func baselineSection(s *v1alpha1.EvaluationRunStatus) view.Section {
	out := view.Section{Heading: "Paired comparison with the baseline",
		Header: []string{"baseline", "scenarios", "difference", "low", "high", "note"}}
	if b := s.Baseline; b != nil {
		interval := ptr.Deref(b.CI95, v1alpha1.Interval{})
		out.Rows = append(out.Rows, []string{b.Name, strconv.FormatInt(b.Scenarios, 10),
			RoundToInterval(b.Delta, interval), RoundToInterval(interval.Low, interval),
			RoundToInterval(interval.High, interval), b.Message})
	}
	return out
}

func errorSection(s *v1alpha1.EvaluationRunStatus) view.Section {
	out := view.Section{Heading: "Infrastructure failures (excluded from the score)",
		Header: []string{"class", "retried attempts", "abandoned episodes"}}
	for _, e := range s.Errors {
		out.Rows = append(out.Rows, []string{e.Class, strconv.FormatInt(e.Retried, 10),
			strconv.FormatInt(e.Errored, 10)})
	}
	return out
}

// lostSection lists the reasons for lost points.
func lostSection(lost []source.LostPoints) view.Section {
	return view.Section{Heading: "Lost points of all episodes; parts are indented and add up",
		Header: []string{"task", "reason", "episodes", "points", "share"},
		Rows: view.MapItems(lostRows(lost, ""), func(r LostRow) []string {
			name := r.Name
			if r.Part != "" {
				name = "  " + name
			}
			return []string{r.Task, name, strconv.FormatInt(r.Episodes, 10), r.PointsText(), r.Share}
		})}
}

// storedIn names the place of the episodes among the facts of a run.
const storedIn = "stored in"

func provenanceSection(run *v1alpha1.EvaluationRun) view.Section {
	s := &run.Status
	out := view.Section{Heading: "Provenance", Header: []string{"what", "value"}}
	add := func(what, value string) {
		if value != "" {
			out.Rows = append(out.Rows, []string{what, value})
		}
	}
	if p := s.Provenance; p != nil {
		add("scenarios", p.ScenarioDigest)
		add("grader", p.GraderVersion)
		add("judge", p.Judge)
		add("replies", TrustIn(s))
		add("agent", p.AgentDigest)
		add("spec", p.SpecHash)
		if p.Seed != nil {
			add("seed", strconv.FormatInt(*p.Seed, 10))
		}
		add("image", p.Image)
		add("image digest", strings.Join(p.ImageDigests, ", "))
		add("agent's image digest", strings.Join(p.AgentImageDigests, ", "))
		add("operator", p.OperatorVersion)
	}
	if t := s.Tokens; t != nil && t.Prompt+t.Completion > 0 {
		add("tokens", fmt.Sprintf("%d prompt, %d completion", t.Prompt, t.Completion))
	}
	add("cost", costOf(run))
	if c := s.Customer; c != nil {
		tokens := ptr.Deref(c.Tokens, v1alpha1.Tokens{})
		add("customer's answers", fmt.Sprintf("%d, %d of them in a template's words; %d wordings refused, %d acts not "+
			"in the message, %d questions not answered; %d prompt and %d completion tokens", c.Answers, c.Replaced,
			c.Refused, c.Dropped, c.Failed, tokens.Prompt, tokens.Completion))
		add("customer's cost", c.Cost)
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAgentReady); c != nil {
		add("endpoint", c.Message)
	}
	if t := s.Durations; t != nil {
		add("episode duration", fmt.Sprintf("median %s s, 99th percentile %s s", t.EpisodeP50, t.EpisodeP99))
	}
	add(storedIn, s.Results)
	return out
}

// figureRow holds the figures of one group of a run's episodes.
type figureRow struct {
	Run, Scope, Name                       string
	Episodes                               int64
	Mean, StdErr, Low, High, Min, P50, Max string
	PassRate, Offered                      string
	// Trouble are the cells of the run's trouble, "" in the rows of its parts.
	Trouble []string
	// Short are the figures as pages show them.
	Short shortRow
}

// shortRow has the figures of a row, rounded by their interval.
type shortRow struct{ Mean, Low, High, Min, P50, Max, PassRate, Offered string }

// Interval is the chart of the mean.
func (r figureRow) Interval() chart.Interval {
	return chart.Interval{Low: r.Low, Middle: r.Mean, High: r.High}
}

// Bar is the chart of a dimension.
func (r figureRow) Bar() chart.Bar { return chart.Bar{Earned: r.Mean, Offered: r.Offered} }

// Task is the task of a dimension.
func (r figureRow) Task() string {
	task, _, _ := strings.Cut(r.Name, "/")
	return task
}

// Dimension is the name of a dimension.
func (r figureRow) Dimension() string {
	_, name, _ := strings.Cut(r.Name, "/")
	return name
}

// Label names the group.
func (r figureRow) Label() string {
	if r.Scope == "run" {
		return "all"
	}
	return r.Scope + " " + r.Name
}

// runRows lists the figures of a run: overall, and by task, dimension, category, difficulty and
// language.
func runRows(run *v1alpha1.EvaluationRun) []figureRow {
	s := &run.Status
	var rows []figureRow
	add := func(scope, name string, episodes int64, score *v1alpha1.Score, passRate string) {
		sc := ptr.Deref(score, v1alpha1.Score{})
		ci := ptr.Deref(sc.CI95, v1alpha1.Interval{})
		rows = append(rows, figureRow{run.Name, scope, name, episodes, sc.Mean, sc.StandardError, ci.Low, ci.High,
			sc.Min, sc.P50, sc.Max, passRate, "", make([]string, len(troubleHeader)), shortRow{}})
	}
	episodes := ptr.Deref(s.Episodes, v1alpha1.RunEpisodes{})
	add("run", run.Name, episodes.Scored+episodes.Failed, s.Score, s.PassRate)
	rows[0].Trouble = TroubleOf(run).cells()
	for _, t := range s.Tasks {
		add("task", t.Name, t.Episodes, t.Score, t.PassRate)
		for _, dim := range t.Dimensions {
			rows = append(rows, figureRow{Run: run.Name, Scope: "dimension", Name: t.Name + "/" + dim.Name,
				Episodes: t.Episodes, Mean: dim.Mean, Offered: dim.Max, Trouble: make([]string, len(troubleHeader))})
		}
	}
	for _, group := range []struct {
		scope   string
		results []v1alpha1.CategoryResult
	}{{"category", s.Categories}, {"difficulty", s.Difficulties}, {"language", s.Languages}} {
		for _, g := range group.results {
			add(group.scope, g.Name, g.Episodes, g.Score, g.PassRate)
		}
	}
	for i := range rows {
		r := &rows[i]
		short := func(figure string) string { return roundFigure(figure, countDecimals(r.Low, r.High)) }
		r.Short = shortRow{short(r.Mean), short(r.Low), short(r.High), short(r.Min), short(r.P50), short(r.Max),
			short(r.PassRate), short(r.Offered)}
	}
	return rows
}
