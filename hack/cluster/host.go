package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/util/wait"
)

// hostRecord contains the machine's settings before the cluster changed them, so that down can
// restore them. It is written before the first change.
type hostRecord struct {
	// Sysctls maps a path below /proc/sys to its value.
	Sysctls map[string]string `json:"sysctls"`
	// MadeFolders are the empty mount points that the cluster created.
	MadeFolders []string `json:"madeFolders"`
}

// touchedSysctls are the kernel settings that the cluster or the kubelet changes.
func touchedSysctls() []string {
	return []string{
		"net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom",
		"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// coveredFolders are fixed paths of containerd, the CNI plugins and the kubelet. In the node's
// mount namespace a folder of the state is mounted over each, so that nothing is written outside
// the state.
func coveredFolders() []string {
	return []string{"/run/containerd", "/run/netns", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers",
		"/var/log/pods"}
}

// behind returns the folder in the state that is mounted over path.
func (f folders) behind(path string) string {
	return f.at("node", strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "-"))
}

// recordHost records the machine's settings once per cluster, those before all clusters.
func recordHost(f folders) error {
	if isRegularFile(f.at("host.json")) {
		return nil
	}
	if other, shared := f.otherCluster(); shared { // which has changed them
		data, err := os.ReadFile(filepath.Join(other, "host.json"))
		if err != nil {
			return err
		}
		return writeFile(f.at("host.json"), data, 0o644)
	}
	record := hostRecord{Sysctls: map[string]string{}}
	for _, name := range touchedSysctls() {
		if value, err := os.ReadFile(filepath.Join(f.proc, "sys", name)); err == nil {
			record.Sysctls[name] = strings.TrimSpace(string(value))
		}
	}
	for _, path := range coveredFolders() {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			record.MadeFolders = append(record.MadeFolders, path)
		}
	}
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(f.at("host.json"), append(data, '\n'), 0o644)
}

func readHostRecord(f folders) (hostRecord, error) {
	var record hostRecord
	data, err := os.ReadFile(f.at("host.json"))
	if errors.Is(err, os.ErrNotExist) {
		return record, nil
	}
	if err != nil {
		return record, err
	}
	if err := json.Unmarshal(data, &record); err != nil {
		return record, fmt.Errorf("reading %s: %w", f.at("host.json"), err)
	}
	return record, nil
}

// restoreHost restores the recorded settings.
func restoreHost(record hostRecord) error {
	var failures []error
	for _, name := range touchedSysctls() {
		if value, noted := record.Sysctls[name]; noted {
			failures = append(failures, os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o600))
		}
	}
	for _, path := range slices.Backward(record.MadeFolders) {
		// Remove fails for a folder that contains files by now, which is kept.
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			failures = append(failures, err)
		}
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("putting the machine's settings back: %w", err)
	}
	return nil
}

// prepareHost creates the mount points and turns on routing for pods.
func prepareHost(ctx context.Context, f folders) error {
	if err := recordHost(f); err != nil {
		return fmt.Errorf("noting the machine's settings: %w", err)
	}
	for _, path := range coveredFolders() {
		if err := errors.Join(os.MkdirAll(path, 0o750), os.MkdirAll(f.behind(path), 0o750)); err != nil {
			return fmt.Errorf("making the node's folders: %w", err)
		}
	}
	// This loads overlay if it is a module that isn't loaded yet. An error of modprobe doesn't
	// matter.
	_, _ = runProgram(ctx, "modprobe", "overlay")
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		return fmt.Errorf("turning on IP forwarding: %w", err)
	}
	return nil
}

// mountsBelow lists the mount points at or below dir, deepest first.
func mountsBelow(mounts []*procfs.MountInfo, dir string) []string {
	var below []string
	for _, m := range mounts {
		point := unescapeMount(m.MountPoint)
		if point == dir || strings.HasPrefix(point, dir+"/") {
			below = append(below, point)
		}
	}
	slices.SortStableFunc(below, func(a, b string) int { return len(b) - len(a) })
	return below
}

// unescapeMount decodes the octal escapes of proc(5) for blanks in paths.
func unescapeMount(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// unmountState unmounts everything in the state folder before files are removed. The node's own
// mounts ended with its namespace.
func unmountState(f folders) error {
	mounts, err := procfs.GetMounts()
	if err != nil {
		return fmt.Errorf("reading mounts: %w", err)
	}
	for _, point := range mountsBelow(mounts, f.state) {
		if point == f.state {
			continue // the user may have mounted a disk at the folder itself
		}
		if err := syscall.Unmount(point, 0); err != nil {
			return fmt.Errorf("unmounting %s: %w", point, err)
		}
	}
	return nil
}

// holdsOurRoot reports whether a process with these mounts is in a container of this cluster. Its
// root is then a snapshot in containerd's folder in the state: an overlay's upper folder or, with
// the native snapshotter, a bind mount.
func holdsOurRoot(mounts []*procfs.MountInfo, snapshots string) bool {
	for _, m := range mounts {
		if m.MountPoint != "/" {
			continue
		}
		if strings.HasPrefix(m.SuperOptions["upperdir"], snapshots+"/") || strings.Contains(m.Root, snapshots+"/") {
			return true
		}
	}
	return false
}

func (f folders) owns(pid int) bool {
	mounts, err := procfs.GetProcMounts(pid)
	return err == nil && holdsOurRoot(mounts, f.at("containerd", "root"))
}

// containerProcesses lists the processes in containers of this cluster. It recognises them by their
// mounts, because a killed containerd leaves no other record of them.
func (f folders) containerProcesses() ([]int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []int
	for _, p := range all {
		if f.owns(p.PID) {
			found = append(found, p.PID)
		}
	}
	return found, nil
}

// killContainers kills every process in a container of this cluster. It opens a handle before it
// checks the process again, so that a reused process id is never signalled.
func killContainers(ctx context.Context, f folders) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 15*time.Second, true,
		func(context.Context) (bool, error) {
			found, err := f.containerProcesses()
			for _, pid := range found {
				f.killContainerProcess(pid)
			}
			return len(found) == 0, err
		})
	if err != nil {
		return fmt.Errorf("ending containers' processes: %w", err)
	}
	return nil
}

func (f folders) killContainerProcess(pid int) {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	if f.owns(pid) {
		_ = handle.Kill()
	}
}

// removePodGroups removes a kubelet's cgroups, deepest first. The kernel refuses to remove a cgroup
// with a process.
func removePodGroups(name string) {
	for _, root := range cgroupRoots() {
		for _, group := range slices.Backward(foldersBelow(filepath.Join(root, name))) {
			_ = syscall.Rmdir(group)
		}
	}
}

// foldersBelow lists root and the folders inside, parents first.
func foldersBelow(root string) []string {
	var all []string
	_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	return all
}
