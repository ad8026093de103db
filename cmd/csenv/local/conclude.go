package local

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
)

// ReasonInterrupted is the reason of a run that its user stopped. It doesn't occur in a cluster.
const ReasonInterrupted = "Interrupted"

// isDone reports whether the budget has left no episode unplayed.
func (g *game) isDone() bool { return g.done.Len() == int64(g.plan.Shards) }

// concludeRun sets the conditions of a run that has ended. The cause is nil if the plan was played,
// or the part of it for which the budget sufficed, and otherwise errDeadline or the error of a
// cancelled context.
func (g *game) concludeRun(cause error) {
	outcome := g.decideOutcome(cause)
	var conditions []metav1.Condition
	if g.run.Spec.BaselineRef != nil && outcome.State == evaluation.Completed {
		g.run.Status.Baseline = evaluation.CompareBaseline(g.run, &g.table, g.Baseline)
		conditions = append(conditions, evaluation.ComparedCondition(*g.run.Status.Baseline, g.Baseline))
	}
	conditions = append(conditions,
		metav1.Condition{Type: v1alpha1.ConditionEnvironmentReady, Status: metav1.ConditionTrue,
			Reason:  v1alpha1.ReasonEnvironmentAvailable,
			Message: "The environment ran in the process of csenv eval."},
		metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonNotSuspended, Message: "The run may be played."})
	conditions = append(conditions, evaluation.BuildConditions(g.run, g.run.Status, g.sums, outcome)...)
	if c, limited := evaluation.WithinBudgetCondition(&g.run.Spec, g.run.Status.Tokens); limited {
		conditions = append(conditions, c)
	}
	if c, known := evaluation.AgentCondition(g.seen, outcome); known {
		conditions = append(conditions, c)
	}
	if g.Store != nil {
		figures := g.sums.Figures()
		stored, counted, state := g.stored, figures.Episodes+figures.Errored, outcome.State
		if cause != nil || !g.isDone() {
			// The same command plays and stores the rest.
			stored.Error, counted, state = "", stored.Episodes, evaluation.Running
		}
		conditions = append(conditions, evaluation.StoredCondition(stored, counted, state,
			"Repair the store and run the same command again: it plays and stores the others."))
	}
	g.endRun(conditions)
}

// endRun writes the conditions of a run that has ended.
func (g *game) endRun(conditions []metav1.Condition) {
	g.run.Status.CompletionTime = g.now()
	evaluation.NameFlaw(conditions)
	for _, c := range conditions {
		c.ObservedGeneration, c.LastTransitionTime = g.run.Generation, *g.now()
		meta.SetStatusCondition(&g.run.Status.Conditions, c)
	}
}

func (g *game) decideOutcome(cause error) evaluation.Outcome {
	episodes := g.run.Status.Episodes
	scored := fmt.Sprintf("%d of %d episodes were scored.", episodes.Scored+episodes.Failed, episodes.Total)
	if errors.Is(cause, context.Canceled) {
		interrupted := evaluation.Outcome{State: evaluation.Failed, Reason: ReasonInterrupted,
			Message: g.describeRest()}
		if g.run.Status.Score != nil {
			interrupted.Message = "The score is an estimate, from the episodes that ended first in an order shuffled " +
				"by the seed, and not comparable. " + interrupted.Message
		}
		return interrupted
	}
	outcome, ended := evaluation.DecideOutcome(g.run, g.run.Status, evaluation.Counted{
		Episodes: episodes.Total, Complete: cause == nil && g.isDone(), Why: evaluation.AllCounted, Mute: g.sums.Mute,
		Advice: "Run the command with --verbose to log every attempt that fails.",
	})
	if !ended && cause == nil {
		used, _ := g.meter.Spent()
		return evaluation.BudgetExceeded(&g.run.Spec, used, scored+" Raise the budget. "+g.describeRest())
	}
	if !ended {
		return evaluation.DeadlineExceeded(g.run, scored+" "+g.describeRest()+
			" Otherwise create another run, with a longer deadline or fewer episodes.")
	}
	return outcome
}

// describeRest says how the remaining episodes are played.
func (g *game) describeRest() string {
	if g.Store != nil {
		return "Run the same command again to play the others."
	}
	return "Nothing is stored: with --results, the same command plays only the others."
}
