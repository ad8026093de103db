package operator

import (
	"context"
	"log/slog"
	"os"

	"github.com/go-logr/logr"

	runs "github.com/csenv/csenv/controllers/run"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/tracing/otlp"
)

// traceRuns has runs traced, by the operator and its runners, if the OTEL_ variables turn tracing
// on. The returned function sends the last spans.
func traceRuns(ctx context.Context, options *runs.Options, log logr.Logger) func() {
	traces := otlp.New(ctx, otlp.Config{Service: "csenv-manager", Version: version,
		Log: slog.New(logr.ToSlogHandler(log))})
	if traces != nil { // a nil pointer in the interface would be no nil
		options.Traces, options.TracingVariables = traces, runner.SelectTracingVariables(os.Getenv)
	}
	return func() { traces.Close(ctx) }
}
