package run

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
)

// imageID is how a node names an image by its digest.
func imageID(digit string) string {
	return "registry.example/csenv@sha256:" + strings.Repeat(digit, 64)
}

// The provenance has the digests of the images that the nodes ran, since a tag may move.
func TestProvenanceHasImageDigests(t *testing.T) {
	a, b := server("support-a", "10.0.0.1"), server("support-b", "10.0.0.2")
	a.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pods.ServerContainer, ImageID: imageID("b")}}
	b.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pods.ServerContainer, ImageID: imageID("a")}}
	w := newWorld(t, pool(), a, b, newTestRun())
	w.mustPass()
	want := []string{"sha256:" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("b", 64)}
	if got := w.run().Status.Provenance; got == nil || !slices.Equal(got.ImageDigests, want) ||
		got.AgentImageDigests != nil {
		t.Errorf("provenance %+v, want the digests %v", got, want)
	}
}

func TestProvenanceHasTheDigestOfTheAgentsImage(t *testing.T) {
	s, plan := begun(t)
	s.run.Spec.Agent = v1alpha1.Agent{Type: v1alpha1.ContainerAgent,
		Container: &v1alpha1.ContainerAgentSpec{Image: "agent:latest", Port: 8080, Path: "/"}}
	pod := succeeded(t, s.run, plan, 0)
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: agentContainer, ImageID: imageID("c")}}
	addPods(&s, pod)
	s.run.Status.Provenance.AgentImageDigests = []string{"sha256:d"}
	want := []string{"sha256:" + strings.Repeat("c", 64), "sha256:d"}
	if got := decide(s).status.Provenance.AgentImageDigests; !slices.Equal(got, want) {
		t.Errorf("digests %v, want %v", got, want)
	}
}
