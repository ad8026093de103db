package local

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/results"
	"github.com/csenv/csenv/envserver/score"
)

// closeTimeout bounds the writing of a shard's last episodes.
const closeTimeout = time.Minute

// kept is where a shard's episodes are stored; nil for nowhere.
type kept struct {
	shard   *results.Shard
	planned int64
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
	g.run.Status.Results = results.Join(g.Location, g.folder())
	return g.Store.WriteManifest(ctx, g.folder(), results.Manifest{Environment: g.Kind.Name(), Plan: g.plan, Agent: agent, Runner: g.Version})
}

func (g *game) folder() string { return results.Folder(g.run.Namespace, g.run.Name, string(g.run.UID)) }

func (g *game) openShard(ctx context.Context, index int) (*kept, error) {
	if g.Store == nil {
		return nil, nil
	}
	shard, err := g.Store.Shard(ctx, g.folder(), g.plan, index, g.Log)
	if err != nil {
		return nil, fmt.Errorf("reading what is stored of the run: %w", err)
	}
	k := &kept{shard: shard}
	for range g.plan.Shard(index) {
		k.planned++
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.progress.Ended += int64(len(shard.Receipts()))
	g.progress.Resumed += int64(len(shard.Receipts()))
	if g.Progress != nil {
		g.Progress(g.progress)
	}
	return k, nil
}

// receipts are those of episodes that were played before.
func (k *kept) receipts() []string {
	if k == nil {
		return nil
	}
	return k.shard.Receipts()
}

// recorder stores episodes beside what else is done with them.
func (k *kept) recorder(next func(record.Episode)) func(record.Episode) {
	if k == nil {
		return next
	}
	return func(e record.Episode) {
		k.shard.Record(e)
		next(e)
	}
}

// close writes what is left, also when the run was stopped.
func (k *kept) close(ctx context.Context) score.Stored {
	if k == nil {
		return score.Stored{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return k.shard.Close(ctx, k.planned)
}

// keep adds up what the shards have stored.
func (g *game) keep(s score.Stored) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stored.Episodes += s.Episodes
	if g.stored.Error == "" {
		g.stored.Error = s.Error
	}
}
