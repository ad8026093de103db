package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/rule"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
)

const quotesWhy = ": the message quotes why, and has [what to do](conditions.md#what-keeps-pods-from-running)"

// delays are the rules of runs that have begun and not ended: what delays them.
var delays = []Rule{
	{Reason: v1alpha1.ReasonRunning, State: evaluation.Running, Stage: Playing, Check: checkPlanMap,
		Requeue: awaitPlan, When: "the plan is missing with the run's Job, and can't be made again before the pool " +
			"is available", Advice: "See the condition EnvironmentReady"},
	{Reason: v1alpha1.ReasonSuspended, State: evaluation.Running, Stage: Playing | Collecting, Check: checkHalted,
		When: "`suspend` is true", Advice: "Set spec.suspend to false to continue"},
	{Reason: v1alpha1.ReasonQueued, State: evaluation.Running, Stage: Playing, Check: checkQueue,
		Event: corev1.EventTypeNormal, When: "the queue has not admitted the Job",
		Advice: "See the queue's Workload"},
	{Reason: v1alpha1.ReasonNameTaken, State: evaluation.Running, Stage: Playing, Check: checkOwners,
		Event: corev1.EventTypeWarning, When: "a Job or ConfigMap with the run's name belongs to something else",
		Advice: "Delete it to continue"},
	{Reason: v1alpha1.ReasonJobRefused, State: evaluation.Running, Stage: Playing | Refused, Check: checkRefusal,
		Event: corev1.EventTypeWarning, When: "the API server refuses an object of the run" + quotesWhy,
		Advice: "Correct that to continue"},
	{Reason: v1alpha1.ReasonRunnersRefused, State: evaluation.Running, Stage: Playing, Check: checkPodRefusal,
		Event: corev1.EventTypeWarning, When: "the API server refuses the runners' pods" + quotesWhy,
		Advice: "Correct that to continue"},
	{Reason: v1alpha1.ReasonNodeLost, State: evaluation.Running, Stage: Playing, Check: checkNode,
		Event: corev1.EventTypeWarning, When: "the node of a runner doesn't answer",
		Advice: "If it comes back, the runner goes on. Otherwise its shard is played again after the tolerance for " +
			"unreachable nodes, or as soon as the node is deleted: `kubectl delete node NODE`"},
	{Reason: v1alpha1.ReasonRunnersNotStarted, State: evaluation.Running, Stage: Playing, Check: checkTrouble,
		Event: corev1.EventTypeWarning, Requeue: awaitCreation, When: "a scheduled runner can't start" + quotesWhy},
	{Reason: v1alpha1.ReasonUnschedulable, State: evaluation.Running, Stage: Playing, Check: checkScheduled,
		Event: corev1.EventTypeWarning, When: "no node takes a runner, or its scheduler doesn't run" + quotesWhy},
	{Reason: v1alpha1.ReasonSidecarRunning, State: evaluation.Running, Stage: Playing, Check: checkSidecars,
		Event: corev1.EventTypeWarning, Requeue: awaitSidecars, When: "a runner is counted, but the container that " +
			"the message names, for example a mesh's proxy, keeps its pod",
		Advice: "Make it a native sidecar (an init container whose restartPolicy is Always), or have none injected " +
			"into the pods of spec.template"},
	{Reason: v1alpha1.ReasonWaitingForCapacity, State: evaluation.Running, Stage: Playing, Check: checkCapacity,
		Event: corev1.EventTypeNormal, When: "all sessions of the pool are in use",
		Advice: "Wait, or let the pool grow"},
	{Reason: v1alpha1.ReasonJudgeNotReady, State: evaluation.Running, Stage: Playing, Check: checkGrading,
		When: "runners wait, because the pool's judge can't grade", Advice: "See the pool's condition Degraded"},
	{Reason: v1alpha1.ReasonWaitingForEnvironment, State: evaluation.Running, Stage: Playing, Check: checkServers,
		When: "runners wait for the pool", Advice: "See the condition EnvironmentReady"},
	{Reason: v1alpha1.ReasonRunning, State: evaluation.Running, Stage: Playing, Check: describePlaying,
		When: "the run is played"},
	{Reason: v1alpha1.ReasonRunning, State: evaluation.Running, Stage: Collecting, Check: describeCollecting,
		Requeue: awaitSegments, When: "the episodes of trainers are collected"},
}

// describeProgress tells how much of the run is counted. An External run has shards only at its
// end.
func (p *pass) describeProgress() string {
	if shards := p.d.Status.Shards; shards != nil {
		return describeShards(p.d.Tally.Completed, shards)
	}
	return describeCollected(ptr.Deref(p.d.Status.Episodes, v1alpha1.RunEpisodes{}), tally.ReadGoal(p.s.Run))
}

