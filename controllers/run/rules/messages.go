package rules

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// describeStored reports whether the episodes of the counted shards are in the result store.
func describeStored(sums score.Accumulator, is evaluation.State) metav1.Condition {
	f := sums.Figures()
	if f.Stored.Error != "" {
		f.Stored.Error = pods.Quote(f.Stored.Error)
	}
	return evaluation.StoredCondition(f.Stored, f.Episodes+f.Errored, is,
		"If the others are needed, correct that and create the run again.")
}

func describeSuspension(run *v1alpha1.EvaluationRun) metav1.Condition {
	switch {
	case !observe.IsSuspended(run):
		return evaluation.Condition(v1alpha1.ConditionSuspended, metav1.ConditionFalse, v1alpha1.ReasonNotSuspended,
			"spec.suspend is not set.")
	case observe.IsExternal(run):
		return evaluation.Condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended,
			"spec.suspend is true: no episodes are collected. Servers keep them while they run and have capacity. Set "+
				"it to false to continue.")
	default:
		return evaluation.Condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended,
			"spec.suspend is true: runners are stopped, and shards that have not ended will be played again. Set it "+
				"to false to continue.")
	}
}

// describePool reports whether the pool exists, admits the run, accepts sessions and can be
// read. The message doesn't reveal whether a pool exists that doesn't admit the run's namespace.
func describePool(s observe.Snapshot) metav1.Condition {
	no := func(reason, format string, args ...any) metav1.Condition {
		return evaluation.Condition(v1alpha1.ConditionEnvironmentReady, metav1.ConditionFalse, reason,
			fmt.Sprintf(format, args...))
	}
	key := evaluation.PoolOf(s.Run)
	name := key.Name
	switch s.PoolState() {
	case observe.PoolForbidden:
		return no(v1alpha1.ReasonNamespaceNotAllowed, "No CustomerSupportEnv %s in namespace %s admits runs of "+
			"namespace %s. Correct spec.environmentRef, or ask the pool's owner to admit the namespace in "+
			"access.allowedNamespaces.", name, key.Namespace, s.Run.Namespace)
	case observe.PoolMissing:
		return no(v1alpha1.ReasonEnvironmentNotFound, "There is no CustomerSupportEnv %s in namespace %s. Create it "+
			"to continue.", name, key.Namespace)
	case observe.PoolNeedsToken:
		return no(v1alpha1.ReasonTokenMissing, "Pool %s requires a token. Put it into a Secret of the run's "+
			"namespace, for example with %s, and create the run again with spec.environmentRef.tokenSecretRef.", name,
			pods.CreateCommand("secret", "NAME", s.Run.Namespace, "token"))
	case observe.PoolNew:
		return no(v1alpha1.ReasonEnvironmentNotAvailable, "Pool %s has no status yet.", name)
	case observe.PoolNotAvailable:
		available := meta.FindStatusCondition(s.Env.Status.Conditions, v1alpha1.ConditionAvailable)
		reason := v1alpha1.ReasonEnvironmentNotAvailable
		if available.Reason == v1alpha1.ReasonJudgeNotReady {
			reason = v1alpha1.ReasonJudgeNotReady
		}
		return no(reason, "Pool %s is not available: %s", name,
			available.Message+describeDegraded(s.Env, s.Run.Namespace))
	case observe.PoolUnreachable:
		return no(v1alpha1.ReasonEnvironmentUnreachable,
			"The scenarios of pool %s can't be read: %v. The operator tries again.", name, s.ReportErr)
	case observe.PoolWithoutKey:
		return no(v1alpha1.ReasonEnvironmentNotAvailable, "Pool %s has not reported its scenarios and ledger key yet.",
			name)
	case observe.PoolReady:
	}
	return evaluation.Condition(v1alpha1.ConditionEnvironmentReady, metav1.ConditionTrue,
		v1alpha1.ReasonEnvironmentAvailable, fmt.Sprintf("Pool %s accepts sessions.", name))
}

// describeDegraded returns the message of a degraded pool. It isn't shown to other namespaces,
// since it may quote private data.
func describeDegraded(env *v1alpha1.CustomerSupportEnv, namespace string) string {
	c := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Status != metav1.ConditionTrue || env.Namespace != namespace {
		return ""
	}
	return " " + c.Message
}

// describeChange returns what a pool, nil if there is none, reports differently from when the run
// began.
func describeChange(began v1alpha1.Provenance, key string, env *v1alpha1.CustomerSupportEnv) string {
	if env == nil {
		return ""
	}
	for _, field := range []struct{ what, began, now string }{
		{"scenarios", began.ScenarioDigest, env.Status.ScenarioDigest},
		{"grader", began.GraderVersion, env.Status.GraderVersion},
		{"judge", began.Judge, env.Status.Judge},
		{"ledger key", key, env.Status.LedgerPublicKey},
	} {
		if field.now != "" && field.now != field.began {
			return fmt.Sprintf("The %s of pool %s changed from %s to %s during the run. Scores of different graders "+
				"are never mixed. Create the run again.", field.what, env.Name, field.began, field.now)
		}
	}
	return ""
}

