package rules

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
)

func TestProvenanceHasTheDigestOfTheAgentsImage(t *testing.T) {
	s, plan := begun(t)
	s.Run.Spec.Agent = v1alpha1.Agent{Type: v1alpha1.ContainerAgent,
		Container: &v1alpha1.ContainerAgentSpec{Image: "agent:latest", Port: 8080, Path: "/"}}
	pod := runtest.NewSucceededPod(t, s.Run, plan, 0)
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: runner.AgentContainer, ImageID: runtest.ImageID("c")}}
	addPods(&s, pod)
	s.Run.Status.Provenance.AgentImageDigests = []string{"sha256:d"}
	want := []string{"sha256:" + strings.Repeat("c", 64), "sha256:d"}
	if got := DecideRun(s).Status.Provenance.AgentImageDigests; !slices.Equal(got, want) {
		t.Errorf("digests %v, want %v", got, want)
	}
}
