package shard

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
)

// collect starts a collector, and has the runner send to it.
func collect(t *testing.T) func() ([]*tracepb.Span, map[string]string) {
	t.Helper()
	var mu sync.Mutex
	var spans []*tracepb.Span
	resource := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err != nil || proto.Unmarshal(body, &got) != nil {
			t.Errorf("the request is no export: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, about := range got.ResourceSpans {
			for _, a := range about.Resource.Attributes {
				resource[a.Key] = a.Value.GetStringValue()
			}
			for _, scope := range about.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	return func() ([]*tracepb.Span, map[string]string) {
		mu.Lock()
		defer mu.Unlock()
		return spans, resource
	}
}

// path returns the names of a span and those above it.
func path(spans []*tracepb.Span, s *tracepb.Span) string {
	i := slices.IndexFunc(spans, func(above *tracepb.Span) bool { return string(above.SpanId) == string(s.ParentSpanId) })
	if i < 0 {
		return s.Name
	}
	return path(spans, spans[i]) + " > " + s.Name
}

// The runner sends the trace of its shard. An agent behind a URL receives the context of its span,
// so that its own spans are below.
func TestRunnerTraces(t *testing.T) {
	kind := ticketKind(t)
	const uid = "5f0c6f8e-5a2b-4c3d-9e10-0123456789ab"
	plan := planFile(t, kind, func(p *score.Plan) { p.Run = uid })
	collected := collect(t)
	t.Setenv(podName, "heuristic-0-x7k2p")
	t.Setenv(envvars.AgentKey, agentKey)
	var mu sync.Mutex
	contexts := map[string]bool{}
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			mu.Lock()
			defer mu.Unlock()
			contexts[r.Header.Get("Traceparent")] = true
		}
		answer := policy.Response{Action: json.RawMessage(`{"action_type": "resolve", "message": "Done."}`)}
		answer.Usage.Prompt = 5
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer agent.Close()
	message, err := run(t, "--plan="+plan, "--pool="+pool(t, kind), "--run=team-a/heuristic",
		fmt.Sprintf(`--agent={"type":"HTTP","http":{"url":%q}}`, agent.URL))
	if err != nil {
		t.Fatal(err, message)
	}
	spans, resource := collected()
	for key, want := range map[string]string{"service.name": "csenv-runner", "service.version": version,
		"k8s.namespace.name": "team-a", "k8s.pod.name": "heuristic-0-x7k2p", "csenv.run.name": "heuristic"} {
		if resource[key] != want {
			t.Errorf("%s is %q, want %q", key, resource[key], want)
		}
	}
	host := strings.TrimPrefix(agent.URL, "http://")
	episode := "csenv.shard > invoke_agent " + host
	got := map[string]int{}
	for _, s := range spans {
		got[path(spans, s)]++
		id := trace.TraceID(s.TraceId).String()
		if id != strings.ReplaceAll(uid, "-", "") {
			t.Errorf("%s is in the trace %s", s.Name, id)
		}
		if s.Kind == tracepb.Span_SPAN_KIND_CLIENT && !contexts[fmt.Sprintf("00-%s-%x-01", id, s.SpanId)] {
			t.Errorf("the agent did not receive the span %x: %v", s.SpanId, contexts)
		}
		if text := s.String(); strings.Contains(text, agentKey) || strings.Contains(text, "Done.") {
			t.Errorf("the span has content: %s", text)
		}
	}
	steps := got[episode+" > csenv.step"]
	if got["csenv.shard"] != 1 || got[episode] != 4 || steps != len(contexts) || steps < 4 ||
		got[episode+" > csenv.step > invoke_agent "+host] != steps ||
		got[episode+" > csenv.step > execute_tool resolve"] != steps {
		t.Errorf("got %v", got)
	}
}

// A collector that never answers costs no score and keeps the summary from nobody.
func TestRunnerWithoutItsCollector(t *testing.T) {
	kind := ticketKind(t)
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop }))
	defer server.Close()
	defer close(stop)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	began := time.Now()
	message, err := run(t, "--plan="+planFile(t, kind, func(*score.Plan) {}), "--pool="+pool(t, kind), builtin("Heuristic"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := score.DecodeSummary([]byte(message)); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the runner took %v", took)
	}
}
