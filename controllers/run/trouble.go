package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
)

// minRefusedRetry and maxRefusedRetry bound the time until a refused object is created again, which
// is a tenth of the time that has passed since the run began.
const (
	minRefusedRetry = 5 * time.Second
	maxRefusedRetry = 2 * time.Minute
)

// noPodsAfter is how long a Job may have no pods before the reason is looked for.
const noPodsAfter = 15 * time.Second

// refusedError means that the API server refuses an object of the run: a quota, an admission policy
// or a value that isn't valid. It lasts until a user changes that.
type refusedError struct {
	object string
	err    error
}

func (e *refusedError) Error() string { return fmt.Sprintf("writing %s: %v", e.object, e.err) }

func (e *refusedError) Unwrap() error { return e.err }

// isRefusal reports whether a write failed because of its content or its user. A webhook that fails
// is answered with 500.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code <= http.StatusInternalServerError &&
		code != http.StatusUnauthorized && code != http.StatusNotFound
}

// asRefusal returns a *refusedError if the API server refuses the object.
func asRefusal(object string, err error) error {
	var status apierrors.APIStatus
	if !isRefusal(err) || !errors.As(err, &status) {
		return err
	}
	return &refusedError{object: object, err: errors.New(status.Status().Message)}
}

// unlessRefused ends a pass whose write has failed.
func (r *Reconciler) unlessRefused(ctx context.Context, snap snapshot, next decision, err error) (ctrl.Result, error) {
	if e, ok := errors.AsType[*refusedError](err); ok {
		return r.refused(ctx, snap, next, e)
	}
	return objects.IgnoreExpected(err)
}

// refused writes to the status that the API server refuses an object, and tries again later. The
// next pass keeps what is written until the object exists.
func (r *Reconciler) refused(ctx context.Context, snap snapshot, next decision, e *refusedError) (ctrl.Result, error) {
	d := reportRefusal(snap, next, e.object, e.err)
	var run v1alpha1.EvaluationRun
	if err := r.direct.Get(ctx, client.ObjectKeyFromObject(snap.run), &run); err != nil {
		return objects.IgnoreExpected(client.IgnoreNotFound(err))
	}
	if run.UID != snap.run.UID || evaluation.Ended(run.Status.Conditions) {
		return ctrl.Result{}, nil
	}
	if err := r.writeStatus(ctx, &run, d); err != nil {
		return objects.IgnoreExpected(err)
	}
	return ctrl.Result{RequeueAfter: d.again}, nil
}

// reportRefusal is the decision of a pass of which the API server has refused an object: it writes
// the status alone.
func reportRefusal(s snapshot, next decision, object string, refusal error) decision {
	words := pods.Quote(strings.TrimSuffix(refusal.Error(), "."))
	d := decision{status: *next.status.DeepCopy(), folding: folding{sums: next.folding.sums}}
	o := running(v1alpha1.ReasonJobRefused, shardsMessage(&next)+fmt.Sprintf(
		" The API server refuses %s: %s. Correct that to continue.", object, words))
	last := meta.FindStatusCondition(s.run.Status.Conditions, v1alpha1.ConditionComplete)
	if last == nil || last.Reason != o.Reason || last.Message != pods.Shorten(o.Message, pods.MaxNote) {
		d.announce(corev1.EventTypeWarning, o.Reason, o.Message)
	}
	for _, c := range evaluation.Conditions(s.run, d.status, next.folding.sums, o) {
		set(&d, s, c)
	}
	began := ptr.Deref(s.run.Status.StartTime, metav1.NewTime(s.now))
	d.again = min(max(s.now.Sub(began.Time)/10, minRefusedRetry), maxRefusedRetry)
	return d
}

// stillRefused is the outcome of a run of which an object was refused by the last pass and is tried
// again by this one.
func stillRefused(d *decision, s snapshot) evaluation.Outcome {
	last := meta.FindStatusCondition(s.run.Status.Conditions, v1alpha1.ConditionComplete)
	tried := d.createJob != nil || d.createPlan != nil || d.changeJob != (jobChange{}) || d.scores != nil
	if !tried || last == nil || last.Reason != v1alpha1.ReasonJobRefused {
		return evaluation.Outcome{}
	}
	return running(last.Reason, last.Message)
}

// notBegun reports whether nothing of a run has been played because of what its outcome says. Such
// a run is subject to startDeadlineSeconds.
func notBegun(d *decision, s snapshot, o evaluation.Outcome) bool {
	switch o.Reason {
	case v1alpha1.ReasonJobRefused, v1alpha1.ReasonRunnersRefused:
		return len(s.pods) == 0 && d.folding.completed.Len() == 0
	case v1alpha1.ReasonQueued:
		return s.run.Status.AdmissionTime == nil
	}
	return false
}

