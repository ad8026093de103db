package observe

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
)

// wantsToPlay reports whether the run is played or waits only for its pool. A run that the pool
// doesn't admit, or without conditions, doesn't wait.
func wantsToPlay(run *v1alpha1.EvaluationRun) bool {
	conditions := run.Status.Conditions
	if !run.DeletionTimestamp.IsZero() || evaluation.IsSuspended(run) || evaluation.HasEnded(conditions) {
		return false
	}
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionEnvironmentReady)
	return c != nil && slices.Contains([]string{
		v1alpha1.ReasonEnvironmentAvailable, v1alpha1.ReasonEnvironmentNotAvailable,
		v1alpha1.ReasonEnvironmentUnreachable,
	}, c.Reason)
}

// FindPoolOfRun finds the pool of a run.
func FindPoolOfRun(_ context.Context, object client.Object) []reconcile.Request {
	run, ok := object.(*v1alpha1.EvaluationRun)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: evaluation.PoolOf(run)}}
}

// SelectWaiting passes events of runs that begin to wait for a pool. Polls notice the end.
func SelectWaiting() predicate.Predicate {
	wants := func(object client.Object) bool {
		run, ok := object.(*v1alpha1.EvaluationRun)
		return ok && wantsToPlay(run)
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return wants(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return wants(e.ObjectNew) && !wants(e.ObjectOld) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
