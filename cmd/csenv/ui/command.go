package ui

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/scenarios"
)

// memoryLimit is where the program collects garbage more often, in bytes. A run of a million
// episodes needs less.
const memoryLimit = 150 << 20

// settings are the flags of the command.
type settings struct {
	from           selected
	packs          *[]string
	listen, bundle string
	base           string
	hosts          []string
	bundleEpisodes int
	public, noOpen bool
	servers        []string
}

// NewUICommand returns the command that shows pools, runs and episodes in a browser.
func NewUICommand() *cobra.Command {
	o := &settings{}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show pools, runs and episodes in a browser",
		Args:  cobra.NoArgs,
	}
	cli.SetHelp(cmd, "ui")
	o.from.add(cmd)
	f := cmd.Flags()
	o.packs = cli.PackFlag(f)
	f.StringVar(&o.listen, "listen", "localhost:8400", "`address` to serve the pages at")
	f.StringVar(&o.base, "base-path", "", "`path` below which a proxy shows the pages, such as /csenv; the proxy may "+
		"pass it on or not")
	f.StringArrayVar(&o.hosts, "allow-host", nil, "`name` of a host by which a proxy on this machine asks for the "+
		"pages, if they are served at a loopback address; may be repeated")
	f.BoolVar(&o.public, "public", false, "show aggregated figures and the leaderboard only: no episodes")
	f.StringArrayVar(&o.servers, "server", nil, "`URL` of a running env server to play at in the playground, with "+
		"the token in "+envvars.PoolToken+"; may be repeated")
	f.BoolVar(&o.noOpen, "no-open", false, "don't open the browser")
	f.StringVar(&o.bundle, "bundle", "", "write the pages to this `folder`, for any web server, instead of serving "+
		"them")
	f.IntVar(&o.bundleEpisodes, "bundle-episodes", 1000, "maximum number of episodes of each run in a bundle, those "+
		"with the lowest scores")
	cmd.MarkFlagsMutuallyExclusive("bundle", "public")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(memoryLimit)
		}
		s, err := o.site(cmd.Context(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if o.bundle != "" {
			return s.writeBundle(cmd.Context(), o.bundle, cmd.ErrOrStderr())
		}
		arena := newArena(cmd.Context(), s.catalog, o.servers, s.log)
		if s.sources.cluster != nil {
			arena.connect = o.from.Connect
		}
		if s.games, err = s.playground(cmd.Context(), arena); err != nil {
			return err
		}
		pages, err := serveBelow(o.base, s.handler())
		if err != nil {
			return err
		}
		return servePages(cmd.Context(), o.listen, o.hosts, pages, func(url string) {
			url += strings.Trim(o.base, "/")
			fmt.Fprintf(cmd.ErrOrStderr(), "the pages are at %s (Ctrl-C stops)\n", url)
			if !o.noOpen {
				openBrowser(cmd.Context(), cmd.ErrOrStderr(), url)
			}
		})
	}
	return cmd
}

func (c *selected) add(cmd *cobra.Command) {
	c.Add(cmd)
	c.AddCluster(cmd)
	f := cmd.Flags()
	f.BoolVarP(&c.allNamespaces, "all-namespaces", "A", false, "show pools and runs of all namespaces of the cluster")
	f.StringArrayVar(&c.stores, "results", nil, "`folder or URL` of stored episodes, which may be repeated; by "+
		"default that of csenv eval, or without one the cluster; with a flag that asks for the cluster, both")
	f.StringVar(&c.index, "index", "", "`file` of the index of stored episodes; by default below your cache folder")
	source.KeysFlag(f, &c.keys)
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
}

// open opens the sources, which follow the cluster until the context ends.
func (c *selected) open(ctx context.Context, errs io.Writer) (*sources, error) {
	own, err := local.ReadPublicKey()
	if err != nil {
		return nil, err
	}
	s := &sources{}
	if s.vouchers, err = source.NewVouchers(own, c.keys); err != nil {
		return nil, err
	}
	changed := func() { s.version.Add(1) }
	asked := c.allNamespaces || c.Asked()
	locations, inCluster := source.Choose(c.stores, asked, source.FindLocal())
	if inCluster {
		if s.cluster, err = c.Watch(ctx, c.allNamespaces, changed); err != nil {
			return nil, source.ExplainCluster(err, asked)
		}
		if s.unasked = !asked; s.unasked {
			view.WriteParagraph(errs, "", source.NothingStored())
		}
		fmt.Fprintln(errs, "runs of", s.cluster.Connection())
	}
	if len(locations) > 0 {
		fmt.Fprintln(errs, "runs of", strings.Join(locations, ", "))
		if s.stored, err = openStored(ctx, c.index, locations, changed); err != nil {
			return nil, err
		}
	}
	go view.CallEvery(ctx, time.Minute, changed) // the ages on the pages change
	return s, nil
}

// site makes the site without its playground.
func (o *settings) site(ctx context.Context, errs io.Writer) (*site, error) {
	catalog, err := cli.LoadCatalog(*o.packs)
	if err != nil {
		return nil, err
	}
	pages, err := page.New("")
	if err != nil {
		return nil, err
	}
	described, err := describeScenarios(catalog)
	if err != nil {
		return nil, err
	}
	found, err := o.from.open(ctx, errs)
	if err != nil {
		return nil, err
	}
	if found.stored != nil {
		// The pages show how far a store is read; so does the terminal.
		go view.CallEvery(ctx, view.LineInterval, func() {
			if reading := found.stored.reading(); reading != "" {
				fmt.Fprintln(errs, reading)
			}
		})
	}
	return &site{pages: pages, sources: found, catalog: catalog, scenarios: described, packs: *o.packs,
		public: o.public, bundleEpisodes: max(o.bundleEpisodes, 0), log: slog.New(slog.NewTextHandler(errs, nil))}, nil
}

// selected are the flags that select the sources.
type selected struct {
	cluster.Flags
	allNamespaces bool
	stores        []string
	index         string
	keys          []string
}

// describeScenarios returns the scenarios that a catalogue offers in any task, by id.
func describeScenarios(catalog *scenarios.Catalog) (map[string]score.Scenario, error) {
	tickets, err := ticket.New(catalog, offline.New())
	if err != nil {
		return nil, fmt.Errorf("reading the tickets: %w", err)
	}
	workflows, err := workflow.New(catalog, offline.New())
	if err != nil {
		return nil, fmt.Errorf("reading the workflows: %w", err)
	}
	found := map[string]score.Scenario{}
	for _, kind := range []episode.Kind{tickets, workflows} {
		for _, task := range kind.Tasks() {
			for _, scenario := range task.Scenarios {
				found[scenario.ID] = scenario
			}
		}
	}
	return found, nil
}

// writeBundle writes the pages when the stores are read, and reports its progress.
func (s *site) writeBundle(ctx context.Context, folder string, errs io.Writer) error {
	if s.sources.stored != nil {
		s.sources.stored.settle(ctx)
	}
	written, last := 0, time.Now()
	if err := s.bundle(ctx, folder, func(done, known int) {
		if written = done; time.Since(last) > view.LineInterval {
			last = time.Now()
			fmt.Fprintf(errs, "%d of %d files written\n", done, known)
		}
	}); err != nil {
		return err
	}
	fmt.Fprintf(errs, "wrote %s to %s: open index.html\n", view.FormatCount(written, "file"), folder)
	return nil
}
