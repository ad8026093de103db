package apiserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/csenv/csenv/envserver/testkit/process"
)

// controllerManager is the program of Kubernetes' own controllers.
const controllerManager = "kube-controller-manager"

// StartWithControllers returns an API server with the CRDs of csenv and with some of Kubernetes'
// own controllers, which run with these flags. Nodes are lost within seconds.
func StartWithControllers(tb testing.TB, controllers []string, flags ...string) *envtest.Environment {
	tb.Helper()
	RequireBinaries(tb)
	binary := filepath.Join(os.Getenv(assetsVariable), controllerManager)
	if _, err := os.Stat(binary); err != nil { //nolint:gosec // a folder of the user
		skipOrFail(tb, "this test needs "+binary+": export "+assetsVariable+"=$(go run ./hack/cluster envtest)")
	}
	server := withCRDs()
	server.ControlPlane.GetAPIServer().Configure().Set("default-unreachable-toleration-seconds", "0")
	startServer(tb, server)
	kubeconfig := filepath.Join(tb.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, server.KubeConfig, 0o600); err != nil {
		tb.Fatal(err)
	}
	flags = append([]string{"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--controllers=" + strings.Join(controllers, ",")}, flags...)
	p, err := process.Start(controllerManager, exec.Command(binary, flags...)) //nolint:gosec,noctx // Stop ends it
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Stop(10 * time.Second); err != nil {
			tb.Errorf("stopping %s: %v", controllerManager, err)
		}
		if tb.Failed() {
			tb.Log(p.Logs())
		}
	})
	return server
}
