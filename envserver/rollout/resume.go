package rollout

import (
	"context"
	"errors"
	"slices"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/score"
)

// resumeAttempts is the maximum number of requests for the episodes that a server's ledger has.
const resumeAttempts = 3

// resume sends the server the receipts of episodes that other servers graded, and returns which
// episodes of the shard its ledger has. These need not be played. If the request fails they are
// played again, which only costs time, because a ledger counts an episode once.
func (c *Config) resume(ctx context.Context, pod string) score.IndexSet {
	for attempt := range resumeAttempts {
		ended, err := client.SendReceipts(ctx, pod, c.Plan.Run, c.Shard, c.Receipts, c.client())
		if err == nil {
			return ended
		}
		c.Log.Warn("The episodes in a server's ledger could not be read", "shard", c.Shard, "pod", pod, "receipts",
			len(c.Receipts), "attempt", attempt+1, "error", err)
		_, refused := errors.AsType[*client.StatusError](err)
		if refused || c.Clock.backOff(ctx, attempt) != nil {
			break
		}
	}
	return score.IndexSet{}
}

// skip removes episodes that have ended from the queue.
func (s *shard) skip(ended score.IndexSet) {
	s.queue = slices.DeleteFunc(s.queue, func(j job) bool { return ended.Contains(j.episode.Index) })
	s.ended = s.planned - int64(len(s.queue))
	if s.ended > 0 {
		s.Log.Info("Continuing", "shard", s.Shard, "of", s.Plan.Shards, "pod", s.pod, "ended", s.ended, "episodes",
			s.planned)
	}
}
