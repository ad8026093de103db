package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Workflows only call the Makefile, so that everything can be run without them.
func TestWorkflowsOnlyCallTheMakefile(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, match[1])
	}
	names, err := filepath.Glob("../../.github/workflows/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Steps []struct{ Uses, Run string }
			}
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if workflow.Permissions["contents"] != "read" || len(workflow.Permissions) != 1 {
			t.Errorf("%s: by default, jobs may do more than read: %v", name, workflow.Permissions)
		}
		for job, j := range workflow.Jobs {
			for _, step := range j.Steps {
				words := strings.Fields(step.Run)
				if step.Uses != "" && step.Run == "" {
					continue
				}
				if len(words) < 2 || words[0] != "make" || !slices.Contains(targets, words[1]) ||
					strings.ContainsAny(step.Run, ";&|\n") {
					t.Errorf("%s: job %s runs %q, which isn't one target of the Makefile", name, job, step.Run)
				}
			}
		}
	}
}

// The nightly workflow has a job for each part of the deep suite but nodes, which needs root.
func TestNightlyRunsEveryPart(t *testing.T) {
	listed, err := exec.CommandContext(t.Context(), "../deep.sh", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(listed)) {
		if part := strings.Fields(line)[0]; part != "nodes" {
			want = append(want, part)
		}
	}
	text, err := os.ReadFile("../../.github/workflows/nightly.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var nightly struct {
		Jobs map[string]struct {
			Strategy struct{ Matrix struct{ Part []string } }
		}
	}
	if err := yaml.Unmarshal(text, &nightly); err != nil {
		t.Fatal(err)
	}
	if got := nightly.Jobs["deep"].Strategy.Matrix.Part; !slices.Equal(got, want) {
		t.Errorf("the workflow runs %v, the parts are %v", got, want)
	}
}
