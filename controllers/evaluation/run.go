package evaluation

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
)

// PoolOf names the pool that a run is played against.
func PoolOf(run *v1alpha1.EvaluationRun) types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(run.Spec.EnvironmentRef.Namespace, run.Namespace),
		Name: run.Spec.EnvironmentRef.Name}
}

// IsExternal reports whether trainers play the run.
func IsExternal(run *v1alpha1.EvaluationRun) bool {
	return run.Spec.Agent.Type == v1alpha1.ExternalAgent
}

// IsSuspended reports whether the spec suspends the run.
func IsSuspended(run *v1alpha1.EvaluationRun) bool { return ptr.Deref(run.Spec.Suspend, false) }

// HasEnded reports whether the conditions of a run say that it has completed or failed.
func HasEnded(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete) ||
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionFailed)
}
