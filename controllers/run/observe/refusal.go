package observe

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/snapshot"
)

// NoPodsAfter is how long a Job may have no pods before the reason is looked for.
const NoPodsAfter = 15 * time.Second

// isPodless reports whether a Job that should have pods has had none for a while.
func isPodless(s *snapshot.Snapshot) bool {
	return s.Job != nil && runner.IsJobActive(s.Job) && !ptr.Deref(s.Job.Spec.Suspend, false) && len(s.Pods) == 0 &&
		s.Job.Status.Active == 0 && s.Job.Status.StartTime != nil &&
		s.Now.Sub(s.Job.Status.StartTime.Time) >= NoPodsAfter
}

// +kubebuilder:rbac:groups="",resources=events,verbs=list

// readRefusal reads why the API server refuses the pods of a Job, which its controller reports by
// an event and nowhere else. An event from before the newest pod is over: the Job controller may
// have no pods because it delays the pods of shards that have failed.
func (r *Reader) readRefusal(ctx context.Context, s *snapshot.Snapshot) error {
	if !isPodless(s) {
		return nil
	}
	var list corev1.EventList
	which := client.MatchingFieldsSelector{Selector: fields.SelectorFromSet(fields.Set{
		"involvedObject.uid": string(s.Job.UID), "reason": "FailedCreate"})}
	if err := r.Direct.List(ctx, &list, client.InNamespace(s.Job.Namespace), which); err != nil {
		return fmt.Errorf("reading the events of the Job: %w", err)
	}
	at := findNewestPod(s)
	for i := range list.Items {
		e := &list.Items[i]
		seen := e.LastTimestamp.Time
		if e.EventTime.After(seen) {
			seen = e.EventTime.Time
		}
		if e.Series != nil && e.Series.LastObservedTime.After(seen) {
			seen = e.Series.LastObservedTime.Time
		}
		if seen.After(at) {
			at, s.PodsRefused = seen, e.Message
		}
	}
	return nil
}

// findNewestPod returns when the last pod of the run was created, the zero time if it has none.
func findNewestPod(s *snapshot.Snapshot) (at time.Time) {
	for _, part := range [][]corev1.Pod{s.Pods, s.Failed, s.Succeeded, s.Stopping} {
		for i := range part {
			if created := part[i].CreationTimestamp.Time; created.After(at) {
				at = created
			}
		}
	}
	return at
}
