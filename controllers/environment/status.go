package environment

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// computeStatus returns the status for a decision. Fields without new information stay.
func computeStatus(d decision) v1alpha1.CustomerSupportEnvStatus {
	status := *d.env.Status.DeepCopy()
	if d.applyErr == nil {
		status.ObservedGeneration = d.env.Generation
	}
	status.Endpoint = endpoint(d.env)
	status.Selector = labels.SelectorFromSet(pods.Selector(d.env.Name)).String()
	if !d.postponed {
		status.Image = d.image
	}
	counts := replicaCounts(d.snapshot)
	status.Replicas, status.ReadyReplicas = new(counts.exist), new(counts.ready)
	status.UpdatedReplicas, status.DrainingReplicas = new(counts.updated), new(drainingServers(d.snapshot))
	status.Sessions = sessions(d.snapshot)
	status.Episodes = episodes(d.snapshot)
	describeOffer(d, &status)
	conditions := []metav1.Condition{available(d), progressing(d), degraded(d)}
	conditions = append(conditions, ready(d, conditions))
	if d.scaling.limit == "" {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionScalingLimited)
	} else {
		conditions = append(conditions, scalingLimited(d))
	}
	for _, condition := range conditions {
		condition.ObservedGeneration = d.env.Generation
		condition.LastTransitionTime = metav1.NewTime(d.now)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

func endpoint(env *v1alpha1.CustomerSupportEnv) string {
	return fmt.Sprintf("ws://%s.%s.svc:%d", env.Name, env.Namespace, v1alpha1.EnvironmentPort)
}

func available(d decision) metav1.Condition {
	wanted, counts := d.scaling.to, replicaCounts(d.snapshot)
	switch {
	case isSuspended(d.snapshot):
		return condition(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonSuspended,
			"operatingMode is Suspended. To start servers, set it to Running.")
	case wanted == 0:
		return condition(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonScaledToZero, "%s", whyNone(d.snapshot))
	case counts.ready > 0:
		return condition(v1alpha1.ConditionAvailable, true, v1alpha1.ReasonServersReady,
			"%d of %d servers accept sessions at %s.", counts.ready, wanted, endpoint(d.env))
	case counts.full > 0:
		return condition(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonServersFull,
			"All running servers are full. Wait for sessions to end, or raise %s or spec.sessions.perPod.",
			replicasField(d.snapshot))
	case judgeNotReady(d) != nil:
		return condition(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonJudgeNotReady,
			"None of %d servers accepts sessions, because the judge can't grade. See condition Degraded.", wanted)
	default:
		return condition(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonNoServerReady,
			"None of %d servers accepts sessions. %s", wanted, whatNext(d))
	}
}

// ready sums up the other conditions for programs that don't know them. A pool with autoscaling
// stays ready while servers are added.
func ready(d decision, conditions []metav1.Condition) metav1.Condition {
	is := func(kind string) *metav1.Condition {
		if c := meta.FindStatusCondition(conditions, kind); c.Status == metav1.ConditionTrue {
			return c
		}
		return nil
	}
	serving := meta.FindStatusCondition(conditions, v1alpha1.ConditionAvailable)
	counts := replicaCounts(d.snapshot)
	scaling := d.env.Spec.Autoscaling != nil && is(v1alpha1.ConditionAvailable) != nil && counts.updated == counts.exist
	from := serving
	holds := serving.Reason != v1alpha1.ReasonNoServerReady
	if c := is(v1alpha1.ConditionDegraded); c != nil {
		from, holds = c, false
	} else if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionProgressing); !scaling &&
		(c.Status == metav1.ConditionTrue || c.Reason == v1alpha1.ReasonProgressDeadlineExceeded) {
		from, holds = c, false
	}
	return condition(v1alpha1.ConditionReady, holds, from.Reason, "%s", from.Message)
}

func isSuspended(s snapshot) bool { return s.env.Spec.OperatingMode == v1alpha1.SuspendedMode }

func whyNone(s snapshot) string {
	if s.env.Spec.Autoscaling == nil {
		return "spec.replicas is 0. To start servers, raise it."
	}
	return "No session is open, and spec.autoscaling.minReplicas is 0. An EvaluationRun starts a server. For other " +
		"clients, raise minReplicas."
}

// replicasField names the field that limits the number of servers.
func replicasField(s snapshot) string {
	if s.env.Spec.Autoscaling == nil {
		return "spec.replicas"
	}
	return "spec.autoscaling.maxReplicas"
}

