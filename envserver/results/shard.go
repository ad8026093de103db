package results

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// segmentEpisodes and segmentBytes are when a segment is written, and segmentInterval is when
	// one is that has less: what a crash costs at most.
	segmentEpisodes = 256
	segmentBytes    = 4 << 20
	segmentInterval = 3 * time.Second
	// maxPending bounds the bytes of records that wait to be written. What comes while so much
	// waits is dropped and counted.
	maxPending = 32 << 20
	// firstBackoff and maxBackoff are the pauses after writes that failed.
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// closeTimeout is how long Close goes on writing, stopTimeout how long where the player was
	// told to go, who is killed soon after.
	closeTimeout = time.Minute
	stopTimeout  = 10 * time.Second
	// closeGrace is how long Close waits for a write that it has told to stop.
	closeGrace = 2 * time.Second
)

// Shard takes the records of one shard that is being played and writes them in the background.
// Recording never waits for the store. It is safe for concurrent use.
type Shard struct {
	store *Store
	run   string
	index int
	log   *slog.Logger
	// receipts are those of the records that were there.
	receipts []string

	mu      sync.Mutex
	next    int // number of the next segment
	pending []line
	bytes   int
	stored  score.IndexSet
	dropped int64
	failure error

	// wake tells the writer that a segment is full, closing that it is to write what is left,
	// closed that it has ended.
	wake    chan struct{}
	closing chan struct{}
	closed  chan struct{}
	stop    context.CancelFunc
}

type line struct {
	episode int64
	text    []byte
}

// Shard opens a shard of a run for a runner: it reads what earlier runners have stored of it, and
// writes what follows behind that.
func (s *Store) Shard(ctx context.Context, run string, plan score.Plan, index int, log *slog.Logger) (*Shard, error) {
	key, err := score.ParsePublicKey(plan.LedgerKey)
	if err != nil {
		return nil, fmt.Errorf("reading the plan's ledger key: %w", err)
	}
	sh := &Shard{
		store: s, run: run, index: index, log: log, next: 1,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), closed: make(chan struct{}),
	}
	segments, err := s.segments(ctx, run, index)
	if err != nil {
		return nil, err
	}
	for _, n := range segments {
		if err := sh.read(ctx, n, plan, key); err != nil {
			return nil, err
		}
		sh.next = n + 1
	}
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	sh.stop = stop
	go sh.write(writing)
	return sh, nil
}

// read takes over what a segment holds.
func (s *Shard) read(ctx context.Context, segment int, plan score.Plan, key ed25519.PublicKey) error {
	for e, err := range s.store.segment(ctx, segmentKey(s.run, s.index, segment)) {
		switch {
		case errors.Is(err, record.ErrNotRecord):
			s.log.Warn("A stored line is no record of an episode", "shard", s.index, "error", err)
		case err != nil:
			return err
		case !s.stored.Contains(e.Index):
			s.resume(e, plan, key)
		}
	}
	return nil
}

// resume takes a stored record for done, if it holds the pool's receipt for an episode of the
// shard. Without any such record the episode is played again.
func (s *Shard) resume(e record.Episode, plan score.Plan, key ed25519.PublicKey) {
	r, err := score.VerifyReceipt(e.Receipt, key)
	ledger := score.Ledger{
		Run: plan.Run, Shard: s.index, PassScore: plan.PassScore, ScenarioDigest: plan.ScenarioDigest,
		GraderVersion: plan.GraderVersion, Judge: plan.Judge,
	}
	if err == nil {
		err = ledger.Accepts(r)
	}
	if err != nil || r.Planned.Index != e.Index {
		s.log.Info("A stored record doesn't count", "episode", e.Index, "outcome", e.Outcome, "reason", err)
		return
	}
	s.stored.Add(e.Index)
	s.receipts = append(s.receipts, e.Receipt)
}

// Receipts are the receipts of the episodes that were stored when the shard was opened.
func (s *Shard) Receipts() []string { return s.receipts }

