package evaluation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/stats"
)

// Checked is a threshold and its figure.
type Checked struct {
	Threshold v1alpha1.Threshold
	Name      string
	// Value is a decimal, "" if it is not known.
	Value string
	Met   bool
}

// CheckThresholds compares the figures of a run with thresholds.
func CheckThresholds(
	thresholds []v1alpha1.Threshold,
	status v1alpha1.EvaluationRunStatus,
	sums score.Accumulator,
) []Checked {
	figures := sums.Figures()
	checked := make([]Checked, len(thresholds))
	for i, t := range thresholds {
		checked[i] = Checked{Threshold: t, Name: thresholdName(t)}
		if value, known := figureOf(figures, t, status); known {
			least, err := t.Min.Millionths()
			checked[i].Value, checked[i].Met = score.FormatDecimal(value), err == nil && value >= least
		}
	}
	return checked
}

// thresholdName names the figure that a threshold limits.
func thresholdName(t v1alpha1.Threshold) string {
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
	if isDeltaMetric(metric) {
		return "the run is not compared with its baseline"
	}
	return "it requires more episodes"
}

// isDeltaMetric reports whether a metric is known only after the comparison with the baseline.
func isDeltaMetric(metric v1alpha1.Metric) bool {
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
		return computeCoverage(f, status)
	case v1alpha1.DeltaMetric, v1alpha1.DeltaLowMetric:
		return readDelta(t.Metric, status.Baseline)
	case v1alpha1.MeanScoreMetric, v1alpha1.MeanScoreLowMetric, v1alpha1.PassRateMetric:
	}
	episodes, estimate := findFigures(f, t)
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

// findFigures returns the figures of a threshold's task or category, or of all episodes.
func findFigures(f score.Figures, t v1alpha1.Threshold) (episodes int64, estimate stats.Estimate) {
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

// computeCoverage is the share of the planned episodes that are in the score.
func computeCoverage(f score.Figures, status v1alpha1.EvaluationRunStatus) (int64, bool) {
	if status.Episodes == nil || status.Episodes.Total == 0 {
		return 0, false
	}
	return f.Episodes * score.One / max(status.Episodes.Total, f.Episodes+f.Errored), true
}

func readDelta(metric v1alpha1.Metric, baseline *v1alpha1.BaselineResult) (int64, bool) {
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
