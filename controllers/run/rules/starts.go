package rules

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/access"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/rule"
)

// starts are the rules of a run that has not begun.
var starts = []Rule{
	{Reason: v1alpha1.ReasonRunning, State: evaluation.Running, Stage: Reading, Check: checkRelease,
		When:   "a newer release of the operator has written the figures",
		Advice: "Use the operator's newest release, which continues the run"},
	{Reason: v1alpha1.ReasonForbiddenReference, State: evaluation.Failed, Stage: Beginning, Check: checkReferences,
		When: "the spec names a Secret or ConfigMap that only the operator or a pool of the namespace may read " +
			"([which](#secrets-that-a-run-may-not-name)), or sets a variable that a run may not set " +
			"([which](#runner-pods))",
		Advice: "Correct that and create the run again"},
	{Reason: v1alpha1.ReasonSuspended, State: evaluation.Waiting, Stage: Beginning, Check: checkSuspended,
		When: "`suspend` is true, and the run has not begun", Advice: "Set spec.suspend to false to begin"},
	{Reason: v1alpha1.ReasonStartDeadlineExceeded, State: evaluation.Failed, Stage: Beginning | Playing,
		Check: checkStartDeadline, When: "no runner could start within `startDeadlineSeconds`; the message says what " +
			"the run waited for", Advice: "Then RESUME"},
	{Reason: v1alpha1.ReasonJudgeNotReady, State: evaluation.Waiting, Stage: Beginning, Check: checkJudge,
		When: "the pool's judge can't grade, so nothing is played", Advice: "See the pool's condition Degraded"},
	{Reason: v1alpha1.ReasonWaitingForEnvironment, State: evaluation.Waiting, Stage: Beginning, Check: checkPool,
		Requeue: awaitPool, When: "the pool doesn't exist, doesn't admit the run or accepts no sessions",
		Advice: "See the condition EnvironmentReady"},
	{Reason: v1alpha1.ReasonNameTaken, State: evaluation.Waiting, Stage: Beginning, Check: checkNames,
		Event: corev1.EventTypeWarning, Requeue: awaitNames,
		When:   "a Job or ConfigMap with the run's name belongs to something else",
		Advice: "Delete it, or give the run another name"},
	{Reason: v1alpha1.ReasonInvalidPlan, State: evaluation.Failed, Stage: Planned, Check: checkPlan,
		When: "the pool does not offer a task or a value of a [selection](#selecting-scenarios), no scenario " +
			"matches all lists of a selection, the scenarios have more than 32 categories, a threshold can't be " +
			"reached (too few trials for pass^k, a task or category that isn't played), or `maxErroredPercent` " +
			"exceeds the pool's `runs.maxErroredPercent`",
		Advice: "Use a name that the message lists, select fewer categories, or add trials"},
}

func checkRelease(p *pass) rule.Finding {
	err := findNewer(p.s.Run)
	if err == nil {
		return rule.Finding{}
	}
	return newFinding(fmt.Sprintf("The figures can't be added to: %v.", err))
}

func checkReferences(p *pass) rule.Finding {
	err := access.CheckReferences(p.s.Run, p.s.Pools)
	if err == nil {
		return rule.Finding{}
	}
	return newFinding(fmt.Sprintf("The run is not started: %v.", err))
}

func checkSuspended(p *pass) rule.Finding {
	if !evaluation.IsSuspended(p.s.Run) {
		return rule.Finding{}
	}
	return newFinding("The run is suspended and has not begun.")
}

func checkStartDeadline(p *pass) rule.Finding {
	if p.heldUp == "" {
		return rule.Finding{}
	}
	return newFinding(fmt.Sprintf("The run could not begin within %d seconds (startDeadlineSeconds). %s",
		*p.s.Run.Spec.StartDeadlineSeconds, p.heldUp))
}

// findStartDeadline returns the time until startDeadlineSeconds have passed, false if they limit
// nothing. They start again when the run is resumed.
func (p *pass) findStartDeadline() (left time.Duration, limited bool) {
	run := p.s.Run
	if run.Spec.StartDeadlineSeconds == nil {
		return 0, false
	}
	since := p.s.Now
	if c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionSuspended); c != nil &&
		c.Status == metav1.ConditionFalse {
		since = c.LastTransitionTime.Time
	}
	if resumed := run.Status.AttemptTime; resumed != nil && resumed.After(since) {
		since = resumed.Time
	}
	return since.Add(convertSeconds(*run.Spec.StartDeadlineSeconds)).Sub(p.s.Now), true
}

func checkJudge(p *pass) rule.Finding {
	if p.poolCondition.Reason != v1alpha1.ReasonJudgeNotReady {
		return rule.Finding{}
	}
	return checkPool(p)
}

func checkPool(p *pass) rule.Finding {
	if p.poolCondition.Status == metav1.ConditionTrue {
		return rule.Finding{}
	}
	return rule.Finding{What: p.poolCondition.Message, Advised: true, HoldsStart: true}
}

// awaitPool looks at the pool again after a while: changes of its servers' reports aren't watched.
func awaitPool(p *pass) time.Duration {
	if p.poolCondition.Status == metav1.ConditionTrue || evaluation.IsSuspended(p.s.Run) {
		return 0
	}
	return waitDelay
}

func checkNames(p *pass) rule.Finding {
	if len(p.s.Taken) == 0 {
		return rule.Finding{}
	}
	return rule.Finding{What: strings.Join(p.s.Taken, ", ") + " belongs to something else.", HoldsStart: true}
}

// awaitNames polls, because objects that other owners hold aren't watched.
func awaitNames(p *pass) time.Duration {
	if len(p.s.Taken) == 0 || evaluation.IsSuspended(p.s.Run) {
		return 0
	}
	return waitDelay
}

func checkPlan(p *pass) rule.Finding {
	if p.invalid == nil {
		return rule.Finding{}
	}
	return newAdvisedFinding(evaluation.InvalidPlan(p.invalid).Message)
}
