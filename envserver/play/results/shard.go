package results

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// A segment is written when it has segmentEpisodes or segmentBytes, or after segmentInterval. A
	// crash loses at most one segment.
	segmentEpisodes = 256
	segmentBytes    = 4 << 20
	segmentInterval = 3 * time.Second
	// maxPending bounds the bytes of records that wait to be written. Further records are dropped
	// and counted.
	maxPending = 32 << 20
	// firstBackoff and maxBackoff are the pauses after writes that failed.
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// closeTimeout bounds the writing in Close, stopTimeout that after a stop signal, because the
	// process is killed soon after.
	closeTimeout = time.Minute
	stopTimeout  = 10 * time.Second
	// closeGrace is how long Close waits for a write that it has cancelled.
	closeGrace = 2 * time.Second
)

// Shard writes the records of one shard in the background while it is played. Recording never waits
// for the store. It is safe for concurrent use.
type Shard struct {
	store *Store
	run   string
	index int
	log   *slog.Logger
	// receipts and tokens belong to the records that were already stored. errored are the ids of
	// the errored ones.
	receipts []string
	tokens   score.Tokens
	errored  map[string]bool

	mu      sync.Mutex
	next    int // number of the next segment
	pending []line
	bytes   int
	stored  score.IndexSet
	dropped int64
	failure error

	// wake signals that a segment is full, closing that the writer has to write the rest, closed
	// that it has ended.
	wake    chan struct{}
	closing chan struct{}
	closed  chan struct{}
	stop    context.CancelFunc
}

type line struct {
	episode int64
	text    []byte
}

// Shard opens a shard of a run for a runner: it reads the episodes that earlier runners have
// stored, and writes segments after theirs.
func (s *Store) Shard(ctx context.Context, run string, plan score.Plan, index int, log *slog.Logger) (*Shard, error) {
	key, err := score.ParsePublicKey(plan.LedgerKey)
	if err != nil {
		return nil, fmt.Errorf("reading the plan's ledger key: %w", err)
	}
	sh := &Shard{
		store: s, run: run, index: index, log: log, next: 1, errored: map[string]bool{},
		wake: make(chan struct{}, 1), closing: make(chan struct{}), closed: make(chan struct{}),
	}
	segments, err := s.listSegments(ctx, run, index)
	if err != nil {
		return nil, err
	}
	for _, segment := range segments {
		if err := sh.readSegments(ctx, segment, plan, key); err != nil {
			return nil, err
		}
		sh.next = segment.Number + 1
	}
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	sh.stop = stop
	go sh.writeSegments(writing)
	return sh, nil
}

// readSegments reads the episodes of a stored segment.
func (s *Shard) readSegments(ctx context.Context, segment Segment, plan score.Plan, key ed25519.PublicKey) error {
	for e, err := range s.store.Segment(ctx, s.run, segment) {
		switch {
		case errors.Is(err, record.ErrNotRecord):
			s.log.Warn("A stored line is not a record of an episode", "shard", s.index, "error", err)
		case err != nil:
			return err
		case !s.stored.Contains(e.Index):
			s.resumeSegment(e, plan, key)
		}
	}
	return nil
}

// resumeSegment counts a stored record as done if it has a valid receipt for an episode of the
// shard. Without such a record the episode is played again.
func (s *Shard) resumeSegment(e record.Episode, plan score.Plan, key ed25519.PublicKey) {
	if score.IsSealed(e.Receipt) { // the pool verifies it
		s.stored.Add(e.Index)
		s.receipts = append(s.receipts, e.Receipt)
		s.addTokens(e)
		return
	}
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
		if e.Outcome == score.Errored && !s.errored[e.EpisodeID] {
			s.errored[e.EpisodeID] = true
			s.addTokens(e)
		}
		return
	}
	s.stored.Add(e.Index)
	s.receipts = append(s.receipts, e.Receipt)
	s.addTokens(e)
}

func (s *Shard) addTokens(e record.Episode) {
	if e.Tokens != nil {
		s.tokens.Add(*e.Tokens)
	}
}

// Tokens are the tokens of the episodes that were stored when the shard was opened, errored ones
// included, which are played again.
func (s *Shard) Tokens() score.Tokens { return s.tokens }

