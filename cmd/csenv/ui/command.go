package ui

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/web/page"
)

// memoryLimit is where the program collects garbage more often, in bytes. A run of a million
// episodes needs less.
const memoryLimit = 150 << 20

// settings are the flags of the command.
type settings struct {
	from           selected
	packs          *[]string
	listen, bundle string
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
	cli.Help(cmd, "ui")
	o.from.add(cmd)
	f := cmd.Flags()
	o.packs = cli.PackFlag(f)
	f.StringVar(&o.listen, "listen", "localhost:8400", "`address` to serve the pages at")
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
		if s.games, err = s.playground(cmd.Context(),
			newArena(cmd.Context(), s.catalog, o.servers, o.from.Connect, s.log)); err != nil {
			return err
		}
		return serve(cmd.Context(), o.listen, s.handler(), func(url string) {
			fmt.Fprintf(cmd.ErrOrStderr(), "the pages are at %s (Ctrl-C stops)\n", url)
			if !o.noOpen {
				show(cmd.Context(), cmd.ErrOrStderr(), url)
			}
		})
	}
	return cmd
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
	found, err := o.from.open(ctx)
	if err != nil {
		return nil, err
	}
	if found.stored != nil {
		// The pages show how far a store is read; so does the terminal.
		go view.Every(ctx, view.LineInterval, func() {
			if reading := found.stored.reading(); reading != "" {
				fmt.Fprintln(errs, reading)
			}
		})
	}
	return &site{pages: pages, sources: found, catalog: catalog, scenarios: described, packs: *o.packs,
		public: o.public, bundleEpisodes: max(o.bundleEpisodes, 0), log: slog.New(slog.NewTextHandler(errs, nil))}, nil
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
	fmt.Fprintf(errs, "wrote %s to %s: open index.html\n", view.Count(written, "file"), folder)
	return nil
}
