package operator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/csenv/csenv/envserver/testkit/process"
)

// The operator runs with the limits that it is released with.
func TestReleased(t *testing.T) {
	manifest, err := os.ReadFile(filepath.Join("..", "..", "..", deployment))
	if err != nil {
		t.Fatal(err)
	}
	args, env, err := parseDeployment(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(args, "--leader-elect") {
		t.Errorf("arguments %q", args)
	}
	for _, want := range []string{fmt.Sprintf("MEMORY_LIMIT=%d", 512<<20), "GOMAXPROCS=1"} {
		if !slices.Contains(env, want) {
			t.Errorf("environment %q, want %s", env, want)
		}
	}
	unlimited := strings.Replace(string(manifest), "memory: 512Mi", "ephemeral-storage: 1Gi", 1)
	if _, _, err := parseDeployment([]byte(unlimited)); err == nil {
		t.Error("a Deployment without a memory limit is accepted")
	}
}

// Whatever ends a scenario, the operator doesn't outlive it.
func TestCloseEndsOperator(t *testing.T) {
	p, err := process.Start("manager", exec.CommandContext(t.Context(), "sleep", "600"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	r := &rig{operator: &operator{process: p}}
	if err := r.close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(p.PID(), 0); err == nil {
		t.Error("the operator still runs")
	}
}
