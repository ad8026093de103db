package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakes are shell scripts that replace programs. The test can read the lines that a script appends
// to $LOG.
type fakes struct{ dir, logPath string }

func fakePrograms(t *testing.T, scripts map[string]string) fakes {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f := fakes{dir: dir, logPath: filepath.Join(dir, "calls.log")}
	t.Setenv("LOG", f.logPath)
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return f
}

func (f fakes) log(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(f.logPath)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

func TestFindFolders(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/caches")
	tests := map[string]struct {
		dir, name, want string
		fails           bool
	}{
		"default":  {want: "/caches/csenv/cluster"},
		"named":    {name: "e2e", want: "/caches/csenv/cluster-e2e"},
		"ordered":  {dir: "/srv/cluster", want: "/srv/cluster"},
		"a path":   {name: "../e2e", fails: true},
		"too long": {dir: "/" + strings.Repeat("a", maxStatePath), fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CSENV_CLUSTER_DIR", test.dir)
			t.Setenv("CSENV_CLUSTER_NAME", test.name)
			f, err := findFolders()
			if (err != nil) != test.fails || f.state != test.want && !test.fails {
				t.Errorf("state %s, %v", f.state, err)
			}
		})
	}
}

func TestRepoRoot(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := repoRoot(); err == nil || !strings.Contains(err.Error(), "checkout") {
		t.Errorf("outside a checkout: %v", err)
	}
	// The modules inside the checkout have their own go.mod, but are not its root.
	root := t.TempDir()
	inner := filepath.Join(root, "hack", "cluster", "kubernetes")
	for path, module := range map[string]string{root: "github.com/csenv/csenv",
		inner: "github.com/csenv/csenv/hack/cluster/kubernetes"} {
		if err := writeFile(filepath.Join(path, "go.mod"), []byte("module "+module+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(inner)
	got, err := repoRoot()
	if err != nil || got != root {
		t.Errorf("repoRoot = %s, %v; want %s", got, err, root)
	}
}

func TestRemoveSparesOtherFiles(t *testing.T) {
	f := folders{state: t.TempDir()}
	for _, path := range []string{"pki/ca.crt", "etcd/member/wal", "kubeconfig", "theirs/file"} {
		if err := writeFile(f.at(path), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.remove(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(f.at("*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{f.at("theirs")}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	alone := folders{state: filepath.Join(t.TempDir(), "cluster")}
	if err := writeFile(alone.at("provider"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := alone.remove(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(alone.state); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// writer is a function that writes.
type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func TestLockIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "lock")
	var told bytes.Buffer
	release, err := acquireLock(t.Context(), path, &told)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := acquireLock(ctx, path, writer(func(b []byte) (int, error) {
		cancel() // once it waits
		return told.Write(b)
	})); err == nil {
		t.Error("two commands hold the lock")
	}
	if strings.Count(told.String(), path) != 1 {
		t.Errorf("said %q", told.String())
	}
	release()
	again, err := acquireLock(t.Context(), path, &told)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestWriteFileReplacesAndLeavesNoScraps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pki", "ca.key")
	for _, content := range []string{"old", "new"} {
		if err := writeFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "new" {
		t.Errorf("content %q, %v", got, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%d files in the folder", len(entries))
	}
}
