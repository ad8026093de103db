package otlp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/csenv/csenv/envserver/testkit/isolated"
	"github.com/csenv/csenv/envserver/tracing"
)

func TestMain(m *testing.M) { isolated.Main(m) }

const run = "5f0c6f8e-5a2b-4c3d-9e10-0123456789ab"

// unset removes the variables of the machine that runs the tests.
func unset(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ENDPOINT", "TRACES_ENDPOINT", "PROTOCOL", "TRACES_PROTOCOL", "HEADERS"} {
		t.Setenv(tracing.ExporterVariables+name, "")
	}
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER",
		"OTEL_TRACES_SAMPLER_ARG", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME", "TRACEPARENT",
		"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"} {
		t.Setenv(name, "")
	}
}

func texts(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range list {
		all[a.Key] = a.Value.GetStringValue()
	}
	return all
}

// Spans reach a collector as the usual variables say.
func TestSpansReachACollector(t *testing.T) {
	unset(t)
	var mu sync.Mutex
	var got collector.ExportTraceServiceRequest
	var path, key string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if path, key = r.URL.Path, r.Header.Get("Authorization"); err != nil || proto.Unmarshal(body, &got) != nil {
			t.Errorf("the request is no export: %v", err)
		}
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL+"/otel")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20a2V5")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,csenv.run.name=mine")
	var logs bytes.Buffer
	traces := New(t.Context(), Config{Service: "csenv-runner", Version: "v1", Log: slog.New(slog.NewTextHandler(&logs, nil)),
		Attributes: []attribute.KeyValue{tracing.KeyRunName.String("heuristic")}})
	ctx, shard := traces.Shard(t.Context(), run, 3)
	_, step := tracing.StartSpan(ctx, tracing.SpanStep)
	step.End()
	shard.End()
	traces.Close(t.Context())
	if logs.Len() > 0 {
		t.Errorf("logged %s", logs.String())
	}
	if path != "/otel/v1/traces" || key != "Basic a2V5" {
		t.Errorf("sent to %s with the key %q", path, key)
	}
	if len(got.ResourceSpans) != 1 || len(got.ResourceSpans[0].ScopeSpans) != 1 {
		t.Fatalf("got %v", &got)
	}
	about, scope := got.ResourceSpans[0], got.ResourceSpans[0].ScopeSpans[0]
	resource := texts(about.Resource.Attributes)
	delete(resource, "telemetry.sdk.version")
	if diff := cmp.Diff(map[string]string{"service.name": "csenv-runner", "service.version": "v1",
		"csenv.run.name": "mine", "deployment.environment.name": "test", "telemetry.sdk.name": "opentelemetry",
		"telemetry.sdk.language": "go"}, resource); diff != "" {
		t.Error(diff)
	}
	const conventions = "https://opentelemetry.io/schemas/1.41.0"
	if about.SchemaUrl != conventions || scope.SchemaUrl != conventions {
		t.Errorf("the schemas are %q and %q", about.SchemaUrl, scope.SchemaUrl)
	}
	uid := strings.ReplaceAll(run, "-", "")
	for i, name := range []string{"csenv.step", "csenv.shard"} {
		if s := scope.Spans[i]; s.Name != name || trace.TraceID(s.TraceId).String() != uid {
			t.Errorf("span %d is %s of the trace %x, want %s of %s", i, s.Name, s.TraceId, name, uid)
		}
	}
	if step, shard := scope.Spans[0], scope.Spans[1]; !bytes.Equal(step.ParentSpanId, shard.SpanId) ||
		len(shard.ParentSpanId) != 0 {
		t.Errorf("the step is below %x and the shard %x below %x", step.ParentSpanId, shard.SpanId, shard.ParentSpanId)
	}
}

