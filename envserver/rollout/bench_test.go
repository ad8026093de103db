package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/score"
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
