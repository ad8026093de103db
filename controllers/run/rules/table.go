package rules

import (
	"slices"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
)

// Rule is one reason for the state of a run that had not ended before the pass.
type Rule struct {
	Reason string           // of the conditions
	State  evaluation.State // of the run if the rule holds
	When   string           // it holds, in words
	Advice string           // what a user can do, "" for nothing
	asked  Stage            // the stages of a pass in which it is asked
	// check reports whether the rule holds, and the message for people.
	check func(Facts) (message string, holds bool)
	// holdsStart reports whether nothing of the run is played while the rule holds, so that
	// startDeadlineSeconds limits it. Nil is never.
	holdsStart func(Facts) bool
}

// holdsUpStart reports whether the rule keeps the run from beginning.
func (r Rule) holdsUpStart(f Facts) bool { return r.holdsStart != nil && r.holdsStart(f) }

// askRules returns the first rule of a stage that holds. A pass that asks all of its stages finds
// one, because the last rules always hold.
func askRules(stage Stage, f Facts) (Rule, evaluation.Outcome, bool) {
	f.asked = stage
	for _, rule := range ListRules() {
		if rule.asked&stage == 0 {
			continue
		}
		if message, holds := rule.check(f); holds {
			return rule, evaluation.Outcome{State: rule.State, Reason: rule.Reason, Message: message}, true
		}
	}
	return Rule{}, evaluation.Outcome{}, false
}

// ListRules are all reasons, in the order in which they are asked. A complete run keeps its
// figures, even if its pool has changed since.
func ListRules() []Rule {
	return slices.Concat(listStarts(), listFigures(), listChanges(), listJobFailures(), listDelays())
}

// listStarts are the rules of a run that has not begun.
func listStarts() []Rule {
	const ended = evaluation.Failed
	return []Rule{
		{Reason: v1alpha1.ReasonRunning, State: evaluation.Running, asked: Reading, check: checkRelease,
			When: "a newer release of the operator has written the figures", Advice: "use the newest release"},
		{Reason: v1alpha1.ReasonForbiddenReference, State: ended, asked: Beginning, check: checkReferences,
			When: "the spec names a Secret or ConfigMap that only the operator or a pool of the namespace may read, " +
				"or sets a variable that a run may not set",
			Advice: "use an object of your own, see [below](#secrets-that-a-run-may-not-name), and " +
				"[the variables of runs](#runner-pods)"},
		{Reason: v1alpha1.ReasonSuspended, State: evaluation.Waiting, asked: Beginning, check: checkSuspended,
			When: "`suspend` is true, and the run has not begun", Advice: "set it to false"},
		{Reason: v1alpha1.ReasonStartDeadlineExceeded, State: ended, asked: Beginning | Playing,
			check: checkStartDeadline, When: "no runner could start within `startDeadlineSeconds`",
			Advice: "the message says what the run waited for"},
		{Reason: v1alpha1.ReasonJudgeNotReady, State: evaluation.Waiting, asked: Beginning, check: checkJudge,
			holdsStart: isAlways, When: "the pool's judge can't grade, so nothing is played",
			Advice: "see the pool's condition `Degraded`"},
		{Reason: v1alpha1.ReasonWaitingForEnvironment, State: evaluation.Waiting, asked: Beginning, check: checkPool,
			holdsStart: isAlways, When: "the pool doesn't exist, doesn't admit the run or accepts no sessions",
			Advice: "see the condition `EnvironmentReady`"},
		{Reason: v1alpha1.ReasonNameTaken, State: evaluation.Waiting, asked: Beginning, check: checkNames,
			holdsStart: isAlways, When: "a Job or ConfigMap with the run's name belongs to something else",
			Advice: "delete it, or give the run another name"},
		{Reason: v1alpha1.ReasonInvalidPlan, State: ended, asked: Planned, check: checkPlan,
			When: "the pool does not offer a task or a value of a [selection](#selecting-scenarios), no scenario " +
				"matches all lists of a selection, the scenarios have more than 32 categories, a threshold can't be " +
				"reached (too few trials for pass^k, a task or category that isn't played), or `maxErroredPercent` " +
				"exceeds the pool's `runs.maxErroredPercent`",
			Advice: "use a name that the message lists, select fewer categories, or add trials"},
	}
}

