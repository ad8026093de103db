package rules

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/rule"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/score"
)

// failures are the rules about a Job that can no longer complete.
var failures = []Rule{
	{Reason: v1alpha1.ReasonJobRefused, State: evaluation.Failed, Stage: Refused, Check: checkInvalid,
		When: "the API server doesn't accept what the spec has in `template` or `agent`, as in an affinity; the " +
			"message names the field", Advice: "Delete the run and create it again"},
	{Reason: v1alpha1.ReasonAgentRefused, State: evaluation.Failed, Stage: Counted,
		Check: checkFailure(v1alpha1.ReasonAgentRefused), When: "the agent's endpoint refuses every request: the " +
			"message quotes its status, URL and words, as about the key, the model's name or the URL",
		Advice: "Correct that, then RESUME"},
	{Reason: v1alpha1.ReasonAgentUnavailable, State: evaluation.Failed, Stage: Counted,
		Check: checkFailure(v1alpha1.ReasonAgentUnavailable), When: "the agent's endpoint did not answer for two " +
			"minutes, more often than `shardBackoffLimit`: because of its address, say, or of network policies",
		Advice: "Correct that, then RESUME"},
	{Reason: v1alpha1.ReasonShardsFailed, State: evaluation.Failed, Stage: Counted,
		Check: checkFailure(v1alpha1.ReasonShardsFailed),
		When: "a shard failed more often than `shardBackoffLimit`; the message quotes the runner, and says if the " +
			"run must be created again", Advice: "Correct that, then RESUME"},
	{Reason: v1alpha1.ReasonRunnersNotStarted, State: evaluation.Failed, Stage: Counted, Check: checkStuck,
		Requeue: awaitStart, When: "a scheduled runner could not start for ten minutes: an image cannot be pulled, " +
			"or the agent's container ends before it listens", Advice: "Correct that, then RESUME"},
	{Reason: v1alpha1.ReasonSummariesLost, State: evaluation.Failed, Stage: Counted, Check: checkLost,
		Requeue: awaitSummaries, When: "pods were removed by force before their summaries were counted, more often " +
			"than `shardBackoffLimit`", Advice: "Find out what removes pods and finalizers, then RESUME"},
}

func checkInvalid(p *pass) rule.Finding {
	if !p.refusal.invalid {
		return rule.Finding{}
	}
	return checkRefusal(p)
}

// hasJob reports whether the Job that plays the run belongs to the present job attempt.
func (p *pass) hasJob() bool { return p.s.Run.Status.Shards != nil && p.isJobCurrent() }

// addAdvice adds to a text what is known to do, if anything is. A run that must be created again
// isn't resumed.
func (p *pass) addAdvice(what, advice string) rule.Finding {
	f := rule.Finding{What: what, Advice: advice}
	if advice != "" && !strings.HasPrefix(advice, "Delete the run") {
		f.Advice += ". If the run stays, " + evaluation.HowToResume(p.s.Run)
	}
	return f
}

// checkFailure reports whether the Job has failed for this reason.
func checkFailure(wanted string) func(*pass) rule.Finding {
	return func(p *pass) rule.Finding {
		if !p.hasJob() {
			return rule.Finding{}
		}
		c := runner.FindJobCondition(p.s.Job, batchv1.JobFailed)
		if c == nil {
			return rule.Finding{}
		}
		reason, message := p.explainFailure(c)
		if reason != wanted {
			return rule.Finding{}
		}
		return p.addAdvice(message+runner.QuoteLastFailure(p.s.Failed)+".", runner.AdviseFailure(p.s.Failed))
	}
}

// explainFailure describes the failure of the Job.
func (p *pass) explainFailure(c *batchv1.JobCondition) (reason, message string) {
	reason, message = v1alpha1.ReasonShardsFailed, fmt.Sprintf("Job %s failed: %s", p.s.Job.Name,
		strings.TrimSuffix(c.Message, "."))
	if indexes := ptr.Deref(p.s.Job.Status.FailedIndexes, ""); indexes != "" {
		message = fmt.Sprintf("Shards %s failed more often than retries.shardBackoffLimit allows",
			runner.ListShards(p.s.Job, indexes))
	}
	if last := runner.FindLastFailure(p.s.Failed); last != nil {
		switch pods.FindTerminatedState(last, runner.Container).ExitCode {
		case score.ExitAgentRefused:
			return v1alpha1.ReasonAgentRefused, "The agent's endpoint refuses every request"
		case score.ExitAgentUnavailable:
			reason = v1alpha1.ReasonAgentUnavailable
		}
	}
	return reason, message
}

func checkStuck(p *pass) rule.Finding {
	left, stuck := p.findStuck()
	if !p.hasJob() || !stuck || left > 0 {
		return rule.Finding{}
	}
	trouble := p.findTrouble()
	return p.addAdvice(fmt.Sprintf("A runner could not start for %s: %s.", stuckDeadline,
		strings.TrimSuffix(trouble.Why, ".")), trouble.Advice)
}

// awaitStart is for runners that can't start.
func awaitStart(p *pass) time.Duration {
	left, stuck := p.findStuck()
	if !stuck || !p.isJobCurrent() {
		return 0
	}
	return left
}

// isIncomplete reports whether the Job is complete, and shards are missing for good.
func (p *pass) isIncomplete() bool {
	if !p.hasJob() {
		return false
	}
	wait, ended := p.findLost()
	return ended && wait <= 0
}

// mayPlayAgain reports whether shards may be played by another Job.
func (p *pass) mayPlayAgain() bool {
	shards := p.s.Run.Status.Shards
	return shards == nil || shards.JobAttempts-shards.JobAttemptsBefore <= runner.ReadBackoffLimit(p.s.Run) ||
		p.isIncomplete() && p.findMissing().isFree(shards.JobAttempts+1)
}

func checkLost(p *pass) rule.Finding {
	if !p.isIncomplete() || p.mayPlayAgain() {
		return rule.Finding{}
	}
	return newFinding(fmt.Sprintf("Job %s is complete, but the summaries of shards %q were refused, or their pods "+
		"were removed before they were read. retries.shardBackoffLimit doesn't allow them to be played again.",
		p.s.Run.Name, p.d.Tally.Missing(p.d.Status.Shards.Total)))
}

// awaitSummaries is for the pods of a complete Job.
func awaitSummaries(p *pass) time.Duration {
	if !p.isJobCurrent() {
		return 0
	}
	wait, _ := p.findLost()
	return wait
}
