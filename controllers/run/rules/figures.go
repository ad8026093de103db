package rules

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/rule"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score/bitstream"
)

// figures are the rules about what is counted.
var figures = []Rule{
	{Reason: v1alpha1.ReasonSummaryRefused, State: evaluation.Failed, Stage: Counted | Collected, Check: checkEdited,
		When: "the figures in the status were changed by hand", Advice: "Create the run again"},
	{Reason: v1alpha1.ReasonLedgerTooLarge, State: evaluation.Failed, Stage: Collected, Check: checkSize,
		When:   "trainers played more scenarios than the status can hold",
		Advice: "Create a run for each part of the scenarios"},
	{Reason: v1alpha1.ReasonTooManyErrored, State: evaluation.Failed, Stage: Counted,
		Check: checkVerdict(evaluation.Failed), When: "more errored episodes than `maxErroredPercent`",
		Advice: "See the runners' logs (LOGS) for the causes, then RESUME"},
	{Reason: v1alpha1.ReasonTooManyErrored, State: evaluation.Failed, Stage: Collected,
		Check: checkVerdict(evaluation.Failed), When: "an External run collected its episodes, of which more " +
			"errored than `maxErroredPercent`",
		Advice: "See the servers' logs for the causes, then create the run again"},
	{Reason: v1alpha1.ReasonCompleted, State: evaluation.Completed, Stage: Counted | Collected,
		Check: checkVerdict(evaluation.Completed),
		When:  "every shard is counted, or as many episodes of trainers as the spec asks for"},
	{Reason: v1alpha1.ReasonSummaryRefused, State: evaluation.Failed, Stage: Counted, Check: checkRefused,
		When: "summaries that the pool did not sign, or of other episodes, more often than `shardBackoffLimit`: " +
			"someone tampered with a runner, so find out who may write pods in the namespace",
		Advice: "Check that the runners' image is the operator's own, then RESUME"},
	{Reason: v1alpha1.ReasonBudgetExceeded, State: evaluation.Failed, Stage: Counted, Check: checkBudget,
		When:   "`budget.maxTokens` or `budget.maxCost` is used up, and episodes are left, which have no score",
		Advice: "To go on, raise the budget and RESUME"},
}

// changes are the rules about what has changed since the run began, and the time.
var changes = []Rule{
	{Reason: v1alpha1.ReasonNamespaceNotAllowed, State: evaluation.Failed, Stage: Counted | Collected,
		Check: checkAdmitted, When: "the pool no longer admits the run's namespace",
		Advice: "Ask its owner to admit the namespace in access.allowedNamespaces, then RESUME"},
	{Reason: v1alpha1.ReasonTrainersNotAllowed, State: evaluation.Failed, Stage: Planned | Collected,
		Check: checkTrainers, When: "trainers play the run (type External), and the pool's `access.play` is `RunsOnly`",
		Advice: "Use a pool with access.play Open and create the run again"},
	{Reason: v1alpha1.ReasonEnvironmentChanged, State: evaluation.Failed, Stage: Counted | Collected,
		Check: checkChanged,
		When: "scenarios, grader, judge or key of the pool changed during the run: scores of two graders are never " +
			"mixed",
		Advice: "Create the run again"},
	{Reason: v1alpha1.ReasonDeadlineExceeded, State: evaluation.Failed, Stage: Counted, Check: checkDeadline,
		Requeue: awaitDeadline, When: "the run took longer than `activeDeadlineSeconds`",
		Advice: "To allow as much time again, RESUME. Otherwise create another run, with a longer deadline or fewer " +
			"episodes"},
	{Reason: v1alpha1.ReasonDeadlineExceeded, State: evaluation.Failed, Stage: Collected, Check: checkNothingCollected,
		Requeue: awaitDeadline, When: "an External run collected nothing within `activeDeadlineSeconds`",
		Advice: "Check that trainers reach pool POOL and tag their sessions with reset(run=\"TAG\"), then create the " +
			"run again"},
	{Reason: v1alpha1.ReasonTooManyErrored, State: evaluation.Failed, Stage: Collected,
		Check: checkAtDeadline(evaluation.Failed), When: "an External run reached `activeDeadlineSeconds` with " +
			"more errored episodes than `maxErroredPercent`",
		Advice: "See the servers' logs for the causes, then create the run again"},
	{Reason: v1alpha1.ReasonCollectionEnded, State: evaluation.Completed, Stage: Collected,
		Check: checkAtDeadline(evaluation.Completed), Requeue: awaitSilent,
		When: "an External run reached `activeDeadlineSeconds`"},
}

func checkEdited(p *pass) rule.Finding {
	if p.edited == nil {
		return rule.Finding{}
	}
	return newFinding(fmt.Sprintf("The status has been changed by hand: %v.", p.edited))
}

func checkSize(p *pass) rule.Finding {
	if p.tooLarge == nil {
		return rule.Finding{}
	}
	return newFinding(fmt.Sprintf("The collected episodes exceed what the sums of one run can hold: %v. The figures "+
		"contain those counted before.", p.tooLarge))
}

func checkVerdict(state evaluation.State) func(*pass) rule.Finding {
	return func(p *pass) rule.Finding { return describeVerdict(p.verdict, state) }
}

