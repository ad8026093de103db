package shard

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/csenv/csenv/envserver/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tracing"
	"github.com/csenv/csenv/envserver/tracing/otlp"
)

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

// traced plays the shard within its span.
func traced(ctx context.Context, traces *otlp.Tracing, cfg rollout.Config) (score.Summary, error) {
	ctx, span := traces.Shard(ctx, cfg.Plan.Run, cfg.Shard)
	defer span.End()
	summary, err := rollout.Run(ctx, cfg)
	if err != nil {
		tracing.Fail(span, class(err))
	}
	return summary, err
}

// class names the error of a shard.
func class(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "stopped"
	case errors.Is(err, rollout.ErrAgentRefused):
		return "agent_refused"
	case errors.Is(err, rollout.ErrAgentUnavailable):
		return "agent_unavailable"
	case errors.Is(err, rollout.ErrPoolChanged):
		return "pool_changed"
	}
	return semconv.ErrorTypeOther.Value.AsString()
}