// Receipts are the receipts of the episodes that were stored when the shard was opened.
func (s *Shard) Receipts() []string { return s.receipts }

// Record queues a record for writing. It returns at once.
func (s *Shard) Record(e record.Episode) {
	text, err := encodeRecord(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.bytes+len(text) > maxPending {
		s.dropped++
		s.failure = cmp.Or(err, s.failure)
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

// encodeRecord writes a record as a line that can be read again.
func encodeRecord(e record.Episode) ([]byte, error) {
	var line bytes.Buffer
	err := record.NewWriter(&line).Write(e)
	if err == nil && line.Len() > record.MaxLine {
		err = fmt.Errorf("the record of episode %d has %d bytes, more than the maximum of %d", e.Index, line.Len(),
			record.MaxLine)
	}
	return line.Bytes(), err
}

// Close writes the remaining records, and reports how many of the shard's planned episodes are
// stored. It gives up after a minute, or ten seconds after the context has ended.
func (s *Shard) Close(ctx context.Context, planned int64) score.Stored {
	close(s.closing)
	limit := time.NewTimer(closeTimeout)
	defer limit.Stop()
	stopped := context.AfterFunc(ctx, func() { limit.Reset(stopTimeout) })
	defer stopped()
	select {
	case <-s.closed:
	case <-limit.C:
		// A write to a volume that hangs ignores its context.
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
		stored.Error = fmt.Sprintf("%d episodes not written: %s", lost, clipError(cmp.Or(s.failure, errSlow)))
	case stored.Episodes < planned:
		stored.Error = fmt.Sprintf("%d episodes ended before a restart and were not yet written",
			planned-stored.Episodes)
	}
	return stored
}

// clipError shortens an error for a summary.
func clipError(err error) string {
	text := cmp.Or(err, errors.New("unknown")).Error()
	return strings.ToValidUTF8(text[:min(len(text), 4*score.MaxStoreError)], "")
}

// errLate is the error if the store has not replied by the end of Close.
var errLate = explainError(context.DeadlineExceeded)

var errSlow = fmt.Errorf("the store is slower than the shard is played, and %d bytes wait", maxPending)

// writeSegments writes segments until the shard is closed and all records are written, or the
// context ends.
func (s *Shard) writeSegments(ctx context.Context) {
	defer close(s.closed)
	pause := segmentInterval
	for failed := 0; ; {
		last := s.awaitWrites(ctx, pause, failed > 0)
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = s.writeSegment(ctx); err != nil {
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

// awaitWrites waits until a segment has to be written, and reports whether the shard is being
// closed. After a failure it waits for the pause, or until the shard is closed for the first time.
func (s *Shard) awaitWrites(ctx context.Context, pause time.Duration, failed bool) bool {
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

// writeSegment writes one segment of the pending records, and reports whether more are pending.
func (s *Shard) writeSegment(ctx context.Context) (more bool, err error) {
	s.mu.Lock()
	lines, number := s.nextSegment(), s.next
	s.mu.Unlock()
	if len(lines) == 0 {
		return false, nil
	}
	var text bytes.Buffer
	for _, l := range lines {
		text.Write(l.text)
	}
	err = s.store.createObject(ctx, segmentKey(s.run, s.index, number), text.Bytes())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isAlreadyExists(err):
		// An earlier runner of the shard is still running, or a write succeeded that seemed to
		// fail. Readers take one record of each episode.
		s.next++
		return true, nil
	case err != nil && ctx.Err() != nil:
		// Close has given up: an earlier failure says more.
		s.failure = cmp.Or(s.failure, errLate)
		return true, err
	case err != nil:
		s.failure = err
		return true, err
	}
	s.next++
	s.pending = slices.Clone(s.pending[len(lines):])
	s.bytes -= text.Len()
	for _, l := range lines {
		s.stored.Add(l.episode)
	}
	return len(s.pending) > 0, nil
}

// nextSegment returns the lines of the next segment, at least one if there is any.
func (s *Shard) nextSegment() []line {
	size := 0
	for i, l := range s.pending {
		if size += len(l.text); i > 0 && (i >= segmentEpisodes || size > segmentBytes) {
			return s.pending[:i:i]
		}
	}
	return slices.Clip(s.pending)
}
