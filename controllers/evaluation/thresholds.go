package evaluation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/stats"
)

// thresholdsCondition reports whether the figures of a complete run reach its thresholds.
func thresholdsCondition(thresholds []v1alpha1.Threshold, status v1alpha1.EvaluationRunStatus,
	sums score.Accumulator, is State) metav1.Condition {
	if is != Completed {
		return Condition(v1alpha1.ConditionThresholdsMet, metav1.ConditionUnknown, v1alpha1.ReasonThresholdsPending,
			"The run is not complete, so its figures are not final.")
	}
	if AwaitsBaseline(status.Conditions) && slices.ContainsFunc(thresholds,
		func(t v1alpha1.Threshold) bool { return comparing(t.Metric) }) {
		return Condition(v1alpha1.ConditionThresholdsMet, metav1.ConditionUnknown, v1alpha1.ReasonThresholdsPending,
			"The run is not compared with its baseline yet.")
	}
	var met, missed []string
	for _, c := range Check(thresholds, status, sums) {
		switch {
		case c.Value == "":
			missed = append(missed, fmt.Sprintf("%s is not known: %s", c.Name, whyUnknown(c.Threshold.Metric)))
		case !c.Met:
			missed = append(missed, fmt.Sprintf("%s is %s, below %s", c.Name, c.Value, c.Threshold.Min))
		default:
			met = append(met, fmt.Sprintf("%s is %s, at least %s", c.Name, c.Value, c.Threshold.Min))
		}
	}
	if len(missed) > 0 {
		return Condition(v1alpha1.ConditionThresholdsMet, metav1.ConditionFalse, v1alpha1.ReasonThresholdsMissed,
			strings.Join(missed, "; ")+".")
	}
	return Condition(v1alpha1.ConditionThresholdsMet, metav1.ConditionTrue, v1alpha1.ReasonThresholdsReached,
		strings.Join(met, "; ")+".")
}

// Checked is a threshold and its figure.
type Checked struct {
	Threshold v1alpha1.Threshold
	Name      string
	// Value is a decimal, "" if it is not known.
	Value string
	Met   bool
}

// Check compares the figures of a run with thresholds.
func Check(thresholds []v1alpha1.Threshold, status v1alpha1.EvaluationRunStatus, sums score.Accumulator) []Checked {
	figures := sums.Figures()
	checked := make([]Checked, len(thresholds))
	for i, t := range thresholds {
		checked[i] = Checked{Threshold: t, Name: ThresholdName(t)}
		if value, known := figureOf(figures, t, status); known {
			least, err := t.Min.Millionths()
			checked[i].Value, checked[i].Met = score.Decimal(value), err == nil && value >= least
		}
	}
	return checked
}

// ThresholdName names the figure that a threshold limits.
func ThresholdName(t v1alpha1.Threshold) string {
	switch {
	case t.Task != "":
		return fmt.Sprintf("%s of task %s", t.Metric, t.Task)
	case t.Category != "":
		return fmt.Sprintf("%s of category %s", t.Metric, t.Category)
	default:
		return string(t.Metric)
	}
}

func whyUnknown(metric v1alpha1.Metric) string {
	if comparing(metric) {
		return "the run is not compared with its baseline"
	}
	return "it requires more episodes"
}

// comparing reports whether a metric is known only after the comparison with the baseline.
func comparing(metric v1alpha1.Metric) bool {
	return metric == v1alpha1.DeltaMetric || metric == v1alpha1.DeltaLowMetric
}

// passHatK returns the k of a pass^k metric.
func passHatK(metric v1alpha1.Metric) (int, bool) {
	text, ok := strings.CutPrefix(string(metric), "passHat")
	k, err := strconv.Atoi(text)
	return k, ok && err == nil
}

// figureOf returns the value of a threshold's figure in millionths, and false if it is not known.
func figureOf(f score.Figures, t v1alpha1.Threshold, status v1alpha1.EvaluationRunStatus) (int64, bool) {
	if k, ok := passHatK(t.Metric); ok {
		at := slices.IndexFunc(f.PassHatK, func(p stats.PassHatK) bool { return p.K == k })
		if at < 0 {
			return 0, false
		}
		return f.PassHatK[at].Value, true
	}
	switch t.Metric {
	case v1alpha1.CoverageMetric:
		return coverage(f, status)
	case v1alpha1.DeltaMetric, v1alpha1.DeltaLowMetric:
		return difference(t.Metric, status.Baseline)
	case v1alpha1.MeanScoreMetric, v1alpha1.MeanScoreLowMetric, v1alpha1.PassRateMetric:
	}
	episodes, estimate := scoped(f, t)
	switch {
	case episodes == 0:
		return 0, false
	case t.Metric == v1alpha1.MeanScoreMetric:
		return estimate.Mean, true
	case t.Metric == v1alpha1.PassRateMetric:
		return estimate.PassRate, true
	case t.Metric == v1alpha1.MeanScoreLowMetric && estimate.CI95 != nil:
		return estimate.CI95.Low, true
	default:
		return 0, false
	}
}

// scoped returns the figures of a threshold's task or category, or of all episodes.
func scoped(f score.Figures, t v1alpha1.Threshold) (episodes int64, estimate stats.Estimate) {
	switch {
	case t.Task != "":
		at := slices.IndexFunc(f.Tasks, func(task score.TaskFigures) bool { return task.Name == t.Task })
		if at < 0 {
			return 0, estimate
		}
		return f.Tasks[at].Episodes, f.Tasks[at].Estimate
	case t.Category != "":
		at := slices.IndexFunc(f.Categories, func(g score.GroupFigures) bool { return g.Name == t.Category })
		if at < 0 {
			return 0, estimate
		}
		return f.Categories[at].Episodes, f.Categories[at].Estimate
	default:
		return f.Episodes, f.Estimate
	}
}

// coverage is the share of the planned episodes that are in the score.
func coverage(f score.Figures, status v1alpha1.EvaluationRunStatus) (int64, bool) {
	if status.Episodes == nil || status.Episodes.Total == 0 {
		return 0, false
	}
	return f.Episodes * score.One / max(status.Episodes.Total, f.Episodes+f.Errored), true
}

func difference(metric v1alpha1.Metric, baseline *v1alpha1.BaselineResult) (int64, bool) {
	if baseline == nil {
		return 0, false
	}
	text := baseline.Delta
	if metric == v1alpha1.DeltaLowMetric {
		if baseline.CI95 == nil {
			return 0, false
		}
		text = baseline.CI95.Low
	}
	value, err := v1alpha1.Number{Text: text}.Millionths()
	return value, err == nil
}