// findDelay says how much of a run is counted, and then what delays it.
func (p *pass) findDelay(format string, args ...any) rule.Finding {
	return newFinding(p.describeProgress() + " " + fmt.Sprintf(format, args...))
}

func checkPlanMap(p *pass) rule.Finding {
	if p.planErr == nil {
		return rule.Finding{}
	}
	return newAdvisedFinding(fmt.Sprintf("The plan is missing and can't be made again yet: %s.",
		strings.TrimSuffix(p.planErr.Error(), ".")))
}

func awaitPlan(p *pass) time.Duration {
	if p.planErr == nil {
		return 0
	}
	return waitDelay
}

func checkHalted(p *pass) rule.Finding {
	if !evaluation.IsSuspended(p.s.Run) {
		return rule.Finding{}
	}
	return newFinding(p.describeProgress())
}

func checkQueue(p *pass) rule.Finding {
	if !runner.IsHeldByQueue(p.s.Job) {
		return rule.Finding{}
	}
	f := p.findDelay("Job %s waits until queue %s admits it.", p.s.Run.Name, p.s.Job.Labels[runner.LabelQueue])
	f.Advised, f.HoldsStart = true, p.s.Run.Status.AdmissionTime == nil
	return f
}

func checkOwners(p *pass) rule.Finding {
	if len(p.s.Taken) == 0 {
		return rule.Finding{}
	}
	return p.findDelay("%s belongs to something else.", strings.Join(p.s.Taken, ", "))
}

// refusal is an object of the run that the API server refuses.
type refusal struct {
	object, words string
	invalid       bool // it always will, because of what the spec says
}

// checkRefusal also keeps what an earlier pass has written, until this one has created the object.
func checkRefusal(p *pass) rule.Finding {
	f := newAdvisedFinding(p.findRefusal())
	if p.refusal.object != "" {
		f = p.findDelay("The API server refuses %s: %s.", p.refusal.object, pods.QuoteMessage(p.refusal.words))
		f.Advice = cmp.Or(pods.Advise(pods.Runner, pods.APIServer, p.refusal.words), "Correct that to continue")
	}
	f.HoldsStart = p.isNothingPlayed()
	return f
}

func (p *pass) isNothingPlayed() bool { return len(p.s.Pods) == 0 && p.d.Tally.Completed.Len() == 0 }

// findRefusal returns the message of an object that was refused by the last pass and is tried again
// by this one.
func (p *pass) findRefusal() string {
	last := meta.FindStatusCondition(p.s.Run.Status.Conditions, v1alpha1.ConditionComplete)
	tried := p.d.CreateJob != nil || p.d.CreatePlan != nil || p.d.ChangeJob != (JobChange{}) || p.d.Scores != nil
	if !tried || last == nil || last.Reason != v1alpha1.ReasonJobRefused {
		return ""
	}
	return last.Message
}

func checkPodRefusal(p *pass) rule.Finding {
	if p.s.PodsRefused == "" {
		return rule.Finding{}
	}
	f := p.findDelay("The API server refuses the runners' pods: %s.",
		pods.QuoteMessage(strings.TrimSuffix(p.s.PodsRefused, ".")))
	f.Advice, f.HoldsStart = pods.Advise(pods.Runner, pods.APIServer, p.s.PodsRefused), p.isNothingPlayed()
	return f
}

func checkTrouble(p *pass) rule.Finding {
	trouble := p.findTrouble()
	if trouble.Why == "" {
		return rule.Finding{}
	}
	f := p.findDelay("A runner can't start: %s.", strings.TrimSuffix(trouble.Why, "."))
	f.Advice = trouble.Advice
	return f
}

// awaitCreation is for containers that the kubelet prepares, and pods that a scheduler hasn't seen.
func awaitCreation(p *pass) time.Duration {
	var next time.Duration
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		left := pods.CreationPatience - p.s.Now.Sub(runner.ReadScheduledTime(pod))
		waits := runner.IsCreating(pod) || pods.IsUnclaimed(pod)
		if left > 0 && waits && p.isJobCurrent() && (next == 0 || left < next) {
			next = left
		}
	}
	return next
}

// findLostNode finds a pod whose node doesn't answer, nil if each does.
func (p *pass) findLostNode() *corev1.Pod {
	return pods.FindFirst(p.s.Pods, func(pod corev1.Pod) bool { return pods.FindLostNode(&pod) != "" })
}

