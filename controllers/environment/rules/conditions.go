package rules

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/rule"
)

const (
	seeDegraded = "See condition Degraded"
	noAction    = "No action is needed"
)

// formatEndpoint returns the address of the pool's servers.
func formatEndpoint(env *v1alpha1.CustomerSupportEnv) string {
	return fmt.Sprintf("ws://%s.%s.svc:%d", env.Name, env.Namespace, v1alpha1.EnvironmentPort)
}

// available says whether the pool accepts sessions.
var available = []Rule{
	{Reason: v1alpha1.ReasonSuspended, Stage: Available, State: isFalse, When: "`operatingMode` is `Suspended`",
		Advice: "To start servers, set it to Running",
		Check:  describeIf((*pass).isSuspended, "operatingMode is Suspended.")},
	{Reason: v1alpha1.ReasonScaledToZero, Stage: Available, State: isFalse, When: "`replicas` is 0",
		Advice: "To start servers, raise it",
		Check: describeIf(func(p *pass) bool { return p.wantedServers() == 0 && !p.isAutoscaled() },
			"spec.replicas is 0.")},
	{Reason: v1alpha1.ReasonScaledToZero, Stage: Available, State: isFalse, When: "autoscaling needs no server",
		Advice: "An EvaluationRun starts a server. For other clients, raise minReplicas",
		Check: describeIf(func(p *pass) bool { return p.wantedServers() == 0 },
			"No session is open, and spec.autoscaling.minReplicas is 0.")},
	{Reason: v1alpha1.ReasonServersReady, Stage: Available, State: isTrue, When: "a server accepts sessions",
		Check: func(p *pass) rule.Finding {
			return describeNumbers(p.counts.Ready > 0, "%d of %d servers accept sessions at %s.", p.counts.Ready,
				max(p.wantedServers(), p.counts.Ready), formatEndpoint(p.Env))
		}},
	{Reason: v1alpha1.ReasonServersFull, Stage: Available, State: isFalse, When: "no server has a free slot",
		Advice: "Wait for sessions to end, or raise spec.replicas or spec.sessions.perPod",
		Check: describeIf(func(p *pass) bool { return p.counts.Full > 0 && !p.isAutoscaled() },
			"All running servers are full.")},
	{Reason: v1alpha1.ReasonServersFull, Stage: Available, State: isFalse,
		When:   "no server of an autoscaled pool has a free slot",
		Advice: "Wait for sessions to end, or raise spec.autoscaling.maxReplicas or spec.sessions.perPod",
		Check:  describeIf(func(p *pass) bool { return p.counts.Full > 0 }, "All running servers are full.")},
	{Reason: v1alpha1.ReasonJudgeNotReady, Stage: Available, State: isFalse, When: "the judge of a server can't grade",
		Advice: seeDegraded, Check: func(p *pass) rule.Finding {
			server, _ := p.findUnjudged()
			return describeNumbers(server != "",
				"None of %d servers accepts sessions, because the judge can't grade.", p.wantedServers())
		}},
	{Reason: v1alpha1.ReasonNoServerReady, Stage: Available, State: isFalse, Event: warning,
		When: "a fault keeps servers from running", Advice: seeDegraded, Check: func(p *pass) rule.Finding {
			return describeNumbers(p.isDegraded(), "None of %d servers accepts sessions.", p.wantedServers())
		}},
	{Reason: v1alpha1.ReasonNoServerReady, Stage: Available, State: isFalse, Event: warning, When: "servers start",
		Advice: noAction, Check: func(p *pass) rule.Finding {
			return newFinding("None of %d servers accepts sessions.", p.wantedServers())
		}},
}

