package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/testkit/wire"
)

func TestOwnership(t *testing.T) {
	tests := map[string]struct {
		environ   []string
		component string
		ours      bool
	}{
		"ours": {environ: []string{"PATH=/bin", stateVariable + "=/state", componentVariable +
			"=etcd"}, component: "etcd", ours: true},
		"another state folder": {environ: []string{stateVariable + "=/state2", componentVariable + "=etcd"},
			component: "etcd"},
		"folder as a prefix": {environ: []string{stateVariable + "=/state/etcd", componentVariable + "=etcd"},
			component: "etcd"},
		"a stranger":             {environ: []string{"PATH=/bin"}},
		"no environment, zombie": {},
		"value with equals sign": {environ: []string{stateVariable + "=/state", componentVariable + "=a=b"},
			component: "a=b", ours: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			component, ours := parseOwnership(test.environ, "/state")
			if component != test.component || ours != test.ours {
				t.Errorf("ownership = %q, %v; want %q, %v", component, ours, test.component, test.ours)
			}
		})
	}
}

func TestMainProcessIsTheOneNamedLikeItsComponent(t *testing.T) {
	tests := map[string]struct {
		process process
		want    bool
	}{
		"component":         {process{component: "containerd", executable: "/usr/bin/containerd"}, true},
		"its child":         {process{component: "containerd", executable: "/usr/bin/containerd-shim-runc-v2"}, false},
		"launcher before":   {process{component: "kubelet", executable: "/usr/bin/nsenter"}, false},
		"unreadable binary": {process{component: "kubelet"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.process.main(); got != test.want {
				t.Errorf("main() = %v, want %v", got, test.want)
			}
		})
	}
}

func startSleeper(t *testing.T, environ ...string) (cmd *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	return startProgram(t, []string{"sleep", "60"}, environ...)
}

// startProgram starts a program whose environment is readable, and reaps it when it ends.
func startProgram(t *testing.T, argv []string, environ ...string) (cmd *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	requireProc(t)
	cmd = exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	// Shortly after a start, the environment may still be empty.
	path := fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid)
	wire.AwaitCondition(t, path+" has something", func() bool {
		data, err := os.ReadFile(path)
		return err == nil && len(data) > 0
	})
	return cmd, done
}

func requireProc(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("needs Linux's /proc")
	}
}

func TestStopProcessesEndsOursAndSparesStrangers(t *testing.T) {
	state := t.TempDir()
	_, oursEnded := startSleeper(t, stateVariable+"="+state, componentVariable+"=sleep")
	_, strangerEnded := startSleeper(t, stateVariable+"=/elsewhere", componentVariable+"=sleep")

	everything := func(process) bool { return true }
	if err := stopProcesses(t.Context(), state, 5*time.Second, everything); err != nil {
		t.Fatal(err)
	}
	<-oursEnded
	select {
	case <-strangerEnded:
		t.Error("a process of another state folder was ended")
	default:
	}
}

func TestStopProcessesForcesWhatIgnoresTheSignal(t *testing.T) {
	state := t.TempDir()
	marker := filepath.Join(state, "ready")
	script := `trap "" TERM; touch ` + marker + `; while :; do sleep 0.1; done`
	cmd, ended := startProgram(t, []string{"sh", "-c", script}, stateVariable+"="+state, componentVariable+"=sh")
	wire.AwaitCondition(t, "the process has started", func() bool { return isRegularFile(marker) })
	own := func(p process) bool { return p.pid == cmd.Process.Pid }
	if err := stopProcesses(t.Context(), state, 50*time.Millisecond, own); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func TestSignalSparesAReusedID(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ready")
	script := `trap "exit 3" USR1; trap "exit 0" USR2; touch ` + marker + `; while :; do sleep 0.01; done`
	cmd, ended := startProgram(t, []string{"sh", "-c", script})
	wire.AwaitCondition(t, "the process has started", func() bool { return isRegularFile(marker) })
	// The id belonged to one of our processes and now belongs to another program.
	process{pid: cmd.Process.Pid, component: "etcd"}.signal(t.TempDir(), syscall.SIGUSR1)
	// Traps run in the order of their signals' numbers. If the first signal had arrived, it would
	// decide the exit code.
	if err := cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	<-ended
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("another program's process was signalled: exit code %d", code)
	}
}

func TestStartedProcessIsFoundAndLogs(t *testing.T) {
	requireProc(t)
	f := folders{state: t.TempDir()}
	script := filepath.Join(f.state, "hello.sh")
	if err := os.WriteFile(script, []byte("echo hello\nexec sleep 60\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := startProcess(f, "sleep", []string{"sh", script}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test doesn't wait for the process, so it remains as a zombie, which counts as ended.
		_ = stopProcesses(t.Context(), f.state, time.Second, func(process) bool { return true })
	})
	wire.AwaitCondition(t, "the log has hello", func() bool { return strings.Contains(readLogTail(f, "sleep"), "hello") })
	var found []process
	var err error
	wire.AwaitCondition(t, "the process is found", func() bool {
		found, err = findProcesses(f.state)
		return len(found) == 1 && found[0].main()
	})
	if found[0].component != "sleep" || time.Since(found[0].started) > time.Minute {
		t.Errorf("findProcesses = %+v, %v", found, err)
	}
}

func TestComponentEnvironLeavesTheShellBehind(t *testing.T) {
	t.Setenv("KUBECONFIG", "/elsewhere")
	t.Setenv("HTTPS_PROXY", "http://proxy.example")
	plain := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", stateVariable + "=/state", componentVariable + "=kubelet",
	}
	if diff := cmp.Diff(plain, componentEnviron("/state", "kubelet")); diff != "" {
		t.Errorf("kubelet (-want +got):\n%s", diff)
	}
	pulling := strings.Join(componentEnviron("/state", "containerd"), " ")
	if !strings.Contains(pulling, "HTTPS_PROXY=http://proxy.example") || strings.Contains(pulling, "KUBECONFIG") {
		t.Errorf("containerd: %s", pulling)
	}
}

func TestOpenLogKeepsTheOneBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "etcd.log")
	for _, text := range []string{"first", "second"} {
		file, err := openLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	now, _ := os.ReadFile(path)
	before, _ := os.ReadFile(path + ".old")
	if string(now) != "second" || string(before) != "first" {
		t.Errorf("log %q, before %q", now, before)
	}
}

func TestTailIsBounded(t *testing.T) {
	f := folders{state: t.TempDir()}
	if got := readLogTail(f, "etcd"); got != "(no log)" {
		t.Errorf("without a log: %q", got)
	}
	lines := strings.Repeat("line\n", 10000) + "last"
	if err := writeFile(f.logFile("etcd"), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	got := readLogTail(f, "etcd")
	if !strings.HasSuffix(got, "\nlast") || strings.Count(got, "\n") != 15 {
		t.Errorf("tail = %q", got)
	}
}
