package local

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	runctl "github.com/csenv/csenv/controllers/run"
	"github.com/csenv/csenv/envserver/score"
)

// ReasonInterrupted is the reason of a run that somebody stopped. It is no reason of the cluster's.
const ReasonInterrupted = "Interrupted"

// conclude sets the conditions of a run that has ended: by itself, by a deadline or by a context
// that was cancelled.
func (g *game) conclude(ended error) {
	status := &g.run.Status
	status.CompletionTime = g.now()
	g.set(v1alpha1.ConditionEnvironmentReady, metav1.ConditionTrue, v1alpha1.ReasonEnvironmentAvailable,
		"The environment ran in the process of csenv eval.")
	g.set(v1alpha1.ConditionSuspended, metav1.ConditionFalse, v1alpha1.ReasonNotSuspended, "The run may be played.")
	reason, message := g.failure(ended)
	if reason != "" {
		g.set(v1alpha1.ConditionComplete, metav1.ConditionFalse, reason, message)
		g.set(v1alpha1.ConditionFailed, metav1.ConditionTrue, reason, message)
	} else {
		g.set(v1alpha1.ConditionComplete, metav1.ConditionTrue, v1alpha1.ReasonCompleted,
			"Every shard is in the figures.")
		g.set(v1alpha1.ConditionFailed, metav1.ConditionFalse, v1alpha1.ReasonNotFailed,
			"Nothing has ended the run early.")
	}
	g.judgeThresholds(reason == "")
	g.judgeStore(reason == "")
}

// judgeStore says whether every episode is in the store.
func (g *game) judgeStore(final bool) {
	switch {
	case g.Store == nil:
	case g.stored.Error != "" && final:
		g.set(v1alpha1.ConditionResultsStored, metav1.ConditionFalse, v1alpha1.ReasonStoreFailed, fmt.Sprintf(
			"%d of %d episodes are stored: %s. The score stands. Mend the store and give the same command again: it "+
				"plays and stores the others.",
			g.stored.Episodes, g.progress.Total, strings.TrimSuffix(g.stored.Error, ".")))
	case !final:
		g.set(v1alpha1.ConditionResultsStored, metav1.ConditionUnknown, v1alpha1.ReasonStorePending,
			fmt.Sprintf("%d episodes are stored; the same call goes on from there.", g.stored.Episodes))
	default:
		g.set(v1alpha1.ConditionResultsStored, metav1.ConditionTrue, v1alpha1.ReasonStored, "Every episode is stored.")
	}
}

func (g *game) set(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&g.run.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: g.run.Generation,
		LastTransitionTime: *g.now(),
	})
}

// failure is why the run did not complete, "" if it did.
func (g *game) failure(ended error) (reason, message string) {
	episodes := g.run.Status.Episodes
	limit := int64(ptr.Deref(g.run.Spec.Retries.MaxErroredPercent, 0))
	scored := fmt.Sprintf("%d of %d episodes were scored.", episodes.Scored+episodes.Failed, episodes.Total)
	switch {
	case errors.Is(ended, errDeadline):
		return v1alpha1.ReasonDeadlineExceeded, fmt.Sprintf("The run took longer than activeDeadlineSeconds, %d. %s",
			*g.run.Spec.ActiveDeadlineSeconds, scored)
	case errors.Is(ended, context.Canceled):
		return ReasonInterrupted, "The run was stopped. " + scored
	case episodes.Errored*100 > limit*episodes.Total:
		return v1alpha1.ReasonTooManyErrored, fmt.Sprintf("%d of %d episodes errored, more than the %d %% of "+
			"retries.maxErroredPercent.", episodes.Errored, episodes.Total, limit)
	}
	return "", ""
}

// judgeThresholds says whether the figures reach what the spec asks for.
func (g *game) judgeThresholds(final bool) {
	if len(g.run.Spec.Thresholds) == 0 {
		return
	}
	if !final {
		g.set(v1alpha1.ConditionThresholdsMet, metav1.ConditionUnknown, v1alpha1.ReasonThresholdsPending,
			"The run isn't complete, so its figures aren't final.")
		return
	}
	figures := g.sums.Figures()
	var missed []string
	for _, t := range g.run.Spec.Thresholds {
		least, err := score.ParseDecimal(t.Min)
		value, known := runctl.FigureOf(figures, t.Metric)
		switch {
		case err != nil || !known:
			missed = append(missed, fmt.Sprintf("%s has no value, and has to be %s", t.Metric, t.Min))
		case value < least:
			missed = append(missed, fmt.Sprintf("%s is %s, and has to be %s", t.Metric, score.Decimal(value), t.Min))
		}
	}
	if len(missed) > 0 {
		g.set(v1alpha1.ConditionThresholdsMet, metav1.ConditionFalse, v1alpha1.ReasonThresholdsMissed,
			strings.Join(missed, "; ")+".")
		return
	}
	g.set(v1alpha1.ConditionThresholdsMet, metav1.ConditionTrue, v1alpha1.ReasonThresholdsReached,
		"Every figure reaches its threshold.")
}
