package observe

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
)

// The operator of single namespaces has no right on nodes.
func TestNodesThatMayNotBeReadAreNotLost(t *testing.T) {
	s := snapshot.Snapshot{Run: runtest.NewRun(), Now: runtest.StartTime()}
	pod := runtest.MarkDeleting(runtest.RunnerPod(s.Run, 0), -snapshot.DeleteGrace)
	pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
	s.Pods = []corev1.Pod{*pod}
	r := &Reader{Direct: interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object,
			_ ...client.GetOption) error {
			return apierrors.NewForbidden(corev1.Resource("nodes"), key.Name, nil)
		},
	})}
	if err := r.readLostNodes(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	if lost, known := s.LostNodes["node"]; lost || !known {
		t.Errorf("lost nodes %v", s.LostNodes)
	}
}