// Record takes a record. It returns at once.
func (s *Shard) Record(e record.Episode) {
	text, err := encode(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.bytes+len(text) > maxPending {
		s.dropped++
		s.failure = orElse(err, s.failure)
		return
	}
	s.pending = append(s.pending, line{e.Index, text})
	s.bytes += len(text)
	if len(s.pending) >= segmentEpisodes || s.bytes >= segmentBytes {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// Close writes what is left, and says how many of the shard's planned episodes are stored. It gives
// up after a minute, and after ten seconds once the context has ended.
func (s *Shard) Close(ctx context.Context, planned int64) score.Stored {
	close(s.closing)
	limit := time.NewTimer(closeTimeout)
	defer limit.Stop()
	stopped := context.AfterFunc(ctx, func() { limit.Reset(stopTimeout) })
	defer stopped()
	select {
	case <-s.closed:
	case <-limit.C:
		// A volume that hangs heeds no context.
		s.stop()
		select {
		case <-s.closed:
		case <-time.After(closeGrace):
		}
	}
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := score.Stored{Episodes: s.stored.Len()}
	switch lost := s.dropped + int64(len(s.pending)); {
	case lost > 0:
		stored.Error = fmt.Sprintf("%d episodes not written: %s", lost, quoted(orElse(s.failure, errSlow)))
	case stored.Episodes < planned:
		stored.Error = fmt.Sprintf("%d episodes ended before a restart and were not yet written",
			planned-stored.Episodes)
	}
	return stored
}

// errLate is why the last segment isn't written where the store had not refused it by the end of
// Close.
var errLate = explain(context.DeadlineExceeded)

var errSlow = fmt.Errorf("the store takes less than is played, and %d bytes wait", maxPending)

// write writes segments until the shard is closed and nothing is left, or the context ends.
func (s *Shard) write(ctx context.Context) {
	defer close(s.closed)
	pause := segmentInterval
	for failed := 0; ; {
		last := s.await(ctx, pause, failed > 0)
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = s.put(ctx); err != nil {
				failed++
				s.log.Warn("A segment of results is not written", "shard", s.index, "attempt", failed, "error", err)
				break
			}
			failed = 0
		}
		if ctx.Err() != nil || last && failed == 0 {
			return
		}
		pause = segmentInterval
		if failed > 0 {
			pause = min(firstBackoff<<min(failed-1, 10), maxBackoff)
		}
	}
}

// await waits until it is time to write, and says whether the shard is being closed. After a
// failure, only the pause counts, or its being closed for the first time.
func (s *Shard) await(ctx context.Context, pause time.Duration, failed bool) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	wake := s.wake
	if failed {
		wake = nil
	}
	closing := s.closing
	if failed && s.isClosing() {
		closing = nil
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	case <-closing:
	}
	return s.isClosing()
}

func (s *Shard) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// put writes one segment of what is pending, and says whether more is.
func (s *Shard) put(ctx context.Context) (more bool, err error) {
	s.mu.Lock()
	lines, number := s.segment(), s.next
	s.mu.Unlock()
	if len(lines) == 0 {
		return false, nil
	}
	var text bytes.Buffer
	for _, l := range lines {
		text.Write(l.text)
	}
	err = s.store.create(ctx, segmentKey(s.run, s.index, number), text.Bytes())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case exists(err):
		// An earlier runner of the shard is still there, or a write went through that seemed to
		// fail: readers take one of both.
		s.next++
		return true, nil
	case err != nil && ctx.Err() != nil:
		// Close has given up: what failed before says more, where there is anything.
		s.failure = orElse(s.failure, errLate)
		return true, err
	case err != nil:
		s.failure = err
		return true, err
	}
	s.next++
	s.pending = append([]line(nil), s.pending[len(lines):]...)
	s.bytes -= text.Len()
	for _, l := range lines {
		s.stored.Add(l.episode)
	}
	return len(s.pending) > 0, nil
}

// segment is what the next segment holds, at least one line if there is any.
func (s *Shard) segment() []line {
	size := 0
	for i, l := range s.pending {
		if size += len(l.text); i > 0 && (i >= segmentEpisodes || size > segmentBytes) {
			return s.pending[:i:i]
		}
	}
	return slices.Clip(s.pending)
}
