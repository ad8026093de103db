package audit

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csenv/csenv/scenarios"
)

// copies makes a pack of the test pack's scenarios under several ids, with a text replaced in all
// of them.
func copies(t *testing.T, name, file string, ids []string, old, replacement string) *scenarios.Catalog {
	t.Helper()
	const pack = "../../scenarios/testdata/pack"
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(pack)); err != nil {
		t.Fatal(err)
	}
	data, err := fs.ReadFile(os.DirFS(pack), file)
	if err != nil || !strings.Contains(string(data), old) {
		t.Fatalf("%s holds no %q (%v)", file, old, err)
	}
	original := strings.TrimSuffix(filepath.Base(file), ".yaml")
	for _, id := range ids {
		text := strings.NewReplacer("id: "+original, "id: "+id, old, replacement).Replace(string(data))
		if err := os.WriteFile(filepath.Join(dir, filepath.Dir(file), id+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "pack.yaml"), []byte("name: "+name+"\nversion: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := scenarios.LoadFolders(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLint(t *testing.T) {
	flows := []string{"F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8"}
	tests := map[string]struct {
		catalog *scenarios.Catalog
		want    string // "" for no finding of the rule
		rule    string
	}{
		"cue borne out": {copies(t, "mine", "tickets/T1.yaml", []string{"T2"}, "cue: billing", "cue: billing"),
			"", ruleCue},
		"cue not borne out": {copies(t, "mine", "tickets/T1.yaml", []string{"T2"}, "cue: billing", "cue: shipping"),
			"metadata.cue is shipping, a reader of keywords says [billing billing]", ruleCue},
		"too many of one kind": {copies(t, publicPack, "tickets/T1.yaml", []string{"T2", "T3", "T4"}, "T1", "T1"),
			"category billing: 4 are high at seed 0, 3 are laid down", ruleDistribution},
		"another pack's spread": {copies(t, "mine", "tickets/T1.yaml", []string{"T2", "T3", "T4"}, "T1", "T1"), "",
			ruleDistribution},
		"workflows that act": {copies(t, "mine", "workflows/W1.yaml", flows, "W1", "W1"), "", ruleReadOnly},
		"workflows that read": {copies(t, "mine", "workflows/W1.yaml", flows, "action: initiate_refund, args",
			"action: check_payment, args"), "8 of 9 workflows need no refund and no escalation: at most 45 % may",
			ruleReadOnly},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			findings, err := Lint(tt.catalog)
			if err != nil {
				t.Fatal(err)
			}
			var of []string
			for _, f := range findings {
				if f.Rule == tt.rule {
					of = append(of, f.Message)
				}
			}
			if found := strings.Join(of, "\n"); (found != "") != (tt.want != "") || !strings.Contains(found, tt.want) {
				t.Errorf("findings of rule %s: %q, want %q", tt.rule, found, tt.want)
			}
		})
	}
}
