package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/testkit/isolated"
	"github.com/csenv/csenv/scenarios"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain keeps csenv eval from storing in this folder, and from signing with the user's key.
func TestMain(m *testing.M) {
	restore, err := isolated.Environment()
	if err = errors.Join(err, os.Setenv(envvars.Results, "none")); err != nil {
		panic(err)
	}
	code := m.Run()
	restore()
	os.Exit(code)
}

// csenv runs the command.
func csenv(t testing.TB, args ...string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = runWith(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// inPack changes to a folder with a small catalogue, pack, which replaces the built-in one, and a
// pack with two faults, faulty.
func inPack(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	copyPack := func(name, manifest string) {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS("../../scenarios/testdata/pack")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "pack.yaml"), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copyPack("pack", "name: csenv-public\nversion: 7\n")
	copyPack("faulty", "name: csenv-public\nversion: 7\n")
	copyPack("broken", "name: broken\nversion: 1\n")
	change(t, filepath.Join(dir, "faulty", "tickets", "T1.yaml"), "team: finance", "team: trade")
	change(t, filepath.Join(dir, "faulty", "tickets", "T1.yaml"), "cue: billing", "cue: shipping")
	change(t, filepath.Join(dir, "broken", "tickets", "T1.yaml"), "language: en", "langage: en")
	t.Chdir(dir)
}

func change(t *testing.T, file, old, replacement string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), old) {
		t.Fatalf("%s does not contain %q (%v)", file, old, err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(data), old, replacement, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOutput(t *testing.T) {
	golden, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	inPack(t)
	tests := map[string]struct {
		args []string
		code int
	}{
		"help.txt":             {[]string{}, exitDone},
		"ui-help.txt":          {[]string{"ui", "--help"}, exitDone},
		"doctor-help.txt":      {[]string{"doctor", "--help"}, exitDone},
		"run-help.txt":         {[]string{"run", "--help"}, exitDone},
		"results-help.txt":     {[]string{"results", "--help"}, exitDone},
		"episodes-help.txt":    {[]string{"episodes", "--help"}, exitDone},
		"replay-help.txt":      {[]string{"replay", "--help"}, exitDone},
		"export-help.txt":      {[]string{"export", "--help"}, exitDone},
		"transcript-help.txt":  {[]string{"transcript", "--help"}, exitDone},
		"compare-help.txt":     {[]string{"compare", "--help"}, exitDone},
		"leaderboard-help.txt": {[]string{"leaderboard", "--help"}, exitDone},
		"env-status-help.txt":  {[]string{"env", "status", "--help"}, exitDone},
		"eval-help.txt":        {[]string{"eval", "--help"}, exitDone},
		"serve-help.txt":       {[]string{"serve", "--help"}, exitDone},
		"scenarios-help.txt":   {[]string{"scenarios"}, exitDone},
		"list-help.txt":        {[]string{"scenarios", "list", "--help"}, exitDone},
		"show-help.txt":        {[]string{"scenarios", "show", "--help"}, exitDone},
		"lint-help.txt":        {[]string{"scenarios", "lint", "--help"}, exitDone},
		"regrade-help.txt":     {[]string{"regrade", "--help"}, exitDone},
		"bench-help.txt":       {[]string{"bench", "--help"}, exitDone},
		"list.txt":             {[]string{"scenarios", "list", "--pack", "pack"}, exitDone},
		"list.csv":             {[]string{"scenarios", "list", "--pack", "pack", "-o", "csv"}, exitDone},
		"list.json":            {[]string{"scenarios", "list", "--pack", "pack", "-o", "json"}, exitDone},
		"list-ticket.csv": {[]string{"scenarios", "list", "--pack", "pack", "--kind", "Ticket", "--category",
			"billing,general", "--split", "public-train", "--language", "en", "-o", "csv"}, exitDone},
		"list-none.json": {[]string{"scenarios", "list", "--pack", "pack", "--language", "fr", "-o", "json"},
			exitDone},
		"show-ticket.yaml": {[]string{"scenarios", "show", "T1", "--pack", "pack"}, exitDone},
		"show-ticket-seed.json": {[]string{"scenarios", "show", "T1", "--pack", "pack", "--seed", "01", "-o", "json"},
			exitDone},
		"show-ticket-served.yaml": {[]string{"scenarios", "show", "T1", "--pack", "pack", "--served"},
			exitDone},
		"show-workflow.json": {[]string{"scenarios", "show", "W1", "--pack", "pack", "-o", "json"}, exitDone},
		"lint-clean.txt":     {[]string{"scenarios", "lint", "pack"}, exitDone},
		"lint-findings.txt":  {[]string{"scenarios", "lint", "faulty"}, exitOutcome},
		"lint-findings.json": {[]string{"scenarios", "lint", "faulty", "-o", "json"}, exitOutcome},
		"lint-broken.txt":    {[]string{"scenarios", "lint", "broken"}, exitOutcome},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, errs, code := csenv(t, tt.args...)
			if code != tt.code || errs != "" {
				t.Fatalf("exit code %d, want %d, and on standard error: %s", code, tt.code, errs)
			}
			if filepath.Ext(name) == ".txt" {
				narrow(t, out)
			}
			file := filepath.Join(golden, name)
			if *update {
				if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out); diff != "" {
				t.Errorf("output (-want +got), rewrite it with -update if the change is intended:\n%s", diff)
			}
		})
	}
}

// narrow checks that a text fits the width.
func narrow(t *testing.T, out string) {
	t.Helper()
	for line := range strings.SplitSeq(out, "\n") {
		if n := utf8.RuneCountInString(line); n > view.Width {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct {
		args []string
		want []string
	}{
		"unknown command": {[]string{"scenaros"}, []string{"scenaros", "scenarios"}},
		"unknown scenario command": {[]string{"scenarios", "lst"},
			[]string{`csenv scenarios has no command "lst": did you mean list?`}},
		"nothing like it": {[]string{"scenarios", "frobnicate"}, []string{"see `csenv scenarios --help`"}},
		"unknown flag":    {[]string{"scenarios", "list", "--categry", "billing"}, []string{"--categry"}},
		"unknown category": {[]string{"scenarios", "list", "--category", "bills"},
			[]string{`--category is "bills": choose one of billing, shipping, technical, general`}},
		"unknown split": {[]string{"scenarios", "list", "--split", "test"},
			[]string{`--split is "test": choose one of public-train`}},
		"unknown format": {[]string{"scenarios", "list", "-o", "xml"}, []string{"choose one of table, json, csv"}},
		"no id": {[]string{"scenarios", "show"},
			[]string{"missing argument ID: see `csenv scenarios show --help`"}},
		"no file":      {[]string{"regrade"}, []string{"missing argument FILE: see `csenv regrade --help`"}},
		"no episode":   {[]string{"transcript", "r"}, []string{"missing argument EPISODE"}},
		"a second run": {[]string{"results", "a", "b"}, []string{`unexpected argument "b"`}},
		"seed in words": {[]string{"scenarios", "show", "B07", "--seed", "abc"},
			[]string{`--seed is "abc": give a whole number`}},
		"seed in hexadecimals": {[]string{"scenarios", "show", "B07", "--seed", "0x10"},
			[]string{`--seed is "0x10": give a whole number`}},
		"unknown class": {[]string{"regrade", "-", "--only", "judge_fail"},
			[]string{`--only is "judge_fail": choose one of`, "judge_failed", "env_unreachable"}},
		"a model for kept": {[]string{"regrade", "-", "--judge-model", "m"},
			[]string{"--judge-model given, but --judge is kept: add --judge llm"}},
		"a model for the rules": {[]string{"regrade", "-", "--judge", "offline", "--judge-votes", "3"},
			[]string{"--judge-votes given, but --judge is offline"}},
		"misspelt id": {[]string{"scenarios", "show", "b07"},
			[]string{`there is no scenario "b07": did you mean B07?`, "csenv scenarios list"}},
		"unknown id": {[]string{"scenarios", "show", "nonsense"},
			[]string{`there is no scenario "nonsense": list them with`, "--pack DIR"}},
		"no such pack": {[]string{"scenarios", "list", "--pack", "none"},
			[]string{"opening the pack none", "name a folder with scenario files"}},
		"linting no folder": {[]string{"scenarios", "lint", "none"},
			[]string{"none is not a folder that can be read"}},
		"ids twice": {[]string{"scenarios", "list", "--pack", "../../scenarios/testdata/pack", "--pack",
			"../../scenarios/testdata/pack"}, []string{`already has the id "T1"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, errs, code := csenv(t, tt.args...)
			if code != exitError || out != "" || !strings.HasPrefix(errs, "error: ") {
				t.Errorf("exit code %d, want %d; standard output %q; standard error %q", code, exitError, out, errs)
			}
			for _, want := range tt.want {
				if !strings.Contains(errs, want) {
					t.Errorf("the error %q does not contain %q", errs, want)
				}
			}
		})
	}
}

// fullDisk refuses every write.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--help"}, {"scenarios", "list"}, {"scenarios", "show", "B07"},
		{"scenarios", "show", "B07", "-o", "json"}} {
		var errs bytes.Buffer
		if code := runWith(t.Context(), args, strings.NewReader(""), fullDisk{}, &errs); code != exitError ||
			!strings.Contains(errs.String(), "writing to standard output: no space") {
			t.Errorf("%v: exit code %d, %s", args, code, &errs)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"scenarios", "list"}, {"scenarios", "show", "B07"}, {"scenarios", "lint"}} {
		var out, errs bytes.Buffer
		if code := runWith(ctx, args, strings.NewReader(""), &out, &errs); code != exitError || out.Len() > 0 {
			t.Errorf("%v: exit code %d, %s", args, code, &errs)
		}
	}
}

func TestVersion(t *testing.T) {
	out, _, code := csenv(t, "version")
	c, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"csenv      dev (go", "scenarios  csenv-public 1, " + c.Digest(), "judge facts-v"} {
		if code != exitDone || !strings.Contains(out, want) {
			t.Errorf("exit code %d and output %q, want it to contain %q", code, out, want)
		}
	}
}

// Every built-in scenario can be listed and shown within the width, and the served part contains no
// gold.
func TestBuiltInScenarios(t *testing.T) {
	out, _, _ := csenv(t, "scenarios", "list", "-o", "json")
	var all []struct{ ID string }
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) < 20 {
		t.Fatalf("%d scenarios, %v", len(all), err)
	}
	table, _, _ := csenv(t, "scenarios", "list")
	narrow(t, table)
	for _, p := range all {
		t.Run(p.ID, func(t *testing.T) {
			for _, seed := range []int{0, 3} {
				out, errs, code := csenv(t, "scenarios", "show", p.ID, "--seed", fmt.Sprint(seed))
				if code != exitDone || !strings.Contains(out, "good_replies:") {
					t.Fatalf("exit code %d: %s%s", code, out, errs)
				}
			}
			out, _, _ := csenv(t, "scenarios", "show", p.ID, "--served", "-o", "json")
			var v map[string]any
			if err := json.Unmarshal([]byte(out), &v); err != nil || v["gold"] != nil || v["served"] == nil {
				t.Errorf("--served shows %v, %v", v, err)
			}
		})
	}
}

func TestAsAPlugin(t *testing.T) {
	for file, want := range map[string]string{"/usr/bin/kubectl-csenv": "kubectl csenv", "csenv": "csenv",
		"csenv.test": "csenv"} {
		if got := commandName(file); got != want {
			t.Errorf("commandName(%q) = %q, want %q", file, got, want)
		}
	}
	var out bytes.Buffer
	cmd := newCommand("kubectl csenv")
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"results", "--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  kubectl csenv results RUN [flags]",
		"  kubectl csenv results heuristic -o markdown"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help does not contain %q:\n%s", want, out.String())
		}
	}
}

func TestVersionFormats(t *testing.T) {
	if out := must(t, "--version"); !strings.HasPrefix(out, "csenv ") {
		t.Error(out)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(must(t, "version", "-o", "json")), &v); err != nil || v["grader"] == "" {
		t.Error(v, err)
	}
}

// The smallest ticket of docs/scenarios.md is complete: lint finds nothing, and it can be solved.
func TestSmallestTicket(t *testing.T) {
	page, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The smallest ticket\n")
	_, section, _ = strings.Cut(section, "```yaml\n")
	ticket, _, found := strings.Cut(section, "```\n")
	if !found {
		t.Fatal("the page has no smallest ticket")
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "T1.yaml"), []byte(ticket), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := csenv(t, "scenarios", "lint", folder); code != exitDone {
		t.Errorf("lint ends with %d: %s%s", code, out, errs)
	}
	out, errs, code := csenv(t, "eval", "ticket-resolve", "--pack", folder, "--scenario", "T1", "--agent", "oracle",
		"--trials", "4", "-o", "json")
	if code != exitDone || !strings.Contains(out, `"mean": "1.0000"`) {
		t.Errorf("eval ends with %d: %s%s", code, out, errs)
	}
}