func checkAtDeadline(state evaluation.State) func(*pass) rule.Finding {
	return func(p *pass) rule.Finding { return describeVerdict(p.verdictAtDeadline, state) }
}

func describeVerdict(o evaluation.Outcome, state evaluation.State) rule.Finding {
	if o.State != state {
		return rule.Finding{}
	}
	return newFinding(o.Message)
}

// checkRefused asks for a summary of the present job attempt. Of an earlier one, the shard is being
// played again.
func checkRefused(p *pass) rule.Finding {
	if p.d.Status.Shards == nil || p.mayPlayAgain() {
		return rule.Finding{}
	}
	attempt := strconv.Itoa(int(p.d.Status.Shards.JobAttempts))
	refused := pods.FindFirst(p.d.Tally.Refused, func(r tally.Refusal) bool {
		return r.Pod.Annotations[runner.AnnotationJobAttempt] == attempt
	})
	if refused == nil {
		return rule.Finding{}
	}
	f := newFinding(describeRefusedSummary(*refused) + " retries.shardBackoffLimit doesn't allow its shard to be " +
		"played again. Shards counted before stay in the figures.")
	if refused.Reason == tally.RefusedMalformed {
		f.Advice = "See the pod's log, then " + evaluation.HowToResume(p.s.Run)
	}
	return f
}

func checkBudget(p *pass) rule.Finding {
	if !p.overBudget {
		return rule.Finding{}
	}
	return newFinding(evaluation.BudgetExceeded(&p.s.Run.Spec, p.d.Tally.Sums.Tokens, p.describeProgress()).Message)
}

func checkAdmitted(p *pass) rule.Finding {
	if !p.s.Revoked {
		return rule.Finding{}
	}
	return newFinding("The pool no longer admits runs of this namespace.")
}

func checkTrainers(p *pass) rule.Finding {
	if p.s.Env == nil || p.s.Env.Spec.Access.Play != v1alpha1.RunsOnlyPlay || !evaluation.IsExternal(p.s.Run) {
		return rule.Finding{}
	}
	return newFinding(fmt.Sprintf("Pool %s refuses trainers, because its access.play is RunsOnly: only runners have a "+
		"run's credential.", p.s.Env.Name))
}

// checkChanged asks what the pool grades differently from when the run began. It may be unknown.
func checkChanged(p *pass) rule.Finding {
	pool := evaluation.PoolOf(p.s.Run).Name
	if what, began, now := p.s.FindChange(); what != "" && p.s.Report != nil {
		return newFinding(fmt.Sprintf("The %s of pool %s changed from %s to %s during the run. Scores of different "+
			"graders are never mixed.", what, pool, began, now))
	}
	switch {
	case errors.Is(p.planErr, errPlanDiffers):
		return newFinding(fmt.Sprintf("The scenarios or the ledger key of pool %s changed during the run.", pool))
	case p.collected != nil:
		return describeGrader(p.collected.Refused, pool)
	default:
		return rule.Finding{}
	}
}

// describeGrader finds a server that grades differently from the pool when the run began. The
// pool's status may show the change later than its servers.
func describeGrader(refused []tally.Refusal, pool string) rule.Finding {
	i := slices.IndexFunc(refused, func(r tally.Refusal) bool { return r.Reason == tally.RefusedGrader })
	if i < 0 {
		return rule.Finding{}
	}
	return newFinding(fmt.Sprintf("Server %s of pool %s grades differently from the pool when the run began: %v. "+
		"Scores of different graders are never mixed.", refused[i].Pod.Name, pool, refused[i].Err))
}

func checkDeadline(p *pass) rule.Finding {
	if !p.s.IsDeadlineOver() {
		return rule.Finding{}
	}
	return newFinding(evaluation.DeadlineExceeded(p.s.Run, p.describeProgress()).Message)
}

// isCollectionOver reports whether activeDeadlineSeconds of an External run have passed, and no
// server is waited for.
func (p *pass) isCollectionOver() bool {
	return p.s.IsDeadlineOver() && p.collected != nil && p.collected.Err == nil && p.tooLarge == nil &&
		!p.awaitsSilent()
}

func checkNothingCollected(p *pass) rule.Finding {
	if !p.isCollectionOver() || p.collected.Sums.Opened > 0 {
		return rule.Finding{}
	}
	return newFinding(fmt.Sprintf("No episode was collected within %d seconds (activeDeadlineSeconds).",
		*p.s.Run.Spec.ActiveDeadlineSeconds))
}

func awaitDeadline(p *pass) time.Duration {
	_, left := p.s.Deadline()
	return max(left, 0)
}

// awaitSilent is for servers that don't reply to a run whose deadline is over.
func awaitSilent(p *pass) time.Duration {
	if p.collected == nil || !p.s.IsDeadlineOver() || !p.awaitsSilent() {
		return 0
	}
	return AcknowledgeDelay
}

// findNewer returns an error if a newer release of the operator has written the figures.
func findNewer(run *v1alpha1.EvaluationRun) error {
	var err error
	switch {
	case run.Status.Rollouts != nil:
		_, _, err = tally.ReadCollected(run)
	case run.Status.Shards != nil:
		_, _, err = tally.ReadCounted(run)
	}
	if other, is := errors.AsType[*bitstream.VersionError](err); is && other.Got > other.Newest {
		return err
	}
	return nil
}
