package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

const cleanupInterval = 500 * time.Millisecond

// cleanUp deletes all runs and pools, and waits until they and the pods of the runs are gone.
// Another process of the operator must run meanwhile, because it removes the pods' finalizers.
func cleanUp(ctx context.Context, config *rest.Config, o options) error {
	api, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	namespaces := o.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	before := -1
	return wait.PollUntilContextCancel(ctx, cleanupInterval, true, func(ctx context.Context) (bool, error) {
		left := 0
		for _, namespace := range namespaces {
			n, err := cleanUpNamespace(ctx, api, namespace)
			if err != nil {
				return false, err
			}
			left += n
		}
		if left != before {
			ctrl.Log.Info("Waiting for runs, pools and pods of runs to be deleted", "left", left)
			before = left
		}
		return left == 0, nil
	})
}

// cleanUpNamespace deletes the runs and pools of a namespace and returns how many objects are left,
// with the pods of runs.
func cleanUpNamespace(ctx context.Context, api client.Client, namespace string) (left int, err error) {
	for _, kind := range []string{"EvaluationRun", "CustomerSupportEnv", "Pod"} {
		group, labels := v1alpha1.GroupVersion, client.MatchingLabels{}
		if kind == "Pod" {
			group, labels = corev1.SchemeGroupVersion, client.MatchingLabels{
				v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue,
				v1alpha1.LabelComponent: v1alpha1.ComponentRunner}
		}
		list := listOf(group.WithKind(kind))
		if err := api.List(ctx, list, client.InNamespace(namespace), labels); meta.IsNoMatchError(err) {
			continue // the kinds aren't installed
		} else if err != nil {
			return 0, fmt.Errorf("listing objects of kind %s: %w", kind, err)
		}
		left += len(list.Items)
		for i := range list.Items {
			object := &list.Items[i]
			if kind == "Pod" || !object.DeletionTimestamp.IsZero() {
				continue
			}
			if err := client.IgnoreNotFound(api.Delete(ctx, object,
				client.PropagationPolicy(metav1.DeletePropagationBackground))); err != nil {
				return 0, fmt.Errorf("deleting %s %s in namespace %s: %w", kind, object.Name, object.Namespace, err)
			}
		}
	}
	return left, nil
}

func listOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	return list
}
