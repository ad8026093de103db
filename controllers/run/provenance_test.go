package run

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/runtest"
)

// The provenance has the digests of the images that the nodes ran, since a tag may move.
func TestProvenanceHasImageDigests(t *testing.T) {
	a, b := runtest.NewServer("support-a", "10.0.0.1"), runtest.NewServer("support-b", "10.0.0.2")
	a.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pods.ServerContainer, ImageID: runtest.ImageID("b")}}
	b.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pods.ServerContainer, ImageID: runtest.ImageID("a")}}
	w := newWorld(t, runtest.NewPool(), a, b, runtest.NewRun())
	w.mustPass()
	want := []string{"sha256:" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("b", 64)}
	if got := w.run().Status.Provenance; got == nil || !slices.Equal(got.ImageDigests, want) ||
		got.AgentImageDigests != nil {
		t.Errorf("provenance %+v, want the digests %v", got, want)
	}
}
