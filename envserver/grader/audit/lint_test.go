package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csenv/csenv/scenarios"
)

// copies makes a pack with three more tickets like the test pack's.
func copies(t *testing.T, name string) *scenarios.Catalog {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../../scenarios/testdata/pack")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "tickets", "T1.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"pack.yaml": "name: " + name + "\nversion: 1\n"}
	for _, id := range []string{"T2", "T3", "T4"} {
		files[filepath.Join("tickets", id+".yaml")] = strings.Replace(string(text), "id: T1", "id: "+id, 1)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := scenarios.LoadFolders(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLint(t *testing.T) {
	for name, want := range map[string]string{
		publicPack: "category billing: 4 are high at seed 0, 3 are laid down", "mine": "",
	} {
		findings, err := Lint(copies(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if found := fmt.Sprint(findings); (len(findings) > 0) != (want != "") || !strings.Contains(found, want) {
			t.Errorf("pack %s: %s, want %q", name, found, want)
		}
	}
}
