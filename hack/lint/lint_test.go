package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMain is the tool itself when the go command runs it.
func TestMain(m *testing.M) {
	if os.Getenv("CSENV_LINT") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// vetted returns what the tool says about packages of testdata: messages by file and line.
func vetted(t *testing.T, flags ...string) (map[string][]string, error) {
	t.Helper()
	tool, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"vet", "-vettool=" + tool}, flags...), "./...")...)
	cmd.Dir = "testdata"
	cmd.Env = append(os.Environ(), "CSENV_LINT=1", "GOFLAGS=-mod=mod", "GOWORK=off")
	output, err := cmd.CombinedOutput()
	found := map[string][]string{}
	for line := range strings.Lines(string(output)) {
		if match := regexp.MustCompile(`^(\S+\.go:\d+):\d+: (.*)`).FindStringSubmatch(line); match != nil {
			at := filepath.Clean(match[1])
			found[at] = append(found[at], match[2])
		}
	}
	if t.Logf("%s", output); len(found) == 0 && err == nil {
		t.Fatal("the tool finds nothing")
	}
	return found, err
}

func rules(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../.golangci.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return "-config=" + string(text)
}

// TestFaults compares what the tool finds with the comments `// want` of testdata.
func TestFaults(t *testing.T) {
	found, _ := vetted(t, rules(t))
	for at, patterns := range wanted(t) {
		for _, pattern := range patterns {
			messages := found[at]
			found[at] = nil
			for _, message := range messages {
				if !regexp.MustCompile(pattern).MatchString(message) {
					found[at] = append(found[at], message)
				}
			}
			if len(found[at]) == len(messages) {
				t.Errorf("%s: nothing that matches %q", at, pattern)
			}
		}
	}
	for at, messages := range found {
		for _, message := range messages {
			t.Errorf("%s: unexpected: %s", at, message)
		}
	}
}

func wanted(t *testing.T) map[string][]string {
	t.Helper()
	want := map[string][]string{}
	err := filepath.WalkDir("testdata", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if _, comment, ok := strings.Cut(line, "// want "); ok {
				at := fmt.Sprintf("%s:%d", strings.TrimPrefix(path, "testdata/"), n)
				for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(comment, -1) {
					want[at] = append(want[at], match[1])
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// TestConfigIsNeeded shows that a run without rules is no success.
func TestConfigIsNeeded(t *testing.T) {
	for _, config := range []string{"-config=", "-config=../../.golangci.yaml"} {
		if _, err := vetted(t, config); err == nil {
			t.Errorf("%s: the tool runs without rules", config)
		}
	}
}