// describeGrader returns which server grades differently from the pool when the run began. The
// pool's status may show the change later than its servers.
func describeGrader(refused []tally.Refusal, pool string) string {
	for _, r := range refused {
		if r.Reason == tally.RefusedGrader {
			return fmt.Sprintf("Server %s of pool %s grades differently from the pool when the run began: %v. Scores "+
				"of different graders are never mixed. Create the run again.", r.Pod.Name, pool, r.Err)
		}
	}
	return ""
}

// explainFailure describes the failure of the Job.
func explainFailure(job *batchv1.Job, c *batchv1.JobCondition, failed []corev1.Pod) (reason, message string) {
	reason, message = v1alpha1.ReasonShardsFailed, fmt.Sprintf("Job %s failed: %s", job.Name,
		strings.TrimSuffix(c.Message, "."))
	if indexes := ptr.Deref(job.Status.FailedIndexes, ""); indexes != "" {
		message = fmt.Sprintf("Shards %s failed more often than retries.shardBackoffLimit allows",
			runner.ListShards(job, indexes))
	}
	if last := runner.FindLastFailure(failed); last != nil {
		switch pods.Terminated(last, runner.Container).ExitCode {
		case score.ExitAgentRefused:
			reason, message = v1alpha1.ReasonAgentRefused, "The agent's endpoint refuses every request"
		case score.ExitAgentUnavailable:
			reason = v1alpha1.ReasonAgentUnavailable
		}
	}
	return reason, message + runner.QuoteLastFailure(failed)
}

// describeUnscheduled returns why a pod can't be scheduled, "" if each can.
func describeUnscheduled(list []corev1.Pod) string {
	for i := range list {
		if c := pods.Condition(&list[i], corev1.PodScheduled); c != nil && c.Reason == corev1.PodReasonUnschedulable {
			return fmt.Sprintf("Runner pod %s can't be scheduled: %s", list[i].Name, pods.Quote(c.Message))
		}
	}
	return ""
}

// describeProgress tells how much of a run is counted. An External run has shards only at its end.
func describeProgress(status v1alpha1.EvaluationRunStatus, completed score.IndexSet, goal int64) string {
	if status.Shards != nil {
		return describeShards(completed, status.Shards)
	}
	return describeCollected(ptr.Deref(status.Episodes, v1alpha1.RunEpisodes{}), goal)
}

func describeShards(completed score.IndexSet, shards *v1alpha1.Shards) string {
	return fmt.Sprintf("%d of %d shards are counted.", completed.Len(), shards.Total)
}

// describeCollected tells how many episodes are collected, of how many if there is a goal.
func describeCollected(e v1alpha1.RunEpisodes, goal int64) string {
	ended := e.Scored + e.Failed + e.Errored
	if goal > 0 {
		return fmt.Sprintf("%d of %d episodes are collected.", ended, goal)
	}
	return fmt.Sprintf("%d episodes are collected.", ended)
}

func describeRefusedSummary(r tally.Refusal) string {
	return fmt.Sprintf("The summary of runner pod %s is not counted: %v.", r.Pod.Name, r.Err)
}

func describeRefusedSegment(r tally.Refusal) string {
	return fmt.Sprintf("The segment of server %s is not counted: %v.", r.Pod.Name, r.Err)
}

// describeReplayed lists the suspect shards, "" if there are none. The figures are correct
// nevertheless: only the first end of an episode is counted.
func describeReplayed(counted []tally.Shard, run *v1alpha1.EvaluationRun) string {
	var shards score.IndexSet
	var replayed, unreported int64
	for _, shard := range counted {
		if shard.IsSuspect() {
			shards.Add(int64(shard.Index))
			replayed += shard.Replayed
			unreported += shard.Unreported
		}
	}
	if shards.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("In shards %s, %d episodes ended again and %d more were begun than the runners report. "+
		"Only the first end of an episode is counted. A runner that failed and was restarted explains this: see "+
		"`kubectl get pods -n %s -l %s=%s`. Otherwise another client plays the run's episodes: check which clients "+
		"can reach the pool.",
		pods.Quote(shards.String()), replayed, unreported, run.Namespace, v1alpha1.LabelRun, run.Name)
}

// writeLogsCommand writes the command that shows the logs of the run's runners.
func writeLogsCommand(run *v1alpha1.EvaluationRun) string {
	return fmt.Sprintf("kubectl logs -n %s -l %s=%s", run.Namespace, v1alpha1.LabelRun, run.Name)
}
