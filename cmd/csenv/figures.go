package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
)

// printRun writes a run: its object as JSON or YAML, its figures otherwise.
func printRun(w io.Writer, f *format, run *v1alpha1.EvaluationRun) error {
	switch f.name {
	case "json", "yaml":
		return f.encode(w, run)
	case "csv":
		return runRows(run).csv(w)
	}
	runDocument(run).print(w, f.name)
	return nil
}

// outcomeOf is errOutcome for a run that didn't complete, misses a threshold or isn't stored as it
// was to be.
func outcomeOf(run *v1alpha1.EvaluationRun) error {
	conditions := run.Status.Conditions
	if !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete) || meta.IsStatusConditionFalse(conditions,
		v1alpha1.ConditionThresholdsMet) ||
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionResultsStored) {
		return errOutcome
	}
	return nil
}

// stateOf is the state of a run and what its condition says of it.
func stateOf(run *v1alpha1.EvaluationRun) (state, message string) {
	for _, kind := range []string{v1alpha1.ConditionFailed, v1alpha1.ConditionComplete} {
		c := meta.FindStatusCondition(run.Status.Conditions, kind)
		if c != nil && (kind == v1alpha1.ConditionComplete || c.Status == metav1.ConditionTrue) {
			return c.Reason, c.Message
		}
	}
	return "Pending", "The operator hasn't seen the run yet."
}

// title says in a sentence what became of a run.
func title(run *v1alpha1.EvaluationRun) string {
	state, message := stateOf(run)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", run.Name, state)
	if e := run.Status.Episodes; e != nil {
		fmt.Fprintf(&b, ", %d of %d episodes scored", e.Scored+e.Failed, e.Total)
		for _, part := range []struct {
			n    int64
			what string
		}{{e.Failed, "failed by the agent"}, {e.Errored, "errored"}, {e.Retried, "retried"}} {
			if part.n > 0 {
				fmt.Fprintf(&b, ", %d %s", part.n, part.what)
			}
		}
	}
	if start, end := run.Status.StartTime, run.Status.CompletionTime; start != nil && end != nil {
		fmt.Fprintf(&b, ", %s", end.Sub(start.Time))
	}
	if !meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionComplete) {
		fmt.Fprintf(&b, ". %s", message)
	}
	if c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionResultsStored); c != nil &&
		c.Status == metav1.ConditionFalse {
		fmt.Fprintf(&b, ". %s", c.Message)
	}
	return b.String()
}

// runDocument is a run's figures for people.
func runDocument(run *v1alpha1.EvaluationRun) document {
	s := &run.Status
	d := document{title: title(run)}
	if s.Score == nil {
		return d
	}
	groups := section{heading: "Scores, with 95 % intervals over scenarios", header: []string{"", "episodes", "score",
		"low", "high", "min", "median", "max", "pass rate"}}
	for _, row := range runRows(run) {
		if row.scope == "dimension" {
			continue
		}
		groups.rows = append(groups.rows, []string{row.label(), strconv.FormatInt(row.episodes, 10), row.mean, row.low,
			row.high, row.min, row.p50, row.max, row.passRate})
	}
	d.sections = append(d.sections, groups, dimensionSection(run), passSection(s), thresholdSection(run),
		baselineSection(s), errorSection(s), provenanceSection(s))
	return d
}

func dimensionSection(run *v1alpha1.EvaluationRun) section {
	out := section{heading: "Points by dimension, per episode", header: []string{"task", "dimension", "earned",
		"offered", "share"}}
	for _, t := range run.Status.Tasks {
		for _, dim := range t.Dimensions {
			out.rows = append(out.rows, []string{t.Name, dim.Name, dim.Mean, dim.Max, bar(dim.Mean, dim.Max)})
		}
	}
	return out
}

// bar draws what was earned of what was offered.
func bar(earned, offered string) string {
	const width = 20
	most, share := decimal(offered), 0.0
	if most > 0 {
		share = min(max(decimal(earned)/most, 0), 1)
	}
	full := int(share*width + 0.5)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// decimal reads one of the API's decimals, 0 for none.
func decimal(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

func passSection(s *v1alpha1.EvaluationRunStatus) section {
	out := section{heading: "Pass rate, and the chance that k trials of a scenario all pass",
		header: []string{"figure", "value", "low", "high"}}
	rate := ptr.Deref(s.PassRateCI95, v1alpha1.Interval{})
	out.rows = append(out.rows, []string{"pass rate", s.PassRate, rate.Low, rate.High})
	for _, p := range s.PassHatK {
		out.rows = append(out.rows, []string{fmt.Sprintf("pass^%d", p.K), p.Value, "", ""})
	}
	return out
}

func thresholdSection(run *v1alpha1.EvaluationRun) section {
	out := section{heading: "Thresholds", header: []string{"metric", "at least"}}
	for _, t := range run.Spec.Thresholds {
		out.rows = append(out.rows, []string{string(t.Metric), t.Min})
	}
	if c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionThresholdsMet); c != nil {
		out.note = c.Message
	}
	return out
}

func baselineSection(s *v1alpha1.EvaluationRunStatus) section {
	out := section{heading: "Compared with a baseline, scenario by scenario", header: []string{"baseline", "scenarios",
		"difference", "low", "high", "note"}}
	if b := s.Baseline; b != nil {
		interval := ptr.Deref(b.CI95, v1alpha1.Interval{})
		out.rows = append(out.rows, []string{b.Name, strconv.FormatInt(b.Scenarios, 10), b.Delta, interval.Low,
			interval.High, b.Message})
	}
	return out
}

func errorSection(s *v1alpha1.EvaluationRunStatus) section {
	out := section{heading: "Failures of the infrastructure, in no score",
		header: []string{"class", "attempts made again", "episodes given up"}}
	for _, e := range s.Errors {
		out.rows = append(out.rows, []string{e.Class, strconv.FormatInt(e.Retried, 10),
			strconv.FormatInt(e.Errored, 10)})
	}
	return out
}

func provenanceSection(s *v1alpha1.EvaluationRunStatus) section {
	out := section{heading: "Made with", header: []string{"what", "value"}}
	add := func(what, value string) {
		if value != "" {
			out.rows = append(out.rows, []string{what, value})
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
	return writeCSV(w, []string{"run", "scope", "name", "episodes", "mean", "standard_error", "low", "high", "min",
		"p50", "max", "pass_rate", "offered"}, records)
}

// colours says whether a writer takes colours: a terminal does, unless NO_COLOR is set
// (no-color.org).
func colours(w io.Writer) bool {
	if kept, ok := w.(*errorKeeper); ok {
		w = kept.to
	}
	return os.Getenv("NO_COLOR") == "" && isTerminal(w)
}

// colourOf paints a level where colours are wanted.
func colourOf(wanted bool, level string) string {
	paint := map[string]string{levelOK: "\x1b[32m", levelNote: "\x1b[33m", levelBad: "\x1b[31m"}
	if !wanted || paint[level] == "" {
		return level
	}
	return paint[level] + level + "\x1b[0m"
}
