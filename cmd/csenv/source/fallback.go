package source

import (
	"cmp"
	"errors"
	"os"

	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/envserver/envvars"
)

// FindFallback returns the store that is read instead of a cluster after the error of
// cluster.Connect, "" if there is none.
func FindFallback(err error) string {
	folder := cmp.Or(os.Getenv(envvars.Results), DefaultStore)
	if !errors.Is(err, cluster.ErrNoCluster) {
		return ""
	}
	if info, missing := os.Stat(folder); missing != nil || !info.IsDir() { //nolint:gosec // the user's own folder
		return ""
	}
	return folder
}
