// Package apiserver starts etcd and kube-apiserver for the tests that need them.
package apiserver

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// assetsVariable names the folder of the binaries. Package envtest reads it.
	assetsVariable = "KUBEBUILDER_ASSETS"
	// requiredVariable turns the skip into a failure, for `make test` and CI.
	requiredVariable = "CSENV_REQUIRE_APISERVER"
	// patience bounds the start and the end of a server. A busy machine doesn't reach it.
	patience = 5 * time.Minute
)

// RequireBinaries skips the test if there are no binaries of etcd and kube-apiserver.
func RequireBinaries(tb testing.TB) {
	tb.Helper()
	if os.Getenv(assetsVariable) != "" {
		return
	}
	skipOrFail(tb, "this test needs etcd and kube-apiserver: run `make test`, or "+
		"export "+assetsVariable+"=$(go run ./hack/cluster envtest)")
}

// skipOrFail skips the test, or fails it if nothing may be skipped.
func skipOrFail(tb testing.TB, message string) {
	tb.Helper()
	if os.Getenv(requiredVariable) != "" {
		tb.Fatal(message)
	}
	tb.Skip(message)
}

// Start returns an API server without the CRDs of csenv. It ends with the test.
func Start(tb testing.TB) *envtest.Environment {
	tb.Helper()
	return startServer(tb, &envtest.Environment{ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience})
}

// StartWithCRDs returns an API server with the CRDs of csenv. It ends with the test.
func StartWithCRDs(tb testing.TB) *envtest.Environment {
	tb.Helper()
	return startServer(tb, withCRDs())
}

func startServer(tb testing.TB, server *envtest.Environment) *envtest.Environment {
	tb.Helper()
	RequireBinaries(tb)
	tb.Cleanup(func() {
		if err := server.Stop(); err != nil {
			tb.Errorf("stopping the API server: %v", err)
		}
	})
	if _, err := server.Start(); err != nil {
		tb.Fatalf("starting an API server: %v", err)
	}
	return server
}

// Shared is an API server with the CRDs of csenv that all tests of a package use. The first test
// that needs it starts it.
type Shared struct {
	once   sync.Once
	server *envtest.Environment
	err    error
}

// Get returns the server.
func (s *Shared) Get(tb testing.TB) *envtest.Environment {
	tb.Helper()
	RequireBinaries(tb)
	s.once.Do(func() {
		s.server = withCRDs()
		_, s.err = s.server.Start()
	})
	if s.err != nil {
		tb.Fatalf("starting an API server: %v", s.err)
	}
	return s.server
}

// Stop stops the server if a test started it. TestMain calls it.
func (s *Shared) Stop() error {
	if s.server == nil {
		return nil
	}
	return s.server.Stop()
}

// withCRDs searches upwards from the folder of the test, because a binary that was built with
// -trimpath doesn't know the path of this file.
func withCRDs() *envtest.Environment {
	root := "."
	for range 8 {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Join(root, "..")
	}
	folder := filepath.Join(root, "config", "crd", "bases")
	return &envtest.Environment{CRDDirectoryPaths: []string{folder}, ErrorIfCRDPathMissing: true,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: patience},
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience}
}
