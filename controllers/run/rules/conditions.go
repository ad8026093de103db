package rules

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/score"
)

func waiting(reason, message string) evaluation.Outcome {
	return evaluation.Outcome{State: evaluation.Waiting, Reason: reason, Message: message}
}

func running(reason, message string) evaluation.Outcome {
	return evaluation.Outcome{State: evaluation.Running, Reason: reason, Message: message}
}

func failed(reason, message string) evaluation.Outcome {
	return evaluation.Outcome{State: evaluation.Failed, Reason: reason, Message: message}
}

// setConditions sets the cost and every condition, and announces what has changed.
func setConditions(d *Decision, s observe.Snapshot, p evaluation.Outcome) {
	d.Status.Cost = evaluation.Cost(s.Run.Spec.Prices, d.Status.Tokens)
	environment, suspension := environmentCondition(s), suspendedCondition(s)
	verdict := evaluation.Conditions(s.Run, d.Status, d.Tally.Sums, p)
	if s.Run.Spec.Results != nil {
		verdict = append(verdict, storedCondition(d.Tally.Sums, p.State))
	}
	if c, known := evaluation.AgentCondition(d.Tally.Endpoint(), p); known {
		verdict = append(verdict, c)
	}
	announceEnd(d, p, verdict)
	announce(d, s, environment, suspension, p)
	meta.RemoveStatusCondition(&d.Status.Conditions, v1alpha1.ConditionStalled)
	for _, c := range append([]metav1.Condition{environment, suspension}, verdict...) {
		set(d, s, c)
	}
}

// set sets a condition.
func set(d *Decision, s observe.Snapshot, c metav1.Condition) {
	c.Message = pods.Shorten(c.Message, pods.MaxNote)
	c.ObservedGeneration = s.Run.Generation
	c.LastTransitionTime = metav1.NewTime(s.Now)
	meta.SetStatusCondition(&d.Status.Conditions, c)
}

// announceEnd announces how a run ends, and what the spec asks for but wasn't reached.
func announceEnd(d *Decision, p evaluation.Outcome, verdict []metav1.Condition) {
	if !p.Ended() {
		return
	}
	kind := corev1.EventTypeNormal
	if p.State == evaluation.Failed {
		kind = corev1.EventTypeWarning
	}
	d.announce(kind, p.Reason, p.Message)
	for _, c := range verdict {
		optional := c.Type == v1alpha1.ConditionThresholdsMet || c.Type == v1alpha1.ConditionResultsStored
		if optional && c.Status == metav1.ConditionFalse {
			d.announce(corev1.EventTypeWarning, c.Reason, c.Message)
		}
	}
}

// storedCondition reports whether the episodes of the counted shards are in the result store.
func storedCondition(sums score.Accumulator, is evaluation.State) metav1.Condition {
	f := sums.Figures()
	if f.Stored.Error != "" {
		f.Stored.Error = pods.Quote(f.Stored.Error)
	}
	return evaluation.StoredCondition(f.Stored, f.Episodes+f.Errored, is,
		"If the others are needed, correct that and create the run again.")
}

// delays are the reasons that delay a run whose pool is available, with the types of their events.
var delays = map[string]string{
	v1alpha1.ReasonQueued: corev1.EventTypeNormal, v1alpha1.ReasonNameTaken: corev1.EventTypeWarning,
	v1alpha1.ReasonRunnersNotStarted: corev1.EventTypeWarning, v1alpha1.ReasonUnschedulable: corev1.EventTypeWarning,
	v1alpha1.ReasonWaitingForCapacity: corev1.EventTypeNormal, v1alpha1.ReasonJobRefused: corev1.EventTypeWarning,
	v1alpha1.ReasonRunnersRefused: corev1.EventTypeWarning, v1alpha1.ReasonSidecarRunning: corev1.EventTypeWarning,
}

// announce announces changes of the pool, of the run's suspension and of what delays it.
func announce(d *Decision, s observe.Snapshot, environment, suspension metav1.Condition, p evaluation.Outcome) {
	before := meta.FindStatusCondition(s.Run.Status.Conditions, v1alpha1.ConditionEnvironmentReady)
	if environment.Status != metav1.ConditionTrue && (before == nil || before.Reason != environment.Reason) {
		kind := corev1.EventTypeWarning
		if environment.Reason == v1alpha1.ReasonEnvironmentNotAvailable {
			kind = corev1.EventTypeNormal // a pool is often applied together with its runs
		}
		d.announce(kind, environment.Reason, environment.Message)
	}
	was := meta.IsStatusConditionTrue(s.Run.Status.Conditions, v1alpha1.ConditionSuspended)
	switch is := suspension.Status == metav1.ConditionTrue; {
	case is && !was:
		d.announce(corev1.EventTypeNormal, v1alpha1.ReasonSuspended, suspension.Message)
	case was && !is:
		d.announce(corev1.EventTypeNormal, v1alpha1.ReasonResumed, sourceOf(s.Run).traits().resumed)
	}
	last := meta.FindStatusCondition(s.Run.Status.Conditions, v1alpha1.ConditionComplete)
	if kind := delays[p.Reason]; kind != "" && (last == nil || last.Reason != p.Reason) && !p.Ended() {
		d.announce(kind, p.Reason, p.Message)
	}
}

