package evaluate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/play/load"
)

const (
	maxBenchDuration = time.Hour
	maxBenchSessions = 50_000 // the number of connections between two addresses is lower
	spareFiles       = 64     // open files in addition to the connections
	// probeTimeout bounds the requests before the first measurement.
	probeTimeout = 30 * time.Second
)

// bench holds the options of csenv bench.
type bench struct {
	sessions []int
	duration time.Duration
	reset    string
	actions  []string
	token    string
	output   *view.Format
}

// NewBenchCommand returns the command that measures a server.
func NewBenchCommand() *cobra.Command {
	var b bench
	cmd := &cobra.Command{
		Use:   "bench URL",
		Short: "Measure the throughput and latency of an OpenEnv server",
		Args:  cli.RequireArguments("URL"),
	}
	cli.SetHelp(cmd, "bench")
	f := cmd.Flags()
	f.IntSliceVar(&b.sessions, "sessions", []int{1, 10, 100},
		"numbers of concurrent sessions, measured one after the other")
	f.DurationVar(&b.duration, "duration", 10*time.Second, "duration of each measurement")
	f.StringVar(&b.reset, "reset", "{}", "`JSON` object with the reset options of every episode; "+
		"each one has a seed of its own, counted from the seed given here or from 0")
	f.StringArrayVar(&b.actions, "action", nil,
		"`JSON` object of an action; may be repeated, the actions are played in turn")
	f.StringVar(&b.token, "token", "", "bearer token of a protected server; preferably set in "+envvars.PoolToken)
	b.output = view.FormatFlag(f, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return b.run(cmd, args[0]) }
	return cmd
}

func (b *bench) run(cmd *cobra.Command, url string) error {
	if err := b.validate(); err != nil {
		return err
	}
	b.token = cmp.Or(b.token, os.Getenv(envvars.PoolToken))
	actions, err := b.choose(cmd.Context(), url)
	if err != nil {
		return benchError(url, err)
	}
	report := BenchReport{URL: url, Reset: json.RawMessage(b.reset), Actions: actions}
	for _, n := range b.sessions {
		row, err := b.measure(cmd.Context(), url, n, actions, cmd.ErrOrStderr())
		if err != nil {
			return benchError(url, err)
		}
		report.Rows = append(report.Rows, row)
	}
	if b.output.Name == "json" {
		err = b.output.Encode(cmd.OutOrStdout(), report)
	} else {
		report.print(cmd.OutOrStdout())
	}
	if err == nil && slices.ContainsFunc(report.Rows, func(r benchRow) bool { return len(r.Failures) > 0 }) {
		err = cli.ErrOutcome
	}
	return err
}

func (b *bench) validate() error {
	if len(b.sessions) == 0 || slices.Min(b.sessions) < 1 || slices.Max(b.sessions) > maxBenchSessions {
		return fmt.Errorf("--sessions takes numbers from 1 to %d such as 1,10,100", maxBenchSessions)
	}
	if b.duration <= 0 || b.duration > maxBenchDuration {
		return fmt.Errorf("--duration is %v: give one of at most %v, such as 10s", b.duration, maxBenchDuration)
	}
	for flag, values := range map[string][]string{"--reset": {b.reset}, "--action": b.actions} {
		for _, value := range values {
			if object := map[string]any(nil); json.Unmarshal([]byte(value), &object) != nil || object == nil {
				return fmt.Errorf("%s is %q: give a JSON object in quotes, such as '{\"seed\":7}'", flag, value)
			}
		}
	}
	if _, err := b.seed(); err != nil {
		return err
	}
	needed := slices.Max(b.sessions) + spareFiles
	if files, err := cli.OpenFiles(); err == nil && uint64(needed) > files { //nolint:gosec // positive and small
		return fmt.Errorf("--sessions %d needs %d open files, but the limit is %d: raise it (ulimit "+
			"-n) or choose fewer sessions", slices.Max(b.sessions), needed, files)
	}
	return nil
}

// seed returns the seed of the first episode: the one in --reset, or 0.
func (b *bench) seed() (int64, error) {
	var reset struct{ Seed int64 }
	if err := json.Unmarshal([]byte(b.reset), &reset); err != nil {
		return 0, fmt.Errorf("--reset is %q: its seed must be a whole number: %w", b.reset, err)
	}
	return reset.Seed, nil
}

// choose returns the actions to play. One session has tried the first.
func (b *bench) choose(ctx context.Context, url string) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	o := client.Options{Token: b.token}
	if len(b.actions) == 0 {
		action, err := load.InferAction(ctx, url, json.RawMessage(b.reset), o)
		if err != nil && errors.As(err, new(*client.ServerError)) {
			err = fmt.Errorf("no action of csenv is known to this server: give one with --action: %w", err)
		}
		return []json.RawMessage{action}, err
	}
	actions := make([]json.RawMessage, len(b.actions))
	for i, action := range b.actions {
		actions[i] = json.RawMessage(action)
	}
	return actions, load.TryAction(ctx, url, json.RawMessage(b.reset), actions[0], o)
}

