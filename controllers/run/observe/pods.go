package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
)

// readPods reads the pods with the run's name, this run's and those of others of its name.
func (r *Reader) readPods(ctx context.Context, key types.NamespacedName, s *Snapshot) error {
	var list corev1.PodList
	labels := client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentRunner, v1alpha1.LabelRun: key.Name}
	if err := r.Cache.List(ctx, &list, client.InNamespace(key.Namespace), labels); err != nil {
		return fmt.Errorf("listing the run's pods: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	leaving := false
	for _, pod := range list.Items {
		mine := s.Run != nil && pod.Labels[runner.LabelRunUID] == string(s.Run.UID)
		held := controllerutil.ContainsFinalizer(&pod, runner.SummaryFinalizer)
		if mine && pod.Status.Phase == corev1.PodFailed {
			s.Failed = append(s.Failed, pod)
		}
		if mine && runner.HasSucceeded(&pod) {
			s.Succeeded = append(s.Succeeded, pod)
		}
		switch {
		case mine && held:
			s.Pods = append(s.Pods, pod)
		case held:
			s.Foreign = append(s.Foreign, pod)
		case mine && !pod.DeletionTimestamp.IsZero():
			s.Stopping = append(s.Stopping, pod)
		}
		leaving = leaving || mine && !pod.DeletionTimestamp.IsZero()
	}
	if !leaving {
		return nil
	}
	return r.readNamespace(ctx, key.Namespace, s)
}

// readNamespace finds out whether the namespace is being deleted.
func (r *Reader) readNamespace(ctx context.Context, name string, s *Snapshot) error {
	namespace := &corev1.Namespace{}
	err := r.Direct.Get(ctx, types.NamespacedName{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	s.Closing = err == nil && !namespace.DeletionTimestamp.IsZero()
	return nil
}
