package figures

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
)

// ruled is a measure of a run on one scale with its thresholds and the figures of other runs.
type ruled struct {
	chart.Ruler
	Keys []key
}

// key names a mark of the ruler. Text has its figure, "" for the run itself, whose tiles have it.
type key struct {
	chart.Mark
	Text string
}

// measure is a figure that runs have from 0 to 1.
type measure struct {
	name   string
	metric v1alpha1.Metric
	of     func(*v1alpha1.EvaluationRunStatus) (figure string, ci *v1alpha1.Interval)
}

var measures = []measure{
	{"pass rate", v1alpha1.PassRateMetric,
		func(s *v1alpha1.EvaluationRunStatus) (string, *v1alpha1.Interval) { return s.PassRate, s.PassRateCI95 }},
	{"mean score", v1alpha1.MeanScoreMetric,
		func(s *v1alpha1.EvaluationRunStatus) (string, *v1alpha1.Interval) {
			of := ptr.Deref(s.Score, v1alpha1.Score{})
			return of.Mean, of.CI95
		}},
}

// drawRulers draw the measures of a run that are known, with what is known of other runs. A measure
// that has nothing beside the run itself, or that repeats another one, is left out.
func drawRulers(run *v1alpha1.EvaluationRun, others []*source.LoadedRun) []ruled {
	var out []ruled
	with := listReferences(run, others)
	for _, m := range measures {
		figure, ci := m.of(&run.Status)
		if figure == "" {
			continue
		}
		interval := ptr.Deref(ci, v1alpha1.Interval{})
		r := ruled{Ruler: chart.Ruler{Name: m.name, Low: interval.Low, High: interval.High}}
		r.add(chart.Mark{Kind: chart.RunMark, Name: "this run", Figure: figure}, interval)
		for _, t := range thresholdsOf(run, m.metric) {
			r.add(t, interval)
		}
		for _, other := range with {
			if value, _ := m.of(&other.run.Status); value != "" {
				r.add(chart.Mark{Kind: other.kind, Name: other.name, Figure: value}, interval)
			}
		}
		repeated := slices.ContainsFunc(out, func(o ruled) bool { return slices.Equal(o.Marks, r.Marks) })
		if len(r.Marks) > 1 && !repeated {
			out = append(out, r)
		}
	}
	return out
}

func (r *ruled) add(m chart.Mark, ci v1alpha1.Interval) {
	k := key{Mark: m}
	if m.Kind != chart.RunMark {
		k.Text = RoundToInterval(m.Figure, ci)
	}
	r.Marks, r.Keys = append(r.Marks, m), append(r.Keys, k)
}

// thresholdsOf are the marks of the thresholds for a measure of all episodes.
func thresholdsOf(run *v1alpha1.EvaluationRun, metric v1alpha1.Metric) []chart.Mark {
	var marks []chart.Mark
	for i, row := range thresholdRows(run) {
		of := run.Spec.Thresholds[i]
		if of.Task != "" || of.Category != "" ||
			of.Metric != metric && (metric != v1alpha1.MeanScoreMetric || of.Metric != v1alpha1.MeanScoreLowMetric) {
			continue
		}
		m := chart.Mark{Kind: chart.OpenMark, Name: "threshold", Figure: row.Min}
		if of.Metric == v1alpha1.MeanScoreLowMetric {
			m.Name = "threshold of the interval's low end"
		}
		switch row.Result {
		case "met":
			m.Kind, m.Name = chart.MetMark, m.Name+", met"
		case "missed":
			m.Kind, m.Name = chart.MissedMark, m.Name+", missed"
		}
		marks = append(marks, m)
	}
	return marks
}

// reference is another run that a run is seen against.
type reference struct {
	kind, name string
	run        *v1alpha1.EvaluationRun
}

// listReferences are a run's baseline and the newest complete run of each built-in agent over the
// same scenarios, as far as they are among the others.
func listReferences(run *v1alpha1.EvaluationRun, others []*source.LoadedRun) []reference {
	var found []reference
	newest := map[string]*v1alpha1.EvaluationRun{}
	for _, r := range others {
		other := r.EvaluationRun
		if other.UID == run.UID || !meta.IsStatusConditionTrue(other.Status.Conditions, v1alpha1.ConditionComplete) {
			continue
		}
		if b := run.Status.Baseline; b != nil && b.Message == "" && b.Name == other.Name &&
			run.Namespace == other.Namespace && found == nil {
			found = append(found, reference{chart.BaselineMark, "baseline " + other.Name, other})
		}
		if other.Spec.Agent.Builtin == nil || !sameEpisodes(run, other) {
			continue
		}
		agent := strings.ToLower(policy.FindName(string(other.Spec.Agent.Builtin.Policy)))
		if last := newest[agent]; last == nil || last.CreationTimestamp.Before(&other.CreationTimestamp) {
			newest[agent] = other
		}
	}
	for _, agent := range view.SortedKeys(newest) {
		found = append(found, reference{agent, "the agent " + agent, newest[agent]})
	}
	return found
}

// sameEpisodes reports whether two runs play the same scenarios under the same rules.
func sameEpisodes(a, b *v1alpha1.EvaluationRun) bool {
	of, err := evaluation.NewBasis(a)
	if err != nil {
		return false
	}
	with, err := evaluation.NewBasis(b)
	return err == nil && score.CheckComparable(of, with) == nil && slices.Equal(listSelections(a), listSelections(b))
}

// listSelections describe the tasks of a run and the scenarios of each.
func listSelections(run *v1alpha1.EvaluationRun) []string {
	return view.MapItems(run.Spec.Tasks, func(t v1alpha1.TaskSelection) string {
		return t.Name + "\n" + strings.Join(sortSelection(ptr.Deref(t.Scenarios, v1alpha1.ScenarioSelection{})), "\n")
	})
}
