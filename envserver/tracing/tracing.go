// Package tracing makes the OpenTelemetry spans of what a shard plays. It names them, and its
// attributes follow the semantic conventions of the imported version; package otlp sends them.
//
// A span is made only below one that is recorded. So without a recorded span in the context nothing
// is made, and nothing is allocated.
package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The spans that the semantic conventions don't name.
const (
	SpanRun   = "csenv.run"
	SpanShard = "csenv.shard"
	SpanStep  = "csenv.step"
)

// The attributes that the semantic conventions don't name.
const (
	// KeyRun is the UID of a run, and KeyRunName its name.
	KeyRun     = attribute.Key("csenv.run")
	KeyRunName = attribute.Key("csenv.run.name")
	KeyShard   = attribute.Key("csenv.shard")
	// KeyEpisode is the index of an episode in the run's plan.
	KeyEpisode = attribute.Key("csenv.episode")
	// KeySeed decides whether an episode is sampled, so its span has it from the start.
	KeySeed     = attribute.Key("csenv.episode.seed")
	KeyAttempt  = attribute.Key("csenv.episode.attempt")
	KeyTask     = attribute.Key("csenv.task")
	KeyScenario = attribute.Key("csenv.scenario")
	KeyTrial    = attribute.Key("csenv.trial")
	KeyOutcome  = attribute.Key("csenv.outcome")
	KeyStep     = attribute.Key("csenv.step")
	KeyRefused  = attribute.Key("csenv.refused")
)

// ExporterVariables is the prefix of the variables that configure the exporter.
const ExporterVariables = "OTEL_EXPORTER_OTLP_"

// What the semantic conventions define and their package has no constant for.
const (
	EventEvaluation = "gen_ai.evaluation.result"
	ToolFunction    = "function"
	Provider        = "csenv" // of agents other than models
)

// None is a span that does nothing.
var None trace.Span = noop.Span{}

// StartSpan starts a span below the context's span. If that is not recorded, it returns the
// context and a span that does nothing. Arguments allocate, so that a caller with options asks On
// before.
func StartSpan(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, None
	}
	return Tracer(parent.TracerProvider()).Start(ctx, name, options...)
}

// IsRecording reports whether spans below the context's span are made.
func IsRecording(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// Tracer returns the provider's tracer of this module.
func Tracer(provider trace.TracerProvider) trace.Tracer {
	return provider.Tracer("github.com/csenv/csenv", trace.WithSchemaURL(semconv.SchemaURL))
}

// FailSpan gives a span the class of its error. The error's text is not for spans, because it may
// quote what the agent and the environment said.
func FailSpan(span trace.Span, class string) {
	if span.IsRecording() {
		span.SetAttributes(semconv.ErrorTypeKey.String(class))
		span.SetStatus(codes.Error, class)
	}
}

// ServerAttributes returns the attributes of the server behind a URL.
func ServerAttributes(base string) []attribute.KeyValue {
	at, err := url.Parse(base)
	if err != nil {
		return nil
	}
	if port, err := strconv.Atoi(at.Port()); err == nil {
		return []attribute.KeyValue{semconv.ServerAddress(at.Hostname()), semconv.ServerPort(port)}
	}
	return []attribute.KeyValue{semconv.ServerAddress(at.Hostname())}
}

type contentKey struct{}

// WithContent has the spans of the context contain what the agent and the environment say.
func WithContent(ctx context.Context) context.Context {
	return context.WithValue(ctx, contentKey{}, true)
}

// HasContent reports whether the spans of the context contain what the agent and the environment
// say.
func HasContent(ctx context.Context) bool {
	with, _ := ctx.Value(contentKey{}).(bool)
	return with
}

// maxText bounds a recorded text, in bytes.
const maxText = 8 << 10

// ClipText returns the beginning of a text that a span may contain.
func ClipText(text []byte) string {
	return strings.ToValidUTF8(string(text[:min(len(text), maxText)]), "")
}

// RootSpanContext returns the ids of the span of a run. The trace has the bytes of the run's UID,
// so that the UID without its dashes finds it; the id of a run that has no UID is a digest.
func RootSpanContext(run string) trace.SpanContextConfig {
	sum := sha256.Sum256([]byte(run))
	root := trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]),
		TraceFlags: trace.FlagsSampled}
	if uid, err := hex.DecodeString(strings.ReplaceAll(run, "-", "")); err == nil && len(uid) == len(root.TraceID) {
		root.TraceID = trace.TraceID(uid)
	}
	return root
}
