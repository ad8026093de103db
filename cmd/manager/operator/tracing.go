package operator

import (
	"context"
	"log/slog"
	"os"

	"github.com/go-logr/logr"

	runs "github.com/csenv/csenv/controllers/run"
	"github.com/csenv/csenv/envserver/tracing/otlp"
)

// traceRuns has runs traced if the OTEL_ variables turn tracing on. The returned function sends the
// last spans.
func traceRuns(ctx context.Context, options *runs.Options, log logr.Logger) func() {
	options.TracingVariables = runs.TracingVariables(os.Getenv)
	traces := otlp.New(ctx, otlp.Config{Service: "csenv-manager", Version: version,
		Log: slog.New(logr.ToSlogHandler(log))})
	if traces != nil { // a nil pointer in the interface would be no nil
		options.Traces = traces
	}
	return func() { traces.Close(ctx) }
}
