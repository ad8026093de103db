// Command openenv-bench compares csenv's environment server with the official Python one, on this
// machine and under the same load.
//
// It runs the servers one after another, each in its own process: a bare echo on csenv's WebSocket
// library (the upper bound), csenv's server with an echo environment, with tickets and with
// workflows, and the official server from PyPI with the C speedups of its HTTP stack: with an echo
// environment and with the same tickets, each with one worker and with one per processor. It first
// checks that episodes of the same tickets give the same rewards on both servers. Package load
// generates the load: every session has one message in flight. The result is the page
// docs/benchmark.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/scenarios"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

type options struct {
	sessions string
	duration time.Duration
	servers  []string
	out      string
}

func newCommand(stdout, progress io.Writer) *cobra.Command {
	o := options{sessions: "1,100,400,2000,10000,19000", duration: 8 * time.Second,
		servers: []string{bare, csenvEcho, csenvTicket, csenvNoSearch, csenvWorkflow, official, officialWorkers,
			officialTicket, officialTicketWorkers}}
	cmd := &cobra.Command{
		Use: "openenv-bench", Short: "Compare csenv's environment server with the official Python one",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sizes, err := parseSizes(o.sessions)
			if err != nil {
				return err
			}
			var agreed agreement
			if slices.Contains(o.servers, csenvTicket) && slices.Contains(o.servers, officialTicket) {
				if agreed, err = agreeOnTickets(cmd.Context(), progress); err != nil {
					return err
				}
			}
			rows, err := compareServers(cmd.Context(), o, sizes, progress)
			if err != nil {
				return err
			}
			text, err := renderDocument(rows, agreed, o.duration, "make bench-openenv")
			if err != nil {
				return err
			}
			if o.out == "" {
				_, err = io.WriteString(stdout, text)
				return err
			}
			return os.WriteFile(o.out, []byte(text), 0o644) //nolint:gosec // a page of the documentation
		},
	}
	cmd.Flags().StringVar(&o.sessions, "sessions", o.sessions, "numbers of sessions to try, each at most 19000: a "+
		"process here may have 20,000 open files")
	cmd.Flags().DurationVar(&o.duration, "duration", o.duration,
		"duration of the measurement of steps, for each number of sessions")
	cmd.Flags().StringSliceVar(&o.servers, "servers", o.servers, "servers to measure")
	cmd.Flags().StringVar(&o.out, "out", "", "file to write the page to instead of standard output")
	cmd.AddCommand(newServeCommand())
	return cmd
}

// agreeOnTickets compares csenv's server with the official one that serves the same tickets.
func agreeOnTickets(ctx context.Context, progress io.Writer) (agreement, error) {
	fmt.Fprintf(progress, "==> comparing the rewards of %d episodes of %s and %s\n", sampledEpisodes, csenvTicket,
		officialTicket)
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		return agreement{}, err
	}
	tickets, err := exportTickets(catalog, sampledEpisodes)
	if err != nil {
		return agreement{}, err
	}
	ours, err := startServer(ctx, csenvTicket, progress)
	if err != nil {
		return agreement{}, err
	}
	defer ours.Kill()
	theirs, err := startServer(ctx, officialTicket, progress)
	if err != nil {
		return agreement{}, err
	}
	defer theirs.Kill()
	a, err := compareEpisodes(ctx, ours.url, theirs.url, tickets.Tickets)
	if err == nil {
		fmt.Fprintf(progress, "    %s\n", a)
	}
	return a, err
}

// newServeCommand serves one of the Go servers. The comparison starts this program again for each,
// so that every server has its own process.
func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "serve SERVER ADDRESS", Args: cobra.ExactArgs(2), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			handler, err := handlerOf(args[0])
			if err != nil {
				return err
			}
			go openenv.KeepHeadroom(cmd.Context()) // as envserver does
			server := &http.Server{Addr: args[1], Handler: handler, ReadHeaderTimeout: 10 * time.Second}
			context.AfterFunc(cmd.Context(), func() { _ = server.Close() })
			if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
}

func parseSizes(text string) ([]int, error) {
	var sizes []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--sessions %q: use whole numbers like 1,100,400", field)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}
