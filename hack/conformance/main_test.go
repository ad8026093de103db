package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/hack/venv"
)

func TestExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"all is well": {nil, 0},
		"failed":      {errors.New("not conforming: mcp"), exitFailed},
		"offline":     {fmt.Errorf("making the Python environment: %w", venv.ErrOffline), exitOffline},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if got := exitCode(c.err, &stderr); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
			if (c.err != nil) != strings.Contains(stderr.String(), "error:") {
				t.Errorf("printed %q", stderr.String())
			}
		})
	}
}

func TestUnknownSuite(t *testing.T) {
	cmd := newCommand(&bytes.Buffer{})
	cmd.SetArgs([]string{"--suites", "openenv,java"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), `"java"`) {
		t.Errorf("error %v does not name the suite", err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadJUnit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.xml")
	writeFile(t, path, `<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests">
<testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4">
<testcase classname="test_a" name="test_good" time="0.1"/>
<testcase classname="test_a" name="test_bad"><failure message="assert">x</failure></testcase>
<testcase classname="test_a" name="test_broken"><error message="fixture">x</error></testcase>
<testcase classname="test_a" name="test_later"><skipped message="not yet"/></testcase>
</testsuite></testsuites>`)
	got, err := readJUnit(path)
	if err != nil {
		t.Fatal(err)
	}
	want := report{passed: 1, failed: 2, skipped: 1, notes: []string{"failed: test_bad", "failed: test_broken",
		"skipped: test_later: not yet"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(report{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := readJUnit(path + ".none"); err == nil {
		t.Error("no error without results")
	}
}

func TestTestLines(t *testing.T) {
	var lines testLines
	fmt.Fprint(&lines, "--- PASS: TestA (0.1s)\n    --- FAIL: TestA/sub (0.0s)\n--- FAIL: TestB (0.1s)\n--- SKIP: "+
		"TestC (0.0s)\nPASS\n")
	want := report{passed: 1, failed: 2, skipped: 1, notes: []string{"failed: TestA/sub", "failed: TestB",
		"skipped: TestC"}}
	if diff := cmp.Diff(want, lines.report(), cmp.AllowUnexported(report{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSummarise(t *testing.T) {
	good := report{suite: "openenv", passed: 3, took: 1234 * time.Millisecond}
	for name, c := range map[string]struct {
		bad  report
		want string
	}{
		"failed test": {report{suite: "mcp", passed: 1, failed: 1, notes: []string{"failed: test_bad"}},
			"failed: test_bad"},
		"failed suite":  {report{suite: "mcp", passed: 1, failure: errors.New("exit status 2")}, "exit status 2"},
		"nothing tried": {report{suite: "mcp"}, "0 passed"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := summariseReports([]report{good, c.bad}, &out); err == nil || err.Error() != "not conforming: mcp" {
				t.Errorf("error %v", err)
			}
			if text := out.String(); !strings.Contains(text, c.want) ||
				!strings.Contains(text, "openenv  ok        3 passed, 0 failed, 0 skipped in 1.2s") {
				t.Errorf("printed\n%s", text)
			}
		})
	}
	if err := summariseReports([]report{good}, &bytes.Buffer{}); err != nil {
		t.Errorf("no suite failed, but got %v", err)
	}
}

func TestConfigurations(t *testing.T) {
	work := t.TempDir()
	all, err := makeConfigurations(t.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poolkey.Load(filepath.Join(work, "ledger.pem")); err != nil {
		t.Errorf("the pool's key: %v", err)
	}
	seen := map[string]bool{}
	for _, c := range all {
		address := c.flags[1]
		if seen[c.name] || seen[address] && !strings.HasSuffix(address, ":0") {
			t.Errorf("%s %s: twice", c.name, address)
		}
		seen[c.name], seen[address] = true, true
	}
	if len(all) != 12 {
		t.Errorf("%d servers, want 12", len(all))
	}
}
