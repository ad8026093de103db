package shipped

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLinksAreAllPrograms(t *testing.T) {
	mains, err := filepath.Glob(filepath.Join(root, "cmd", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{filepath.Base(CommandLine)}
	for _, link := range Links {
		names = append(names, link)
		if file := "cmd/csenv/image.go"; !strings.Contains(read(t, file), `"`+link+`": `) {
			t.Errorf("%s has no program %s", file, link)
		}
	}
	for _, main := range mains {
		if name := filepath.Base(filepath.Dir(main)); !slices.Contains(names, name) {
			t.Errorf("the image has no program %s", name)
		}
	}
	if len(mains) != len(names) {
		t.Errorf("the programs are %v, but there are %d", names, len(mains))
	}
}

// The kinds of Kubernetes that csenv doesn't use, and OpenAI's, would add 12 and 15 MB.
func TestTheCommandLineIsSmall(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", Tags, CommandLine)
	list.Dir = root
	all, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(all)) {
		for _, large := range []string{"k8s.io/client-go/kubernetes", "github.com/openai/openai-go"} {
			if strings.HasPrefix(pkg, large) {
				t.Errorf("%s imports %s", CommandLine, pkg)
			}
		}
	}
}

func TestEveryBuildHasTheTags(t *testing.T) {
	for file, wanted := range map[string][]string{
		"Makefile":   {"TAGS := " + Tags + "\n"},
		"Dockerfile": {"-tags " + ImageTags + " ", "for name in " + strings.Join(Links, " ") + "; "},
	} {
		for _, want := range wanted {
			if !strings.Contains(read(t, file), want) {
				t.Errorf("%s has no %q", file, want)
			}
		}
	}
}