// podless reports whether a Job that should have pods has had none for a while.
func (s *snapshot) podless() bool {
	return s.job != nil && stillActive(s.job) && !ptr.Deref(s.job.Spec.Suspend, false) && len(s.pods) == 0 &&
		s.job.Status.Active == 0 && s.job.Status.StartTime != nil &&
		s.now.Sub(s.job.Status.StartTime.Time) >= noPodsAfter
}

// +kubebuilder:rbac:groups="",resources=events,verbs=list

// readRefusal reads why the API server refuses the pods of a Job, which its controller reports by
// an event and nowhere else. An event from before the newest pod is over: the Job controller may
// have no pods because it delays those of shards that have failed.
func (r *Reader) readRefusal(ctx context.Context, s *snapshot) error {
	if !s.podless() {
		return nil
	}
	var list corev1.EventList
	which := client.MatchingFieldsSelector{Selector: fields.SelectorFromSet(fields.Set{
		"involvedObject.uid": string(s.job.UID), "reason": "FailedCreate"})}
	if err := r.direct.List(ctx, &list, client.InNamespace(s.job.Namespace), which); err != nil {
		return fmt.Errorf("reading the events of the Job: %w", err)
	}
	at := s.newestPod()
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
			at, s.podsRefused = seen, e.Message
		}
	}
	return nil
}

// newestPod is when the last pod of the run was created, the zero time if it has none.
func (s *snapshot) newestPod() (at time.Time) {
	for _, part := range [][]corev1.Pod{s.pods, s.failed, s.succeeded, s.stopping} {
		for i := range part {
			if created := part[i].CreationTimestamp.Time; created.After(at) {
				at = created
			}
		}
	}
	return at
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// reasonNodeLost is the reason in the status of a pod whose node is lost.
const reasonNodeLost = "NodeLost"

// deleteGrace is how long a pod that is being deleted may exceed its own deadline and still leave a
// summary. After that its node is considered lost.
const deleteGrace = time.Minute

// overdue reports whether a pod should have stopped by now: it is being deleted, and its own
// deadline passed deleteGrace ago.
func overdue(pod *corev1.Pod, now time.Time) bool {
	return !pods.HasEnded(pod) && pod.Spec.NodeName != "" && !pod.DeletionTimestamp.IsZero() &&
		!now.Before(pod.DeletionTimestamp.Add(deleteGrace))
}

// overduePods are the pods of the run that should have stopped.
func (s snapshot) overduePods() []corev1.Pod {
	var list []corev1.Pod
	for _, part := range [][]corev1.Pod{s.pods, s.stopping} {
		for i := range part {
			if overdue(&part[i], s.now) {
				list = append(list, part[i])
			}
		}
	}
	return list
}

// readLostNodes finds out which nodes of overdue pods are lost. Nodes are read past the cache,
// because this is rare and a cache would hold all nodes. Without the right to read nodes, which an
// operator of single namespaces doesn't have, no node counts as lost.
func (r *Reader) readLostNodes(ctx context.Context, s *snapshot) error {
	s.lostNodes = map[string]bool{}
	for _, pod := range s.overduePods() {
		name := pod.Spec.NodeName
		if _, known := s.lostNodes[name]; known {
			continue
		}
		var node corev1.Node
		err := r.direct.Get(ctx, types.NamespacedName{Name: name}, &node)
		if apierrors.IsForbidden(err) {
			s.lostNodes[name] = false
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
		s.lostNodes[name] = err != nil || !answers(&node)
	}
	return nil
}

func answers(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// lostPods are the pods that nothing else ends, because their node doesn't report that they have
// stopped. The Job controller replaces a pod only after it has ended.
func lostPods(d *decision, s snapshot) []corev1.Pod {
	var lost []corev1.Pod
	for _, pod := range s.overduePods() {
		if s.lostNodes[pod.Spec.NodeName] {
			lost = append(lost, pod)
		} else {
			d.wake(waitDelay) // its node may be lost later
		}
	}
	return lost
}

// failLost marks the pods of lost nodes as failed by a disruption, as the control plane does with
// pods whose node was deleted: the Job controller then replaces them, and counts no failure. A
// runner that still plays behind a network partition does no harm: its pod has ended for the API
// server, and a shard is counted once.
func (r *Reconciler) failLost(ctx context.Context, list []corev1.Pod) error {
	for i := range list {
		pod := &list[i]
		message := fmt.Sprintf("Node %s doesn't answer, so the pod counts as ended.", pod.Spec.NodeName)
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID},
			"status": map[string]any{"phase": corev1.PodFailed, "reason": reasonNodeLost, "message": message,
				"conditions": []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
					Reason: reasonNodeLost, Message: message, LastTransitionTime: metav1.NewTime(r.clock.Now())}}},
		})
		if err != nil {
			return fmt.Errorf("encoding the end of pod %s: %w", pod.Name, err)
		}
		logf.FromContext(ctx).Info("Ending a runner of a lost node", "pod", pod.Name, "node", pod.Spec.NodeName)
		err = r.client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("marking pod %s of a lost node as failed: %w", pod.Name, err)
		}
	}
	return nil
}
