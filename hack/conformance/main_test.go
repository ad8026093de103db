package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/poolkey"
)

func TestExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"all is well": {nil, 0},
		"failed":      {errors.New("not conforming: mcp"), exitFailed},
		"offline":     {fmt.Errorf("making the Python environment: %w", errOffline), exitOffline},
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

func TestSummarise(t *testing.T) {
	good := report{"openenv", 1234 * time.Millisecond, nil}
	skipped := report{"export", 0, needsPython(">= (3, 12)")}
	var out bytes.Buffer
	err := summariseReports([]report{good, skipped, {"mcp", 0, errors.New("exit status 2")}}, &out)
	if err == nil || err.Error() != "not conforming: mcp" {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{"openenv       1 s  ok\n", "0 s  skipped: it needs Python >= (3, 12)",
		"0 s  FAILED: exit status 2\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if err := summariseReports([]report{good, skipped}, &bytes.Buffer{}); err != nil {
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
