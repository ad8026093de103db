package otlp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/csenv/csenv/envserver/tracing"
)

// sampler records a share of the episodes, and all other spans. Spans below an episode that is not
// recorded are not even started.
type sampler struct{ share float64 }

// ShouldSample decides by the seed of an episode. So all attempts at it have one answer, and runs
// with the same seed record the same episodes.
func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample,
		Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	for _, a := range p.Attributes {
		if a.Key == tracing.KeySeed && !s.takes(a.Value.AsInt64()) {
			result.Decision = sdktrace.Drop
		}
	}
	return result
}

func (s sampler) takes(seed int64) bool {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(seed))) //nolint:gosec // only its bits count
	const bits = 53
	return float64(binary.BigEndian.Uint64(sum[:])>>(64-bits))/(1<<bits) < s.share
}

func (s sampler) Description() string { return "share of the episodes" }

// ids draws the ids of spans, unless the context has them. An agent that receives one learns
// nothing about its episode.
type ids struct{}

type idsKey struct{}

// withSpanIDs chooses the ids of the next span of the context that has no parent. The span's own is
// drawn if it is zero.
func withSpanIDs(ctx context.Context, chosen trace.SpanContextConfig) context.Context {
	return context.WithValue(ctx, idsKey{}, chosen)
}

func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	chosen, _ := ctx.Value(idsKey{}).(trace.SpanContextConfig)
	if !chosen.TraceID.IsValid() {
		_, _ = rand.Read(chosen.TraceID[:]) // never fails
	}
	if !chosen.SpanID.IsValid() {
		chosen.SpanID = g.NewSpanID(ctx, chosen.TraceID)
	}
	return chosen.TraceID, chosen.SpanID
}

func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var id trace.SpanID
	for !id.IsValid() {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id
}

// traffic counts the spans that have ended and those that were sent, and logs the first failure.
type traffic struct {
	sdktrace.SpanExporter
	log         *slog.Logger
	ended, sent atomic.Int64
	failed      sync.Once
}

func (t *traffic) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		t.failed.Do(func() { t.log.Warn("Spans can't be sent: check OTEL_EXPORTER_OTLP_ENDPOINT", "error", err) })
		return nil //nolint:nilerr // logged: the SDK would write to standard error
	}
	t.sent.Add(int64(len(spans)))
	return nil
}

// counter counts the spans that end. Those that find the queue full don't reach the exporter.
type counter struct {
	sdktrace.SpanProcessor
	traffic *traffic
}

func (c counter) OnEnd(span sdktrace.ReadOnlySpan) {
	c.traffic.ended.Add(1)
	c.SpanProcessor.OnEnd(span)
}

// complaints logs what OpenTelemetry's SDK finds wrong in the variables, without their values: they
// contain keys.
type complaints struct{ log *slog.Logger }

func (c complaints) Error(_ error, message string, _ ...any) {
	c.log.Warn("An OTEL_ variable or its file can't be used", "reason", message)
}
func (complaints) Init(logr.RuntimeInfo)            {}
func (complaints) Enabled(int) bool                 { return false }
func (complaints) Info(int, string, ...any)         {}
func (c complaints) WithValues(...any) logr.LogSink { return c }
func (c complaints) WithName(string) logr.LogSink   { return c }
