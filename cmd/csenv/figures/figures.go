package figures

import (
	"fmt"
	"io"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/view"
)

// runDocument is a run's figures for people.
func runDocument(run *v1alpha1.EvaluationRun) view.Document {
	s := &run.Status
	d := view.Document{Title: title(run)}
	if s.Score == nil {
		return d
	}
	groups := view.Section{Heading: "Scores, with 95 % intervals over scenarios", Header: []string{"", "episodes", "score",
		"low", "high", "min", "median", "max", "pass rate"}}
	for _, row := range runRows(run) {
		if row.scope == "dimension" {
			continue
		}
		groups.Rows = append(groups.Rows, []string{row.label(), strconv.FormatInt(row.episodes, 10), row.mean, row.low,
			row.high, row.min, row.p50, row.max, row.passRate})
	}
	d.Sections = append(d.Sections, groups, dimensionSection(run), passSection(s), thresholdSection(run),
		baselineSection(s), errorSection(s), provenanceSection(s))
	return d
}

func dimensionSection(run *v1alpha1.EvaluationRun) view.Section {
	out := view.Section{Heading: "Points by dimension, per episode", Header: []string{"task", "dimension", "earned",
		"offered", "share"}}
	for _, t := range run.Status.Tasks {
		for _, dim := range t.Dimensions {
			out.Rows = append(out.Rows, []string{t.Name, dim.Name, dim.Mean, dim.Max, view.Bar(dim.Mean, dim.Max)})
		}
	}
	return out
}

func passSection(s *v1alpha1.EvaluationRunStatus) view.Section {
	out := view.Section{Heading: "Pass rate, and the chance that k trials of a scenario all pass",
		Header: []string{"figure", "value", "low", "high"}}
	rate := ptr.Deref(s.PassRateCI95, v1alpha1.Interval{})
	out.Rows = append(out.Rows, []string{"pass rate", s.PassRate, rate.Low, rate.High})
	for _, p := range s.PassHatK {
		out.Rows = append(out.Rows, []string{fmt.Sprintf("pass^%d", p.K), p.Value, "", ""})
	}
	return out
}

func thresholdSection(run *v1alpha1.EvaluationRun) view.Section {
	out := view.Section{Heading: "Thresholds", Header: []string{"metric", "at least"}}
	for _, t := range run.Spec.Thresholds {
		out.Rows = append(out.Rows, []string{string(t.Metric), t.Min})
	}
	if c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionThresholdsMet); c != nil {
		out.Note = c.Message
	}
	return out
}

func baselineSection(s *v1alpha1.EvaluationRunStatus) view.Section {
	out := view.Section{Heading: "Compared with a baseline, scenario by scenario", Header: []string{"baseline", "scenarios",
		"difference", "low", "high", "note"}}
	if b := s.Baseline; b != nil {
		interval := ptr.Deref(b.CI95, v1alpha1.Interval{})
		out.Rows = append(out.Rows, []string{b.Name, strconv.FormatInt(b.Scenarios, 10), b.Delta, interval.Low,
			interval.High, b.Message})
	}
	return out
}

func errorSection(s *v1alpha1.EvaluationRunStatus) view.Section {
	out := view.Section{Heading: "Failures of the infrastructure, in no score",
		Header: []string{"class", "attempts made again", "episodes given up"}}
	for _, e := range s.Errors {
		out.Rows = append(out.Rows, []string{e.Class, strconv.FormatInt(e.Retried, 10),
			strconv.FormatInt(e.Errored, 10)})
	}
	return out
}

func provenanceSection(s *v1alpha1.EvaluationRunStatus) view.Section {
	out := view.Section{Heading: "Made with", Header: []string{"what", "value"}}
	add := func(what, value string) {
		if value != "" {
			out.Rows = append(out.Rows, []string{what, value})
		}
	}
	if p := s.Provenance; p != nil {
		add("scenarios", p.ScenarioDigest)
		add("grader", p.GraderVersion)
		add("judge", p.Judge)
		add("agent", p.AgentDigest)
		add("spec", p.SpecHash)
		if p.Seed != nil {
			add("seed", strconv.FormatInt(*p.Seed, 10))
		}
		add("image", p.Image)
		add("counted by", p.OperatorVersion)
	}
	if t := s.Tokens; t != nil && t.Prompt+t.Completion > 0 {
		add("tokens", fmt.Sprintf("%d read, %d written", t.Prompt, t.Completion))
	}
	if t := s.Durations; t != nil {
		add("episodes took", fmt.Sprintf("%s s at the median, %s s at the 99th percentile", t.EpisodeP50, t.EpisodeP99))
	}
	add("episodes are in", s.Results)
	return out
}

// figureRow is one group of a run's figures, tidy for CSV.
type figureRow struct {
	run, scope, name                       string
	episodes                               int64
	mean, stderr, low, high, min, p50, max string
	passRate, offered                      string
}

func (r figureRow) label() string {
	if r.scope == "run" {
		return "all"
	}
	return r.scope + " " + r.name
}

type figureRows []figureRow

// runRows lists a run's figures: all, and by task, dimension, category, difficulty and language.
func runRows(run *v1alpha1.EvaluationRun) figureRows {
	s := &run.Status
	var rows figureRows
	add := func(scope, name string, episodes int64, score *v1alpha1.Score, passRate string) {
		sc := ptr.Deref(score, v1alpha1.Score{})
		ci := ptr.Deref(sc.CI95, v1alpha1.Interval{})
		rows = append(rows, figureRow{
			run: run.Name, scope: scope, name: name, episodes: episodes, mean: sc.Mean, stderr: sc.StandardError,
			low: ci.Low, high: ci.High,
			min: sc.Min, p50: sc.P50, max: sc.Max, passRate: passRate,
		})
	}
	episodes := ptr.Deref(s.Episodes, v1alpha1.RunEpisodes{})
	add("run", run.Name, episodes.Scored+episodes.Failed, s.Score, s.PassRate)
	for _, t := range s.Tasks {
		add("task", t.Name, t.Episodes, t.Score, t.PassRate)
		for _, dim := range t.Dimensions {
			rows = append(rows, figureRow{run: run.Name, scope: "dimension", name: t.Name + "/" + dim.Name,
				episodes: t.Episodes, mean: dim.Mean, offered: dim.Max})
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
	return rows
}

func (rows figureRows) csv(w io.Writer) error {
	records := make([][]string, len(rows))
	for i, r := range rows {
		records[i] = []string{r.run, r.scope, r.name, strconv.FormatInt(r.episodes, 10), r.mean, r.stderr, r.low,
			r.high, r.min, r.p50, r.max, r.passRate, r.offered}
	}
	return view.WriteCSV(w, []string{"run", "scope", "name", "episodes", "mean", "standard_error", "low", "high", "min",
		"p50", "max", "pass_rate", "offered"}, records)
}
