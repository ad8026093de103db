package shard

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/csenv/csenv/envserver/results"
	"github.com/csenv/csenv/envserver/rollout"
	"github.com/csenv/csenv/envserver/score"
)

// openAttempts is the number of attempts to open a store.
const openAttempts = 3

// store stores the shard's episodes in --results, and resumes from the stored ones. After the shard
// was played, the returned function reports what is stored. A failure of the store never stops a
// runner.
func store(ctx context.Context, cfg *rollout.Config, o options, log *slog.Logger) func(context.Context) score.Stored {
	if o.results == "" {
		return func(context.Context) score.Stored { return score.Stored{} }
	}
	shard, err := openStore(ctx, cfg, o, log)
	for attempt := 1; err != nil && attempt < openAttempts && ctx.Err() == nil; attempt++ {
		log.Warn("The results can't be stored yet", "attempt", attempt, "error", err)
		if cfg.Clock.Sleep(ctx, time.Duration(attempt)*time.Second) == nil {
			shard, err = openStore(ctx, cfg, o, log)
		}
	}
	if err != nil {
		log.Error("The results are not stored", "error", err)
		return func(context.Context) score.Stored { return score.Stored{Error: err.Error()} }
	}
	cfg.Receipts, cfg.Tokens, cfg.Record = shard.Receipts(), shard.Tokens(), shard.Record
	return func(ctx context.Context) score.Stored {
		stored := shard.Close(ctx, planned(cfg.Plan, cfg.Shard))
		log.Info("Stored", "shard", cfg.Shard, "episodes", stored.Episodes, "error", stored.Error)
		return stored
	}
}

func openStore(ctx context.Context, cfg *rollout.Config, o options, log *slog.Logger) (*results.Shard, error) {
	s, err := results.Open(ctx, o.results)
	if err != nil {
		return nil, err
	}
	manifest := results.Manifest{Environment: cfg.Environment, Plan: cfg.Plan, Agent: []byte(o.agent),
		Limits: []byte(o.limits), Runner: version}
	if err := s.WriteManifest(ctx, "", manifest); err != nil {
		return nil, err
	}
	shard, err := s.Shard(ctx, "", cfg.Plan, cfg.Shard, log)
	if err != nil {
		return nil, fmt.Errorf("reading what is stored of the shard: %w", err)
	}
	return shard, nil
}

func planned(plan score.Plan, shard int) int64 {
	var n int64
	for range plan.Shard(shard) {
		n++
	}
	return n
}
