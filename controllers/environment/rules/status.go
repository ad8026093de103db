package rules

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// ComputeStatus returns the status for a decision and what was written of it. Fields without new
// information stay.
func ComputeStatus(d Decision, w Written) v1alpha1.CustomerSupportEnvStatus {
	status := *d.Env.Status.DeepCopy()
	if w.Err == nil {
		status.ObservedGeneration = d.Env.Generation
	}
	status.Endpoint = formatEndpoint(d.Env)
	status.Selector = labels.SelectorFromSet(pods.Selector(d.Env.Name)).String()
	if !d.Postponed {
		status.Image = d.Image
	}
	p := newPass(d, w)
	status.Replicas, status.ReadyReplicas = new(p.counts.Exist), new(p.counts.Ready)
	status.UpdatedReplicas, status.DrainingReplicas = new(p.counts.Updated), new(snapshot.CountDraining(d.Snapshot))
	status.Sessions = SumSessions(d.Snapshot)
	status.Episodes = sumEpisodes(d.Snapshot)
	describeOffer(d, &status)
	if d.Scaling.Limit == "" {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionScalingLimited)
	}
	for _, condition := range p.computeConditions() {
		condition.ObservedGeneration = d.Env.Generation
		condition.LastTransitionTime = metav1.NewTime(d.Now)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

// computeConditions returns the conditions of the rules that hold.
func (p *pass) computeConditions() []metav1.Condition {
	conditions := []metav1.Condition{p.setCondition(Available), p.setCondition(Progressing), p.setCondition(Degraded)}
	conditions = append(conditions, p.sumUp(conditions))
	if p.Scaling.Limit != "" {
		conditions = append(conditions, p.setCondition(ScalingLimited))
	}
	return conditions
}

// sumUp returns the condition Ready, which repeats another one for programs that don't know the
// others. A pool with autoscaling stays ready while servers are added.
func (p *pass) sumUp(conditions []metav1.Condition) metav1.Condition {
	from := meta.FindStatusCondition(conditions, v1alpha1.ConditionAvailable)
	progressing := meta.FindStatusCondition(conditions, v1alpha1.ConditionProgressing)
	degraded := meta.FindStatusCondition(conditions, v1alpha1.ConditionDegraded)
	scaling := p.isAutoscaled() && from.Status == metav1.ConditionTrue && p.counts.Updated == p.counts.Exist
	isReady := from.Reason != v1alpha1.ReasonNoServerReady
	switch {
	case degraded.Status == metav1.ConditionTrue:
		from, isReady = degraded, false
	case !scaling && (progressing.Status == metav1.ConditionTrue ||
		progressing.Reason == v1alpha1.ReasonProgressDeadlineExceeded):
		from, isReady = progressing, false
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: from.Reason,
		Message: from.Message}
	if isReady {
		ready.Status = metav1.ConditionTrue
	}
	return ready
}

// SumSessions sums over the servers that answered; it is unset if servers run and none answered.
// Draining servers add active sessions, but no capacity.
func SumSessions(s snapshot.Snapshot) *v1alpha1.SessionCounts {
	if len(s.Reports) == 0 && slices.ContainsFunc(s.Pods, func(pod corev1.Pod) bool { return pods.IsServing(&pod) }) {
		return nil
	}
	sum := &v1alpha1.SessionCounts{}
	for _, pod := range s.Pods {
		report := s.Reports[pod.Name]
		sum.Active += max(0, report.Sessions.Active)
		if !snapshot.IsLeaving(pod, report) {
			sum.Capacity += max(0, report.Sessions.Capacity)
		}
	}
	return sum
}

func sumEpisodes(s snapshot.Snapshot) *v1alpha1.PoolEpisodes {
	if len(s.Reports) == 0 {
		return nil
	}
	sum, scores := &v1alpha1.PoolEpisodes{}, int64(0)
	for _, report := range s.Reports {
		sum.Scored += max(0, report.Episodes.Scored)
		sum.Failed += max(0, report.Episodes.Failed)
		sum.Errored += max(0, report.Episodes.Errored)
		scores += report.Episodes.ScoreSum
	}
	if graded := sum.Scored + sum.Failed; graded > 0 && s.Env.Spec.Runs.Scores != v1alpha1.ScoresInResults {
		sum.MeanScore = score.FormatDecimal(scores / graded)
	}
	return sum
}

// describeOffer sets the pool's tasks and grading from a server of the newest template. Until one
// answers, they stay as they were.
func describeOffer(d Decision, status *v1alpha1.CustomerSupportEnvStatus) {
	isNewest := d.SelectNewest(d.Scenarios)
	for _, pod := range d.Pods {
		report, ok := d.Reports[pod.Name]
		if !ok || !isNewest(pod) {
			continue
		}
		status.ScenarioDigest = pods.ClipText(report.ScenarioDigest, snapshot.MaxDigest)
		status.GraderVersion = pods.ClipText(report.GraderVersion, 256)
		status.Judge = pods.ClipText(report.Judge, 256)
		status.Tasks = listTasks(report.Tasks)
		return
	}
}

// maxTasks bounds status.tasks.
const maxTasks = 32

// listTasks returns the tasks ordered by name. Values of custom images that the API doesn't
// allow are dropped.
func listTasks(tasks []score.Task) []v1alpha1.OfferedTask {
	offered := make([]v1alpha1.OfferedTask, 0, len(tasks))
	for _, task := range tasks {
		if task.Name != "" && task.Name == pods.ClipText(task.Name, 63) {
			n := int32(len(task.Scenarios)) //nolint:gosec // a report is bounded to far fewer
			offered = append(offered, v1alpha1.OfferedTask{Name: task.Name, Scenarios: n})
		}
	}
	slices.SortFunc(offered, func(a, b v1alpha1.OfferedTask) int { return cmp.Compare(a.Name, b.Name) })
	offered = slices.CompactFunc(offered, func(a, b v1alpha1.OfferedTask) bool { return a.Name == b.Name })
	return offered[:min(len(offered), maxTasks)]
}
