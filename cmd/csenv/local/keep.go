package local

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"

	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/results"
	"github.com/csenv/csenv/envserver/score"
)

// kept is where a shard's episodes are stored.
type kept struct {
	// shard is nil if they are not stored, which lost reports.
	shard   *results.Shard
	planned int64
	lost    score.Stored
}

// openStore writes the run's manifest, before the first shard.
func (g *game) openStore(ctx context.Context) error {
	if g.Store == nil {
		return nil
	}
	config, err := AgentConfig(g.run.Spec.Agent)
	if err != nil {
		return err
	}
	agent, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("writing the agent: %w", err)
	}
	limits, err := json.Marshal(evaluation.LimitsOf(g.run))
	if err != nil {
		return fmt.Errorf("writing the limits: %w", err)
	}
	g.run.Status.Results = results.Join(g.Location, g.folder())
	return g.Store.WriteManifest(ctx, g.folder(), results.Manifest{Environment: g.Kind.Name(), Plan: g.plan,
		Agent: agent, Limits: limits, Runner: g.Version})
}

func (g *game) folder() string { return results.Folder(g.run.Namespace, g.run.Name, string(g.run.UID)) }

// openShard opens a shard of the store. A shard that can't be read is played from its start and not
// stored.
func (g *game) openShard(ctx context.Context, index int) kept {
	if g.Store == nil {
		return kept{}
	}
	shard, err := g.Store.Shard(ctx, g.folder(), g.plan, index, g.Log)
	if err != nil {
		g.Log.Warn("A shard is not stored", "shard", index, "error", err)
		return kept{lost: score.Stored{Error: err.Error()}}
	}
	k := kept{shard: shard}
	for range g.plan.Shard(index) {
		k.planned++
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.progress.Ended += int64(len(shard.Receipts()))
	g.progress.Resumed += int64(len(shard.Receipts()))
	g.used.Add(shard.Tokens())
	for _, receipt := range shard.Receipts() {
		r, err := score.VerifyReceipt(receipt, g.LedgerKey.Public().(ed25519.PublicKey))
		if err != nil {
			continue // the shard has verified it
		}
		g.progress.Scored++
		g.progress.Scores += r.Episode.Score
	}
	if g.Progress != nil {
		g.Progress(g.progress)
	}
	return k
}

// receipts returns those of the stored episodes.
func (k kept) receipts() []string {
	if k.shard == nil {
		return nil
	}
	return k.shard.Receipts()
}

// tokens are those of the stored episodes.
func (k kept) tokens() score.Tokens {
	if k.shard == nil {
		return score.Tokens{}
	}
	return k.shard.Tokens()
}

// recorder stores episodes before it passes them on.
func (k kept) recorder(next func(record.Episode)) func(record.Episode) {
	if k.shard == nil {
		return next
	}
	return func(e record.Episode) {
		k.shard.Record(e)
		next(e)
	}
}

// close writes the remaining episodes, even if the run was stopped.
func (k kept) close(ctx context.Context) score.Stored {
	if k.shard == nil {
		return k.lost
	}
	return k.shard.Close(ctx, k.planned)
}

// keep adds up the stored episodes of the shards.
func (g *game) keep(s score.Stored) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stored.Episodes += s.Episodes
	if g.stored.Error == "" {
		g.stored.Error = s.Error
	}
}
