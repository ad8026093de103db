package source

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/csenv/csenv/envserver/envvars"
)

// Runs are read where they were written, and in the cluster if a flag asks for it or nothing was
// written.
func TestChoose(t *testing.T) {
	for name, tt := range map[string]struct {
		named     []string
		asked     bool
		local     string
		stores    []string
		inCluster bool
	}{
		"nothing":                   {inCluster: true},
		"eval has stored":           {local: "l", stores: []string{"l"}},
		"a cluster is asked for":    {local: "l", asked: true, inCluster: true},
		"a store is named":          {named: []string{"a"}, stores: []string{"a"}},
		"a store, and eval's":       {named: []string{"a"}, local: "l", stores: []string{"a"}},
		"stores and a cluster":      {named: []string{"a", "b"}, asked: true, stores: []string{"a", "b"}, inCluster: true},
		"all three":                 {named: []string{"a"}, asked: true, local: "l", stores: []string{"a"}, inCluster: true},
		"a cluster without a store": {asked: true, inCluster: true},
		"stores without eval's":     {named: []string{"a", "b"}, stores: []string{"a", "b"}},
	} {
		if stores, inCluster := Choose(tt.named, tt.asked, tt.local); !slices.Equal(stores, tt.stores) ||
			inCluster != tt.inCluster {
			t.Errorf("%s: %q, %t", name, stores, inCluster)
		}
	}
}

// The store of csenv eval is that of the variable or of this folder, if it is there.
func TestFindLocal(t *testing.T) {
	t.Chdir(t.TempDir())
	folder := t.TempDir()
	if err := os.Symlink(folder, "link"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ set, want string }{
		{"", ""}, {"none", ""}, {"missing", "missing"}, {"file:///missing/too", "file:///missing/too"},
		{folder, folder}, {"file://" + folder, "file://" + folder}, {"link", "link"}, {"s3://evals/a", "s3://evals/a"},
	} {
		t.Setenv(envvars.Results, tt.set)
		if got := FindLocal(); got != tt.want {
			t.Errorf("%q is %q", tt.set, got)
		}
	}
	t.Setenv(envvars.Results, "")
	if err := os.Mkdir(filepath.Join(".", DefaultStore), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := FindLocal(); got != DefaultStore {
		t.Errorf("the default is %q", got)
	}
}