func (b *bench) measure(ctx context.Context, url string, sessions int, actions []json.RawMessage,
	progress io.Writer) (benchRow, error) {
	seed, err := b.seed()
	if err != nil {
		return benchRow{}, err
	}
	cfg := load.Config{URL: url, Sessions: sessions, Duration: b.duration, Reset: json.RawMessage(b.reset), Seed: seed,
		Actions: actions}
	if b.token != "" {
		cfg.Header = http.Header{"Authorization": {"Bearer " + b.token}}
	}
	terminal, last := view.IsTerminal(progress), time.Now()
	cfg.Progress = func(p load.Progress) {
		line := fmt.Sprintf("%d sessions, %s: %d open, %d steps, %d failed", sessions, p.Phase, p.Sessions, p.Steps,
			p.Failed)
		switch {
		case terminal:
			fmt.Fprintf(progress, "\r\x1b[K%s", line)
		case time.Since(last) >= view.LineInterval:
			last = time.Now()
			fmt.Fprintln(progress, line)
		}
	}
	result, err := load.Run(ctx, cfg)
	if terminal {
		fmt.Fprint(progress, "\r\x1b[K")
	}
	row := benchRow{Sessions: sessions, Open: result.Sessions, Seconds: result.Elapsed.Seconds(), Steps: result.Steps,
		Step: toMilliseconds(result.Step), Connect: toMilliseconds(result.Connect), Failures: result.Failures}
	if result.Elapsed > 0 {
		row.StepsPerSecond = result.StepsPerSecond()
	}
	return row, err
}

// benchError adds advice to the error of a measurement.
func benchError(url string, err error) error {
	advice := ""
	status, hasStatus := errors.AsType[*client.StatusError](err)
	refusal, refused := errors.AsType[*client.ServerError](err)
	switch {
	case hasStatus && status.Status == http.StatusUnauthorized:
		advice = "\nthe server requires a token: give a valid one with --token"
	case hasStatus && status.Status == http.StatusNotFound:
		advice = "\ncheck that this is the base URL of an OpenEnv server"
	case errors.Is(err, syscall.ECONNREFUSED):
		advice = "\nnothing listens there: check that the server runs and that the address is right"
	case refused && refusal.Code == "CAPACITY_REACHED":
		advice = "\nthe server has no free slot: try again later"
	}
	return fmt.Errorf("measuring %s: %w%s", url, err, advice)
}

// BenchReport is the JSON output of bench.
type BenchReport struct {
	URL     string            `json:"url"`
	Reset   json.RawMessage   `json:"reset"`
	Actions []json.RawMessage `json:"actions"`
	Rows    []benchRow        `json:"rows"`
}

// benchRow is the measurement of one number of sessions. Latencies are in milliseconds.
type benchRow struct {
	Sessions       int            `json:"sessions"`
	Open           int            `json:"open"`
	Seconds        float64        `json:"seconds"`
	Steps          int64          `json:"steps"`
	StepsPerSecond float64        `json:"steps_per_second"`
	Step           benchLatencies `json:"step_ms"`
	Connect        benchLatencies `json:"connect_ms"`
	Failures       map[string]int `json:"failures,omitempty"`
}

type benchLatencies struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func toMilliseconds(l load.Latencies) benchLatencies {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return benchLatencies{ms(l.P50), ms(l.P99), ms(l.Max)}
}

func (r BenchReport) print(w io.Writer) {
	t := view.NewTable("sessions", "open", "steps/s", "step p50", "step p99", "connect p99", "failed")
	ms := func(v float64) string { return fmt.Sprintf("%.2fms", v) }
	failures := map[string]int{}
	for _, row := range r.Rows {
		failed := 0
		for cause, n := range row.Failures {
			failed += n
			failures[cause] += n
		}
		t.AppendRow([]any{row.Sessions, row.Open, fmt.Sprintf("%.0f", row.StepsPerSecond), ms(row.Step.P50),
			ms(row.Step.P99), ms(row.Connect.P99), failed})
	}
	fmt.Fprintf(w, "%s\n\n", t.Render())
	for _, action := range r.Actions {
		view.WriteParagraph(w, "", "Played: "+string(action))
	}
	for _, cause := range view.SortedKeys(failures) {
		view.WriteParagraph(w, "", fmt.Sprintf("%s failed: %s", view.FormatCount(failures[cause], "session"), cause))
	}
}
