// Package isolated keeps what a machine's user has set, stored or started out of the tests of a
// package.
package isolated

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Main runs the tests of a package, as the body of its TestMain, with Environment.
func Main(m *testing.M) {
	restore, err := Environment()
	if err != nil {
		fmt.Fprintln(os.Stderr, "isolating the tests:", err)
		os.Exit(1)
	}
	code := m.Run()
	restore()
	os.Exit(code)
}

// Environment gives the process empty folders for its user's files and caches, and none of the
// variables by which programs find a cluster, a store, credentials, a proxy or a collector. Only
// the go command's own folders stay where they are. The function that it returns removes the
// folders.
func Environment() (restore func(), err error) {
	home, err := os.MkdirTemp("", "csenv-test-")
	if err != nil {
		return nil, err
	}
	variables := goFolders()
	for name, folder := range map[string]string{"HOME": "", "XDG_CACHE_HOME": ".cache", "XDG_CONFIG_HOME": ".config",
		"XDG_DATA_HOME": ".local/share"} {
		variables[name] = filepath.Join(home, folder)
	}
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); belongsToUser(name) {
			if err := os.Unsetenv(name); err != nil {
				return nil, err
			}
		}
	}
	for name, value := range variables {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	return func() { _ = os.RemoveAll(home) }, nil
}

// goFolders are the go command's folders, for tests that call it: it would find others without
// HOME.
func goFolders() map[string]string {
	folders := map[string]string{}
	add := func(name string, parent func() (string, error), path string) {
		if at, err := parent(); err == nil && os.Getenv(name) == "" {
			folders[name] = filepath.Join(at, path)
		}
	}
	add("GOCACHE", os.UserCacheDir, "go-build")
	add("GOENV", os.UserConfigDir, "go/env")
	add("GOPATH", os.UserHomeDir, "go")
	return folders
}

func belongsToUser(name string) bool {
	switch name = strings.ToUpper(name); name {
	case "KUBECONFIG", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "TRACEPARENT", "SSL_CERT_FILE",
		"SSL_CERT_DIR", "CSENV_CLUSTER", "CSENV_CLUSTER_NAME", "CSENV_CLUSTER_DIR", "CSENV_RESULTS", "CSENV_STORES",
		"CSENV_EVAL_KEY_FILE",
		"CSENV_AGENT_KEY", "CSENV_POOL_TOKEN", "CSENV_RUN_CREDENTIAL", "CSENV_JUDGE_API_KEY",
		"CSENV_CUSTOMER_API_KEY", "CSENV_IMAGE":
		return true
	}
	for _, prefix := range []string{"AWS_", "AZURE_", "GOOGLE_", "OTEL_", "KUBERNETES_SERVICE_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