func suspendedCondition(s observe.Snapshot) metav1.Condition {
	if observe.IsSuspended(s.Run) {
		return evaluation.Condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended,
			sourceOf(s.Run).traits().suspended)
	}
	return evaluation.Condition(v1alpha1.ConditionSuspended, metav1.ConditionFalse, v1alpha1.ReasonNotSuspended,
		"spec.suspend is not set.")
}

// environmentCondition reports whether the pool exists, admits the run, accepts sessions and can be
// read. The message doesn't reveal whether a pool exists that doesn't admit the run's namespace.
func environmentCondition(s observe.Snapshot) metav1.Condition {
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
			available.Message+degradation(s))
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

// waitingReason is the reason of a run that waits for its pool.
func waitingReason(environment metav1.Condition) string {
	if environment.Reason == v1alpha1.ReasonJudgeNotReady {
		return v1alpha1.ReasonJudgeNotReady
	}
	return v1alpha1.ReasonWaitingForEnvironment
}

// degradation is the message of a degraded pool. It isn't shown to other namespaces, since it may
// quote private data.
func degradation(s observe.Snapshot) string {
	c := meta.FindStatusCondition(s.Env.Status.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Status != metav1.ConditionTrue || s.Env.Namespace != s.Run.Namespace {
		return ""
	}
	return " " + c.Message
}

// inProgress is the outcome of a run that has not ended.
func inProgress(d *Decision, s observe.Snapshot) evaluation.Outcome {
	switch {
	case observe.IsSuspended(s.Run):
		return running(v1alpha1.ReasonSuspended, shardsMessage(d)+" Set spec.suspend to false to continue.")
	case runner.IsHeldByQueue(s.Job):
		return running(v1alpha1.ReasonQueued, fmt.Sprintf("%s Job %s waits until queue %s admits it.",
			shardsMessage(d), s.Job.Name, s.Job.Labels[runner.LabelQueue]))
	default:
		return inPlay(d, s)
	}
}

func shardsMessage(d *Decision) string {
	return fmt.Sprintf("%d of %d shards are counted.", d.Tally.Completed.Len(), d.Status.Shards.Total)
}

// inPlay is the outcome of a run that is being played, with what delays it.
func inPlay(d *Decision, s observe.Snapshot) evaluation.Outcome {
	going := func(reason, format string, args ...any) evaluation.Outcome {
		return running(reason, shardsMessage(d)+" "+fmt.Sprintf(format, args...))
	}
	if len(s.Taken) > 0 {
		return going(v1alpha1.ReasonNameTaken, "%s belongs to something else. Delete it to continue.",
			strings.Join(s.Taken, ", "))
	}
	if o := stillRefused(d, s); o.Reason != "" {
		return o
	}
	if s.PodsRefused != "" {
		return going(v1alpha1.ReasonRunnersRefused, "The API server refuses the runners' pods: %s. Correct that to "+
			"continue.", pods.Quote(strings.TrimSuffix(s.PodsRefused, ".")))
	}
	if why, _ := runner.FindStartTrouble(s.Pods, s.Now); why != "" {
		return going(v1alpha1.ReasonRunnersNotStarted, "A runner can't start: %s.", strings.TrimSuffix(why, "."))
	}
	for i := range s.Pods {
		for _, c := range s.Pods[i].Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return going(v1alpha1.ReasonUnschedulable, "Runner pod %s can't be scheduled: %s", s.Pods[i].Name,
					pods.Quote(c.Message))
			}
		}
	}
	if kept := keptPods(d, s); len(kept) > 0 {
		return going(v1alpha1.ReasonSidecarRunning, "%s", runner.DescribeSidecar(&kept[0]))
	}
	if reason, why := waitsFor(s); reason != "" {
		return going(reason, "%s", why)
	}
	return going(v1alpha1.ReasonRunning, "To see the runners' logs: %s", logsCommand(s.Run))
}

// waitsFor returns what runners wait for that run but play nothing, "" if they play or nothing is
// known.
func waitsFor(s observe.Snapshot) (reason, why string) {
	running := slices.ContainsFunc(s.Pods, func(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
	if s.Live == nil || !s.Live.Known || s.Live.Idle < idleAfter || !running {
		return "", ""
	}
	const limit = "They wait until activeDeadlineSeconds, if that is set."
	if n := s.Live.Sessions; n.Capacity > 0 && n.Active >= n.Capacity {
		return v1alpha1.ReasonWaitingForCapacity, fmt.Sprintf("The runners wait for a free session: all %d of pool %s "+
			"are in use. %s", n.Capacity, s.Run.Spec.EnvironmentRef.Name, limit)
	}
	if c := environmentCondition(s); c.Status != metav1.ConditionTrue {
		return waitingReason(c), "The runners wait for the pool. " + c.Message + " " + limit
	}
	return "", ""
}

// logsCommand shows the logs of the run's runners.
func logsCommand(run *v1alpha1.EvaluationRun) string {
	return fmt.Sprintf("kubectl logs -n %s -l %s=%s", run.Namespace, v1alpha1.LabelRun, run.Name)
}
