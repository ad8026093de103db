package snapshot

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
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
