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
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxLedgers bounds the ledgers of a server. A new one takes the place of one that nobody
	// needs (see usefulness), so that neither invented nor finished runs keep a new run out.
	maxLedgers = 4096
	// ledgerIdle is when episodes that were never fetched count as abandoned.
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
	secrets                              *poolkey.Secrets

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

// New makes the ledgers of an environment. Only runs with the secrets' credential may use them.
func New(kind episode.Kind, secrets *poolkey.Secrets) *Ledgers {
	return &Ledgers{
		secrets:        secrets,
		scenarioDigest: kind.ScenarioDigest(), graderVersion: kind.GraderVersion(), judge: kind.Judge(),
		byKey: map[Key]*ShardLedger{}, unread: map[Key]struct{}{},
	}
}

var (
	// ErrFull means that the server has no room for another ledger, while others may have.
	ErrFull = fmt.Errorf("this server has the maximum of %d ledgers, and runners have not fetched them: play the "+
		"shard on another server, or give the pool more servers", maxLedgers)
	// ErrCredential means that a request for a run's ledger is not from the run's runner.
	ErrCredential = errors.New("the run's credential is missing or wrong, which the operator gives to the run's " +
		"runners: create an EvaluationRun to evaluate an agent; to tag episodes for a run of type External, send its " +
		"name as run, without shard and episode")
)

// Admit returns ErrCredential unless the credential is the run's.
func (s *Ledgers) Admit(run, credential string) error {
	if s.secrets.AdmitsRun(run, credential) {
		return nil
	}
	return ErrCredential
}

// Open returns the ledger of an episode's shard, which it makes on first use. It refuses a wrong
// credential, another pass score, episodes of a full ledger, and with ErrFull a new ledger without
// room.
func (s *Ledgers) Open(tag protocol.RunTag) (*ShardLedger, error) {
	if err := s.Admit(tag.Run, tag.Credential); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := Key{tag.Run, tag.Shard}
	l := s.byKey[key]
	if l == nil {
		if !s.makeRoom(time.Now()) {
			return nil, ErrFull
		}
		l = s.newLedger(tag)
		s.byKey[key] = l
	}
	return l, l.accept(tag)
}

func (s *Ledgers) newLedger(tag protocol.RunTag) *ShardLedger {
	return &ShardLedger{store: s, key: Key{tag.Run, tag.Shard}, ended: map[int64]struct{}{}, sums: score.Ledger{
		Run: tag.Run, Shard: tag.Shard, PassScore: tag.PassScore,
		ScenarioDigest: s.scenarioDigest, GraderVersion: s.graderVersion, Judge: s.judge,
	}}
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

// The usefulness of a ledger, least useful first. A ledger that was fetched as it is has been
// counted, or the runner will play the shard again. A shard without an ended episode loses nothing
// with its ledger, which is made again when one ends, but its runner may be about to fetch it.
const (
	fetched = iota
	empty
	abandoned
	needed
)

func (s *Ledgers) usefulness(l *ShardLedger, now time.Time) int {
	_, unread := s.unread[l.key]
	switch {
	case len(l.ended) == 0:
		return empty
	case !unread:
		return fetched
	case now.Sub(l.touched) >= ledgerIdle:
		return abandoned
	default:
		return needed
	}
}

// makeRoom deletes the least useful ledgers above the maximum, and of these the least recently
// used. It reports false if all of them are needed.
func (s *Ledgers) makeRoom(now time.Time) bool {
	if len(s.byKey) < maxLedgers {
		return true
	}
	victim, least, touched := Key{}, needed, time.Time{}
	for key, l := range s.byKey {
		l.mu.Lock()
		if of := s.usefulness(l, now); of < least || of == least && l.touched.Before(touched) {
			victim, least, touched = key, of, l.touched
		}
		l.mu.Unlock()
	}
	if least == needed {
		return false
	}
	s.forget(victim)
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
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.current(l)
	s.unread[l.key] = struct{}{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched = time.Now()
	if e.Outcome == score.Errored {
		l.errored++
		s.errored++
		return nil, nil
	}
	if _, again := l.ended[planned.Index]; again {
		l.sums.Replayed++
		s.replayed++
		return nil, nil
	}
	if err := l.sums.Add(planned, e); err != nil {
		return nil, err
	}
	l.ended[planned.Index] = struct{}{}
	s.counted++
	// A receipt only repeats members of the sums that never change.
	return new(l.sums.Receipt(planned, e)), nil
}

// current returns the ledger that has the place of l, which may have been deleted while an episode
// was played. Then it puts l back, or counts the episode as opened in the one made since.
func (s *Ledgers) current(l *ShardLedger) *ShardLedger {
	now := s.byKey[l.key]
	switch {
	case now == nil:
		s.makeRoom(time.Now()) // without room, the table exceeds its bound by a session's ledger
		s.byKey[l.key] = l
		return l
	case now != l:
		now.mu.Lock()
		defer now.mu.Unlock()
		now.sums.Opened++
	}
	return now
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