// listFigures are the rules about what is counted.
func listFigures() []Rule {
	const ended, done = evaluation.Failed, evaluation.Completed
	return []Rule{
		{Reason: v1alpha1.ReasonSummaryRefused, State: ended, asked: Counted | Collected, check: checkEdited,
			When: "the figures in the status were changed by hand", Advice: "create the run again"},
		{Reason: v1alpha1.ReasonLedgerTooLarge, State: ended, asked: Collected, check: checkSize,
			When:   "trainers played more scenarios than the status can hold",
			Advice: "create a run for each part of them"},
		{Reason: v1alpha1.ReasonTooManyErrored, State: ended, asked: Counted | Collected, check: checkErrored,
			When:   "more errored episodes than `maxErroredPercent`",
			Advice: "read the runners' and servers' logs and `kubectl get cse`, correct the cause and resume the run"},
		{Reason: v1alpha1.ReasonCompleted, State: done, asked: Counted | Collected, check: checkComplete,
			When: "every shard is counted, or as many episodes of trainers as the spec asks for"},
		{Reason: v1alpha1.ReasonSummaryRefused, State: ended, asked: Counted, check: checkRefused,
			When:   "summaries that the pool did not sign, or of other episodes, more often than `shardBackoffLimit`",
			Advice: "someone tampered with a runner: find out who may write pods in the namespace"},
		{Reason: v1alpha1.ReasonBudgetExceeded, State: ended, asked: Counted, check: checkBudget,
			When:   "`budget.maxTokens` or `budget.maxCost` is used up, and episodes are left, which have no score",
			Advice: "raise the budget and resume the run, or play fewer episodes"},
	}
}

// listChanges are the rules about what has changed since the run began, and the time.
func listChanges() []Rule {
	const ended, done = evaluation.Failed, evaluation.Completed
	return []Rule{
		{Reason: v1alpha1.ReasonNamespaceNotAllowed, State: ended, asked: Counted | Collected, check: checkAdmitted,
			When: "the pool no longer admits the run's namespace", Advice: "ask the pool's owner"},
		{Reason: v1alpha1.ReasonTrainersNotAllowed, State: ended, asked: Planned | Collected, check: checkTrainers,
			When:   "trainers play the run (type External), and the pool's `access.play` is `RunsOnly`",
			Advice: "use a pool with `access.play: Open`"},
		{Reason: v1alpha1.ReasonEnvironmentChanged, State: ended, asked: Counted | Collected, check: checkChanged,
			When:   "scenarios, grader, judge or key of the pool changed during the run",
			Advice: "create a new run: scores of two graders are never mixed"},
		{Reason: v1alpha1.ReasonDeadlineExceeded, State: ended, asked: Counted | Collected, check: checkDeadline,
			When: "the run took longer than `activeDeadlineSeconds`, or an External run collected nothing",
			Advice: "allow more time or parallelism, or play fewer episodes; for External runs check that trainers " +
				"reach the pool and tag their sessions"},
		{Reason: v1alpha1.ReasonTooManyErrored, State: ended, asked: Collected, check: checkErroredAtDeadline,
			When: "an External run reached `activeDeadlineSeconds` with more errored episodes than " +
				"`maxErroredPercent`",
			Advice: "read the servers' logs, and create another run"},
		{Reason: v1alpha1.ReasonCollectionEnded, State: done, asked: Collected, check: checkCollectionEnded,
			When: "an External run reached `activeDeadlineSeconds`"},
	}
}

// listJobFailures are the rules about a Job that can no longer complete.
func listJobFailures() []Rule {
	const ended = evaluation.Failed
	return []Rule{
		{Reason: v1alpha1.ReasonJobRefused, State: ended, asked: Refused, check: checkInvalid,
			When:   "the API server doesn't accept what the spec has in `template` or `agent`, as in an affinity",
			Advice: "the message names the field: delete the run and create it again"},
		{Reason: v1alpha1.ReasonAgentRefused, State: ended, asked: Counted,
			check:  checkFailure(v1alpha1.ReasonAgentRefused),
			When:   "the agent's endpoint refuses every request",
			Advice: "the message quotes its status, URL and words: correct the key, the model's name or the URL"},
		{Reason: v1alpha1.ReasonAgentUnavailable, State: ended, asked: Counted,
			check:  checkFailure(v1alpha1.ReasonAgentUnavailable),
			When:   "the agent's endpoint did not answer for two minutes, more often than `shardBackoffLimit`",
			Advice: "the message quotes the last failure: check the address and network policies"},
		{Reason: v1alpha1.ReasonShardsFailed, State: ended, asked: Counted,
			check: checkFailure(v1alpha1.ReasonShardsFailed),
			When:  "a shard failed more often than `shardBackoffLimit`",
			Advice: "the message quotes the runner; correct the cause and resume the run, or, if it is in " +
				"`template`, create the run again"},
		{Reason: v1alpha1.ReasonRunnersNotStarted, State: ended, asked: Counted, check: checkStuck,
			When: "a scheduled runner could not start for ten minutes: an image cannot be pulled, or the agent's " +
				"container ends before it listens",
			Advice: "the message quotes the kubelet or names the agent's port: correct the pull secret, the registry " +
				"or the agent and resume the run, or create another one with another image"},
		{Reason: v1alpha1.ReasonSummariesLost, State: ended, asked: Counted, check: checkLost,
			When: "pods were removed by force before their summaries were counted, more often than " +
				"`shardBackoffLimit`",
			Advice: "find out who removes finalizers, and resume the run"},
	}
}

