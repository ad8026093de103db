package process

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start("probe", exec.CommandContext(t.Context(), "sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestStop(t *testing.T) {
	for name, tc := range map[string]struct{ script, stop, cleanly string }{
		"exits with 0":         {"trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done", "", ""},
		"exits with 3":         {"trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done", "", "status 3:\nup"},
		"ignores SIGTERM":      {"trap '' TERM; echo up; while :; do sleep 0.01; done", "did not exit", "did not exit"},
		"exited before":        {"echo up; exit 4", "status 4:\nup", "status 4:\nup"},
		"exited with 0 before": {"echo up", "status 0:\nup", "status 0:\nup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for want, stop := range map[*string]func(*Process, time.Duration) error{
				&tc.stop: (*Process).Stop, &tc.cleanly: (*Process).StopCleanly} {
				p := shell(t, tc.script)
				if strings.HasPrefix(name, "exited") {
					<-p.done
				} else if err := p.Await(t.Context(), time.Minute,
					func() bool { return p.Logs() == "up\n" }); err != nil {
					t.Fatal(err)
				}
				timeout := time.Minute
				if name == "ignores SIGTERM" {
					timeout = 10 * time.Millisecond
				}
				err := stop(p, timeout)
				if (err == nil) != (*want == "") || err != nil && !strings.Contains(err.Error(), *want) {
					t.Errorf("error %v, want %q", err, *want)
				}
			}
		})
	}
}

func TestAwait(t *testing.T) {
	never := func() bool { return false }
	if err := shell(t, "echo no; exit 7").Await(t.Context(), time.Minute, never); err == nil ||
		!strings.Contains(err.Error(), "status 7:\nno") {
		t.Errorf("error %v, want the exit status and the log", err)
	}
	if err := shell(t, "exec sleep 60").Await(t.Context(), time.Millisecond, never); err == nil ||
		!strings.Contains(err.Error(), "not ready") {
		t.Errorf("error %v, want a timeout", err)
	}
}

func TestFreeAddresses(t *testing.T) {
	addresses, err := FreeAddresses(t.Context(), 3)
	if err != nil || len(addresses) != 3 || addresses[0] == addresses[1] || addresses[1] == addresses[2] {
		t.Errorf("%v, %v", addresses, err)
	}
}
