package ledger

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxLedgers bounds the ledgers of a server. The least recently used one is deleted for a new
	// one, but only after ledgerIdle: any client may invent runs, which must not evict those of
	// active runs.
	maxLedgers = 4096
	ledgerIdle = time.Hour
	// ledgerTTL is how long an unused ledger is kept.
	ledgerTTL = 24 * time.Hour
	// maxEnded bounds the episodes of a ledger, which stores their indexes to count none twice.
	maxEnded = 1 << 20
)

// Key names a ledger.
type Key struct {
	Run   string
	Shard int
}

// Ledgers has the ledgers of all shards that were played here. It is safe for concurrent use.
type Ledgers struct {
	scenarioDigest, graderVersion, judge string

	mu    sync.Mutex
	byKey map[Key]*ShardLedger
	// unread has the ledgers that changed since they were last fetched.
	unread map[Key]struct{}
	// drained is closed when unread becomes empty while WaitDrained waits.
	drained chan struct{}

	counted, replayed, errored, reads int64
}

// ShardLedger is the ledger of one shard.
type ShardLedger struct {
	store *Ledgers
	key   Key

	mu      sync.Mutex
	sums    score.Ledger
	errored int64 // attempts that were given up
	ended   map[int64]struct{}
	touched time.Time
}

// New makes the ledgers of an environment.
func New(kind episode.Kind) *Ledgers {
	return &Ledgers{
		scenarioDigest: kind.ScenarioDigest(), graderVersion: kind.GraderVersion(), judge: kind.Judge(),
		byKey: map[Key]*ShardLedger{}, unread: map[Key]struct{}{},
	}
}

// Open returns the ledger of an episode's shard, which it makes on first use. It refuses another
// pass score, episodes of a full ledger, and further shards while maxLedgers are in use.
func (s *Ledgers) Open(tag protocol.RunTag) (*ShardLedger, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := Key{tag.Run, tag.Shard}
	l := s.byKey[key]
	if l == nil {
		if len(s.byKey) >= maxLedgers && !s.evictIdle(time.Now()) {
			return nil, fmt.Errorf("this server has the maximum of %d ledgers, all used within %s: play the shard "+
				"on another server, or give the pool more servers", maxLedgers, ledgerIdle)
		}
		l = &ShardLedger{store: s, key: key, ended: map[int64]struct{}{}, sums: score.Ledger{
			Run: tag.Run, Shard: tag.Shard, PassScore: tag.PassScore,
			ScenarioDigest: s.scenarioDigest, GraderVersion: s.graderVersion, Judge: s.judge,
		}}
		s.byKey[key] = l
	}
	return l, l.accept(tag)
}

func (l *ShardLedger) accept(tag protocol.RunTag) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched = time.Now()
	if tag.PassScore != l.sums.PassScore {
		return fmt.Errorf("run %s, shard %d has pass_score %d, not %d: send the same pass_score with all its episodes",
			tag.Run, tag.Shard, l.sums.PassScore, tag.PassScore)
	}
	if len(l.ended) >= maxEnded {
		return l.fullError()
	}
	return nil
}

func (l *ShardLedger) fullError() error {
	return fmt.Errorf("the ledger of run %s, shard %d is full with %d episodes: use more shards", l.key.Run,
		l.key.Shard, len(l.ended))
}

// evictIdle deletes the least recently used ledger, unless it was used within ledgerIdle.
func (s *Ledgers) evictIdle(now time.Time) bool {
	var oldest *ShardLedger
	for _, l := range s.byKey {
		if oldest == nil || l.lastTouched().Before(oldest.lastTouched()) {
			oldest = l
		}
	}
	if now.Sub(oldest.lastTouched()) < ledgerIdle {
		return false
	}
	s.forget(oldest.key)
	return true
}

// Expire deletes ledgers that were not used for ledgerTTL.
func (s *Ledgers) Expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, l := range s.byKey {
		if now.Sub(l.lastTouched()) >= ledgerTTL {
			s.forget(key)
		}
	}
}

func (s *Ledgers) forget(key Key) {
	delete(s.byKey, key)
	s.read(key)
}

// read records that the ledger has been fetched as it is.
func (s *Ledgers) read(key Key) {
	delete(s.unread, key)
	if s.drained != nil && len(s.unread) == 0 {
		close(s.drained)
		s.drained = nil
	}
}

func (l *ShardLedger) lastTouched() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.touched
}

// Begin counts an episode that was opened.
func (l *ShardLedger) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sums.Opened++
	l.touched = time.Now()
}

// Finish counts the end of an episode in the figures or, if it was counted before, as replayed.
// Errored episodes are not in the figures. Only counted episodes get a receipt, so that a client
// can't choose among several results.
func (l *ShardLedger) Finish(planned score.PlannedEpisode, e score.Episode) (*score.Receipt, error) {
	if e.Outcome == score.Errored {
		l.giveUp()
		return nil, nil
	}
	fresh, err := l.add(planned, e)
	switch {
	case err != nil:
		return nil, err
	case fresh:
		l.store.count(&l.store.counted, l.key)
	default:
		l.store.count(&l.store.replayed, l.key)
		return nil, nil
	}
	// A receipt only repeats members of the sums that never change.
	return new(l.sums.Receipt(planned, e)), nil
}

func (l *ShardLedger) giveUp() {
	l.mu.Lock()
	l.errored++
	l.mu.Unlock()
	l.store.count(&l.store.errored, l.key)
}

func (l *ShardLedger) add(planned score.PlannedEpisode, e score.Episode) (fresh bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched = time.Now()
	if _, again := l.ended[planned.Index]; again {
		l.sums.Replayed++
		return false, nil
	}
	if err := l.sums.Add(planned, e); err != nil {
		return false, err
	}
	l.ended[planned.Index] = struct{}{}
	return true, nil
}

// count adds to a counter and marks the ledger as changed, if it is still kept.
func (s *Ledgers) count(counter *int64, key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*counter++
	if s.byKey[key] != nil {
		s.unread[key] = struct{}{}
	}
}

// ErrNoLedger means that no episode of the shard was begun here, or its ledger has expired.
var ErrNoLedger = errors.New("no episode of this run and shard was played here")

// find returns a ledger, nil for none.
func (s *Ledgers) find(key Key) *ShardLedger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}

// Sign signs the current state of a ledger.
func (s *Ledgers) Sign(key Key, private ed25519.PrivateKey) (score.SignedLedger, error) {
	l := s.find(key)
	if l == nil {
		return score.SignedLedger{}, ErrNoLedger
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched = time.Now()
	return l.sums.Sign(private)
}

// Fetched records that a signed ledger was sent.
func (s *Ledgers) Fetched(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	s.read(key)
}

// WaitDrained waits until every changed ledger has been fetched, or the context ends.
func (s *Ledgers) WaitDrained(ctx context.Context) {
	s.mu.Lock()
	if len(s.unread) == 0 {
		s.mu.Unlock()
		return
	}
	if s.drained == nil {
		s.drained = make(chan struct{})
	}
	drained := s.drained
	s.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
}

// Figures are the values of the metrics.
type Figures struct {
	Open                              int
	Counted, Replayed, Errored, Reads int64
}

// Figures returns the current figures.
func (s *Ledgers) Figures() Figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Figures{Open: len(s.byKey), Counted: s.counted, Replayed: s.replayed, Errored: s.errored, Reads: s.reads}
}
