package evaluation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// BuildConditions are Complete, Failed, if the spec has thresholds ThresholdsMet, and Ready, with
// Stalled if the run can't become Ready. The status has the figures.
func BuildConditions(run *v1alpha1.EvaluationRun, status v1alpha1.EvaluationRunStatus, sums score.Accumulator,
	o Outcome) []metav1.Condition {
	complete := NewCondition(v1alpha1.ConditionComplete, metav1.ConditionFalse, o.Reason, o.Message)
	failed := NewCondition(v1alpha1.ConditionFailed, metav1.ConditionFalse, v1alpha1.ReasonNotFailed,
		"The run has not failed.")
	switch o.State {
	case Completed:
		complete.Status = metav1.ConditionTrue
	case Failed:
		failed = NewCondition(v1alpha1.ConditionFailed, metav1.ConditionTrue, o.Reason, o.Message)
	case Waiting, Running:
	}
	conditions := []metav1.Condition{complete, failed}
	if len(run.Spec.Thresholds) > 0 {
		conditions = append(conditions, thresholdsCondition(run.Spec.Thresholds, status, sums, o.State))
	}
	return append(conditions, buildReadyConditions(conditions, o)...)
}

// thresholdsCondition reports whether the figures of a complete run reach its thresholds.
func thresholdsCondition(thresholds []v1alpha1.Threshold, status v1alpha1.EvaluationRunStatus,
	sums score.Accumulator, is State) metav1.Condition {
	if is != Completed {
		return NewCondition(v1alpha1.ConditionThresholdsMet, metav1.ConditionUnknown, v1alpha1.ReasonThresholdsPending,
			"The run is not complete, so its figures are not final.")
	}
	if AwaitsBaseline(status.Conditions) && slices.ContainsFunc(thresholds,
		func(t v1alpha1.Threshold) bool { return isDeltaMetric(t.Metric) }) {
		return NewCondition(v1alpha1.ConditionThresholdsMet, metav1.ConditionUnknown, v1alpha1.ReasonThresholdsPending,
			"The run is not compared with its baseline yet.")
	}
	var met, missed []string
	for _, c := range CheckThresholds(thresholds, status, sums) {
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
		return NewCondition(v1alpha1.ConditionThresholdsMet, metav1.ConditionFalse, v1alpha1.ReasonThresholdsMissed,
			strings.Join(missed, "; ")+".")
	}
	return NewCondition(v1alpha1.ConditionThresholdsMet, metav1.ConditionTrue, v1alpha1.ReasonThresholdsReached,
		strings.Join(met, "; ")+".")
}

// buildReadyConditions sums up the other conditions for programs that don't know them.
func buildReadyConditions(conditions []metav1.Condition, o Outcome) []metav1.Condition {
	reason, message, stalled := o.Reason, o.Message, o.State == Failed
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionThresholdsMet); o.State == Completed && c != nil &&
		c.Status != metav1.ConditionTrue {
		reason, message, stalled = c.Reason, c.Message, c.Status == metav1.ConditionFalse
	} else if o.State == Completed {
		return []metav1.Condition{NewCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, reason, message)}
	}
	ready := []metav1.Condition{NewCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)}
	if stalled {
		ready = append(ready, NewCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message))
	}
	return ready
}

// NameFlaw gives the condition Ready of a complete run the reason of what isn't as it should be,
// although the run is Ready: the reason is the state that kubectl get prints.
func NameFlaw(conditions []metav1.Condition) {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		return
	}
	for _, kind := range []string{v1alpha1.ConditionPlayedOnce, v1alpha1.ConditionCompared,
		v1alpha1.ConditionResultsStored} {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			ready.Reason, ready.Message = c.Reason, c.Message
			return
		}
	}
}

// FindState returns the condition whose reason is the state of a run, nil if it has none yet.
func FindState(conditions []metav1.Condition) *metav1.Condition {
	return cmp.Or(meta.FindStatusCondition(conditions, v1alpha1.ConditionReady),
		meta.FindStatusCondition(conditions, v1alpha1.ConditionComplete))
}

// StoredCondition reports whether the counted episodes are in the result store. The advice is a
// sentence on how to store the others.
func StoredCondition(stored score.Stored, counted int64, is State, advice string) metav1.Condition {
	of := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return NewCondition(v1alpha1.ConditionResultsStored, status, reason, fmt.Sprintf(format, args...))
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

// PlayedOnceCondition says that servers graded or began more than the figures account for, nil for
// no figures; false if they didn't.
func PlayedOnceCondition(episodes *v1alpha1.RunEpisodes) (metav1.Condition, bool) {
	of := func(reason, format string, args ...any) (metav1.Condition, bool) {
		return NewCondition(v1alpha1.ConditionPlayedOnce, metav1.ConditionFalse, reason,
			fmt.Sprintf(format+" The run is on no leaderboard. Check who can read the run's credential, then create "+
				"the run again.", args...)), true
	}
	switch {
	case episodes == nil:
	case episodes.GradedAgain > 0:
		return of(v1alpha1.ReasonGradedAgain, "The pool's servers have graded %d episodes more than the %d that the "+
			"run counts, so one score could be chosen among several.", episodes.GradedAgain,
			episodes.Scored+episodes.Failed)
	case episodes.Unreported > 0:
		return of(v1alpha1.ReasonUnreportedAttempts, "The pool's servers have begun %d attempts at episodes that no "+
			"runner reports or can have begun, so scenarios could be tried out.", episodes.Unreported)
	}
	return metav1.Condition{}, false
}

// AgentCondition says what a rehearsal saw of the agent's endpoint, or that the run failed because
// of the endpoint; false if neither.
func AgentCondition(seen string, o Outcome) (metav1.Condition, bool) {
	switch {
	case o.Reason == v1alpha1.ReasonAgentRefused || o.Reason == v1alpha1.ReasonAgentUnavailable:
		return NewCondition(v1alpha1.ConditionAgentReady, metav1.ConditionFalse, o.Reason, o.Message), true
	case seen != "":
		return NewCondition(v1alpha1.ConditionAgentReady, metav1.ConditionTrue, v1alpha1.ReasonRehearsed, seen), true
	}
	return metav1.Condition{}, false
}