func checkNode(p *pass) rule.Finding {
	pod := p.findLostNode()
	if pod == nil {
		return rule.Finding{}
	}
	return p.findDelay("Node %s of runner pod %s doesn't answer.", pod.Spec.NodeName, pod.Name)
}

func checkScheduled(p *pass) rule.Finding {
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		if c := pods.FindCondition(pod, corev1.PodScheduled); c != nil && c.Reason == corev1.PodReasonUnschedulable {
			f := p.findDelay("Runner pod %s can't be scheduled: %s.", pod.Name,
				strings.TrimSuffix(pods.QuoteMessage(c.Message), "."))
			f.Advice = pods.Advise(pods.Runner, pods.Scheduler, c.Message)
			return f
		}
		if pods.IsUnclaimed(pod) && p.s.Now.Sub(pod.CreationTimestamp.Time) >= pods.CreationPatience {
			f := p.findDelay("Scheduler %s hasn't looked at runner pod %s for more than %s.", pod.Spec.SchedulerName,
				pod.Name, pods.CreationPatience)
			f.Advice = "Run that scheduler, or delete the run and create it again with another " +
				"spec.template.schedulerName"
			return f
		}
	}
	return rule.Finding{}
}

func checkSidecars(p *pass) rule.Finding {
	kept := p.findKept()
	if len(kept) == 0 {
		return rule.Finding{}
	}
	return p.findDelay("%s", runner.DescribeSidecar(&kept[0]))
}

func awaitSidecars(p *pass) time.Duration {
	_, next := runner.FindOutlived(p.s.Succeeded, p.s.Now)
	return next
}

// isIdle reports whether runners play nothing, although the run is played.
func (p *pass) isIdle() bool {
	live := p.s.Live
	return live != nil && live.Known && live.Idle >= idleAfter && slices.ContainsFunc(p.s.Pods,
		func(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
}

// findWaiting is what idle runners wait for.
func (p *pass) findWaiting(what string) rule.Finding {
	return newAdvisedFinding(p.describeProgress() + " " + what +
		" They wait until activeDeadlineSeconds, if that is set.")
}

func checkCapacity(p *pass) rule.Finding {
	if !p.isIdle() || p.s.Live.Sessions.Capacity <= 0 || p.s.Live.Sessions.Active < p.s.Live.Sessions.Capacity {
		return rule.Finding{}
	}
	return p.findWaiting(fmt.Sprintf("The runners wait for a free session: all %d of pool %s are in use.",
		p.s.Live.Sessions.Capacity, p.s.Run.Spec.EnvironmentRef.Name))
}

func checkGrading(p *pass) rule.Finding {
	if p.poolCondition.Reason != v1alpha1.ReasonJudgeNotReady {
		return rule.Finding{}
	}
	return checkServers(p)
}

func checkServers(p *pass) rule.Finding {
	if !p.isIdle() || p.poolCondition.Status == metav1.ConditionTrue {
		return rule.Finding{}
	}
	return p.findWaiting("The runners wait for the pool. " + p.poolCondition.Message)
}

func describePlaying(p *pass) rule.Finding {
	progress := p.describeProgress()
	if failed := runner.SelectFailed(p.s.Failed, p.s.Job); p.hasJob() && runner.AdviseFailure(failed) != "" {
		progress += " A runner has failed, and its shard is played again" + runner.QuoteLastFailure(failed) + "."
	}
	return newFinding(progress + " To see the runners' logs: " + writeLogsCommand(p.s.Run))
}

func describeCollecting(p *pass) rule.Finding {
	message := fmt.Sprintf("%s Trainers tag their sessions with reset(run=%q). To end the run with the collected "+
		"episodes, set spec.activeDeadlineSeconds to 1.", p.describeProgress(), p.d.Status.Rollouts.Tag)
	if p.collected == nil {
		return newFinding(message)
	}
	if len(p.collected.Refused) > 0 {
		message += " " + describeRefusedSegment(p.collected.Refused[0])
	}
	if r := p.collected.Refusing; r != nil {
		message += fmt.Sprintf(" Server %s returns no segment: %v. See its log, and check that the pool's image is of "+
			"the operator's release.", r.Pod.Name, r.Err)
	}
	return newFinding(message)
}

// awaitSegments is for the servers' next segments, and for a draining server that waits for its
// segment to be acknowledged.
func awaitSegments(p *pass) time.Duration {
	c := p.collected
	switch {
	case c == nil:
		return startDelay
	case c.Awaited:
		return AcknowledgeDelay
	case evaluation.IsSuspended(p.s.Run):
		return 0
	case c.Silent > 0 && c.Silent == len(p.s.Segments):
		return SilentInterval
	default:
		return CollectInterval
	}
}
