package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Every process of the cluster has these two variables in its environment. Unlike recorded process
// ids, they are never outdated, and a process that reuses an id lacks them.
const (
	stateVariable     = "CSENV_CLUSTER_STATE"
	componentVariable = "CSENV_CLUSTER_COMPONENT"
)

// process is a running process of the cluster.
type process struct {
	pid        int
	component  string // the component that was started; containerd's children inherit it
	executable string
	started    time.Time
}

// main reports whether this is a component's main process and not a child (a shim of containerd).
func (p process) main() bool { return p.component == filepath.Base(p.executable) }

// parseOwnership returns the component that an environment names, if it belongs to the state
// folder.
func parseOwnership(environ []string, state string) (component string, ours bool) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case stateVariable:
			ours = value == state
		case componentVariable:
			component = value
		}
	}
	return component, ours
}

// findProcesses lists the cluster's running processes by reading every environment in /proc.
func findProcesses(state string) ([]process, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []process
	for _, candidate := range all {
		if p, ours := readProcess(candidate, state); ours {
			found = append(found, p)
		}
	}
	return found, nil
}

// otherCluster returns the state folder of another cluster that runs on this machine.
func (f folders) otherCluster() (other string, found bool) {
	machine, err := procfs.NewFS(f.proc)
	if err != nil {
		return "", false
	}
	all, err := machine.AllProcs()
	if err != nil {
		return "", false
	}
	for _, candidate := range all {
		environ, err := candidate.Environ()
		if err != nil {
			continue // it has ended
		}
		for _, entry := range environ {
			other, marked := strings.CutPrefix(entry, stateVariable+"=")
			other = strings.TrimSuffix(other, "/"+secondFolder)
			if marked && other != f.state && isRegularFile(filepath.Join(other, "host.json")) {
				return other, true
			}
		}
	}
	return "", false
}

// readProcess reads one process. A process that can't be read has ended or isn't ours.
func readProcess(candidate procfs.Proc, state string) (process, bool) {
	environ, err := candidate.Environ()
	if err != nil {
		return process{}, false
	}
	component, ours := parseOwnership(environ, state)
	if !ours {
		return process{}, false
	}
	p := process{pid: candidate.PID, component: component}
	if executable, err := candidate.Executable(); err == nil {
		p.executable = strings.TrimSuffix(executable, " (deleted)")
	}
	if stat, err := candidate.Stat(); err == nil {
		if seconds, err := stat.StartTime(); err == nil {
			p.started = time.Unix(int64(seconds), 0)
		}
	}
	return p, true
}

// signal sends sig if the process is still the same one. It opens a handle before it checks that,
// so that a reused process id is never signalled.
func (p process) signal(state string, sig syscall.Signal) {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	again, err := procfs.NewProc(p.pid)
	if err != nil {
		return
	}
	if _, ours := readProcess(again, state); ours {
		_ = handle.Signal(sig)
	}
}

// stopProcesses stops the matching processes of the cluster: with SIGTERM, and after grace with
// SIGKILL. It returns an error if one remains.
func stopProcesses(ctx context.Context, state string, grace time.Duration, match func(process) bool) error {
	if gone, err := signalMatching(state, syscall.SIGTERM, match); gone || err != nil {
		return err
	}
	polite := func(context.Context) (bool, error) { return signalMatching(state, 0, match) }
	if wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, grace, true, polite) == nil {
		return nil
	}
	force := func(context.Context) (bool, error) { return signalMatching(state, syscall.SIGKILL, match) }
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 10*time.Second, true, force); err != nil {
		return fmt.Errorf("killing processes: %w", err)
	}
	return nil
}

// signalMatching signals every matching process and reports whether there was none.
func signalMatching(state string, sig syscall.Signal, match func(process) bool) (gone bool, err error) {
	found, err := findProcesses(state)
	if err != nil {
		return false, err
	}
	found = slices.DeleteFunc(found, func(p process) bool { return !match(p) })
	for _, p := range found {
		p.signal(state, sig)
	}
	return len(found) == 0, nil
}

// startProcess starts a component in a new session, so that it outlives this command.
func startProcess(f folders, component string, argv []string) error {
	log, err := openLog(f.logFile(component))
	if err != nil {
		return err
	}
	defer log.Close()
	// The command's context is not used, because the component outlives the command.
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Dir = f.state
	cmd.Env = componentEnviron(f.state, component)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", component, err)
	}
	return cmd.Process.Release()
}

// componentEnviron leaves out most variables of the shell, because a proxy or KUBECONFIG would
// misdirect the components. Only containerd makes connections to other machines.
func componentEnviron(state, component string) []string {
	environ := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		stateVariable + "=" + state,
		componentVariable + "=" + component,
	}
	if component != "containerd" {
		return environ
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		if value, ok := os.LookupEnv(name); ok {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

func (f folders) logFile(component string) string { return f.at("logs", component+".log") }

// openLog starts a new log for a component and keeps the previous one.
func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("making the log folder: %w", err)
	}
	if err := os.Rename(path, path+".old"); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("keeping the last log: %w", err)
	}
	return os.Create(path)
}

// readLogTail returns the last lines of a component's log for an error message.
func readLogTail(f folders, component string) string {
	file, err := os.Open(f.logFile(component))
	if err != nil {
		return "(no log)"
	}
	defer file.Close()
	const window = 8 << 10
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-window), io.SeekStart)
	}
	text, _ := io.ReadAll(file)
	return fmt.Sprintf("last lines of %s:\n%s", f.logFile(component), lastLines(string(text), 15))
}
