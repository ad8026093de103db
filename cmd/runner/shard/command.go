// Package shard is the program runner. It plays one shard of an EvaluationRun's plan against a pool
// of environment servers and leaves the shard's summary as its termination message.
package shard

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
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/play/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tracing"
	"github.com/csenv/csenv/envserver/tracing/otlp"
)

// version is the program's version.
var version = "dev"

// Main runs the program of a version.
func Main(of string) {
	version = of
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := newCommand(os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(exitCode(err))
	}
}

// errStopped means that the runner was stopped by a signal: the run was suspended or deleted, or
// the node was drained.
var errStopped = errors.New("the runner was stopped")

func exitCode(err error) int {
	switch {
	case errors.Is(err, errStopped):
		return score.ExitStopped
	case errors.Is(err, rollout.ErrAgentRefused):
		return score.ExitAgentRefused
	case errors.Is(err, rollout.ErrAgentUnavailable):
		return score.ExitAgentUnavailable
	}
	return 1
}

// options are the command's flags.
type options struct {
	plan             string
	shards           string
	shard            int
	pool             string
	agent            string
	inputs           string
	agentShare       int
	budget           string
	concurrency      int
	episodeAttempts  int
	terminationLog   string
	secrets          string
	results          string
	storeCredentials string
	limits           string
	run              string
}

// newCommand makes the command. Logs go to the writer.
func newCommand(logs io.Writer) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "runner --plan FILE --shard N --pool HOST:PORT --agent JSON",
		Short: "Play one shard of an evaluation run",
		Long: `Play one shard of an evaluation run.

The runner plays the shard's episodes on one server of the pool, retries episodes that failed by no
fault of the agent, fetches the signed ledger from the server, and writes the shard's summary (at
most 4096 bytes) to --termination-log. It exits with 0, even if episodes errored; the summary lists
them. It also does when the shard's share of --budget is used up; the summary counts the episodes
that were not played.

If no server accepts the shard, the server is lost, or the pool has changed since the run was
planned, nothing of the shard counts: the runner writes "error: " and the reason to
--termination-log and exits with 1. It waits as long as it takes for a server that is full, and ten
minutes for one that doesn't answer.

Before it plays, the runner tries the agent's endpoint. If that refuses the key, the model or the
address, it exits with 3; if it doesn't answer for two minutes, with 4. A runner that is stopped by
a signal exits with 143.

Episodes that can't be stored keep their scores; the summary has their number and the reason.

Traces are sent if the usual variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_ENDPOINT, are
set.

The agent's key, or the token of an agent behind a URL, is the file ` + envvars.AgentKey + ` in the
folder --secrets, the token of a protected pool ` + envvars.PoolToken + `, and the run's credential,
without which a pool's servers open no ledger, ` + envvars.RunCredential + `. Without --secrets they are
variables of these names.`,
		Example: `  runner --plan plan.json --shard 0 --pool localhost:8000 --termination-log summary.json \
    --agent '{"type":"Builtin","builtin":{"policy":"Heuristic"}}'`,
		Version: version, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return reportShard(cmd.Context(), o, slog.New(slog.NewJSONHandler(logs, nil)))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.plan, "plan", "/etc/csenv/plan.json", "file that holds the run's plan")
	f.IntVar(&o.shard, "shard", 0, "index of the shard to play, from 0")
	f.StringVar(&o.shards, "shards", "", "the shards among which --shard counts, as in 0-2,7; all of the plan's "+
		"unless set")
	f.StringVar(&o.pool, "pool", "", "host and port of the pool's pods: every address of the host is a pod")
	f.StringVar(&o.agent, "agent", "", "who plays, as JSON: the spec.agent of an EvaluationRun without its secrets; "+
		"or @FILE, a file of that JSON")
	f.StringVar(&o.inputs, "inputs", "", "digest of the plan and the agent: the runner refuses others")
	f.IntVar(&o.agentShare, "agent-share", 1, "number of runners among which the agent's requestsPerMinute is divided")
	f.StringVar(&o.budget, "budget", "", "what the model may use for all shards of --shards, as JSON: maxTokens, "+
		"maxCost, prices and the tokens used, which are no longer available; the shard's share is its episodes'")
	f.IntVar(&o.concurrency, "concurrency", 16, "episodes in flight")
	f.IntVar(&o.episodeAttempts, "episode-attempts", 3, "attempts at an episode before it counts as errored")
	f.StringVar(&o.terminationLog, "termination-log", "/dev/termination-log",
		"file to write the summary or the error to")
	f.StringVar(&o.results, "results", "", "where to store every episode: a folder, or the URL of one in a bucket, "+
		"such as s3://BUCKET/PREFIX; what is stored there of the shard is not played again")
	f.StringVar(&o.secrets, "secrets", "", "folder with the secrets of the run, each a file; variables unless set")
	f.StringVar(&o.storeCredentials, "store-credentials", "", "folder with the credentials of --results, each a file "+
		"with the name of its variable; variables unless set")
	f.StringVar(&o.limits, "limits", "", "JSON to store with the episodes: maxErroredPercent and thresholds of the run")
	f.StringVar(&o.run, "run", "", "namespace and name of the run in traces, NAMESPACE/NAME")
	// The flags exist, so that this can't fail.
	_ = cmd.MarkFlagRequired("pool")
	_ = cmd.MarkFlagRequired("agent")
	return cmd
}

// reportShard plays the shard, writes the termination message, and then sends the last spans.
func reportShard(ctx context.Context, o options, log *slog.Logger) error {
	traces := newTracing(ctx, o, log)
	defer traces.Close(ctx)
	return writeMessage(o.terminationLog, func() (score.Summary, error) { return playShard(ctx, o, traces, log) })
}

// podName is the variable with the name of the runner's pod.
const podName = "POD_NAME"

// newTracing returns nil unless the OTEL_ variables turn tracing on.
func newTracing(ctx context.Context, o options, log *slog.Logger) *otlp.Tracing {
	var about []attribute.KeyValue
	if namespace, name, ok := strings.Cut(o.run, "/"); ok {
		about = append(about, semconv.K8SNamespaceName(namespace), tracing.KeyRunName.String(name))
	}
	if pod := os.Getenv(podName); pod != "" {
		about = append(about, semconv.K8SPodName(pod))
	}
	return otlp.New(ctx, otlp.Config{Service: "csenv-runner", Version: version, Attributes: about, Log: log})
}

// writeMessage writes the summary or the error of run to a file.
func writeMessage(path string, run func() (score.Summary, error)) error {
	message, err := encodeSummary(run())
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

func encodeSummary(summary score.Summary, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return summary.Encode()
}
