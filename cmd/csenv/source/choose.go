package source

import (
	"cmp"
	"fmt"
	"os"

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

// FindLocal returns the store of csenv eval, "" if there is none. One that the variable names isn't
// looked for: whoever reads it says what is wrong with it.
func FindLocal() string {
	store := StoreOfEval()
	if info, err := os.Stat(DefaultStore); store == NoStore ||
		os.Getenv(envvars.Results) == "" && (err != nil || !info.IsDir()) {
		return ""
	}
	return store
}

// NothingStored says that csenv eval has stored nothing here, which is why the cluster is read.
func NothingStored() string {
	if os.Getenv(envvars.Results) == NoStore {
		return "$" + envvars.Results + " is none, so nothing is stored: give the store to read with --results"
	}
	return "there are no stored runs in ./" + DefaultStore + ": change to the folder where `csenv eval` ran, or give " +
		"its store with --results"
}

// ExplainCluster adds to an error of the cluster where stored runs are read. What nobody has asked
// the cluster for comes first.
func ExplainCluster(err error, asked bool) error {
	switch {
	case !asked:
		return fmt.Errorf("%s (no run of a cluster either: %w)", NothingStored(), err)
	case FindLocal() != "":
		return fmt.Errorf("%w (without --cluster, --context, --kubeconfig and -n, the stored runs of %s are read)", err,
			FindLocal())
	}
	return fmt.Errorf("%w (--results reads stored runs; ./%s has none)", err, DefaultStore)
}
