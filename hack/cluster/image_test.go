package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/hack/shipped"
)

func TestBuiltProgramIsStatic(t *testing.T) {
	repo, err := repoRoot()
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	program, err := buildProgram(t.Context(), filepath.Join(repo, "hack"), io.Discard, "./cluster/pause", "")
	if err != nil {
		t.Fatal(err)
	}
	// A dynamic program contains the name of its loader, which the image doesn't contain.
	if bytes.Contains(program, []byte("ld-linux")) {
		t.Error("the program is linked dynamically")
	}
	if entries, _ := filepath.Glob(filepath.Join(scratch, "csenv-programs-*")); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// Docker builds the image too, from the files that the Dockerfile copies.
func TestTheImageHasTheGivenProgram(t *testing.T) {
	repo, err := repoRoot()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CSENV_PROGRAM", "")
	if program, err := givenProgram(repo, io.Discard); program != nil || err != nil {
		t.Errorf("without the variable: %d bytes, %v", len(program), err)
	}
	file := filepath.Join(t.TempDir(), "program")
	for tags, used := range map[string]bool{shipped.ImageTags: true, shipped.Tags: false} {
		built, err := buildProgram(t.Context(), filepath.Join(repo, "hack"), io.Discard, "./cluster/pause", tags)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, built, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("CSENV_PROGRAM", file)
		if program, err := givenProgram(repo, io.Discard); err != nil || bytes.Equal(program, built) != used {
			t.Errorf("built with %s: %d bytes, %v", tags, len(program), err)
		}
	}
	t.Setenv("CSENV_PROGRAM", "hack/cluster/main.go")
	if _, err := givenProgram(repo, io.Discard); err == nil {
		t.Error("a text is used as a program")
	}
}

func TestDockerfileCopiesWhatIsBuilt(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{if and .Module .Module.Main}}{{.Dir}}{{end}}", "../../cmd/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	copied := foldersAfter(t, "../../Dockerfile", "COPY ")
	admitted := foldersAfter(t, "../../.dockerignore", "!")
	for folder := range strings.FieldsSeq(string(out)) {
		folder, err := filepath.Rel(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		within := func(top string) bool { return folder == top || strings.HasPrefix(folder, top+"/") }
		if !slices.ContainsFunc(copied, within) || !slices.ContainsFunc(admitted, within) {
			t.Errorf("%s is built, but Docker doesn't get it: the Dockerfile copies %q, .dockerignore admits %q",
				folder, copied, admitted)
		}
	}
}

// foldersAfter returns the first word after the prefix, of every line with that prefix.
func foldersAfter(t *testing.T, file, prefix string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			folders = append(folders, strings.Fields(rest)[0])
		}
	}
	return folders
}

// The image serves an environment when it is started without a command, as OpenEnv's tools do. The
// operator's own pods name their programs.
func TestImagesServeByDefault(t *testing.T) {
	for path, want := range map[string]string{
		"../../Dockerfile":                              `ENTRYPOINT ["` + shipped.Entrypoint + `"]`,
		"../../config/manager/deployment.yaml":          "command: [/manager]",
		"../../controllers/run/runner/pod.go":           `Command: []string{"/runner"}`,
		"../../controllers/environment/children/pod.go": `Command: []string{"/envserver"}`,
	} {
		text, err := os.ReadFile(path)
		if plain := strings.Join(strings.Fields(string(text)), " "); err != nil || !strings.Contains(plain, want) {
			t.Errorf("%s lacks %s: %v", path, want, err)
		}
	}
}
