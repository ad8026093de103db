package isolated

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEnvironmentIsNotTheUsers(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "KUBECONFIG",
		"CSENV_CLUSTER_DIR", "AWS_PROFILE", "https_proxy"} {
		t.Setenv(name, home)
	}
	t.Setenv("CSENV_PROGRAM", "/a/program")
	for _, name := range []string{"GOCACHE", "GOENV", "GOPATH"} {
		t.Setenv(name, "") // restored after the test
	}
	restore, err := Environment()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "GO") && strings.Contains(value, home) {
			t.Errorf("%s is still that of the user", name)
		}
	}
	if got := os.Getenv("GOCACHE"); got != filepath.Join(home, "go-build") {
		t.Errorf("the go command's cache is %q", got)
	}
	if os.Getenv("CSENV_PROGRAM") == "" {
		t.Error("what the tests are told is lost")
	}
	folder := os.Getenv("HOME")
	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
		t.Error(err)
	}
	if restore(); folder == home {
		t.Errorf("the tests' home is %s", folder)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the tests' home remains: %v", err)
	}
}
