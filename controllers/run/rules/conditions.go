package rules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/envserver/score"
)

// setConditions sets the cost and every condition, and announces what has changed.
func (p *pass) setConditions(o evaluation.Outcome) {
	p.d.Status.Cost = evaluation.Cost(p.s.Run.Spec.Prices, p.d.Status.Tokens)
	suspension := describeSuspension(p.s.Run)
	verdict := evaluation.Conditions(p.s.Run, p.d.Status, p.d.Tally.Sums, o)
	if p.s.Run.Spec.Results != nil {
		verdict = append(verdict, describeStored(p.d.Tally.Sums, o.State))
	}
	if c, known := evaluation.AgentCondition(p.d.Tally.Endpoint(), o); known {
		verdict = append(verdict, c)
	}
	p.announceEnd(o, verdict)
	p.announceChanges(suspension, o)
	meta.RemoveStatusCondition(&p.d.Status.Conditions, v1alpha1.ConditionStalled)
	for _, c := range append([]metav1.Condition{p.environment, suspension}, verdict...) {
		p.set(c)
	}
}

// replaceVerdict sets the conditions of an outcome alone.
func (p *pass) replaceVerdict(o evaluation.Outcome) {
	meta.RemoveStatusCondition(&p.d.Status.Conditions, v1alpha1.ConditionStalled)
	for _, c := range evaluation.Conditions(p.s.Run, p.d.Status, p.d.Tally.Sums, o) {
		p.set(c)
	}
}

func (p *pass) set(c metav1.Condition) { p.d.setCondition(c, p.s.Run.Generation, p.s.Now) }

// announceEnd announces how a run ends, and what the spec asks for but wasn't reached.
func (p *pass) announceEnd(o evaluation.Outcome, verdict []metav1.Condition) {
	if !o.Ended() {
		return
	}
	kind := corev1.EventTypeNormal
	if o.State == evaluation.Failed {
		kind = corev1.EventTypeWarning
	}
	p.d.announce(kind, o.Reason, o.Message)
	for _, c := range verdict {
		optional := c.Type == v1alpha1.ConditionThresholdsMet || c.Type == v1alpha1.ConditionResultsStored
		if optional && c.Status == metav1.ConditionFalse {
			p.d.announce(corev1.EventTypeWarning, c.Reason, c.Message)
		}
	}
}

// describeStored reports whether the episodes of the counted shards are in the result store.
func describeStored(sums score.Accumulator, is evaluation.State) metav1.Condition {
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

// announceChanges announces changes of the pool, of the run's suspension and of what delays it.
func (p *pass) announceChanges(suspension metav1.Condition, o evaluation.Outcome) {
	conditions, environment := p.s.Run.Status.Conditions, p.environment
	before := meta.FindStatusCondition(conditions, v1alpha1.ConditionEnvironmentReady)
	if environment.Status != metav1.ConditionTrue && (before == nil || before.Reason != environment.Reason) {
		kind := corev1.EventTypeWarning
		if environment.Reason == v1alpha1.ReasonEnvironmentNotAvailable {
			kind = corev1.EventTypeNormal // a pool is often applied together with its runs
		}
		p.d.announce(kind, environment.Reason, environment.Message)
	}
	was := meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionSuspended)
	switch is := suspension.Status == metav1.ConditionTrue; {
	case is && !was:
		p.d.announce(corev1.EventTypeNormal, v1alpha1.ReasonSuspended, suspension.Message)
	case was && !is && observe.IsExternal(p.s.Run):
		p.d.announce(corev1.EventTypeNormal, v1alpha1.ReasonResumed, "The run collects episodes again.")
	case was && !is:
		p.d.announce(corev1.EventTypeNormal, v1alpha1.ReasonResumed,
			"The run continues with the shards that are not counted yet.")
	}
	last := meta.FindStatusCondition(conditions, v1alpha1.ConditionComplete)
	if kind := delays[o.Reason]; kind != "" && (last == nil || last.Reason != o.Reason) && !o.Ended() {
		p.d.announce(kind, o.Reason, o.Message)
	}
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
			"spec.suspend is true: runners are stopped, and shards that have not ended will be played again. Set it to "+
				"false to continue.")
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

// describeDegraded returns the message of a degraded pool. It isn't shown to other namespaces, since
// it may quote private data.
func describeDegraded(env *v1alpha1.CustomerSupportEnv, namespace string) string {
	c := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Status != metav1.ConditionTrue || env.Namespace != namespace {
		return ""
	}
	return " " + c.Message
}
