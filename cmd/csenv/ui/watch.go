package ui

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
)

// selected are the flags that select the sources.
type selected struct {
	cluster.Flags
	allNamespaces bool
	stores        []string
	index         string
	flags         *pflag.FlagSet
}

func (c *selected) add(cmd *cobra.Command) {
	c.Add(cmd)
	c.flags = cmd.Flags()
	c.flags.BoolVarP(&c.allNamespaces, "all-namespaces", "A", false, "show pools and runs of all namespaces")
	c.flags.StringArrayVar(&c.stores, "results", nil, "`folder or URL` of stored episodes, which may be repeated; "+
		"the cluster is read too if -n, -A, --context or --kubeconfig selects it")
	c.flags.StringVar(&c.index, "index", "", "`file` of the index of stored episodes; by default below your "+
		"cache folder")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
}

// readsCluster reports whether the flags select the cluster.
func (c *selected) readsCluster() bool {
	selecting := []string{"namespace", "all-namespaces", "context", "kubeconfig"}
	return len(c.stores) == 0 || slices.ContainsFunc(selecting, c.flags.Changed)
}

// open opens the sources, which follow the cluster until the context ends.
func (c *selected) open(ctx context.Context) (*sources, error) {
	s := &sources{}
	changed := func() { s.version.Add(1) }
	locations := c.stores
	if c.readsCluster() {
		watcher, err := c.Watch(ctx, c.allNamespaces, changed)
		fallback := source.Fallback(err)
		switch {
		case err == nil:
			s.cluster = watcher
		case len(locations) == 0 && fallback != "":
			locations = []string{fallback}
		default:
			return nil, err
		}
	}
	if len(locations) > 0 {
		var err error
		if s.stored, err = openStored(ctx, c.index, locations, changed); err != nil {
			return nil, err
		}
	}
	go view.Every(ctx, time.Minute, changed) // the ages on the pages change
	return s, nil
}
