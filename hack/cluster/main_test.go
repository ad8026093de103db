package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/testkit/isolated"
)

// TestMain lets the test program act as the command, which replaces its own process by kubectl.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_CLUSTER_COMMAND") != "" {
		os.Exit(executeCommand())
	}
	isolated.Main(m)
}

func TestKubectlActsOnTheClusterAlone(t *testing.T) {
	requireProc(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A shell uses the last entry of a name and a Go program the first, so the test reads the
	// environment itself.
	fakePrograms(t, map[string]string{"kubectl": `tr '\0' '\n' </proc/$$/environ | grep ^KUBECONFIG=; echo $*`})
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "provider"), []byte(providerKind), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "kubectl", "--", "get", "nodes")
	cmd.Env = append(environWithoutKubeconfig(), "KUBECONFIG=/home/someone/.kube/config",
		"RUN_CLUSTER_COMMAND=yes", "CSENV_CLUSTER=", "CSENV_CLUSTER_DIR="+state)
	cmd.Stderr = io.Discard
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "KUBECONFIG=" + filepath.Join(state, "kubeconfig") + "\nget nodes\n"
	if got := string(out); got != want {
		t.Errorf("kubectl saw %q, want %q", got, want)
	}
}

func TestEnvironmentLosesEveryKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "/home/someone/.kube/config")
	t.Setenv("KUBECONFIG_FOLDER", "/elsewhere")
	environ := strings.Join(environWithoutKubeconfig(), "\n")
	if strings.Contains(environ, "someone") || !strings.Contains(environ, "KUBECONFIG_FOLDER=/elsewhere") {
		t.Errorf("environment:\n%s", environ)
	}
}
