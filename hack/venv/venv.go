// Package venv creates Python environments for comparisons and conformance tests, one for each list
// of requirements, in the user's cache.
package venv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// ErrOffline means that packages are missing and the package index can't be reached.
var ErrOffline = errors.New("the Python package index can't be reached")

// probe is a small package. If it can't be downloaded either, the index can't be reached.
const probe = "iniconfig"

// heartbeat is the time between two progress messages of a long installation.
const heartbeat = 15 * time.Second

// Maker creates environments.
type Maker struct {
	// Command is the Python interpreter that creates them.
	Command string
	// NoDeps installs only the listed packages, also if they ask for more or for other versions.
	NoDeps bool
	// Progress receives a message before each long step.
	Progress io.Writer
	// Run runs a command and returns what it printed.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
}

// RunCommand runs a command on this machine.
func RunCommand(ctx context.Context, name string, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, name, args...).CombinedOutput()
}

// Environment returns the folder of an environment with the packages of a list of requirements. The
// environments are in the user's cache, one folder for each list.
func (m Maker) Environment(ctx context.Context, name, requirements string) (string, error) {
	wanted, err := os.ReadFile(requirements)
	if err != nil {
		return "", fmt.Errorf("reading the requirements (run this from the checkout's root): %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder: %w", err)
	}
	digest := sha256.Sum256(wanted)
	path := filepath.Join(cache, "csenv", "conformance", name+"-"+hex.EncodeToString(digest[:6]))
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	// The copy of the list is written last. It marks the environment as complete.
	stamp, interpreter := filepath.Join(path, "requirements.txt"), filepath.Join(path, "bin", "python")
	have, err := os.ReadFile(stamp) //nolint:gosec // a folder of the user's cache
	// The interpreter is a link. It is broken if the Python that created the environment was
	// removed.
	_, gone := os.Stat(interpreter) //nolint:gosec // a folder of the user's cache
	if err == nil && gone == nil && string(have) == string(wanted) {
		return path, nil
	}
	fmt.Fprintf(m.Progress, "==> installing the packages of %s into %s (some minutes, once)\n", name, path)
	if err := m.create(ctx, path); err != nil {
		return "", err
	}
	if err := m.fill(ctx, interpreter, requirements); err != nil {
		return "", err
	}
	return path, os.WriteFile(stamp, wanted, 0o600) //nolint:gosec // as above
}

// create creates an environment without packages.
func (m Maker) create(ctx context.Context, path string) error {
	if output, err := m.Run(ctx, m.Command, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"); err != nil {
		return fmt.Errorf("%s must be Python 3.11 or newer, name another one with --python: %w\n%s", m.Command, err,
			output)
	}
	if output, err := m.Run(ctx, m.Command, "-m", "venv", "--clear", path); err != nil {
		return fmt.Errorf("%s -m venv (the modules venv and ensurepip are needed, on Debian the package "+
			"python3-venv): %w\n%s", m.Command, err, output)
	}
	return nil
}

// fill installs the packages. If that fails, it downloads a small package to distinguish an index
// that can't be reached from a list that can't be satisfied.
func (m Maker) fill(ctx context.Context, interpreter, requirements string) error {
	stop := m.beat()
	args := []string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements}
	if m.NoDeps {
		args = append(args, "--no-deps")
	}
	output, err := m.Run(ctx, interpreter, args...)
	stop()
	if err == nil {
		return nil
	}
	folder, tempErr := os.MkdirTemp("", "csenv-probe-")
	if tempErr != nil {
		return fmt.Errorf("making a folder: %w", tempErr)
	}
	defer os.RemoveAll(folder)
	if _, probeErr := m.Run(ctx, interpreter, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
		"--no-cache-dir", "--no-deps", "--dest", folder, probe); probeErr != nil {
		return fmt.Errorf("%w: %w\n%s", ErrOffline, err, output)
	}
	return fmt.Errorf("pip install -r %s: %w\n%s", requirements, err, output)
}

// Install installs a package of this checkout into a folder. The build tools are among the
// environment's packages, so it needs no index.
func (m Maker) Install(ctx context.Context, interpreter, source, into string) error {
	output, err := m.Run(ctx, interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
		"--no-build-isolation", "--no-deps", "--no-index", "--target", into, source)
	if err != nil {
		return fmt.Errorf("installing %s: %w\n%s", source, err, output)
	}
	return nil
}

// beat prints the elapsed time at intervals until it is stopped.
func (m Maker) beat() (stop func()) {
	started, ended, done := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				fmt.Fprintf(m.Progress, "    ... %s\n", time.Since(started).Round(time.Second))
			}
		}
	}()
	return func() { close(ended); <-done }
}

// lockFile prevents two processes from filling the same environment at the same time.
func lockFile(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil { //nolint:gosec // a folder of the user's cache
		return nil, fmt.Errorf("making the cache folder: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // as above
	if err != nil {
		return nil, fmt.Errorf("locking the environment: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the environment: %w", err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
