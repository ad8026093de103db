// Command bench measures csenv on one machine: its env servers beside the official Python one, with
// very many sessions, and while they are replaced, and the operator with many pools and runs. Each
// scenario is a row of the table below.
//
// Load and servers are processes of their own, so that the memory and the processor time of each
// can be told apart, and because a process has a limit of open files and an address one of ports.
// The figures are printed, or written into the page of the documentation that quotes them.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/hack/bench/operator"
)

// benchmark is a scenario that is measured.
type benchmark struct {
	name, about string
	// page has the tables of the scenario, "" if the documentation quotes single figures.
	page    string
	measure func(ctx context.Context, o options) ([]block, error)
}

var benchmarks = []benchmark{
	{"official", "csenv's servers and the official Python one under the same load (20 minutes)", "docs/benchmark.md",
		compareServers},
	{"update", "102,000 sessions on six servers that are replaced (25 minutes)", "docs/scale.md", measureUpdate},
	{"operator", "the operator with many pools, runs and sessions, held to ranges (10 minutes)", "",
		measureOperator},
}

// options are the sizes of the scenarios. No sessions and no names stand for the documentation's.
type options struct {
	servers                int
	sessions               []int
	kinds, parts           []string
	files                  uint64
	dialing                int
	duration, pause, drain time.Duration
	settle                 time.Duration
	binary                 string // of envserver, which tests set
	ranges                 string
	write                  bool
	stdout, progress       io.Writer
	began                  time.Time
}

func defaultOptions() options {
	return options{servers: 6, files: 20_000, dialing: 64, duration: 10 * time.Second, pause: 25 * time.Second,
		drain: 3 * time.Minute, settle: 2 * time.Minute, kinds: kinds, ranges: "hack/bench/operator/ranges.yaml",
		stdout: os.Stdout, progress: os.Stderr, began: time.Now()}
}

// tell prints progress with the time that has passed.
func (o options) tell(format string, args ...any) {
	fmt.Fprintf(o.progress, "[%4.0fs] %s\n", time.Since(o.began).Seconds(), fmt.Sprintf(format, args...))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use: "bench SCENARIO…", Short: "Measure env servers and the operator on this machine",
		Long: "Measure env servers and the operator on this machine.\n\nScenarios:\n" + describeScenarios(),
		Args: cobra.MinimumNArgs(1), SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, names []string) error { return runScenarios(cmd.Context(), o, names) },
	}
	f := cmd.Flags()
	f.IntVar(&o.servers, "servers", o.servers, "number of servers of update")
	f.IntSliceVar(&o.sessions, "sessions", nil, "numbers of sessions; update takes the largest")
	f.StringSliceVar(&o.kinds, "kinds", o.kinds, "servers that official compares")
	f.StringSliceVar(&o.parts, "parts", nil, "parts of operator: pools, runs, sessions")
	f.Uint64Var(&o.files, "files", o.files, "limit of open files of every process")
	f.IntVar(&o.dialing, "dialing", o.dialing, "concurrent connects of each client, also of those that move")
	f.DurationVar(&o.duration, "duration", o.duration, "duration of the steps of each row of official")
	f.DurationVar(&o.pause, "pause", o.pause, "pause of a session between two messages of update")
	f.DurationVar(&o.drain, "drain", o.drain, "drain timeout of the servers of update, at least two episodes")
	f.DurationVar(&o.settle, "settle", o.settle, "duration of the episodes before the servers are replaced")
	f.StringVar(&o.ranges, "ranges", o.ranges, "sizes of operator, and the ranges that its figures have to keep to")
	f.BoolVar(&o.write, "write", false, "write the tables into the page of the documentation")
	cmd.AddCommand(newServeCommand(), newClientCommand())
	return cmd
}

func describeScenarios() (text string) {
	for _, s := range benchmarks {
		text += fmt.Sprintf("  %-9s %s\n", s.name, s.about)
	}
	return text
}

func runScenarios(ctx context.Context, o options, names []string) error {
	var chosen []benchmark
	for _, name := range names {
		i := slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == name })
		if i < 0 {
			return fmt.Errorf("there is no scenario %q. The scenarios are:\n%s", name, describeScenarios())
		}
		chosen = append(chosen, benchmarks[i])
	}
	for _, s := range chosen {
		blocks, err := s.measure(ctx, o)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", s.name, err)
		}
		if o.write && s.page != "" {
			err = writeBlocks(s.page, blocks)
		} else {
			err = printBlocks(o.stdout, blocks)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measureOperator prints its figures itself, beside their ranges.
func measureOperator(ctx context.Context, o options) ([]block, error) {
	return nil, operator.Run(ctx, o.parts, o.ranges, o.stdout, o.progress)
}
