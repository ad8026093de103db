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
	// maxLedgers bounds the ledgers that a server keeps. The one that was touched longest ago makes
	// room for a new one, but only after ledgerIdle: anybody may begin episodes of made-up runs,
	// and must not push out the ledgers of runs that are being played.
	maxLedgers = 4096
	ledgerIdle = time.Hour
	// ledgerTTL is how long a ledger is kept after it was last touched.
	ledgerTTL = 24 * time.Hour
	// maxEnded bounds the episodes of a ledger, whose indexes are remembered so that none is
	// counted twice.
	maxEnded = 1 << 20
)

// Key names a ledger.
type Key struct {
	Run   string
	Shard int
}

// ledgers holds a ledger for each shard of each run that played here. It is safe for concurrent
// use.
type Ledgers struct {
	scenarioDigest, graderVersion, judge string

	mu    sync.Mutex
	byKey map[Key]*shardLedger
	// unread are the ledgers that changed since they were last fetched.
	unread map[Key]struct{}
	// drained is closed when somebody waits for unread to become empty and it does.
	drained chan struct{}

	counted, replayed, errored, reads int64
}

// shardLedger is the ledger of one shard.
type shardLedger struct {
	store *Ledgers
	key   Key

	mu      sync.Mutex
	sums    score.Ledger
	errored int64 // attempts that were given up
	ended   map[int64]struct{}
	touched time.Time
}

func New(kind episode.Kind) *Ledgers {
	return &Ledgers{
		scenarioDigest: kind.ScenarioDigest(), graderVersion: kind.GraderVersion(), judge: kind.Judge(),
		byKey: map[Key]*shardLedger{}, unread: map[Key]struct{}{},
	}
}

// open finds the ledger of an episode's shard, made on first use. It refuses an episode whose pass
// score is not the ledger's, any once the ledger is full, and one of a further shard while
// maxLedgers are in use.
func (s *Ledgers) Open(tag protocol.RunTag) (*shardLedger, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := Key{tag.Run, tag.Shard}
	l := s.byKey[key]
	if l == nil {
		if len(s.byKey) >= maxLedgers && !s.evictIdle(time.Now()) {
			return nil, fmt.Errorf("this server keeps the ledgers of %d shards, all used within %s, and no more: "+
				"play the shard on another server, or give the pool more servers", maxLedgers, ledgerIdle)
		}
		l = &shardLedger{store: s, key: key, ended: map[int64]struct{}{}, sums: score.Ledger{
			Run: tag.Run, Shard: tag.Shard, PassScore: tag.PassScore,
			ScenarioDigest: s.scenarioDigest, GraderVersion: s.graderVersion, Judge: s.judge,
		}}
		s.byKey[key] = l
	}
	return l, l.accept(tag)
}

func (l *shardLedger) accept(tag protocol.RunTag) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched = time.Now()
	if tag.PassScore != l.sums.PassScore {
		return fmt.Errorf("run %s, shard %d has the pass score %d: one run has one pass_score, not %d", tag.Run,
			tag.Shard, l.sums.PassScore, tag.PassScore)
	}
	if len(l.ended) >= maxEnded {
		return fmt.Errorf("the ledger of run %s, shard %d is full with %d episodes: use more shards", tag.Run,
			tag.Shard, len(l.ended))
	}
	return nil
}

// evictIdle forgets the ledger that was touched longest ago, unless that was within ledgerIdle.
func (s *Ledgers) evictIdle(now time.Time) bool {
	var oldest *shardLedger
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

// expire forgets the ledgers that nobody has touched for ledgerTTL.
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

// read notes that nobody needs to fetch the ledger as it stands.
func (s *Ledgers) read(key Key) {
	delete(s.unread, key)
	if s.drained != nil && len(s.unread) == 0 {
		close(s.drained)
		s.drained = nil
	}
}

func (l *shardLedger) lastTouched() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.touched
}

// begin counts an episode that was opened.
func (l *shardLedger) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sums.Opened++
	l.touched = time.Now()
}

// finish counts the end of an episode: once in the figures, and after that as replayed. An errored
// episode is in no figure. What went into the figures has a receipt; who plays an episode again on
// this pod gets none, and so can't choose among this pod's ends. Another pod of the pool knows
// nothing of them, and would sign its own.
func (l *shardLedger) Finish(planned score.PlannedEpisode, e score.Episode) (*score.Receipt, error) {
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
	// What a receipt repeats of the sums never changes.
	return new(l.sums.Receipt(planned, e)), nil
}

func (l *shardLedger) giveUp() {
	l.mu.Lock()
	l.errored++
	l.mu.Unlock()
	l.store.count(&l.store.errored, l.key)
}

func (l *shardLedger) add(planned score.PlannedEpisode, e score.Episode) (fresh bool, err error) {
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

// ErrNoLedger means that no episode of the shard was begun here, or too long ago.
var ErrNoLedger = errors.New("no episode of this run and shard was played here")

// sign signs a ledger as it stands.
func (s *Ledgers) Sign(key Key, private ed25519.PrivateKey) (score.SignedLedger, error) {
	s.mu.Lock()
	l := s.byKey[key]
	s.mu.Unlock()
	if l == nil {
		return score.SignedLedger{}, ErrNoLedger
	}
	return l.sign(private)
}

func (l *shardLedger) sign(private ed25519.PrivateKey) (score.SignedLedger, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched = time.Now()
	return l.sums.Sign(private)
}

// fetched notes that a signed ledger has reached whoever asked for it.
func (s *Ledgers) Fetched(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	s.read(key)
}

// settle waits until every ledger has been fetched since it last changed, or the context ends.
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

// Figures are the counters that the metrics show.
type Figures struct {
	Open                              int
	Counted, Replayed, Errored, Reads int64
}

func (s *Ledgers) Figures() Figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Figures{Open: len(s.byKey), Counted: s.counted, Replayed: s.replayed, Errored: s.errored,
		Reads: s.reads}
}
