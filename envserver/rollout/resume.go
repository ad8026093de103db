package rollout

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/score"
)

// resumeAttempts is the maximum number of requests for the episodes that a server's ledger has.
const resumeAttempts = 3

// resume opens the shard's ledger on a server, sends it the receipts of episodes that other servers
// graded, and returns which episodes of the shard the ledger has. These need not be played. An
// error means that the server doesn't take the shard. If the receipts alone fail, their episodes
// are played again, which only costs time, because a ledger counts an episode once.
func (c *Config) resume(ctx context.Context, pod string) (score.IndexSet, error) {
	shard := client.Shard{Run: c.Plan.Run, Shard: c.Shard, PassScore: c.Plan.PassScore}
	for attempt := range resumeAttempts {
		ended, err := client.OpenLedger(ctx, pod, shard, c.Receipts, c.client())
		if err == nil {
			return ended, nil
		}
		c.Log.Warn("A server did not open the shard's ledger", "shard", c.Shard, "pod", pod, "receipts",
			len(c.Receipts), "attempt", attempt+1, "error", err)
		refused, answered := errors.AsType[*client.StatusError](err)
		switch {
		case answered && (refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusForbidden):
			return score.IndexSet{}, err
		case answered || c.Clock.backOff(ctx, attempt) != nil:
			return score.IndexSet{}, nil //nolint:nilerr // without the record, the episodes are played again
		}
	}
	return score.IndexSet{}, nil
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
