package rules

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
)

const (
	seeDegraded = "See condition Degraded"
	noAction    = "No action is needed"
)

// FormatEndpoint returns the address of the pool's servers.
func FormatEndpoint(env *v1alpha1.CustomerSupportEnv) string {
	return fmt.Sprintf("ws://%s.%s.svc:%d", env.Name, env.Namespace, v1alpha1.EnvironmentPort)
}

// availableRules decide whether the pool accepts sessions.
var availableRules = []Rule{
	{v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonSuspended,
		"`operatingMode` is `Suspended`", "To start servers, set it to Running",
		describeIf(facts.isSuspended, "operatingMode is Suspended.")},
	{v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonScaledToZero,
		"`replicas` is 0", "To start servers, raise it",
		describeIf(func(f facts) bool { return f.wanted == 0 && !f.isAutoscaled() }, "spec.replicas is 0.")},
	{v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonScaledToZero,
		"autoscaling needs no server", "An EvaluationRun starts a server. For other clients, raise minReplicas",
		describeIf(func(f facts) bool { return f.wanted == 0 },
			"No session is open, and spec.autoscaling.minReplicas is 0.")},
	{v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady,
		"a server accepts sessions", "", func(f facts) (what, detail string) {
			return describeNumbers(f.counts.Ready > 0, "%d of %d servers accept sessions at %s.", f.counts.Ready,
				max(f.wanted, f.counts.Ready), FormatEndpoint(f.env))
		}},
	{v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonServersFull,
		"no server has a free slot", "Wait for sessions to end, or raise spec.replicas or spec.sessions.perPod",
		describeIf(func(f facts) bool { return f.counts.Full > 0 && !f.isAutoscaled() },
			"All running servers are full.")},
	{v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonServersFull,
		"no server of an autoscaled pool has a free slot",
		"Wait for sessions to end, or raise spec.autoscaling.maxReplicas or spec.sessions.perPod",
		describeIf(func(f facts) bool { return f.counts.Full > 0 }, "All running servers are full.")},
	{v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonJudgeNotReady,
		"the judge of a server can't grade", seeDegraded, func(f facts) (what, detail string) {
			return describeNumbers(f.unjudged != "",
				"None of %d servers accepts sessions, because the judge can't grade.", f.wanted)
		}},
	{v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonNoServerReady,
		"a fault keeps servers from running", seeDegraded, func(f facts) (what, detail string) {
			return describeNumbers(f.degraded, "None of %d servers accepts sessions.", f.wanted)
		}},
	{v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonNoServerReady,
		"servers start", noAction, func(f facts) (what, detail string) {
			return describeNumbers(true, "None of %d servers accepts sessions.", f.wanted)
		}},
}

// progressingRules decide whether the pool is still changing to the state of its spec.
var progressingRules = []Rule{
	{v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded,
		"the rolling update exceeded the Deployment's deadline", seeDegraded, func(f facts) (what, detail string) {
			return describeNumbers(f.stuck, "The rolling update is stuck: %d of %d servers run the newest template. "+
				"Older servers continue to serve.", f.counts.Updated, f.wanted)
		}},
	{v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonUpdatePostponed,
		"another release of the operator waits for other pools", noAction,
		describeIf(func(f facts) bool { return f.postponed },
			"Another release of the operator will replace the servers, after those of other pools.")},
	{v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRollingOut,
		"a fault hinders servers that are created, replaced or removed", seeDegraded,
		func(f facts) (what, detail string) {
			return describeRollout(f, f.degraded)
		}},
	{v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRollingOut,
		"servers are created, replaced or removed", noAction, func(f facts) (what, detail string) {
			return describeRollout(f, true)
		}},
	{v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSuspended,
		"`operatingMode` is `Suspended`", "",
		describeIf(facts.isSuspended, "operatingMode is Suspended. Remaining servers end their sessions.")},
	{v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRolledOut,
		"otherwise", "", func(f facts) (what, detail string) {
			return describeNumbers(true, "All %d servers run the newest template.", f.wanted)
		}},
}

// describeRollout tells how many servers are as they should be, and how many are too many.
func describeRollout(f facts, holds bool) (what, detail string) {
	if surplus := f.counts.Exist - f.wanted; surplus > 0 && f.counts.Updated > f.wanted {
		return describeNumbers(holds && isRollingOut(f), "%d of %d servers are removed, and %d are ready.", surplus,
			f.counts.Exist, f.counts.Ready)
	}
	return describeNumbers(holds && isRollingOut(f), "%d of %d servers run the newest template and %d are ready.",
		f.counts.Updated, f.wanted, f.counts.Ready)
}

func isRollingOut(f facts) bool {
	return f.changing || f.counts.Exist != f.wanted || f.counts.Updated != f.wanted ||
		f.counts.Ready+f.counts.Full < f.wanted
}

// scalingRules decide whether minReplicas or maxReplicas limits autoscaling.
var scalingRules = []Rule{
	{v1alpha1.ConditionScalingLimited, metav1.ConditionTrue, v1alpha1.ReasonAtMaximum,
		"the sessions need more servers than `maxReplicas`",
		"Raise it, or accept fewer free sessions than freeSessions",
		func(f facts) (what, detail string) {
			return describeNumbers(f.limit == v1alpha1.ReasonAtMaximum,
				"The sessions need more servers than spec.autoscaling.maxReplicas, %d.", getMost(f))
		}},
	{v1alpha1.ConditionScalingLimited, metav1.ConditionTrue, v1alpha1.ReasonAtMinimum,
		"the sessions need fewer servers than `minReplicas`", "Lower it to save servers",
		func(f facts) (what, detail string) {
			return describeNumbers(f.limit == v1alpha1.ReasonAtMinimum,
				"The sessions need fewer servers than spec.autoscaling.minReplicas, %d.", getLeast(f))
		}},
	{v1alpha1.ConditionScalingLimited, metav1.ConditionFalse, v1alpha1.ReasonWithinLimits,
		"otherwise", "", func(f facts) (what, detail string) {
			return describeNumbers(true, "The number of servers that the sessions need is within the limits, "+
				"from %d to %d.", getLeast(f), getMost(f))
		}},
}

func getLeast(f facts) int32 { return ptr.Deref(f.env.Spec.Autoscaling.MinReplicas, 1) }

func getMost(f facts) int32 { return f.env.Spec.Autoscaling.MaxReplicas }
