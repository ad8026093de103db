// Command runner plays one shard of an EvaluationRun's plan against a pool of environment servers and leaves the shard's summary as its termination message.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/score"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := newCommand(os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	plan            string
	shard           int
	pool            string
	policy          string
	concurrency     int
	episodeAttempts int
	terminationLog  string
	episodes        string
}

// newCommand makes the command. Logs go to the writer.
func newCommand(logs io.Writer) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "runner --plan FILE --shard N --pool HOST:PORT --policy NAME",
		Short: "Play one shard of an evaluation run",
		Long: `Play one shard of an evaluation run.

The runner plays the shard's episodes on one pod of the pool, retries what the infrastructure spoilt, fetches the ledger that the pod has signed, and writes
the shard's summary to --termination-log, at most 4096 bytes. It then exits with 0, also where episodes errored: the summary names them.

When no pod takes the shard, the pod is lost, or the pool isn't the one that the run was planned with, nothing counts: it writes "error: " and the reason
to --termination-log and exits with 1.`,
		Example: `  runner --plan plan.json --shard 0 --pool localhost:8000 --policy Heuristic --termination-log summary.json`,
		Version: version, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewJSONHandler(logs, nil))
			return leaveMessage(o.terminationLog, func() (score.Summary, error) { return play(cmd.Context(), o, log) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.plan, "plan", "/etc/csenv/plan.json", "file that holds the run's plan")
	f.IntVar(&o.shard, "shard", 0, "index of the shard to play")
	f.StringVar(&o.pool, "pool", "", "host and port of the pool's pods: every address of the host is a pod")
	f.StringVar(&o.policy, "policy", policy.Heuristic, "built-in policy that plays: "+strings.Join(policy.Names(), ", "))
	f.IntVar(&o.concurrency, "concurrency", 16, "episodes in flight")
	f.IntVar(&o.episodeAttempts, "episode-attempts", 3, "attempts at an episode before it counts as errored")
	f.StringVar(&o.terminationLog, "termination-log", "/dev/termination-log", "file to write the summary or the error to")
	f.StringVar(&o.episodes, "episodes", "", "file to append every episode to, one JSON object a line: actions, score and the judge's verdicts (csenv regrade reads it)")
	// The flag exists, so that this can't fail.
	_ = cmd.MarkFlagRequired("pool")
	return cmd
}

// leaveMessage writes what the run came to: its summary, or its error.
func leaveMessage(path string, run func() (score.Summary, error)) error {
	message, err := encode(run())
	if err != nil {
		message = fmt.Appendf(nil, "error: %v\n", err)
		// Kubernetes keeps no message that is longer or no UTF-8.
		message = bytes.ToValidUTF8(message[:min(len(message), score.MaxSummaryBytes)], nil)
	}
	if writeErr := os.WriteFile(path, message, 0o600); writeErr != nil {
		err = errors.Join(err, fmt.Errorf("writing the termination message: %w", writeErr))
	}
	return err
}

func encode(summary score.Summary, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return summary.Encode()
}
