// Package access decides which namespaces may use a pool, for runs and for the pool's
// NetworkPolicy.
package access

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/csenv/csenv/api/v1alpha1"
)

// AllowsNamespace reports whether EvaluationRuns of a namespace with these labels may use the pool.
// Its own namespace always may. An invalid selector is an error and admits no other namespace.
func AllowsNamespace(
	pool *v1alpha1.CustomerSupportEnv,
	namespace string,
	namespaceLabels map[string]string,
) (bool, error) {
	if namespace == pool.Namespace {
		return true, nil
	}
	allowed := pool.Spec.Access.AllowedNamespaces
	switch allowed.From {
	case v1alpha1.AllNamespaces:
		return true, nil
	case v1alpha1.SelectedNamespaces:
		selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
		if err != nil {
			return false, fmt.Errorf("reading access.allowedNamespaces.selector of CustomerSupportEnv %s in "+
				"namespace %s: %w", pool.Name, pool.Namespace, err)
		}
		return selector.Matches(labels.Set(namespaceLabels)), nil
	case v1alpha1.SameNamespace, "":
	}
	// Unknown values admit no other namespace.
	return false, nil
}

// BuildPeers returns the pods of the namespaces that may use the pool, as peers of a NetworkPolicy.
func BuildPeers(pool *v1alpha1.CustomerSupportEnv) []networkingv1.NetworkPolicyPeer {
	same := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}}
	allowed := pool.Spec.Access.AllowedNamespaces
	switch allowed.From {
	case v1alpha1.AllNamespaces:
		return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}
	case v1alpha1.SelectedNamespaces:
		return []networkingv1.NetworkPolicyPeer{same, {NamespaceSelector: allowed.Selector}}
	default:
		return []networkingv1.NetworkPolicyPeer{same}
	}
}

// SelectNamespace selects a namespace by its name, which every namespace has as a label.
func SelectNamespace(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
}
