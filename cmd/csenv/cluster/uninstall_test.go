package cluster

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/csenv/csenv/api/v1alpha1"
)

// The command for pods that an uninstalled operator has left behind patches each of them, and the
// patch removes csenv's finalizer alone.
func TestTheCommandThatReleasesRunners(t *testing.T) {
	folder := t.TempDir()
	kubectl := "#!/bin/sh\nif [ \"$1\" = get ]; then echo 'lab   gpt-0'; echo 'team  gpt-1'; exit; fi\n" +
		"printf '%s\\n' \"$@\" >>" + folder + "/calls\n"
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte(kubectl), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", releaseRunners)
	cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	calls, err := os.ReadFile(filepath.Join(folder, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(calls)), "\n")
	if len(lines) != 14 || lines[3] != "lab" || lines[4] != "gpt-0" || lines[10] != "team" || lines[11] != "gpt-1" {
		t.Fatalf("kubectl was called with %q", lines)
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Finalizers: []string{v1alpha1.FinalizerSummary, batchv1.JobTrackingFinalizer}}}
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, []byte(lines[len(lines)-1]), corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	pod = corev1.Pod{}
	if err := json.Unmarshal(after, &pod); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pod.Finalizers, []string{batchv1.JobTrackingFinalizer}) {
		t.Errorf("the patch leaves %v", pod.Finalizers)
	}
}

func TestTheCommandThatReleasesRunnersIsDocumented(t *testing.T) {
	for _, name := range []string{"docs/install.md", "charts/csenv/templates/NOTES.txt"} {
		text, err := os.ReadFile(filepath.Join("../../..", name)) //nolint:gosec // a file of the project
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), releaseRunners) {
			t.Errorf("%s hasn't the command %s", name, releaseRunners)
		}
	}
}

func TestCountStuck(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := func(ago time.Duration, finalizer string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{finalizer},
			DeletionTimestamp: &metav1.Time{Time: now.Add(-ago)}}}
	}
	alive := pod(0, v1alpha1.FinalizerSummary)
	alive.DeletionTimestamp = nil
	if got := countStuck([]corev1.Pod{alive, pod(time.Minute, v1alpha1.FinalizerSummary), pod(time.Hour, "another"),
		pod(time.Hour, v1alpha1.FinalizerSummary)}, now); got != 1 {
		t.Errorf("%d pods are stuck, want 1", got)
	}
}
