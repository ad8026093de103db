package source

import (
	"cmp"
	"os"
	"strings"

	"github.com/csenv/csenv/envserver/envvars"
)

// DefaultStore is the folder in which csenv eval stores episodes without --results, and NoStore the
// value of --results that stores nothing.
const (
	DefaultStore = "csenv-results"
	NoStore      = "none"
)

// Choose says where runs are read: in stores, in the cluster or, by csenv ui, in both. named are
// the stores of --results, asked whether a flag asks for the cluster, and local is the store of
// csenv eval, "" if there is none.
func Choose(named []string, asked bool, local string) (stores []string, inCluster bool) {
	switch {
	case asked || len(named) > 0:
		return named, asked
	case local != "":
		return []string{local}, false
	}
	return nil, true
}

// StoreOfEval is where csenv eval stores episodes without --results.
func StoreOfEval() string { return cmp.Or(os.Getenv(envvars.Results), DefaultStore) }

// FindLocal returns the store of csenv eval, "" if it has stored nothing. Buckets aren't asked.
func FindLocal() string {
	store := StoreOfEval()
	if store == NoStore {
		return ""
	}
	if folder, isFile := strings.CutPrefix(store, "file://"); isFile || !strings.Contains(store, "://") {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() { //nolint:gosec // the user's own folder
			return ""
		}
	}
	return store
}