// progressing reports whether the pool is still changing to the state of its spec.
func progressing(d decision) metav1.Condition {
	wanted, counts := d.scaling.to, replicaCounts(d.snapshot)
	switch {
	case deadlineExceeded(d.snapshot):
		return condition(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonProgressDeadlineExceeded,
			"The rolling update is stuck: %d of %d servers run the newest template. Older servers continue to serve. "+
				"See condition Degraded.", counts.updated, wanted)
	case d.postponed:
		return condition(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonUpdatePostponed,
			"Another release of the operator will replace the servers, after those of other pools. No action is "+
				"needed.")
	case d.applying, !observed(d.deployment()), counts.exist != wanted, counts.updated != wanted,
		counts.ready+counts.full < wanted:
		return condition(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonRollingOut,
			"%d of %d servers run the newest template and %d are ready. %s",
			counts.updated, wanted, counts.ready, whatNext(d))
	case isSuspended(d.snapshot):
		return condition(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonSuspended,
			"operatingMode is Suspended. Remaining servers end their sessions.")
	default:
		return condition(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonRolledOut,
			"All %d servers run the newest template.", wanted)
	}
}

// scalingLimited reports whether minReplicas or maxReplicas limits autoscaling.
func scalingLimited(d decision) metav1.Condition {
	a, kind := d.env.Spec.Autoscaling, v1alpha1.ConditionScalingLimited
	switch d.scaling.limit {
	case v1alpha1.ReasonAtMaximum:
		return condition(kind, true, v1alpha1.ReasonAtMaximum,
			"The sessions need more servers than spec.autoscaling.maxReplicas, %d. Raise it, or accept fewer free "+
				"sessions than freeSessions.", a.MaxReplicas)
	case v1alpha1.ReasonAtMinimum:
		return condition(kind, true, v1alpha1.ReasonAtMinimum,
			"The sessions need fewer servers than spec.autoscaling.minReplicas, %d. Lower it to save servers.",
			ptr.Deref(a.MinReplicas, 1))
	default:
		return condition(kind, false, v1alpha1.ReasonWithinLimits, "The number of servers that the sessions "+
			"need is within the limits, from %d to %d.", ptr.Deref(a.MinReplicas, 1), a.MaxReplicas)
	}
}

// degraded reports the first fault, because the others often follow from it.
func degraded(d decision) metav1.Condition {
	if f := findFault(d); f != nil {
		return condition(v1alpha1.ConditionDegraded, true, f.reason, "%s", f.message)
	}
	return condition(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonHealthy, "No faults found.")
}

func whatNext(d decision) string {
	if findFault(d) != nil {
		return "See condition Degraded."
	}
	return "No action is needed."
}

