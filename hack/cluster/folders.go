package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/mod/modfile"
	"k8s.io/apimachinery/pkg/util/wait"
)

// folders are the folders of the tool. It writes nothing outside them, except the empty mount
// points that the node's mount namespace uses.
type folders struct {
	repo  string // checkout of the main module
	cache string // built binaries and notes; down keeps it
	state string // one cluster; down removes it
	name  string // of the cluster
	net   network
	node  node   // whose processes and files are in the state
	proc  string // where the machine's processes and kernel settings are
}

// maxStatePath keeps the second node's longest socket name under the kernel's limit of 108 bytes.
const maxStatePath = 66

func findFolders() (folders, error) {
	repo, err := repoRoot()
	if err != nil {
		return folders{}, err
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return folders{}, fmt.Errorf("finding the cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	f := folders{repo: repo, cache: filepath.Join(caches, "csenv"), name: "csenv", proc: procfs.DefaultMountPoint}
	f.state = filepath.Join(f.cache, "cluster")
	if name := os.Getenv("CSENV_CLUSTER_NAME"); name != "" {
		if !regexp.MustCompile(`^[a-z0-9]{1,20}$`).MatchString(name) {
			return folders{}, fmt.Errorf("CSENV_CLUSTER_NAME=%s: use up to 20 lower-case letters and digits", name)
		}
		f.name, f.state = f.name+"-"+name, f.state+"-"+name
	}
	if dir := os.Getenv("CSENV_CLUSTER_DIR"); dir != "" {
		if f.state, err = filepath.Abs(dir); err != nil {
			return folders{}, fmt.Errorf("resolving CSENV_CLUSTER_DIR: %w", err)
		}
	}
	if len(f.state) > maxStatePath {
		return folders{}, fmt.Errorf("the state folder %s is longer than %d bytes, too long for Unix sockets inside "+
			"it: set CSENV_CLUSTER_DIR", f.state, maxStatePath)
	}
	f.net.file = f.at("net")
	if f.net.Prefix, err = recordedNetwork(f.at("network")); err != nil {
		return folders{}, fmt.Errorf("reading the cluster's network: %w", err)
	}
	f.node = firstNode(f.net)
	return f, nil
}

// recordedNetwork returns the network of a cluster that exists, or the first one.
func recordedNetwork(file string) (netip.Prefix, error) {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return networkOf(firstNetwork), nil
	}
	if err != nil {
		return netip.Prefix{}, err
	}
	return parseNetwork(strings.TrimSpace(string(text)))
}

// repoRoot searches for the main module's go.mod, from the working folder upwards.
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

// at returns the path of a file or folder of the cluster's state.
func (f folders) at(parts ...string) string {
	return filepath.Join(append([]string{f.state}, parts...)...)
}

// stateEntries lists everything that a cluster creates directly in its state folder. Only these are
// removed, because CSENV_CLUSTER_DIR may be a folder with other files.
func stateEntries() []string {
	return []string{"provider", "kubeconfig", "host.json", "network", "net", "pki", "config", "etcd", "containerd",
		"node", "logs", "images", secondFolder}
}

// remove deletes the cluster's state, and the folder itself if it is empty after that.
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

// acquireLock waits for the lock file, so that two commands never change the same files. The kernel
// releases the lock when the process ends.
func acquireLock(ctx context.Context, path string, progress io.Writer) (release func(), err error) {
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
				logProgressf(progress, "another hack/cluster command holds %s; waiting for it", path)
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

// logProgressf prints one line of progress and ignores errors.
func logProgressf(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, "==> "+format+"\n", args...)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// writeFile writes a temporary file and renames it, so that the final name never has partial
// content.
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
