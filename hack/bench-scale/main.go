// Command bench-scale measures how env servers scale on one machine: several servers, each a
// process as in a pod, with very many WebSocket sessions.
//
// It measures twice. The growth is that of the rate, latency, processor time and memory over
// numbers of servers and sessions, without pauses between the steps. The endurance opens as many
// sessions as a pool may have, which play episodes with a pause between messages as an agent's
// model makes it, while all servers are replaced one after the other. The clients are processes
// too, each with a source address of its own, because a process has a limit of open files and an
// address one of ports. The result is the page docs/scale.md with its chart.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
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
	servers, sessions, dialing int
	files                      uint64
	pause, drain, settle       time.Duration
	growthServers              []int
	growthSessions             []int
	duration                   time.Duration
	out, chart                 string
	binary                     string
}

func defaultOptions() options {
	return options{servers: 6, sessions: 102_000, dialing: 64, files: 20_000, pause: 25 * time.Second,
		drain: 180 * time.Second, settle: 2 * time.Minute, growthServers: []int{1, 2, 4, 6},
		growthSessions: []int{100, 1000, 10_000, 100_000}, duration: 10 * time.Second}
}

func newCommand(stdout, progress io.Writer) *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use: "bench-scale", Short: "Measure many sessions on several env servers of one machine",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBenchmark(cmd.Context(), o, stdout, progress) },
	}
	f := cmd.Flags()
	f.IntVar(&o.servers, "servers", o.servers, "env servers, each a process")
	f.IntVar(&o.sessions, "sessions", o.sessions, "sessions of all servers")
	f.IntVar(&o.dialing, "dialing", o.dialing, "concurrent connects of each client process, also of those that move")
	f.Uint64Var(&o.files, "files", o.files, "limit of open files of every process")
	f.DurationVar(&o.pause, "pause", o.pause, "pause of a session between two messages")
	f.DurationVar(&o.drain, "drain", o.drain, "drain timeout of a server, at least two episodes of three pauses")
	f.DurationVar(&o.settle, "settle", o.settle, "duration of the episodes before the servers are replaced")
	f.IntSliceVar(&o.growthServers, "growth-servers", o.growthServers, "numbers of servers of the growth")
	f.IntSliceVar(&o.growthSessions, "growth-sessions", o.growthSessions, "numbers of sessions of the growth")
	f.DurationVar(&o.duration, "duration", o.duration, "duration of the steps of each measurement of the growth")
	f.StringVar(&o.out, "out", "", "file to write the page to instead of standard output")
	f.StringVar(&o.chart, "chart", "", "file to write the chart to")
	f.StringVar(&o.binary, "binary", "", "built envserver; the checkout's is built by default")
	cmd.AddCommand(newClientCommand())
	return cmd
}

func newClientCommand() *cobra.Command {
	return &cobra.Command{
		Use: clientCommand, Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveOrders(cmd.Context(), os.Stdin, os.Stdout) },
	}
}

func (o options) validate() error {
	switch {
	case o.servers < 1 || o.sessions < o.servers || o.dialing < 1:
		return fmt.Errorf("--servers %d, --sessions %d, --dialing %d: give at least one of each, and a session for "+
			"every server", o.servers, o.sessions, o.dialing)
	case o.drain < 2*o.episode():
		return fmt.Errorf("--drain %v is shorter than two episodes of %v: sessions end in its second half only",
			o.drain, o.episode())
	}
	return nil
}

// noticing is the pause after an episode in which a draining server surely ends the session: it
// looks once a second.
const noticing = 1100 * time.Millisecond

// episodePause is the pause between two episodes.
func episodePause(pause time.Duration) time.Duration { return max(pause, noticing) }

// episode is the duration of an episode with the pause after it.
func (o options) episode() time.Duration {
	return time.Duration(len(episodeMessages)-1)*o.pause + episodePause(o.pause)
}

func runBenchmark(ctx context.Context, o options, stdout, progress io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := checkHost(o, readHost()); err != nil {
		return err
	}
	if err := limitFiles(o.files); err != nil {
		return err
	}
	tell := newProgressLogger(progress)
	b, err := newBench(ctx, o, tell)
	if err != nil {
		return err
	}
	defer b.close()
	cells, err := b.grow(ctx)
	if err != nil {
		return err
	}
	endured, err := b.endure(ctx)
	if err != nil {
		return err
	}
	return o.write(stdout, cells, endured)
}

// limitFiles sets the limit of open files of this process and of those that it starts.
func limitFiles(files uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	limit.Cur = files
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("setting the limit of open files: %w", err)
	}
	return nil
}

// grow measures the points of the growth.
func (b *bench) grow(ctx context.Context) ([]cell, error) {
	cells := growthCells(b.options)
	for i := range cells {
		c := &cells[i]
		b.tell("growth, %d of %d: %d servers, %d sessions", i+1, len(cells), c.servers, c.sessions)
		if err := b.measure(ctx, c); err != nil {
			return nil, fmt.Errorf("measuring %d servers with %d sessions: %w", c.servers, c.sessions, err)
		}
		b.tell("  %.0f steps/s, p99 %v, %v of the servers' processor time for a step, %.1f KiB for a session", c.rate,
			c.p99, c.cpu, c.bytes/1024)
	}
	return cells, nil
}

// write writes the page and the chart.
func (o options) write(stdout io.Writer, cells []cell, endured endurance) error {
	text, err := renderDocument(o, cells, endured)
	if err != nil {
		return err
	}
	if o.out == "" {
		_, err = io.WriteString(stdout, text)
	} else {
		err = os.WriteFile(o.out, []byte(text), 0o644) //nolint:gosec // a page of the documentation
	}
	if err == nil && o.chart != "" {
		err = os.WriteFile(o.chart, []byte(chartOf(cells)), 0o644) //nolint:gosec // a picture of the documentation
	}
	return err
}

// newProgressLogger prints progress with the time that has passed.
func newProgressLogger(w io.Writer) func(format string, args ...any) {
	began := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(w, "[%4.0fs] %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
}
