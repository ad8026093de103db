package evaluation

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
)

// PoolOf names the pool that a run is played against.
func PoolOf(run *v1alpha1.EvaluationRun) types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(run.Spec.EnvironmentRef.Namespace, run.Namespace),
		Name: run.Spec.EnvironmentRef.Name}
}
