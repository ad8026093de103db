// Package otlp sends spans to an OpenTelemetry collector over HTTP, as the OTEL_ variables say.
//
// It never fails or delays what is traced: spans are sent in the background from a bounded queue,
// and what doesn't fit in it or can't be sent is lost, counted and logged.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/csenv/csenv/envserver/tracing"
)

// Config describes the program whose spans are sent.
type Config struct {
	Service, Version string
	// Attributes are added to the resource. OTEL_RESOURCE_ATTRIBUTES takes precedence.
	Attributes []attribute.KeyValue
	Log        *slog.Logger
}

// Tracing sends spans. Nil is tracing that is off.
type Tracing struct {
	provider *sdktrace.TracerProvider
	traffic  *traffic
	log      *slog.Logger
	content  bool
}

// New returns nil unless the OTEL_ variables turn tracing on. Variables that it can't follow are
// logged, and tracing stays off.
func New(ctx context.Context, c Config) *Tracing {
	share, on, err := readSettings(os.Getenv)
	if err != nil {
		c.Log.Warn("Tracing is off", "error", err)
	}
	if err != nil || !on {
		return nil
	}
	otel.SetLogger(logr.New(complaints{c.Log}))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		c.Log.Warn("Tracing is off", "error", err)
		return nil
	}
	return newTracing(ctx, c, exporter, share)
}

func newTracing(ctx context.Context, c Config, exporter sdktrace.SpanExporter, share float64) *Tracing {
	described, err := resource.New(ctx, resource.WithSchemaURL(semconv.SchemaURL), resource.WithAttributes(append(
		slices.Clone(c.Attributes), semconv.ServiceName(c.Service), semconv.ServiceVersion(c.Version),
		semconv.TelemetrySDKName("opentelemetry"), semconv.TelemetrySDKLanguageGo,
		semconv.TelemetrySDKVersion(sdk.Version()))...), resource.WithFromEnv())
	if err != nil {
		c.Log.Warn("The attributes of traces are incomplete: check OTEL_RESOURCE_ATTRIBUTES", "error", err)
	}
	t := &Tracing{log: c.Log, traffic: &traffic{SpanExporter: exporter, log: c.Log}, content: isCapturingContent()}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(described), sdktrace.WithSampler(sampler{share}), sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSpanProcessor(counter{sdktrace.NewBatchSpanProcessor(t.traffic), t.traffic}))
	return t
}

// readSettings returns the share of episodes to trace, and whether tracing is on.
func readSettings(getenv func(string) string) (share float64, on bool, err error) {
	get := func(name string) string { return strings.ToLower(strings.TrimSpace(getenv(name))) }
	first := func(name string) string {
		if value := get(tracing.ExporterVariables + "TRACES_" + name); value != "" {
			return value
		}
		return get(tracing.ExporterVariables + name)
	}
	exporter, endpoint := get("OTEL_TRACES_EXPORTER"), first("ENDPOINT")
	if get("OTEL_SDK_DISABLED") == "true" || exporter == "none" || exporter == "" && endpoint == "" {
		return 0, false, nil
	}
	if exporter != "" && exporter != "otlp" {
		return 0, false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: use otlp or none", exporter)
	}
	if at, err := url.Parse(endpoint); endpoint != "" && (err != nil || at.Host == "" || at.User != nil ||
		at.RawQuery != "" || at.Scheme != "http" && at.Scheme != "https") {
		// Not quoted, because URLs may contain secrets.
		return 0, false, fmt.Errorf("%sENDPOINT or %[1]sTRACES_ENDPOINT is not http(s)://host[:port]/path",
			tracing.ExporterVariables)
	}
	if protocol := first("PROTOCOL"); !slices.Contains([]string{"", "http/protobuf", "http/json"}, protocol) {
		return 0, false, fmt.Errorf("%sPROTOCOL is %q: use http/protobuf or http/json, and the collector's port for "+
			"HTTP, usually 4318", tracing.ExporterVariables, protocol)
	}
	return parseSampler(get("OTEL_TRACES_SAMPLER"), get("OTEL_TRACES_SAMPLER_ARG"))
}

// parseSampler reads a sampler and its argument. A sampler decides for each episode and not for
// each trace, because a trace is a whole run; no episode has a parent in another service, so the
// samplers that ask a parent decide like the others.
func parseSampler(name, arg string) (share float64, on bool, err error) {
	switch strings.TrimPrefix(name, "parentbased_") {
	case "", "always_on":
		return 1, true, nil
	case "always_off":
		return 0, false, nil
	case "traceidratio":
		if arg == "" {
			return 1, true, nil
		}
		if share, err = strconv.ParseFloat(arg, 64); err != nil || !(share >= 0 && share <= 1) { // nor NaN
			return 0, false, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: use a share of the episodes from 0 to 1", arg)
		}
		return share, true, nil
	}
	return 0, false, fmt.Errorf("OTEL_TRACES_SAMPLER is %q: use always_on, always_off or traceidratio", name)
}

// isCapturingContent reports whether spans contain content, as the semantic conventions' variable
// says.
func isCapturingContent() bool {
	switch strings.ToLower(os.Getenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")) {
	case "true", "span_only", "span_and_event":
		return true
	}
	return false
}

// Shard starts the span of a shard. Its parent is the one in TRACEPARENT, as the operator sets it
// if it traces too; otherwise the shards of a run are the roots of the run's trace.
func (t *Tracing) Shard(ctx context.Context, run string, shard int) (context.Context, trace.Span) {
	if t == nil {
		return ctx, tracing.None
	}
	parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": os.Getenv("TRACEPARENT")})
	if !trace.SpanContextFromContext(parent).IsValid() {
		parent = withSpanIDs(ctx, trace.SpanContextConfig{TraceID: tracing.RootSpanContext(run).TraceID})
	}
	if t.content {
		parent = tracing.WithContent(parent)
	}
	return tracing.Tracer(t.provider).Start(parent, tracing.SpanShard, trace.WithAttributes(
		tracing.KeyRun.String(run), tracing.KeyShard.Int(shard)))
}

// Run starts the span of a run.
func (t *Tracing) Run(ctx context.Context, run string, options ...trace.SpanStartOption) trace.Span {
	_, span := tracing.Tracer(t.provider).
		Start(withSpanIDs(ctx, tracing.RootSpanContext(run)), tracing.SpanRun, options...)
	return span
}

// patience bounds the wait for the last spans to be sent.
const patience = 5 * time.Second

// Close sends the spans that have ended, for at most five seconds.
func (t *Tracing) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := t.provider.Shutdown(ctx)
	if ended, sent := t.traffic.ended.Load(), t.traffic.sent.Load(); sent < ended {
		t.log.Warn("Spans were not sent", "spans", ended-sent, "of", ended, "error", err)
	}
}
