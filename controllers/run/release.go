package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/snapshot"
)

// releasePods has the runners of lost nodes replaced, removes the finalizer of pods whose summary
// is counted or refused, and deletes the run when its time is over.
func (w *writer) releasePods(ctx context.Context, snap snapshot.Snapshot, next rules.Decision) error {
	if err := w.failLost(ctx, next.Lost); err != nil {
		return err
	}
	if err := w.removeFinalizers(ctx, next.Release); err != nil || !next.DeleteRun {
		return err
	}
	logf.FromContext(ctx).Info("Deleting a run after ttlSecondsAfterFinished")
	return w.client.Delete(ctx, snap.Run, client.Preconditions{UID: &snap.Run.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// releaseForeign removes the finalizers of pods with the name of the run and another run's UID. It
// reads past the cache, which may show an earlier run than the pods': a finalizer that is removed
// too early loses a summary.
func (w *writer) releaseForeign(ctx context.Context, key types.NamespacedName, list []corev1.Pod) error {
	if len(list) == 0 {
		return nil
	}
	var run v1alpha1.EvaluationRun
	err := w.direct.Get(ctx, key, &run)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the run of %d pods: %w", len(list), err)
	}
	if err == nil && run.DeletionTimestamp.IsZero() {
		list = slices.DeleteFunc(slices.Clone(list),
			func(pod corev1.Pod) bool { return pod.Labels[runner.LabelRunUID] == string(run.UID) })
	}
	return w.removeFinalizers(ctx, list)
}

// keptReleases is the number of pods whose release is remembered.
const keptReleases = 4096

// releases are the versions of the pods whose finalizer was removed, which the cache shows later.
type releases = lru.Cache[types.UID, string]

func newReleases() *releases {
	kept, err := lru.New[types.UID, string](keptReleases)
	if err != nil {
		panic(err) // the number isn't positive
	}
	return kept
}

// isReleased reports whether the finalizer of the pod was removed after it was read.
func (w *writer) isReleased(pod *corev1.Pod) bool {
	removed, known := w.released.Get(pod.UID)
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, removed)
	return err == nil && order < 0
}

// removeFinalizers removes the finalizer of pods. The patch contains only the finalizer, so that it
// can't conflict with other writes.
func (w *writer) removeFinalizers(ctx context.Context, list []corev1.Pod) error {
	for i := range list {
		if w.isReleased(&list[i]) {
			continue
		}
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, list[i].UID,
			runner.SummaryFinalizer)
		patched := list[i].DeepCopy()
		err := w.client.Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
		switch {
		case err == nil:
			w.released.Add(patched.UID, patched.ResourceVersion)
		case apierrors.IsInvalid(err):
			// Another pod has the name by now: its UID can't be changed to this one's.
			logf.FromContext(ctx).V(1).Info("Pod was replaced", "pod", list[i].Name, "reason", err.Error())
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("removing the finalizer of pod %s: %w", list[i].Name, err)
		}
	}
	return nil
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// reasonNodeLost is the reason in the status of a pod whose node is lost.
const reasonNodeLost = "NodeLost"

// failLost marks the pods of lost nodes as failed by a disruption, as the control plane does with
// pods whose node was deleted: the Job controller then replaces them, and counts no failure. A
// runner that still plays behind a network partition does no harm: its pod has ended for the API
// server, and a shard is counted once.
func (w *writer) failLost(ctx context.Context, list []corev1.Pod) error {
	for i := range list {
		pod := &list[i]
		message := fmt.Sprintf("Node %s doesn't answer, so the pod counts as ended.", pod.Spec.NodeName)
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID},
			"status": map[string]any{"phase": corev1.PodFailed, "reason": reasonNodeLost, "message": message,
				"conditions": []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
					Reason: reasonNodeLost, Message: message, LastTransitionTime: metav1.NewTime(w.clock.Now())}}},
		})
		if err != nil {
			return fmt.Errorf("encoding the end of pod %s: %w", pod.Name, err)
		}
		logf.FromContext(ctx).Info("Ending a runner of a lost node", "pod", pod.Name, "node", pod.Spec.NodeName)
		err = w.client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("marking pod %s of a lost node as failed: %w", pod.Name, err)
		}
	}
	return nil
}