func condition(kind string, holds bool, reason, format string, args ...any) metav1.Condition {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// counts are numbers of servers without terminating ones. Full servers aren't ready.
type counts struct{ exist, updated, ready, full int32 }

func replicaCounts(s snapshot) counts {
	c := counts{}
	if d := s.deployment(); d != nil {
		c.exist, c.updated, c.ready = d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas
	}
	for _, pod := range s.pods {
		report, ok := s.reports[pod.Name]
		if ok && !pods.IsReady(&pod) && !isLeaving(pod, report) && report.Sessions.Active >= report.Sessions.Capacity {
			c.full++
		}
	}
	return c
}

// drainingServers counts the terminating servers that may still serve sessions.
func drainingServers(s snapshot) int32 {
	n := int32(0)
	for _, pod := range s.pods {
		report, answered := s.reports[pod.Name]
		if pod.DeletionTimestamp != nil && pods.IsServing(&pod) && (!answered || report.Sessions.Active > 0) {
			n++
		}
	}
	return n
}

// onlyCountsDiffer reports whether nothing but the counts of sessions and episodes differs.
func onlyCountsDiffer(a, b v1alpha1.CustomerSupportEnvStatus) bool {
	if a.Sessions == nil || b.Sessions == nil || a.Episodes == nil || b.Episodes == nil {
		return false
	}
	b.Sessions, b.Episodes = a.Sessions, a.Episodes
	return equality.Semantic.DeepEqual(a, b)
}

// isLeaving reports whether the server only finishes its sessions.
func isLeaving(pod corev1.Pod, report score.Report) bool {
	return pod.DeletionTimestamp != nil || report.Draining
}

// observed reports whether the Deployment's counts are of its present spec.
func observed(d *appsv1.Deployment) bool {
	return d != nil && d.Status.ObservedGeneration >= d.Generation
}

// sessions sums over the servers that answered; it is unset if servers run and none answered.
// Draining servers add active sessions, but no capacity.
func sessions(s snapshot) *v1alpha1.SessionCounts {
	if len(s.reports) == 0 && slices.ContainsFunc(s.pods, func(pod corev1.Pod) bool { return pods.IsServing(&pod) }) {
		return nil
	}
	sum := &v1alpha1.SessionCounts{}
	for _, pod := range s.pods {
		report := s.reports[pod.Name]
		sum.Active += max(0, report.Sessions.Active)
		if !isLeaving(pod, report) {
			sum.Capacity += max(0, report.Sessions.Capacity)
		}
	}
	return sum
}

func episodes(s snapshot) *v1alpha1.PoolEpisodes {
	if len(s.reports) == 0 {
		return nil
	}
	sum, scores := &v1alpha1.PoolEpisodes{}, int64(0)
	for _, report := range s.reports {
		sum.Scored += max(0, report.Episodes.Scored)
		sum.Failed += max(0, report.Episodes.Failed)
		sum.Errored += max(0, report.Episodes.Errored)
		scores += report.Episodes.ScoreSum
	}
	if graded := sum.Scored + sum.Failed; graded > 0 {
		sum.MeanScore = score.Decimal(scores / graded)
	}
	return sum
}

// describeOffer sets the pool's tasks and grading from a server of the newest template. Until one
// answers, they stay as they were.
func describeOffer(d decision, status *v1alpha1.CustomerSupportEnvStatus) {
	isNewest := describes(d.snapshot, d.scenarios)
	for _, pod := range d.pods {
		report, ok := d.reports[pod.Name]
		if !ok || !isNewest(pod) {
			continue
		}
		status.ScenarioDigest = pods.Clip(report.ScenarioDigest, maxDigest)
		status.GraderVersion = pods.Clip(report.GraderVersion, 64)
		status.Judge = pods.Clip(report.Judge, 256)
		status.Tasks = offeredTasks(report.Tasks)
		return
	}
}

// describes selects the servers of the newest template that aren't terminating.
func describes(s snapshot, scenarios string) func(corev1.Pod) bool {
	newest := podTemplate(s, scenarios).Annotations[templateHash]
	return func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && pod.Annotations[templateHash] == newest
	}
}

// maxTasks bounds status.tasks.
const maxTasks = 32

// offeredTasks returns the tasks ordered by name. Values of custom images that the API doesn't
// allow are dropped.
func offeredTasks(tasks []score.Task) []v1alpha1.OfferedTask {
	offered := make([]v1alpha1.OfferedTask, 0, len(tasks))
	for _, task := range tasks {
		if task.Name != "" && task.Name == pods.Clip(task.Name, 63) {
			n := int32(len(task.Scenarios)) //nolint:gosec // a report is bounded to far fewer
			offered = append(offered, v1alpha1.OfferedTask{Name: task.Name, Scenarios: n})
		}
	}
	slices.SortFunc(offered, func(a, b v1alpha1.OfferedTask) int { return cmp.Compare(a.Name, b.Name) })
	offered = slices.CompactFunc(offered, func(a, b v1alpha1.OfferedTask) bool { return a.Name == b.Name })
	return offered[:min(len(offered), maxTasks)]
}

// transitions returns the conditions whose status or reason changed. A new condition that isn't
// True is no change.
func transitions(before, after []metav1.Condition) []metav1.Condition {
	var changed []metav1.Condition
	for _, now := range after {
		if now.Type == v1alpha1.ConditionReady {
			continue // repeats another condition
		}
		was := meta.FindStatusCondition(before, now.Type)
		isNews := was == nil && now.Status == metav1.ConditionTrue
		if isNews || was != nil && (was.Status != now.Status || was.Reason != now.Reason) {
			changed = append(changed, now)
		}
	}
	return changed
}

func eventType(c metav1.Condition) string {
	if c.Type == v1alpha1.ConditionDegraded && c.Status == metav1.ConditionTrue ||
		c.Reason == v1alpha1.ReasonProgressDeadlineExceeded || c.Reason == v1alpha1.ReasonNoServerReady {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
