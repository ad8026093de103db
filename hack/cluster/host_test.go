package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"
)

func mounts(points ...[2]string) []*procfs.MountInfo {
	var all []*procfs.MountInfo
	for _, p := range points {
		all = append(all, &procfs.MountInfo{MountPoint: p[0], FSType: p[1]})
	}
	return all
}

func TestMountsBelow(t *testing.T) {
	table := mounts(
		[2]string{"/", "ext4"}, [2]string{"/state", "ext4"}, [2]string{"/state/pods/a", "tmpfs"},
		[2]string{"/state/pods/a/inner", "tmpfs"}, [2]string{"/state2/pods", "tmpfs"},
		[2]string{`/state/with\040blank`, "tmpfs"},
	)
	want := []string{"/state/pods/a/inner", "/state/with blank", "/state/pods/a", "/state"}
	if diff := cmp.Diff(want, mountsBelow(table, "/state")); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestMountInfoOfThisMachineIsReadable(t *testing.T) {
	requireProc(t)
	table, err := procfs.GetMounts()
	if err != nil {
		t.Fatal(err)
	}
	if filesystemAt(table, "/proc/self") != "proc" {
		t.Errorf("the filesystem at /proc/self is %q", filesystemAt(table, "/proc/self"))
	}
}

func TestFilesystemAt(t *testing.T) {
	table := mounts([2]string{"/", "overlay"}, [2]string{"/root", "ext4"}, [2]string{"/root/.cache", "xfs"},
		[2]string{"/root/.cache", "tmpfs"})
	tests := map[string]string{
		"/root/.cache/csenv": "tmpfs", // the later mount hides the earlier one
		"/root/.cached":      "ext4",
		"/rooted":            "overlay",
		"/root":              "ext4",
	}
	for dir, want := range tests {
		if got := filesystemAt(table, dir); got != want {
			t.Errorf("filesystemAt(%s) = %s, want %s", dir, got, want)
		}
	}
}

func TestHoldsOurRoot(t *testing.T) {
	const snapshots = "/state/containerd/root"
	root := func(upper, bound string) []*procfs.MountInfo {
		return []*procfs.MountInfo{
			{MountPoint: "/", Root: bound, SuperOptions: map[string]string{"upperdir": upper}},
			{MountPoint: "/etc/hosts", Root: snapshots + "/hosts"},
		}
	}
	tests := map[string]struct {
		mounts []*procfs.MountInfo
		want   bool
	}{
		"overlay of ours":        {root(snapshots+"/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs", "/"), true},
		"overlay of a neighbour": {root("/state/containerd/root2/snapshots/1/fs", "/"), false},
		"overlay of Docker":      {root("/var/lib/docker/overlay2/abc/diff", "/"), false},
		"native of ours":         {root("", snapshots+"/io.containerd.snapshotter.v1.native/snapshots/1"), true},
		"the machine itself":     {root("", "/"), false},
		"no root, a zombie":      {nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := holdsOurRoot(test.mounts, snapshots); got != test.want {
				t.Errorf("holdsOurRoot = %v, want %v", got, test.want)
			}
		})
	}
}

func TestKillContainersSparesTheMachine(t *testing.T) {
	_, ended := startSleeper(t)
	if err := killContainers(t.Context(), folders{state: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Error("a process outside every container was killed")
	default:
	}
}

func TestFoldersBelowListsOuterBeforeInner(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "burstable", "pod1")
	if err := writeFile(filepath.Join(inner, "cgroup.procs"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want := []string{root, filepath.Dir(inner), inner}
	if diff := cmp.Diff(want, foldersBelow(root)); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
	if got := foldersBelow(filepath.Join(root, "gone")); got != nil {
		t.Errorf("of a missing folder: %v", got)
	}
}

func TestHostRecordIsWrittenOnce(t *testing.T) {
	f := folders{state: t.TempDir()}
	if err := writeFile(f.at("host.json"), []byte(`{"madeFolders": ["/made"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	// At a repair the settings are the cluster's own, so the first record must be kept.
	if err := recordHost(f); err != nil {
		t.Fatal(err)
	}
	if record, err := readHostRecord(f); err != nil || len(record.MadeFolders) != 1 {
		t.Errorf("record %+v, %v", record, err)
	}
}

// fakeMachine is a folder like /proc of a machine with one process for each environment.
func fakeMachine(t *testing.T, environs ...string) string {
	t.Helper()
	proc := t.TempDir()
	files := map[string]string{"sys/kernel/panic": "7\n"}
	for i, environ := range environs {
		files[strconv.Itoa(i+1)+"/environ"] = environ + "\x00"
	}
	for name, content := range files {
		if err := writeFile(filepath.Join(proc, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

// The settings before a second cluster are the first one's, so the record is that of the first.
func TestHostRecordIsSharedByClusters(t *testing.T) {
	first, second := folders{state: t.TempDir()}, folders{state: t.TempDir()}
	proc := fakeMachine(t, "HOME=/root", stateVariable+"="+first.at(secondFolder))
	first.proc, second.proc = proc, proc
	if err := recordHost(first); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(proc, "sys/kernel/panic"), []byte("10\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := recordHost(second); err != nil {
		t.Fatal(err)
	}
	if record, err := readHostRecord(second); err != nil || record.Sysctls["kernel/panic"] != "7" {
		t.Errorf("record %+v, %v", record, err)
	}
	if other, found := second.otherCluster(); !found || other != first.state {
		t.Errorf("the other cluster is %q, %v", other, found)
	}
	if other, found := first.otherCluster(); found {
		t.Errorf("there is another cluster in %q", other)
	}
}

func TestReadHostRecord(t *testing.T) {
	f := folders{state: t.TempDir()}
	record, err := readHostRecord(f)
	if err != nil || len(record.Sysctls) != 0 {
		t.Errorf("without a record: %+v, %v", record, err)
	}
	if err := os.WriteFile(f.at("host.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readHostRecord(f); err == nil {
		t.Error("no error for a damaged record")
	}
}

func TestRestoreHostRemovesOnlyEmptyFolders(t *testing.T) {
	dir := t.TempDir()
	empty, full := filepath.Join(dir, "empty"), filepath.Join(dir, "full")
	for _, path := range []string{empty, filepath.Join(full, "theirs")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := restoreHost(hostRecord{MadeFolders: []string{empty, full, filepath.Join(dir, "gone")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(empty); !os.IsNotExist(err) {
		t.Errorf("the empty folder is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(full, "theirs")); err != nil {
		t.Errorf("another program's file was removed: %v", err)
	}
}
