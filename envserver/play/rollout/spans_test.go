package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	scripted "github.com/csenv/csenv/envserver/testkit/model"
	"github.com/csenv/csenv/envserver/tracing"
)

// modelSpans plays one ticket with a scripted model within a span, and returns all spans in the
// order in which they began.
func modelSpans(t *testing.T, content bool, change func(*Config, *scripted.Endpoint)) tracetest.SpanStubs {
	t.Helper()
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := only(t, kind, "ticket-resolve", 1, 1)
	endpoint := newModel(t, p, policy.Oracle)
	cfg := config(t, p, policy.Noop, pod)
	cfg.Concurrency, cfg.Identity = 1, policy.Identity{Name: "scripted", Provider: "openai"}
	cfg.Policy = endpoint.agent(t, "ticket", 1, nil)
	change(&cfg, endpoint.Endpoint)
	memory := tracetest.NewInMemoryExporter()
	ctx := t.Context()
	if content {
		ctx = tracing.WithContent(ctx)
	}
	ctx, root := tracing.Tracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(memory))).Start(ctx, tracing.SpanShard)
	if _, err := Run(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	root.End()
	spans := memory.GetSpans()
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return spans
}

func unchanged(*Config, *scripted.Endpoint) {}

// tree writes the names of spans, each below its parent.
func tree(spans tracetest.SpanStubs) string {
	var b strings.Builder
	depth := map[trace.SpanID]int{}
	for _, s := range spans {
		level := 0
		if s.Parent.IsValid() {
			level = depth[s.Parent.SpanID()] + 1
		}
		depth[s.SpanContext.SpanID()] = level
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", level), s.Name)
	}
	return b.String()
}

func attributes(list []attribute.KeyValue) map[string]any {
	all := map[string]any{}
	for _, a := range list {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func named(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	i := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no span %s in\n%s", name, tree(spans))
	}
	return spans[i]
}

func TestSpansOfAnEpisode(t *testing.T) {
	spans := modelSpans(t, false, unchanged)
	want := `csenv.shard
  invoke_agent scripted
    csenv.step
      chat scripted
      execute_tool classify
    csenv.step
      chat scripted
      execute_tool respond
    csenv.step
      chat scripted
      execute_tool resolve
`
	if diff := cmp.Diff(want, tree(spans)); diff != "" {
		t.Error(diff)
	}
	episode := named(t, spans, "invoke_agent scripted")
	seed := only(t, ticketKind(t, offline.New()), "ticket-resolve", 1, 1)
	for planned := range seed.Shard(0) {
		if diff := cmp.Diff(map[string]any{
			"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "openai", "gen_ai.agent.name": "scripted",
			"gen_ai.conversation.id": "run-1-0-1", "gen_ai.usage.input_tokens": int64(300),
			"gen_ai.usage.output_tokens": int64(21), "csenv.episode": int64(0), "csenv.episode.seed": planned.Seed,
			"csenv.episode.attempt": int64(1), "csenv.task": "ticket-resolve", "csenv.scenario": planned.Scenario,
			"csenv.trial": int64(0), "csenv.outcome": "scored",
		}, attributes(episode.Attributes)); diff != "" {
			t.Error(diff)
		}
	}
	chat := named(t, spans, "chat scripted")
	got := attributes(chat.Attributes)
	for _, varying := range []string{"server.port", "gen_ai.request.seed"} {
		if n, _ := got[varying].(int64); n == 0 {
			t.Errorf("%s is %v", varying, got[varying])
		}
		delete(got, varying)
	}
	if diff := cmp.Diff(map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "scripted",
		"server.address": "127.0.0.1", "gen_ai.response.id": "x", "gen_ai.response.model": "scripted",
		"gen_ai.response.finish_reasons": []string{"stop"}, "gen_ai.usage.input_tokens": int64(100),
		"gen_ai.usage.output_tokens": int64(7),
	}, got); diff != "" || chat.SpanKind != trace.SpanKindClient {
		t.Error(chat.SpanKind, diff)
	}
}

// The events of an episode are its score and the points of each dimension.
func TestScoresAreEvents(t *testing.T) {
	var got []map[string]any
	for _, e := range named(t, modelSpans(t, false, unchanged), "invoke_agent scripted").Events {
		if e.Name != "gen_ai.evaluation.result" {
			t.Errorf("event %s", e.Name)
		}
		got = append(got, attributes(e.Attributes))
	}
	result := func(name string, value float64) map[string]any {
		return map[string]any{"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": value}
	}
	want := []map[string]any{result("score", 1), result("category", 0.2), result("priority", 0.1),
		result("escalation", 0.2), result("response", 0.5)}
	want[0]["gen_ai.evaluation.score.label"] = "pass"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	failed := modelSpans(t, false, func(cfg *Config, _ *scripted.Endpoint) {
		cfg.Policy = builtin(t, policy.Noop)
	})
	if got := attributes(named(t, failed, "invoke_agent scripted").Events[0].Attributes); got["gen_ai.evaluation.score.label"] !=
		"fail" {
		t.Errorf("an episode without points is %v", got)
	}
}

