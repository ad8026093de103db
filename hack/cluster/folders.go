package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/mod/modfile"
	"k8s.io/apimachinery/pkg/util/wait"
)

// folders are the folders of the tool. It writes nothing outside them, apart
// from the empty mount points that the node's mount namespace covers.
type folders struct {
	repo  string // checkout of the main module
	cache string // built binaries and notes; survives down
	state string // one cluster; removed by down
}

// maxStatePath keeps containerd's longest socket name under the kernel's 108 bytes.
const maxStatePath = 70

func findFolders() (folders, error) {
	repo, err := repoRoot()
	if err != nil {
		return folders{}, err
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return folders{}, fmt.Errorf("finding the cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	f := folders{repo: repo, cache: filepath.Join(caches, "csenv")}
	f.state = filepath.Join(f.cache, "cluster")
	if dir := os.Getenv("CSENV_CLUSTER_DIR"); dir != "" {
		if f.state, err = filepath.Abs(dir); err != nil {
			return folders{}, fmt.Errorf("resolving CSENV_CLUSTER_DIR: %w", err)
		}
	}
	if len(f.state) > maxStatePath {
		return folders{}, fmt.Errorf("the state folder %s is longer than %d bytes, too long for Unix sockets inside "+
			"it: set CSENV_CLUSTER_DIR", f.state, maxStatePath)
	}
	return f, nil
}

// repoRoot walks up from the working folder to the main module's go.mod.
func repoRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && modfile.ModulePath(data) == "github.com/csenv/csenv" {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside a checkout of github.com/csenv/csenv: run this from there")
		}
		dir = parent
	}
}

// at names a file or folder of the cluster's state.
func (f folders) at(parts ...string) string {
	return filepath.Join(append([]string{f.state}, parts...)...)
}

func (f folders) lockFile() string { return filepath.Join(f.cache, "cluster.lock") }

// stateEntries is everything a cluster may hold directly in its state folder.
// Removal goes by this list: CSENV_CLUSTER_DIR may point at a folder with other things in it.
func stateEntries() []string {
	return []string{"provider", "kubeconfig", "host.json", "pki", "config", "etcd", "containerd", "node", "logs",
		"images"}
}

// remove deletes the cluster's state, and the folder itself when nothing else is in it.
func (f folders) remove() error {
	for _, entry := range stateEntries() {
		if err := os.RemoveAll(f.at(entry)); err != nil {
			return fmt.Errorf("removing cluster state: %w", err)
		}
	}
	if err := os.Remove(f.state); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return fmt.Errorf("removing the state folder: %w", err)
	}
	return nil
}

// lock waits for the lock file, so that two commands never work on the same thing.
// The kernel drops the lock with the process: a killed command leaves none behind.
func lock(ctx context.Context, path string, progress io.Writer) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("making the cache folder: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	told := false
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			if !told {
				sayf(progress, "another hack/cluster command holds %s; waiting for it", path)
				told = true
			}
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("waiting for %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}

// sayf writes one line of progress. Losing progress output is not worth failing for.
func sayf(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, "==> "+format+"\n", args...)
}

// writeFile puts content in place under its final name only when it is complete.
func writeFile(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Chmod(mode), temp.Close())
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(temp.Name(), path)
}
