package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tracing"
	"github.com/csenv/csenv/tasks"
)

// BenchmarkShard plays whole shards of tickets with the Heuristic policy on a server on the
// loopback interface, from instantiation to the signed ledger, and reports episodes and steps per
// second. Client and server share the machine.
func BenchmarkShard(b *testing.B) {
	kind := ticketKind(b, offline.New())
	for _, sessions := range []int{1, 100} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			_, pod := serve(b, kind, sessions)
			cfg := config(b, plan(b, kind, len(kind.Tasks()[0].Scenarios), 50, 1), policy.Heuristic, pod)
			cfg.Concurrency = sessions
			var steps atomic.Int64
			cfg.Policy = counting(cfg.Policy, &steps)
			var episodes int64
			for i := 0; b.Loop(); i++ {
				cfg.Plan.Run = fmt.Sprintf("run-%d", i)
				if _, err := Run(b.Context(), cfg); err != nil {
					b.Fatal(err)
				}
				episodes += cfg.Plan.Episodes()
			}
			b.ReportMetric(float64(episodes)/b.Elapsed().Seconds(), "episodes/s")
			b.ReportMetric(float64(steps.Load())/b.Elapsed().Seconds(), "steps/s")
		})
	}
}

// BenchmarkEpisode plays whole episodes of ticket-resolve, each ticket with several seeds, with the
// Heuristic policy on a server on the loopback interface, from instantiation to the signed ledger.
// It reports episodes per second, and what an episode allocates on both sides.
func BenchmarkEpisode(b *testing.B) {
	kind := ticketKind(b, offline.New())
	for _, sessions := range []int{1, 8} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			_, pod := serve(b, kind, sessions)
			draft := plan(b, kind, len(kind.Tasks()[0].Scenarios), 5, 1)
			draft.Tasks = slices.DeleteFunc(draft.Tasks,
				func(t score.PlanTask) bool { return t.Name != tasks.TicketResolve })
			cfg := config(b, draft, policy.Heuristic, pod)
			cfg.Concurrency = sessions
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var episodes int64
			for i := 0; b.Loop(); i++ {
				cfg.Plan.Run, cfg.Plan.Seed = fmt.Sprintf("run-%d", i), int64(i)
				if _, err := Run(b.Context(), cfg); err != nil {
					b.Fatal(err)
				}
				episodes += cfg.Plan.Episodes()
			}
			runtime.ReadMemStats(&after)
			each := func(total uint64) float64 { return float64(total) / float64(episodes) }
			b.ReportMetric(float64(episodes)/b.Elapsed().Seconds(), "episodes/s")
			b.ReportMetric(each(after.TotalAlloc-before.TotalAlloc), "B/episode")
			b.ReportMetric(each(after.Mallocs-before.Mallocs), "allocs/episode")
		})
	}
}

// counting counts the actions of a factory's policies.
func counting(factory policy.Factory, actions *atomic.Int64) policy.Factory {
	return func(planned score.PlannedEpisode) (policy.Policy, error) {
		inner, err := factory(planned)
		return policyFunc(func(ctx context.Context, turn policy.Turn) (json.RawMessage, error) {
			actions.Add(1)
			return inner.Act(ctx, turn)
		}), err
	}
}

// BenchmarkTracing plays tickets with the Heuristic policy without tracing, with tracing of which
// no episode is sampled, and with every span made and discarded. It reports the episodes per
// second, and for "off" also the part of an episode's time that the calls for its spans take.
func BenchmarkTracing(b *testing.B) {
	kind := ticketKind(b, offline.New())
	for _, tc := range []struct {
		name    string
		sampler sdktrace.Sampler
	}{{"off", nil}, {"unsampled", episodesOf(false)}, {"on", episodesOf(true)}} {
		b.Run(tc.name, func(b *testing.B) {
			_, pod := serve(b, kind, 1) // a repetition has the same runs, which a server plays once
			cfg := config(b, plan(b, kind, 40, 5, 1), policy.Heuristic, pod)
			cfg.Concurrency, cfg.Identity = 1, policy.Identity{Name: policy.Heuristic}
			ctx := b.Context()
			if tc.sampler != nil {
				provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(tc.sampler),
					sdktrace.WithBatcher(tracetest.NewNoopExporter()))
				ctx, _ = tracing.Tracer(provider).Start(ctx, tracing.SpanShard)
			}
			var episodes int64
			for i := 0; b.Loop(); i++ {
				cfg.Plan.Run = fmt.Sprintf("run-%s-%d", tc.name, i)
				if _, err := Run(ctx, cfg); err != nil {
					b.Fatal(err)
				}
				episodes += cfg.Plan.Episodes()
			}
			each := b.Elapsed() / time.Duration(episodes)
			b.ReportMetric(float64(time.Second)/float64(each), "episodes/s")
			if tc.sampler == nil {
				b.ReportMetric(100*float64(costOf(b))/float64(each), "%-of-episode")
			}
		})
	}
}

// costOf is the time that the calls for an episode's spans take without tracing.
func costOf(b *testing.B) time.Duration {
	const episodes = 100_000
	s, ctx, action := &shard{}, b.Context(), json.RawMessage(`{"action_type":"resolve"}`)
	began := time.Now()
	for range episodes {
		untraced(ctx, s, job{}, action)
	}
	return time.Since(began) / episodes
}

// episodesOf samples all episodes or none.
type episodesOf bool

func (all episodesOf) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if !all && p.Name != tracing.SpanShard {
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
}

func (episodesOf) Description() string { return "all episodes or none" }