// seeWords is the advice for what pods.ListRemedies knows more about.
const seeWords = "the message quotes why, and has [what to do](conditions.md#what-keeps-pods-from-running)"

// listDelays are the rules of runs that have begun and not ended: what delays them.
func listDelays() []Rule {
	const running = evaluation.Running
	return []Rule{
		{Reason: v1alpha1.ReasonRunning, State: running, asked: Playing, check: checkPlanMap,
			When:   "the plan is missing with the run's Job, and can't be made again before the pool is available",
			Advice: "see the condition `EnvironmentReady`"},
		{Reason: v1alpha1.ReasonSuspended, State: running, asked: Playing | Collecting, check: checkHalted,
			When: "`suspend` is true", Advice: "set it to false"},
		{Reason: v1alpha1.ReasonQueued, State: running, asked: Playing, check: checkQueue, holdsStart: isNotAdmitted,
			When: "the queue has not admitted the Job", Advice: "see the queue's Workload"},
		{Reason: v1alpha1.ReasonNameTaken, State: running, asked: Playing, check: checkOwners,
			When: "a Job or ConfigMap with the run's name belongs to something else", Advice: "delete it"},
		{Reason: v1alpha1.ReasonJobRefused, State: running, asked: Playing | Refused, check: checkRefusal,
			holdsStart: isNothingPlayed, When: "the API server refuses an object of the run", Advice: seeWords},
		{Reason: v1alpha1.ReasonRunnersRefused, State: running, asked: Playing, check: checkPodRefusal,
			holdsStart: isNothingPlayed, When: "the API server refuses the runners' pods", Advice: seeWords},
		{Reason: v1alpha1.ReasonNodeLost, State: running, asked: Playing, check: checkNode,
			When:   "the node of a runner doesn't answer",
			Advice: "repair it, or delete it (`kubectl delete node NODE`): then the shard is played again at once"},
		{Reason: v1alpha1.ReasonRunnersNotStarted, State: running, asked: Playing, check: checkTrouble,
			When: "a scheduled runner can't start", Advice: seeWords},
		{Reason: v1alpha1.ReasonUnschedulable, State: running, asked: Playing, check: checkScheduled,
			When: "no node takes a runner, or its scheduler doesn't run", Advice: seeWords},
		{Reason: v1alpha1.ReasonSidecarRunning, State: running, asked: Playing, check: checkSidecars,
			When: "a runner is counted, but the container that the message names, for example a mesh's proxy, keeps " +
				"its pod",
			Advice: "make it a native sidecar or have none injected"},
		{Reason: v1alpha1.ReasonWaitingForCapacity, State: running, asked: Playing,
			check: checkWait(v1alpha1.ReasonWaitingForCapacity), When: "all sessions of the pool are in use",
			Advice: "wait, or let the pool grow"},
		{Reason: v1alpha1.ReasonJudgeNotReady, State: running, asked: Playing,
			check: checkWait(v1alpha1.ReasonJudgeNotReady), When: "runners wait, because the pool's judge can't grade",
			Advice: "see the pool's condition `Degraded`"},
		{Reason: v1alpha1.ReasonWaitingForEnvironment, State: running, asked: Playing,
			check: checkWait(v1alpha1.ReasonWaitingForEnvironment), When: "runners wait for the pool",
			Advice: "see the condition `EnvironmentReady`"},
		{Reason: v1alpha1.ReasonRunning, State: running, asked: Playing, check: describePlaying,
			When: "the run is played"},
		{Reason: v1alpha1.ReasonRunning, State: running, asked: Collecting, check: describeCollecting,
			When: "the episodes of trainers are collected"},
	}
}
