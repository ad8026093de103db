package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"

	"github.com/csenv/csenv/envserver/play/load"
	"github.com/csenv/csenv/envserver/testkit/process"
)

// withoutAlignment removes the line below the header.
func withoutAlignment(b block) string {
	lines := slices.DeleteFunc(strings.Split(b.text, "\n"), func(line string) bool { return strings.Contains(line, "---") })
	return strings.Join(lines, "\n") + "\n"
}

// The ratio is relative to the official server with the same number of sessions. The row of a
// failed server contains the error.
func TestLine(t *testing.T) {
	result := func(steps int64, failures map[string]int) load.Result {
		return load.Result{
			Sessions: 100, Steps: steps, Elapsed: 10 * time.Second, Step: load.Latencies{P50: 900 * time.Microsecond,
				P99: 12345 * time.Microsecond},
			Connect: load.Latencies{P99: 40 * time.Millisecond}, Failures: failures,
		}
	}
	rows := []row{
		{server: official, asked: 1, Result: result(1, nil)},
		{server: official, asked: 100, Result: result(30_000, nil), idle: 100 << 20, memory: 110 << 20, cpu: 312345},
		{server: csenvEcho, asked: 100, Result: result(600_000, map[string]int{"read: EOF": 2}), idle: 10 << 20,
			memory: 12 << 20, cpu: 8149},
		{server: official, asked: 19000, err: errors.New("no session opened")},
		{server: csenvEcho, asked: 19000, Result: result(500_000, nil)},
	}
	for i, want := range map[int]string{
		2: "| 100 | csenv-echo | 100 | 60000 | 20.0 | 900µs | 12.3ms | 40ms | 8.1µs | 12 MiB | – | 2: read: EOF |",
		3: "| 19000 | openenv-python | 0 | – | – | – | – | – | – | – | – | no session opened |",
		4: "| 19000 | csenv-echo | 100 | 50000 | – | 900µs | 12.3ms | 40ms | 0s | 0 MiB | – | 0 |",
	} {
		if got := tableOf(rows).text; !strings.Contains(got, want) {
			t.Errorf("row %d is not %s in\n%s", i, want, got)
		}
	}
}

func TestReferenceOfTickets(t *testing.T) {
	result := func(steps int64) load.Result {
		return load.Result{Sessions: 100, Steps: steps, Elapsed: time.Second}
	}
	rows := []row{{server: official, asked: 100, Result: result(10)},
		{server: officialTicket, asked: 100, Result: result(5)}, {server: csenvTicket, asked: 100, Result: result(40)},
		{server: csenvWorkflow, asked: 100, Result: result(40)}}
	for _, want := range []string{"| openenv-python-ticket | 100 | 5 | 1.0 |", "| csenv-ticket | 100 | 40 | 8.0 |",
		"| csenv-workflow | 100 | 40 | 4.0 |"} {
		if got := tableOf(rows).text; !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestShares(t *testing.T) {
	result := func(steps int64) load.Result { return load.Result{Steps: steps, Elapsed: time.Second} }
	rows := []row{
		{server: bare, asked: 100, Result: result(1000)},
		{server: csenvEcho, asked: 100, Result: result(700), cpu: 8149},
		{server: csenvTicket, asked: 100, Result: result(200)},
		{server: csenvNoSearch, asked: 100, Result: result(400)},
		{server: bare, asked: 400, Result: result(2000)}, {server: csenvNoSearch, asked: 400, Result: result(1000)},
		{server: csenvWorkflow, asked: 400, err: errors.New("no session opened")},
	}
	want := `| step | 100 sessions | 400 sessions | CPU per step, 100 sessions |
| echo | 70 % | not measured | 8.1µs |
| ticket, with a search | 20 % | not measured | 0s |
| ticket, without a search | 40 % | 50 % | 0s |
| workflow | not measured | not measured | – |
`
	if diff := cmp.Diff(want, withoutAlignment(sharesOf(rows))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTargets(t *testing.T) {
	result := func(steps int64, p99, connect time.Duration, open int) load.Result {
		return load.Result{Sessions: open, Steps: steps, Elapsed: time.Second, Step: load.Latencies{P99: p99},
			Connect: load.Latencies{P99: connect}}
	}
	rows := []row{
		{server: bare, asked: 100, Result: result(100, 0, 0, 100)},
		{server: csenvEcho, asked: 100, Result: result(95, 0, 0, 100)},
		{server: official, asked: 100, Result: result(5, 0, 0, 100)},
		{server: csenvEcho, asked: 400, Result: result(95, 10*time.Millisecond, 0, 400)},
		{server: official, asked: 400, Result: result(5, 100*time.Millisecond, 0, 400)},
		{server: csenvEcho, asked: 19000, Result: result(95, 0, 900*time.Millisecond, 18999), memory: 19000 * 30 << 10},
	}
	want := `| what | target | measured | met |
| steps/s, 100 sessions | ≥ 15 × official | 19.0 × | yes |
| steps/s, 400 sessions | ≥ 20 × official | 19.0 × | **no** |
| steps/s, 100 sessions | ≥ 90 % of the bare echo | 95 % | yes |
| steps/s, 400 sessions | ≥ 90 % of the bare echo | not measured | – |
| step p99, 400 sessions | ≤ 1/20 of official | 1/10.0 (10ms, 100ms) | **no** |
| 19,000 sessions in one process | all open, connect p99 < 1 s | 18999 open, 900ms, failures: 0 | **no** |
| resident memory of a session, 19,000 sessions | ≤ 24 KiB | 30.0 KiB | **no** |
`
	if diff := cmp.Diff(want, withoutAlignment(targetsOf(rows))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPage(t *testing.T) {
	page := "a\n<!-- bench machine -->\n\nold\n\n<!-- end -->\nb\n<!-- bench update -->\n\nkept\n\n<!-- end -->\n"
	got, err := replaceBlock(page, block{"machine", "new"})
	if want := strings.Replace(page, "old", "new", 1); err != nil || got != want {
		t.Errorf("%v\n%s, want\n%s", err, got, want)
	}
	for _, bad := range []string{"a\n", "<!-- bench machine -->\nopen\n"} {
		if _, err := replaceBlock(bad, block{"machine", "new"}); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
	// The pages have a place for every table.
	for file, names := range map[string][]string{"benchmark.md": {"machine", "targets", "steps", "servers", "agreement"},
		"scale.md": {"machine", "update"}} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, err := replaceBlock(string(text), block{name, ""}); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func TestUsageSumsUpTheGroup(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & sleep 60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started, err := process.Start("sh", cmd)
	if err != nil {
		t.Fatal(err)
	}
	p := &server{Process: started}
	t.Cleanup(p.Kill)
	own, err := procfs.NewProc(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for {
		stat, err := own.Stat()
		u, usageErr := p.usage()
		if err != nil || usageErr != nil {
			t.Fatal(err, usageErr)
		}
		if u.memory > float64(stat.ResidentMemory()) && stat.ResidentMemory() > 0 {
			return // the children's memory is included
		}
	}
}
