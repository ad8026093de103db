package rules

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/tally"
)

func isAlways(Facts) bool { return true }

func isNotAdmitted(f Facts) bool { return f.Run.Status.AdmissionTime == nil }

func isNothingPlayed(f Facts) bool { return f.Job.Pods == 0 && f.Counts.Shards == 0 }

func checkRelease(f Facts) (string, bool) {
	return fmt.Sprintf("The figures can't be added to: %v. Use the operator's newest release, which continues the run.",
		f.Counts.Newer), f.Counts.Newer != nil
}

func checkReferences(f Facts) (string, bool) {
	return fmt.Sprintf("The run is not started: %v. Correct that and create the run again.",
		f.Plan.Forbidden), f.Plan.Forbidden != nil
}

func checkSuspended(f Facts) (string, bool) {
	return "The run is suspended and has not begun. Set spec.suspend to false to begin.", evaluation.IsSuspended(f.Run)
}

// checkStartDeadline asks the other rules of the stage what the run waits for.
func checkStartDeadline(f Facts) (string, bool) {
	if !f.Start.Limited || f.Start.Left > 0 {
		return "", false
	}
	f.Start.Limited = false
	rule, o, holds := askRules(f.asked, f)
	if !holds || !rule.holdsUpStart(f) {
		return "", false
	}
	return fmt.Sprintf("The run could not begin within %d seconds (startDeadlineSeconds). %s Then %s.",
		*f.Run.Spec.StartDeadlineSeconds, o.Message, evaluation.HowToResume(f.Run)), true
}

func checkJudge(f Facts) (string, bool) { return f.Pool.Message, f.Pool.Waits && f.Pool.Ungraded }

func checkPool(f Facts) (string, bool) { return f.Pool.Message, f.Pool.Waits }

func checkNames(f Facts) (string, bool) {
	return fmt.Sprintf("%s belongs to something else. Delete it, or give the run another name.", f.Job.Taken),
		f.Job.Taken != ""
}

func checkPlan(f Facts) (string, bool) {
	return evaluation.InvalidPlan(f.Plan.Invalid).Message, f.Plan.Invalid != nil
}

func checkEdited(f Facts) (string, bool) {
	return fmt.Sprintf("The status has been changed by hand: %v. Create the run again.", f.Counts.Edited),
		f.Counts.Edited != nil
}

func checkSize(f Facts) (string, bool) {
	return fmt.Sprintf("The collected episodes exceed what the sums of one run can hold: %v. The figures contain "+
			"those counted before. Create a run for each part of the scenarios.", f.Counts.TooLarge),
		f.Counts.TooLarge != nil
}

func checkErrored(f Facts) (string, bool) {
	return f.Counts.Verdict.Message, f.Counts.Verdict.State == evaluation.Failed
}

func checkComplete(f Facts) (string, bool) {
	return f.Counts.Verdict.Message, f.Counts.Verdict.State == evaluation.Completed
}

func checkRefused(f Facts) (string, bool) {
	refused := f.Counts.Refused
	if refused == nil || f.Job.MayPlayAgain {
		return "", false
	}
	advice := "Check that the runners' image is the operator's own, then "
	if refused.Reason == tally.RefusedMalformed {
		advice = "See the pod's log, then "
	}
	return describeRefusedSummary(*refused) + " retries.shardBackoffLimit doesn't allow its shard to be played " +
		"again. Shards counted before stay in the figures. " + advice + evaluation.HowToResume(f.Run) + ".", true
}

func checkBudget(f Facts) (string, bool) {
	if !f.Counts.OverBudget {
		return "", false
	}
	return evaluation.BudgetExceeded(&f.Run.Spec, f.Counts.Used, fmt.Sprintf("%s To go on, raise the budget and %s.",
		f.Counts.Progress, evaluation.HowToResume(f.Run))).Message, true
}

func checkAdmitted(f Facts) (string, bool) {
	return "The pool no longer admits runs of this namespace. Ask its owner to admit the namespace in " +
		"access.allowedNamespaces, then " + evaluation.HowToResume(f.Run) + ".", f.Pool.Revoked
}

func checkTrainers(f Facts) (string, bool) {
	return fmt.Sprintf("Pool %s refuses trainers, because its access.play is RunsOnly: only runners have a run's "+
			"credential. Use a pool with access.play Open and create the run again.", f.Pool.Name),
		f.Pool.RunsOnly && evaluation.IsExternal(f.Run)
}

func checkChanged(f Facts) (string, bool) { return f.Pool.Change, f.Pool.Change != "" }

func checkDeadline(f Facts) (string, bool) {
	switch {
	case !f.Deadline.Over:
		return "", false
	case !evaluation.IsExternal(f.Run):
		return evaluation.DeadlineExceeded(f.Run, fmt.Sprintf("%s To allow as much time again, %s.", f.Counts.Progress,
			evaluation.HowToResume(f.Run))).Message, true
	default:
		return fmt.Sprintf("No episode was collected within %d seconds (activeDeadlineSeconds). Check that trainers "+
			"reach pool %s and tag their sessions with reset(run=%q), then create the run again.",
			*f.Run.Spec.ActiveDeadlineSeconds, evaluation.PoolOf(f.Run).Name, f.Servers.Tag), f.Servers.Ended == 0
	}
}

func checkErroredAtDeadline(f Facts) (string, bool) {
	return f.Deadline.Verdict.Message, f.Deadline.Over && f.Deadline.Verdict.State == evaluation.Failed
}

