package openenv

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/score"
)

const (
	// ledgerGrace is how long a drained server waits for runners to fetch the last ledgers.
	ledgerGrace = 15 * time.Second
	// rolloutGrace is how long it waits for the operator, which may be restarting, to collect
	// rollouts.
	rolloutGrace = time.Minute
	// collectGrace is how long a closed server waits for that if its drain timed out.
	collectGrace = 10 * time.Second
)

// Drain refuses new sessions and waits until the running ones have ended and their ledgers and
// rollouts have been fetched, or the grace for that is over. If the context ends first, it returns
// the context's error. In the second half of the time that it has, it ends sessions between two
// episodes, because trainers keep theirs for a whole training.
func (s *Server) Drain(ctx context.Context) error {
	if until, ok := ctx.Deadline(); ok {
		half := time.AfterFunc(time.Until(until)/2, func() { s.releasing.Store(true) })
		defer half.Stop()
	}
	select {
	case <-s.sessions.drain():
	case <-ctx.Done():
		return fmt.Errorf("waiting for %d sessions to end: %w", s.sessions.countActive(), ctx.Err())
	}
	if err := s.mesh.WaitDrained(ctx); err != nil {
		return err
	}
	ended := time.Now()
	for _, last := range []struct {
		wait  func(context.Context)
		grace time.Duration
	}{{s.ledgers.WaitDrained, ledgerGrace}, {s.rollouts.WaitDrained, rolloutGrace}} {
		grace, cancel := context.WithDeadline(ctx, ended.Add(last.grace))
		last.wait(grace)
		cancel()
	}
	return ctx.Err()
}

// Close ends every session with close code 1001 and waits a few seconds for the sockets to close.
// It gives a peer what has ended of the runs' shards, so that no episode is graded again.
func (s *Server) Close() {
	s.sessions.drain()
	var closing sync.WaitGroup
	for _, session := range s.sessions.listSessions() {
		closing.Go(func() { session.end(endDrained, "the server is shutting down") })
	}
	closing.Wait()
	parcels, err := s.ledgers.GiveAway(s.cfg.LedgerKey)
	if err != nil {
		s.log.Error("The ledgers of shards can't be given to a peer", "error", err)
	}
	s.mesh.GiveParcels(context.Background(), parcels)
	s.closing.Lock()
	s.closed = true
	s.closing.Unlock()
	s.stop()
	s.running.Wait()
}

// WaitCollected waits until the rollouts of a closed server whose drain timed out have been
// collected. OpsHandler must still be served.
func (s *Server) WaitCollected(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, collectGrace)
	defer cancel()
	s.rollouts.WaitDrained(ctx)
}

// DrainReport is the result of the drain of a closed server.
func (s *Server) DrainReport() score.DrainReport {
	began, sessions := s.sessions.drainBegan()
	if began.IsZero() {
		return score.DrainReport{}
	}
	return score.DrainReport{Sessions: int64(sessions), Cut: s.metrics.cut.Load(),
		Seconds: int64(time.Since(began).Round(time.Second).Seconds())}
}

// drainBegan returns when the drain began, zero before, and the number of sessions then.
func (r *registry) drainBegan() (at time.Time, sessions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drained, r.atDrain
}
