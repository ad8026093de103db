package rollout

import (
	"context"
	"errors"
	"slices"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/score"
)

// resumeAttempts is how often a pod is asked what it has of the shard.
const resumeAttempts = 3

// resume hands the pod the receipts of episodes that other pods graded, and returns which episodes
// of the shard its ledger has: those need not be played. When that fails they are played again,
// which costs time alone: a ledger counts an episode once.
func (c *Config) resume(ctx context.Context, pod string) score.IndexSet {
	for attempt := range resumeAttempts {
		ended, err := client.SendReceipts(ctx, pod, c.Plan.Run, c.Shard, c.Receipts, c.client())
		if err == nil {
			return ended
		}
		c.Log.Warn("A pod doesn't tell what it has of the shard", "shard", c.Shard, "pod", pod, "receipts",
			len(c.Receipts), "attempt", attempt+1, "error", err)
		_, refused := errors.AsType[*client.StatusError](err)
		if refused || c.Clock.backOff(ctx, attempt) != nil {
			break
		}
	}
	return score.IndexSet{}
}

// skip takes episodes that have ended off the queue.
func (s *shard) skip(ended score.IndexSet) {
	s.queue = slices.DeleteFunc(s.queue, func(j job) bool { return ended.Contains(j.episode.Index) })
	s.settled = s.planned - int64(len(s.queue))
	if s.settled > 0 {
		s.Log.Info("Going on", "shard", s.Shard, "of", s.Plan.Shards, "pod", s.pod, "ended", s.settled, "episodes",
			s.planned)
	}
}
