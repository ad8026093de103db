package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readLostNodes finds out which nodes of overdue pods are lost. Nodes are read past the cache,
// because this is rare and a cache would hold all nodes. Without the right to read nodes, which an
// operator of single namespaces doesn't have, no node counts as lost.
func (r *Reader) readLostNodes(ctx context.Context, s *Snapshot) error {
	s.LostNodes = map[string]bool{}
	for _, pod := range s.OverduePods() {
		name := pod.Spec.NodeName
		if _, known := s.LostNodes[name]; known {
			continue
		}
		var node corev1.Node
		err := r.Direct.Get(ctx, types.NamespacedName{Name: name}, &node)
		if apierrors.IsForbidden(err) {
			s.LostNodes[name] = false
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
		s.LostNodes[name] = err != nil || !isReady(&node)
	}
	return nil
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