func TestSettings(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318"
	tests := map[string]struct {
		variables string
		share     float64
		on        bool
		err       string
	}{
		"nothing":              {},
		"endpoint":             {endpoint, 1, true, ""},
		"endpoint of traces":   {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://collector/v1/traces", 1, true, ""},
		"exporter":             {"OTEL_TRACES_EXPORTER=otlp", 1, true, ""},
		"no exporter":          {endpoint + " OTEL_TRACES_EXPORTER=none", 0, false, ""},
		"disabled":             {endpoint + " OTEL_SDK_DISABLED=TRUE", 0, false, ""},
		"another exporter":     {endpoint + " OTEL_TRACES_EXPORTER=zipkin", 0, false, `OTEL_TRACES_EXPORTER is "zipkin": use otlp`},
		"gRPC":                 {endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc", 0, false, "use http/protobuf or http/json"},
		"gRPC for others":      {endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", 1, true, ""},
		"no scheme":            {"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", 0, false, "is not http(s)://"},
		"password in the URL":  {"OTEL_EXPORTER_OTLP_ENDPOINT=http://me:secret@collector", 0, false, "is not http(s)://"},
		"all":                  {endpoint + " OTEL_TRACES_SAMPLER=parentbased_always_on", 1, true, ""},
		"none":                 {endpoint + " OTEL_TRACES_SAMPLER=always_off", 0, false, ""},
		"a tenth":              {endpoint + " OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=0.1", 0.1, true, ""},
		"a tenth of no parent": {endpoint + " OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0.1", 0.1, true, ""},
		"no argument":          {endpoint + " OTEL_TRACES_SAMPLER=traceidratio", 1, true, ""},
		"too much":             {endpoint + " OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=10", 0, false, "use a share of the episodes from 0 to 1"},
		"no number":            {endpoint + " OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=NaN", 0, false, "use a share"},
		"unknown sampler":      {endpoint + " OTEL_TRACES_SAMPLER=jaeger_remote", 0, false, `OTEL_TRACES_SAMPLER is "jaeger_remote"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			set := map[string]string{}
			for variable := range strings.FieldsSeq(tc.variables) {
				key, value, _ := strings.Cut(variable, "=")
				set[key] = value
			}
			share, on, err := readSettings(func(name string) string { return set[name] })
			if share != tc.share || on != tc.on || (err == nil) != (tc.err == "") ||
				err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("settings() = %v, %v, %v", share, on, err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error quotes a password: %v", err)
			}
		})
	}
}

// Variables that can't be followed turn tracing off, with a line in the log, and nothing else.
func TestWithoutTracing(t *testing.T) {
	unset(t)
	for _, tc := range []struct{ protocol, want string }{{"", ""}, {"grpc", "Tracing is off"}} {
		protocol, want := tc.protocol, tc.want
		var logs bytes.Buffer
		if protocol != "" {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317")
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
		}
		traces := New(t.Context(), Config{Log: slog.New(slog.NewTextHandler(&logs, nil))})
		ctx, span := traces.Shard(t.Context(), run, 0)
		if tracing.IsRecording(ctx) || span.IsRecording() || !strings.Contains(logs.String(), want) ||
			want == "" && logs.Len() > 0 {
			t.Errorf("%q: tracing is on: %t; logged %q, want %q", protocol, tracing.IsRecording(ctx), logs.String(), want)
		}
		traces.Close(t.Context())
	}
}

// A wrong header is logged without its value, which is a key.
func TestComplaintsRevealNoKey(t *testing.T) {
	unset(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization: sk-secret,x-key=sk-secret%zz")
	var logs bytes.Buffer
	New(t.Context(), Config{Log: slog.New(slog.NewTextHandler(&logs, nil))}).Close(t.Context())
	if text := logs.String(); strings.Count(text, "can't be used") != 2 || strings.Contains(text, "secret") {
		t.Error(text)
	}
}

// exporter keeps or refuses spans.
type exporter struct {
	export func(context.Context, []sdktrace.ReadOnlySpan) error
}

func (e exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	return e.export(ctx, spans)
}
func (exporter) Shutdown(context.Context) error { return nil }

// start traces with an exporter, and returns the log.
func start(t *testing.T, share float64, export func(context.Context, []sdktrace.ReadOnlySpan) error) (*Tracing,
	*lines) {
	t.Helper()
	var logs lines
	return newTracing(t.Context(), Config{Log: slog.New(slog.NewTextHandler(&logs, nil))}, exporter{export}, share), &logs
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A collector that refuses or never answers delays nothing but the end, by at most five seconds,
// and the log says once why and how many spans are lost.
func TestLostSpansAreLogged(t *testing.T) {
	unset(t)
	for name, tc := range map[string]struct {
		export func(context.Context, []sdktrace.ReadOnlySpan) error
		took   time.Duration
		why    int
	}{
		"refuses": {func(context.Context, []sdktrace.ReadOnlySpan) error { return errors.New("no") }, 0, 1},
		"hangs": {func(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
			<-ctx.Done()
			return ctx.Err()
		}, 5 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				traces, logs := start(t, 1, tc.export)
				began := time.Now()
				ctx, shard := traces.Shard(t.Context(), run, 0)
				for range 5000 {
					_, span := tracing.StartSpan(ctx, tracing.SpanStep)
					span.End()
				}
				shard.End()
				if took := time.Since(began); took > 0 {
					t.Errorf("the spans took %v", took)
				}
				traces.Close(ctx)
				text := logs.String()
				if took := time.Since(began); took != tc.took {
					t.Errorf("the end took %v, want %v", took, tc.took)
				}
				if strings.Count(text, "can't be sent") != tc.why ||
					strings.Count(text, "Spans were not sent") != 1 || !strings.Contains(text, "spans=5001 of=5001") {
					t.Error(text)
				}
				<-time.After(time.Hour) // until the exporter has given up
			})
		})
	}
}

// The shards of a run are in one trace, below the span of the run if the operator makes that.
func TestShardsAreBelowTheirRun(t *testing.T) {
	unset(t)
	var spans []sdktrace.ReadOnlySpan
	traces, _ := start(t, 1, func(_ context.Context, more []sdktrace.ReadOnlySpan) error {
		spans = append(spans, more...)
		return nil
	})
	root := trace.NewSpanContext(tracing.RootSpanContext(run))
	_, alone := traces.Shard(t.Context(), run, 0)
	alone.End()
	t.Setenv("TRACEPARENT", "00-"+root.TraceID().String()+"-"+root.SpanID().String()+"-01")
	_, below := traces.Shard(t.Context(), run, 0)
	below.End()
	traces.Run(t.Context(), run).End()
	traces.Close(t.Context())
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	for i, parent := range []trace.SpanID{{}, root.SpanID(), {}} {
		if s := spans[i]; s.SpanContext().TraceID() != root.TraceID() || s.Parent().SpanID() != parent {
			t.Errorf("span %d is in the trace %v below %v", i, s.SpanContext().TraceID(), s.Parent().SpanID())
		}
	}
	if spans[0].SpanContext().SpanID() == spans[1].SpanContext().SpanID() {
		t.Error("two attempts at a shard have one id")
	}
	if spans[2].SpanContext().SpanID() != root.SpanID() {
		t.Errorf("the run's id is %v", spans[2].SpanContext().SpanID())
	}
}

// The episodes that are sampled depend on their seeds, and are a share of all. Nothing is sampled
// below the others.
func TestSampling(t *testing.T) {
	unset(t)
	const episodes = 4000
	var before map[int64]bool
	for _, share := range []float64{0, 0.25, 0.25, 1} {
		var spans []sdktrace.ReadOnlySpan
		traces, _ := start(t, share, func(_ context.Context, more []sdktrace.ReadOnlySpan) error {
			spans = append(spans, more...)
			return nil
		})
		ctx, _ := traces.Shard(t.Context(), run, 0)
		taken := map[int64]bool{}
		for seed := range int64(episodes) {
			below, episode := tracing.StartSpan(ctx, "episode", trace.WithAttributes(tracing.KeySeed.Int64(seed)))
			_, step := tracing.StartSpan(below, tracing.SpanStep)
			if taken[seed] = episode.IsRecording(); step.IsRecording() != taken[seed] {
				t.Fatalf("the episode is recorded: %t, its step: %t", taken[seed], step.IsRecording())
			}
			if !taken[seed] {
				delete(taken, seed)
			}
		}
		if got := float64(len(taken)) / episodes; got < share-0.03 || got > share+0.03 {
			t.Errorf("%v of the episodes are sampled, want %v", got, share)
		}
		if share == 0.25 && before != nil && !cmp.Equal(before, taken) {
			t.Error("another runner samples other episodes")
		}
		if share == 0.25 {
			before = taken
		}
		traces.Close(t.Context())
	}
}

func TestContent(t *testing.T) {
	unset(t)
	for value, want := range map[string]bool{"": false, "false": false, "no_content": false, "true": true, "SPAN_ONLY": true} {
		t.Setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
		traces, _ := start(t, 1, func(context.Context, []sdktrace.ReadOnlySpan) error { return nil })
		if ctx, _ := traces.Shard(t.Context(), run, 0); tracing.HasContent(ctx) != want {
			t.Errorf("%q: content is %t", value, !want)
		}
		traces.Close(t.Context())
	}
}

// A run that is played without a cluster has no UID.
func TestRootOfAnyRun(t *testing.T) {
	for _, name := range []string{run, "run-1", ""} {
		if root := trace.NewSpanContext(tracing.RootSpanContext(name)); !root.IsValid() {
			t.Errorf("the root of %q is %v", name, root)
		}
	}
}
