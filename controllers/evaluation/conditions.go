package evaluation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/stats"
)

// Conditions are Complete, Failed and, if the spec has thresholds, ThresholdsMet.
func Conditions(run *v1alpha1.EvaluationRun, sums score.Accumulator, o Outcome) []metav1.Condition {
	complete := Condition(v1alpha1.ConditionComplete, metav1.ConditionFalse, o.Reason, o.Message)
	failed := Condition(v1alpha1.ConditionFailed, metav1.ConditionFalse, v1alpha1.ReasonNotFailed,
		"The run has not failed.")
	switch o.State {
	case Completed:
		complete.Status = metav1.ConditionTrue
	case Failed:
		failed = Condition(v1alpha1.ConditionFailed, metav1.ConditionTrue, o.Reason, o.Message)
	case Waiting, Running:
	}
	conditions := []metav1.Condition{complete, failed}
	if len(run.Spec.Thresholds) > 0 {
		conditions = append(conditions, thresholdsCondition(run.Spec.Thresholds, sums, o.State))
	}
	return conditions
}

// Ended reports whether the conditions of a run say that it has completed or failed.
func Ended(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete) ||
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionFailed)
}

// thresholdsCondition reports whether the figures of a complete run reach its thresholds.
func thresholdsCondition(thresholds []v1alpha1.Threshold, sums score.Accumulator, is State) metav1.Condition {
	if is != Completed {
		return Condition(v1alpha1.ConditionThresholdsMet, metav1.ConditionUnknown, v1alpha1.ReasonThresholdsPending,
			"The run is not complete, so its figures are not final.")
	}
	figures := sums.Figures()
	var met, missed []string
	for _, t := range thresholds {
		value, known := figureOf(figures, t.Metric)
		least, err := score.ParseDecimal(t.Min.Text)
		switch {
		case !known:
			missed = append(missed, fmt.Sprintf("%s requires more episodes", t.Metric))
		case err != nil || value < least:
			missed = append(missed, fmt.Sprintf("%s is %s, below %s", t.Metric, score.Decimal(value), t.Min))
		default:
			met = append(met, fmt.Sprintf("%s is %s, at least %s", t.Metric, score.Decimal(value), t.Min))
		}
	}
	if len(missed) > 0 {
		return Condition(v1alpha1.ConditionThresholdsMet, metav1.ConditionFalse, v1alpha1.ReasonThresholdsMissed,
			strings.Join(missed, "; ")+".")
	}
	return Condition(v1alpha1.ConditionThresholdsMet, metav1.ConditionTrue, v1alpha1.ReasonThresholdsReached,
		strings.Join(met, "; ")+".")
}

// passHatK returns the k of a pass^k metric.
func passHatK(metric v1alpha1.Metric) (int, bool) {
	text, ok := strings.CutPrefix(string(metric), "passHat")
	k, err := strconv.Atoi(text)
	return k, ok && err == nil
}

// figureOf returns a metric's value in micro-points, and false if it is not known.
func figureOf(f score.Figures, metric v1alpha1.Metric) (int64, bool) {
	if k, ok := passHatK(metric); ok {
		at := slices.IndexFunc(f.PassHatK, func(p stats.PassHatK) bool { return p.K == k })
		if at < 0 {
			return 0, false
		}
		return f.PassHatK[at].Value, true
	}
	switch {
	case f.Episodes == 0:
		return 0, false
	case metric == v1alpha1.MeanScoreMetric:
		return f.Mean, true
	case metric == v1alpha1.PassRateMetric:
		return f.PassRate, true
	case metric == v1alpha1.MeanScoreLowMetric && f.CI95 != nil:
		return f.CI95.Low, true
	default:
		return 0, false
	}
}

// StoredCondition reports whether the counted episodes are in the result store. The advice is a
// sentence on how to store the others.
func StoredCondition(stored score.Stored, counted int64, is State, advice string) metav1.Condition {
	of := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return Condition(v1alpha1.ConditionResultsStored, status, reason, fmt.Sprintf(format, args...))
	}
	switch ended := (Outcome{State: is}).Ended(); {
	case stored.Error != "" || stored.Episodes < counted:
		return of(metav1.ConditionFalse, v1alpha1.ReasonStoreFailed, "%d of %d episodes are stored: %s. The score "+
			"stands. %s", stored.Episodes, counted,
			cmp.Or(strings.TrimSuffix(stored.Error, "."), "the runners report no reason for the others"), advice)
	case is == Failed && counted == 0:
		return of(metav1.ConditionUnknown, v1alpha1.ReasonNothingCounted,
			"The run ended before an episode was counted: there is nothing to store.")
	case ended:
		return of(metav1.ConditionTrue, v1alpha1.ReasonStored, "All %d episodes that are counted are stored.", counted)
	default:
		return of(metav1.ConditionUnknown, v1alpha1.ReasonStorePending, "%d episodes are stored so far.",
			stored.Episodes)
	}
}