func checkCollectionEnded(f Facts) (string, bool) {
	return f.Deadline.Verdict.Message, f.Deadline.Over && f.Deadline.Verdict.State == evaluation.Completed
}

// howToGoOn tells what to do about a run that failed because of its pods, with an advice if there
// is one. A run that must be created again isn't resumed.
func howToGoOn(run *v1alpha1.EvaluationRun, advice string) string {
	switch {
	case advice == "":
		return "Correct that, then " + evaluation.HowToResume(run) + "."
	case strings.HasPrefix(advice, "Delete the run"):
		return advice + "."
	default:
		return advice + ". If the run stays, " + evaluation.HowToResume(run) + "."
	}
}

// checkFailure reports whether the Job has failed for this reason.
func checkFailure(reason string) func(Facts) (string, bool) {
	return func(f Facts) (string, bool) {
		return f.Job.Failure + ". " + howToGoOn(f.Run, f.Job.Advice), f.Job.FailureReason == reason
	}
}

func checkStuck(f Facts) (string, bool) {
	return fmt.Sprintf("A runner could not start for %s: %s. %s", stuckDeadline,
		strings.TrimSuffix(f.Job.Trouble.Why, "."), howToGoOn(f.Run, f.Job.Trouble.Advice)), f.Job.Stuck
}

func checkLost(f Facts) (string, bool) {
	return fmt.Sprintf("Job %s is complete, but the summaries of shards %q were refused, or their pods were removed "+
			"before they were read. retries.shardBackoffLimit doesn't allow them to be played again. Find out what "+
			"removes pods and finalizers, then %s.", f.Run.Name, f.Job.Unplayed, evaluation.HowToResume(f.Run)),
		f.Job.Incomplete && !f.Job.MayPlayAgain
}

func checkPlanMap(f Facts) (string, bool) {
	if f.Plan.Missing == nil {
		return "", false
	}
	return fmt.Sprintf("The plan is missing and can't be made again yet: %s.",
		strings.TrimSuffix(f.Plan.Missing.Error(), ".")), true
}

func checkHalted(f Facts) (string, bool) {
	return f.Counts.Progress + " Set spec.suspend to false to continue.", evaluation.IsSuspended(f.Run)
}

func checkQueue(f Facts) (string, bool) {
	return fmt.Sprintf("%s Job %s waits until queue %s admits it.", f.Counts.Progress, f.Run.Name, f.Job.Queue),
		f.Job.Held
}

func checkOwners(f Facts) (string, bool) {
	return fmt.Sprintf("%s %s belongs to something else. Delete it to continue.", f.Counts.Progress, f.Job.Taken),
		f.Job.Taken != ""
}

func checkInvalid(f Facts) (string, bool) { return f.Job.Refusal, f.Job.Invalid }

// howToBeAccepted tells what to do about words of the API server.
func howToBeAccepted(words string) string {
	return cmp.Or(pods.Advise(pods.Runner, pods.APIServer, words), "Correct that to continue") + "."
}

// checkRefusal also keeps what an earlier pass has written, until this one has created the object.
func checkRefusal(f Facts) (string, bool) { return f.Job.Refusal, f.Job.Refusal != "" }

func checkPodRefusal(f Facts) (string, bool) {
	return fmt.Sprintf("%s The API server refuses the runners' pods: %s. %s", f.Counts.Progress,
			pods.QuoteMessage(strings.TrimSuffix(f.Job.PodRefusal, ".")), howToBeAccepted(f.Job.PodRefusal)),
		f.Job.PodRefusal != ""
}

func checkTrouble(f Facts) (string, bool) {
	return strings.TrimSpace(fmt.Sprintf("%s A runner can't start: %s. %s", f.Counts.Progress,
		strings.TrimSuffix(f.Job.Trouble.Why, "."), endSentence(f.Job.Trouble.Advice))), f.Job.Trouble.Why != ""
}

func checkNode(f Facts) (string, bool) {
	return f.Counts.Progress + " " + f.Job.LostNode, f.Job.LostNode != ""
}

func checkScheduled(f Facts) (string, bool) {
	return strings.TrimSpace(f.Counts.Progress + " " + f.Job.Unscheduled), f.Job.Unscheduled != ""
}

func checkSidecars(f Facts) (string, bool) {
	return f.Counts.Progress + " " + f.Job.Sidecar, f.Job.Sidecar != ""
}

// checkWait reports whether runners wait for this reason.
func checkWait(reason string) func(Facts) (string, bool) {
	return func(f Facts) (string, bool) {
		return f.Counts.Progress + " " + f.Job.Wait + " They wait until activeDeadlineSeconds, if that is set.",
			f.Job.WaitReason == reason
	}
}

func describePlaying(f Facts) (string, bool) {
	progress := f.Counts.Progress
	if f.Job.LastFailure != "" {
		progress += " A runner has failed, and its shard is played again" + f.Job.LastFailure + "."
	}
	return progress + " To see the runners' logs: " + writeLogsCommand(f.Run), true
}

func describeCollecting(f Facts) (string, bool) {
	message := fmt.Sprintf("%s Trainers tag their sessions with reset(run=%q). To end the run with the collected "+
		"episodes, set spec.activeDeadlineSeconds to 1.", f.Counts.Progress, f.Servers.Tag)
	if f.Servers.Refused != nil {
		message += " " + describeRefusedSegment(*f.Servers.Refused)
	}
	if r := f.Servers.Refusing; r != nil {
		message += fmt.Sprintf(" Server %s returns no segment: %v. See its log, and check that the pool's image is of "+
			"the operator's release.", r.Pod.Name, r.Err)
	}
	return message, true
}