// progressing says whether the pool is still changing to the state of its spec.
var progressing = []Rule{
	{Reason: v1alpha1.ReasonProgressDeadlineExceeded, Stage: Progressing, State: isFalse, Event: warning,
		When: "the rolling update exceeded the Deployment's deadline", Advice: seeDegraded,
		Check: func(p *pass) rule.Finding {
			return describeNumbers(snapshot.IsStuck(p.Snapshot), "The rolling update is stuck: %d of %d servers run "+
				"the newest template. Older servers continue to serve.", p.counts.Updated, p.wantedServers())
		}},
	{Reason: v1alpha1.ReasonUpdatePostponed, Stage: Progressing, State: isFalse,
		When: "another release of the operator waits for other pools", Advice: noAction,
		Check: describeIf(func(p *pass) bool { return p.Postponed },
			"Another release of the operator will replace the servers, after those of other pools.")},
	{Reason: v1alpha1.ReasonRollingOut, Stage: Progressing, State: isTrue,
		When: "a fault hinders servers that are created, replaced or removed", Advice: seeDegraded,
		Check: func(p *pass) rule.Finding {
			return describeRollout(p, p.isDegraded())
		}},
	{Reason: v1alpha1.ReasonRollingOut, Stage: Progressing, State: isTrue,
		When: "servers are created, replaced or removed", Advice: noAction, Check: func(p *pass) rule.Finding {
			return describeRollout(p, true)
		}},
	{Reason: v1alpha1.ReasonSuspended, Stage: Progressing, State: isFalse, When: "`operatingMode` is `Suspended`",
		Check: describeIf((*pass).isSuspended, "operatingMode is Suspended. Remaining servers end their sessions.")},
	{Reason: v1alpha1.ReasonRolledOut, Stage: Progressing, State: isFalse, When: "otherwise",
		Check: func(p *pass) rule.Finding {
			return newFinding("All %d servers run the newest template.", p.wantedServers())
		}},
}

// describeRollout tells how many servers are as they should be, and how many are too many.
func describeRollout(p *pass, holds bool) rule.Finding {
	if surplus := p.counts.Exist - p.wantedServers(); surplus > 0 && p.counts.Updated > p.wantedServers() {
		return describeNumbers(holds && isRollingOut(p), "%d of %d servers are removed, and %d are ready.", surplus,
			p.counts.Exist, p.counts.Ready)
	}
	return describeNumbers(holds && isRollingOut(p), "%d of %d servers run the newest template and %d are ready.",
		p.counts.Updated, p.wantedServers(), p.counts.Ready)
}

func isRollingOut(p *pass) bool {
	return p.isChanging() || p.counts.Exist != p.wantedServers() || p.counts.Updated != p.wantedServers() ||
		p.counts.Ready+p.counts.Full < p.wantedServers()
}

// scaling says whether minReplicas or maxReplicas limits autoscaling.
var scaling = []Rule{
	{Reason: v1alpha1.ReasonAtMaximum, Stage: ScalingLimited, State: isTrue,
		When:   "the sessions need more servers than `maxReplicas`",
		Advice: "Raise it, or accept fewer free sessions than freeSessions", Check: func(p *pass) rule.Finding {
			return describeNumbers(p.Scaling.Limit == v1alpha1.ReasonAtMaximum,
				"The sessions need more servers than spec.autoscaling.maxReplicas, %d.", getMost(p))
		}},
	{Reason: v1alpha1.ReasonAtMinimum, Stage: ScalingLimited, State: isTrue,
		When: "the sessions need fewer servers than `minReplicas`", Advice: "Lower it to save servers",
		Check: func(p *pass) rule.Finding {
			return describeNumbers(p.Scaling.Limit == v1alpha1.ReasonAtMinimum,
				"The sessions need fewer servers than spec.autoscaling.minReplicas, %d.", getLeast(p))
		}},
	{Reason: v1alpha1.ReasonWithinLimits, Stage: ScalingLimited, State: isFalse, When: "otherwise",
		Check: func(p *pass) rule.Finding {
			return newFinding("The number of servers that the sessions need is within the limits, "+
				"from %d to %d.", getLeast(p), getMost(p))
		}},
}

func getLeast(p *pass) int32 { return ptr.Deref(p.Env.Spec.Autoscaling.MinReplicas, 1) }

func getMost(p *pass) int32 { return p.Env.Spec.Autoscaling.MaxReplicas }
