// Package snapshot has the values that a pass over a pool reads, decides by and writes from. It has
// no client.
package snapshot

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// MaxSessions bounds the sessions that a server reports. It is the maximum of
// spec.sessions.perPod.
const MaxSessions = 100_000

// MaxDigest is the maximum of a digest in bytes, as in the status.
const MaxDigest = 128

// Object is an object of the cluster: a client.Object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Snapshot is everything that a pass has read. It isn't changed afterwards.
type Snapshot struct {
	children.Pool
	Live    map[children.ID]Object  // the pool's objects that exist
	Taken   []children.ID           // names of objects of other owners
	Leaving []children.ID           // names of objects of a deleted pool of the same name
	Pods    []corev1.Pod            // ordered by name
	Reports map[string]score.Report // by name of the pod; one that couldn't be read is absent
	Unasked []types.UID             // of pods that became ready after the reports were read
	KeyErr  error                   // why the ledger key can't be read, without which no server answers
	Awaited bool                    // an EvaluationRun needs the pool
	// Updating are the pools whose servers are being replaced, and UpdatingErr why they aren't
	// known. They are read only if another release of the operator would replace the servers of
	// this pool.
	Updating    map[types.NamespacedName]bool
	UpdatingErr error
	Now         time.Time
}

// Deployment returns the pool's Deployment, or nil.
func (s Snapshot) Deployment() *appsv1.Deployment {
	d, _ := s.Live[children.ID{Kind: children.KindDeployment, Name: s.Env.Name}].(*appsv1.Deployment)
	return d
}

// AnnotatedScenarios returns the digest of the packs for which the servers were last replaced, ""
// if they never were.
func (s Snapshot) AnnotatedScenarios() string {
	d := s.Deployment()
	if d == nil || len(s.Env.Spec.Scenarios.Packs) == 0 {
		return ""
	}
	return d.Spec.Template.Annotations[children.ScenariosAnnotation]
}

// HasNewestTemplate reports whether the Deployment has the template that this release of the
// operator builds.
func (s Snapshot) HasNewestTemplate() bool {
	d := s.Deployment()
	return d != nil && d.Spec.Template.Annotations[children.TemplateHash] == hashTemplate(s, s.AnnotatedScenarios())
}

// NeedsRelease reports whether the template differs without a change of the spec: another release
// of the operator made it.
func (s Snapshot) NeedsRelease() bool {
	return s.Deployment() != nil && s.Env.Generation == s.Env.Status.ObservedGeneration && !s.HasNewestTemplate()
}

// SelectNewest selects the servers of the newest template that aren't terminating.
func (s Snapshot) SelectNewest(scenarios string) func(corev1.Pod) bool {
	newest := hashTemplate(s, scenarios)
	return func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && pod.Annotations[children.TemplateHash] == newest
	}
}

func hashTemplate(s Snapshot, scenarios string) string {
	return children.BuildPodTemplate(s.Pool, scenarios).Annotations[children.TemplateHash]
}

// NewestReports returns the reports of the servers of the newest template, ordered by pod name.
func (s Snapshot) NewestReports(scenarios string) []score.Report {
	var reports []score.Report
	isNewest := s.SelectNewest(scenarios)
	for _, pod := range s.Pods {
		if report, ok := s.Reports[pod.Name]; ok && !report.Draining && isNewest(pod) {
			reports = append(reports, report)
		}
	}
	return reports
}

// ActiveSessions returns the open sessions that a server reports, within bounds.
func ActiveSessions(report score.Report) int64 {
	return min(max(0, report.Sessions.Active), MaxSessions)
}

// IsLeaving reports whether the server only finishes its sessions.
func IsLeaving(pod corev1.Pod, report score.Report) bool {
	return pod.DeletionTimestamp != nil || report.Draining
}

// FindCondition returns the Deployment's condition of a type, or nil.
func FindCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	if d == nil {
		return nil
	}
	return pods.FindFirst(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}

// Counts are numbers of servers without terminating ones. Full servers aren't ready.
type Counts struct{ Exist, Updated, Ready, Full int32 }

// CountServers counts the servers of a snapshot.
func CountServers(s Snapshot) Counts {
	c := Counts{}
	if d := s.Deployment(); d != nil {
		c.Exist, c.Updated, c.Ready = d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas
	}
	for _, pod := range s.Pods {
		report, ok := s.Reports[pod.Name]
		if ok && !pods.IsReady(&pod) && !IsLeaving(pod, report) && report.Sessions.Active >= report.Sessions.Capacity {
			c.Full++
		}
	}
	return c
}

// CountDraining counts the terminating servers that may still serve sessions.
func CountDraining(s Snapshot) int32 {
	n := int32(0)
	for _, pod := range s.Pods {
		report, answered := s.Reports[pod.Name]
		if pod.DeletionTimestamp != nil && pods.IsServing(&pod) && (!answered || report.Sessions.Active > 0) {
			n++
		}
	}
	return n
}

// IsStuck reports whether the rolling update exceeded its deadline. Full servers aren't ready and
// delay it without a fault.
func IsStuck(s Snapshot) bool {
	c := FindCondition(s.Deployment(), appsv1.DeploymentProgressing)
	return CountServers(s).Full == 0 && c != nil && c.Status == corev1.ConditionFalse &&
		c.Reason == "ProgressDeadlineExceeded"
}

// ListStaying returns the servers that aren't terminating.
func ListStaying(s Snapshot) []corev1.Pod {
	staying := make([]corev1.Pod, 0, len(s.Pods))
	for _, pod := range s.Pods {
		if pod.DeletionTimestamp == nil {
			staying = append(staying, pod)
		}
	}
	return staying
}
