package observe

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

// IsObserved reports whether the Deployment's counts are of its present spec.
func IsObserved(d *appsv1.Deployment) bool {
	return d != nil && d.Status.ObservedGeneration >= d.Generation
}

// IsRolledOut reports whether all servers run the Deployment's template.
func IsRolledOut(d *appsv1.Deployment) bool {
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	return IsObserved(d) && d.Status.UpdatedReplicas == wanted && d.Status.Replicas == wanted
}

// listUpdating finds the pools whose servers are being replaced. It reads that from the cluster,
// because an operator that starts must know the pools that another one updates.
func listUpdating(ctx context.Context, reader client.Reader) (map[types.NamespacedName]bool, error) {
	var list appsv1.DeploymentList
	if err := reader.List(ctx, &list, client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue,
		v1alpha1.LabelComponent: v1alpha1.ComponentEnvServer}); err != nil {
		return nil, fmt.Errorf("listing the Deployments of pools: %w", err)
	}
	found := map[types.NamespacedName]bool{}
	for i := range list.Items {
		d := &list.Items[i]
		c := FindCondition(d, appsv1.DeploymentProgressing)
		stuck := c != nil && c.Status == corev1.ConditionFalse
		if !stuck && (!IsObserved(d) || d.Status.UpdatedReplicas < d.Status.Replicas) {
			found[client.ObjectKeyFromObject(d)] = true
		}
	}
	return found, nil
}