// What the agent and the customer say is in spans only on request, what a judge finds never is, and
// neither are keys.
func TestContentIsRecordedOnRequest(t *testing.T) {
	const credential = "the run's credential"
	for _, content := range []bool{false, true} {
		spans := modelSpans(t, content, func(cfg *Config, e *scripted.Endpoint) {
			cfg.Credential = credential
			e.Episodes = map[int64]score.PlannedEpisode{}
			for planned := range cfg.Plan.Shard(0) {
				e.Episodes[scripted.SeedOf("", planned)] = planned
			}
		})
		text := new(strings.Builder)
		for _, s := range spans {
			fmt.Fprintln(text, s.Name, s.Status, s.Attributes, s.Events)
		}
		for _, said := range []string{"You are a support agent", "subject", "I think so.", "billing"} {
			if strings.Contains(text.String(), said) != content {
				t.Errorf("with content %t, %q is in the spans: %t", content, said, !content)
			}
		}
		for _, secret := range []string{agentKey, credential, "Receipt", "criteria", "graderVersion"} {
			if strings.Contains(text.String(), secret) {
				t.Errorf("%q is in the spans", secret)
			}
		}
	}
}

// The recorded messages have the form of the semantic conventions, and each is recorded once.
func TestRecordedMessages(t *testing.T) {
	var roles []string
	for _, s := range modelSpans(t, true, unchanged) {
		for _, key := range []string{"gen_ai.input.messages", "gen_ai.output.messages"} {
			recorded, has := attributes(s.Attributes)[key].(string)
			if !has {
				continue
			}
			var messages []struct {
				Role         string
				FinishReason string `json:"finish_reason"`
				Parts        []struct {
					Type, ID, Content, Name, Response string
					Arguments                         map[string]any
				}
			}
			if err := json.Unmarshal([]byte(recorded), &messages); err != nil || len(messages) != 1 {
				t.Fatalf("%s: %v", recorded, err)
			}
			for _, m := range messages {
				for _, p := range m.Parts {
					roles = append(roles, strings.TrimSpace(m.Role+" "+p.Type+" "+p.ID+" "+p.Name))
				}
			}
		}
	}
	want := []string{"user text", "assistant text", "assistant tool_call call-1 classify",
		"tool tool_call_response call-1", "assistant text", "assistant tool_call call-2 respond",
		"tool tool_call_response call-2", "assistant text", "assistant tool_call call-3 resolve"}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Error(diff)
	}
}

// A request that fails, an action that is refused and an attempt that errors are in the trace with
// their classes, and the words of the model are not.
func TestSpansOfTrouble(t *testing.T) {
	spans := modelSpans(t, false, func(cfg *Config, e *scripted.Endpoint) {
		cfg.EpisodeAttempts = 2
		e.Trouble = within(2, 2, status(500, "oops"))
		e.Shape = func(asked scripted.Request, answer map[string]any) {
			if asked.N == 1 {
				delete(answer, "tool_calls")
				answer["content"] = "what I say"
			}
		}
		inner := cfg.Policy
		attempts := 0
		cfg.Policy = func(planned score.PlannedEpisode) (policy.Policy, error) {
			if attempts++; attempts > 1 {
				return inner(planned)
			}
			return policyFunc(func(context.Context, policy.Turn) (json.RawMessage, error) {
				return nil, errors.New("what went wrong")
			}), nil
		}
	})
	want := `csenv.shard
  invoke_agent scripted !policy_error
    csenv.step !policy_error
  invoke_agent scripted
    csenv.step
      chat scripted
      execute_tool !refused
    csenv.step
      chat scripted !500
      chat scripted
      execute_tool respond
    csenv.step
      chat scripted
      execute_tool resolve
`
	var steps []any
	for i, s := range spans {
		a := attributes(s.Attributes)
		if class, failed := a["error.type"]; failed != (s.Status.Code == codes.Error) {
			t.Errorf("%s has the status %v and the class %v", s.Name, s.Status, class)
		} else if failed {
			spans[i].Name += fmt.Sprintf(" !%v", class)
		}
		if a["csenv.refused"] != nil {
			steps = append(steps, a["csenv.step"])
		}
		if text := fmt.Sprint(s); strings.Contains(text, "what ") || strings.Contains(text, "oops") {
			t.Errorf("an error's text is in %s", text)
		}
	}
	if diff := cmp.Diff(want, tree(spans)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{int64(0)}, steps); diff != "" {
		t.Errorf("refused steps: %s", diff)
	}
}

// untraced makes all spans of an episode of five steps.
func untraced(ctx context.Context, s *shard, j job, action json.RawMessage) {
	ctx, span := s.startEpisode(ctx, j)
	for step := range 5 {
		ctx, span := startStep(ctx, step)
		tool, used := tracing.StartSpan(ctx, "execute_tool")
		s.endTool(tool, used, action, client.Observation{}, nil)
		endStep(span, nil)
	}
	recordTokens(ctx, score.Tokens{})
	s.endEpisode(span, client.Observation{}, nil)
}

func TestUntracedEpisodesAllocateNothing(t *testing.T) {
	s, ctx, action := &shard{}, t.Context(), json.RawMessage(`{"action_type":"resolve"}`)
	if n := testing.AllocsPerRun(100, func() { untraced(ctx, s, job{}, action) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
