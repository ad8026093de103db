package ledger

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxLedgers bounds the ledgers of a server. A new one takes the place of one that nobody
	// needs (see usefulness), or of one of the namespace or the run that has most.
	maxLedgers = 4096
	// ledgerIdle is when episodes that were never fetched count as abandoned.
	ledgerIdle = time.Hour
	// ledgerTTL is how long an unused ledger of a run without a plan is kept.
	ledgerTTL = 24 * time.Hour
	// maxEnded bounds the episodes of a ledger of a run without a plan, which stores their indexes.
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
	// catalogue has the sorted ids of all scenarios, runsOnly refuses runs without a plan.
	catalogue []string
	runsOnly  bool

	mu    sync.Mutex
	byKey map[Key]*ShardLedger
	// runs has every run that has a ledger, and every planned run. shares counts what each
	// namespace uses, and remembered is about the size of all runs in bytes.
	runs       map[string]*run
	shares     map[string]*share
	remembered int64
	// order has the shares with ledgers, the one that loses a ledger first at the top.
	order queue[*share]
	// parcels are of shards whose plan is unknown here, for the peer that plays them next.
	parcels map[Key]Parcel
	// unread is the number of ledgers that changed since they were last fetched.
	unread int
	// drained is closed when unread becomes empty while WaitDrained waits.
	drained chan struct{}

	counted, replayed, errored, reads int64
}

// ShardLedger is the ledger of one shard.
type ShardLedger struct {
	store *Ledgers
	key   Key
	run   *run
	// The store's lock guards these: when the ledger was last used, whether it has changed since it
	// was last fetched, its usefulness and its place in the run's queue.
	touched time.Time
	unread  bool
	use     usefulness
	place   int

	mu   sync.Mutex
	sums score.Ledger
	// ended are the episodes in the sums of a run without a plan. Those of a planned run are the
	// ended ones of the run, without lost: these ended before this ledger was made, and are not in
	// its sums.
	ended, lost map[int64]struct{}
	used        score.Tokens // as the shard's runners report
}

// New makes the ledgers of an environment. Only runs with the secrets' credential may use them, and
// with runsOnly only the shards of a plan.
func New(kind episode.Kind, secrets *poolkey.Secrets, runsOnly bool) *Ledgers {
	return &Ledgers{
		secrets: secrets, catalogue: listScenarios(kind), runsOnly: runsOnly,
		scenarioDigest: kind.ScenarioDigest(), graderVersion: kind.GraderVersion(), judge: kind.Judge(),
		byKey: map[Key]*ShardLedger{}, runs: map[string]*run{}, shares: map[string]*share{},
		parcels: map[Key]Parcel{},
	}
}

// listScenarios returns the sorted ids of all scenarios.
func listScenarios(kind episode.Kind) []string {
	var ids []string
	for _, task := range kind.Tasks() {
		for _, scenario := range task.Scenarios {
			ids = append(ids, scenario.ID)
		}
	}
	slices.Sort(ids)
	return slices.Clip(slices.Compact(ids))
}

var (
	// ErrEnded means that an episode has ended, here or on another server of the pool.
	ErrEnded = errors.New("this episode of the run has ended before, and an episode is graded once: the ledger of " +
		"its shard has its score")
	// ErrNoPlan means that a server doesn't know the plan of a run, or that it has not taken the
	// shard over, or that a peer has.
	ErrNoPlan = errors.New("this server doesn't know the run's plan, or no longer has the shard's ledger: send the " +
		"plan with POST /ledger first")
	// ErrTaken means that a peer has asked for a shard while this server did.
	ErrTaken = errors.New("another request or server of the pool has taken the shard meanwhile: send this one again")
	// ErrSilent means that a peer that may have a shard's ledger doesn't answer.
	ErrSilent = errors.New("a server of the pool that may be playing the shard doesn't answer: send this request " +
		"again")
	errSuperseded = fmt.Errorf("another runner of the shard has begun since: %w", ErrNoPlan)
	// ErrFull means that the server has no room for another ledger, while others may have.
	ErrFull = fmt.Errorf("this server has no room for another run or shard of this namespace: it has %d ledgers at "+
		"most that runners have not fetched, and remembers runs for a day: play the shard on another server, or give "+
		"the pool more servers", maxLedgers)
	// ErrCredential means that a request for a run's ledger is not from the run's runner.
	ErrCredential = errors.New("the run's credential is missing or wrong, which the operator gives to the run's " +
		"runners: create an EvaluationRun to evaluate an agent; to tag episodes for a run of type External, send its " +
		"name as run, without shard and episode")
	// errOldCredential means that a credential names no plan, on a server that plays plans only.
	errOldCredential = fmt.Errorf("%w: this one is of an earlier release and names no plan, with which nobody may "+
		"play here (access.play of the pool is RunsOnly): create the run again", ErrCredential)
)

// Admit returns ErrCredential unless the credential is the run's, and else what it is for. The
// plan's fingerprint is "" for a run that may play without a plan.
func (s *Ledgers) Admit(run, credential string) (poolkey.Grant, error) {
	grant, admitted := s.secrets.AdmitsRun(run, credential)
	switch {
	case !admitted:
		return grant, ErrCredential
	case grant.Plan == "" && s.runsOnly:
		return grant, errOldCredential
	}
	return grant, nil
}

// Open returns the ledger of an episode's shard. It makes a run's without a plan on first
// use. It refuses a wrong credential, an episode that isn't the plan's, with ErrEnded one that has
// ended, with ErrNoPlan a run whose plan is unknown here, another pass score, and with ErrFull a
// new ledger without room.
func (s *Ledgers) Open(tag protocol.RunTag, planned score.PlannedEpisode) (*ShardLedger, error) {
	grant, err := s.Admit(tag.Run, tag.Credential)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[tag.Run]
	if grant.Plan != "" && (r == nil || r.fingerprint != grant.Plan) {
		return nil, ErrNoPlan
	}
	if err := r.checkEpisode(planned, tag.Shard); err != nil {
		return nil, err
	}
	if !r.playsShard(tag.Shard) {
		return nil, ErrNoPlan
	}
	if r != nil && tag.Turn != 0 && tag.Turn != r.holds[tag.Shard].turn {
		return nil, errSuperseded
	}
	l, err := s.openLedger(tag, r)
	if err == nil && l.isLost(planned.Index) {
		return nil, ErrEnded
	}
	return l, err
}

// openLedger returns the ledger of a tag, which it makes on first use. The run is nil if it is new.
func (s *Ledgers) openLedger(tag protocol.RunTag, r *run) (*ShardLedger, error) {
	key := Key{tag.Run, tag.Shard}
	l := s.byKey[key]
	if l == nil {
		l = s.newLedger(tag, r)
		if !s.makeRoom(l.run) {
			return nil, ErrFull
		}
		s.putLedger(l)
	}
	return l, l.acceptTag(tag)
}

// putLedger stores a ledger that has no place.
func (s *Ledgers) putLedger(l *ShardLedger) {
	if s.runs[l.key.Run] == nil {
		s.storeRun(l.key.Run, l.run) // it was forgotten while the episode of a session was played, or is new
	}
	l.run.share = s.shareOf(l.run.share.namespace)
	s.byKey[l.key] = l
	s.chargeShare(l.run.share, 1, 0)
	s.touchLedger(l)
}

func (s *Ledgers) newLedger(tag protocol.RunTag, r *run) *ShardLedger {
	if r == nil {
		r = &run{share: s.shareOf("")}
	}
	return &ShardLedger{store: s, key: Key{tag.Run, tag.Shard}, run: r, ended: map[int64]struct{}{},
		lost: r.listEnded(tag.Shard), sums: score.Ledger{
			Run: tag.Run, Shard: tag.Shard, PassScore: tag.PassScore,
			ScenarioDigest: s.scenarioDigest, GraderVersion: s.graderVersion, Judge: s.judge,
		}}
}

func (l *ShardLedger) acceptTag(tag protocol.RunTag) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store.touchLedger(l)
	if tag.PassScore != l.sums.PassScore {
		return fmt.Errorf("run %s, shard %d has pass_score %d, not %d: send the same pass_score with all its episodes",
			tag.Run, tag.Shard, l.sums.PassScore, tag.PassScore)
	}
	if len(l.ended) >= maxEnded {
		return l.fullError()
	}
	return nil
}

// hasCounted reports whether an episode is in the sums.
func (l *ShardLedger) hasCounted(index int64) bool {
	if l.run.plan == nil {
		_, ended := l.ended[index]
		return ended
	}
	return l.run.ended.Contains(index) && !l.isLost(index)
}

// isLost reports whether an episode has ended and is not in the sums.
func (l *ShardLedger) isLost(index int64) bool {
	_, lost := l.lost[index]
	return lost
}

// addEpisode adds an episode to the sums, which don't contain it yet.
func (l *ShardLedger) addEpisode(planned score.PlannedEpisode, e score.Episode) error {
	if err := l.sums.Add(planned, e); err != nil {
		return err
	}
	if l.run.plan == nil {
		l.ended[planned.Index] = struct{}{}
		return nil
	}
	l.run.ended.Add(planned.Index)
	delete(l.lost, planned.Index)
	return nil
}

// listCounted returns the indexes in the sums.
func (l *ShardLedger) listCounted() (counted score.IndexSet) {
	if l.run.plan == nil {
		for _, index := range slices.Sorted(maps.Keys(l.ended)) {
			counted.Add(index)
		}
		return counted
	}
	for index := range l.run.plan.Indexes(l.key.Shard) {
		if l.hasCounted(index) {
			counted.Add(index)
		}
	}
	return counted
}

func (l *ShardLedger) fullError() error {
	return fmt.Errorf("the ledger of run %s, shard %d is full with %d episodes: use more shards", l.key.Run,
		l.key.Shard, len(l.ended))
}

// makeRoom deletes a ledger for one of a run, if there are maxLedgers: one that isn't needed, of
// the namespace that has most ledgers, of its run that has most, and of these the least useful and
// least recently used. If all are needed, it deletes one of these, unless the new one's namespace,
// or in the same namespace its run, has as many. It reports false if it may delete none.
//
// A planned run keeps which episodes have ended, so that none of them is graded again.
func (s *Ledgers) makeRoom(own *run) bool {
	if len(s.byKey) < maxLedgers {
		return true
	}
	of := s.order[0]
	victim := of.runs[0].ledgers[0]
	most, mine := len(victim.run.ledgers), len(own.ledgers)
	if of != own.share {
		most, mine = of.ledgers, own.share.ledgers
	}
	if victim.use == needed && (victim.run == own || most <= mine+1) {
		return false
	}
	s.deleteLedger(victim)
	return true
}

// Expire deletes ledgers of runs without a plan that were not used for ledgerTTL. A planned run may
// be resumed at any time. Ledgers that nobody has used for ledgerIdle are abandoned.
func (s *Ledgers) Expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.byKey {
		switch idle := now.Sub(l.touched); {
		case idle >= ledgerTTL && l.run.plan == nil:
			s.deleteLedger(l)
		case idle >= ledgerIdle && l.use == needed:
			l.use = abandoned
			s.reorderLedger(l)
		}
	}
}

func (s *Ledgers) deleteLedger(l *ShardLedger) {
	delete(s.byKey, l.key)
	s.chargeShare(l.run.share, -1, 0)
	s.markUnread(l, false)
	if len(l.run.ledgers) == 0 && l.run.plan == nil {
		delete(s.runs, l.key.Run)
	}
}

// markUnread records whether a ledger has changed since it was fetched.
func (s *Ledgers) markUnread(l *ShardLedger, unread bool) {
	if unread && !l.unread {
		s.unread++
	} else if l.unread && !unread {
		s.unread--
	}
	l.unread = unread
	s.rankLedger(l)
	if s.drained != nil && s.unread == 0 {
		close(s.drained)
		s.drained = nil
	}
}

// touchLedger records that a ledger is used.
func (s *Ledgers) touchLedger(l *ShardLedger) {
	l.stampUse()
	s.rankLedger(l)
}

// stampUse notes when a ledger is used. It has to be ranked then.
func (l *ShardLedger) stampUse() {
	l.touched = time.Now()
	l.run.touched = l.touched
}

// Begin counts an episode that was opened.
func (l *ShardLedger) Begin() {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sums.Opened++
	l.store.touchLedger(l)
	l.run.opened++
}

// Finish counts the end of an episode in the figures or, if it was counted before, as replayed with
// ErrEnded. Errored episodes are not in the figures. Only counted episodes get a receipt, so that a
// client can't choose among several results.
func (l *ShardLedger) Finish(planned score.PlannedEpisode, e score.Episode) (*score.Receipt, error) {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.currentLedger(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.stampUse(); s.markUnread(l, true) }()
	if e.Outcome == score.Errored {
		l.run.errored++
		s.errored++
		return nil, nil
	}
	if l.hasCounted(planned.Index) || l.isLost(planned.Index) || !l.run.playsShard(l.key.Shard) {
		l.sums.Replayed++
		s.replayed++
		return nil, ErrEnded
	}
	if err := l.addEpisode(planned, e); err != nil {
		return nil, err
	}
	l.run.countEpisode(e)
	s.counted++
	// A receipt only repeats members of the sums that never change.
	return new(l.sums.Receipt(planned, e)), nil
}

// currentLedger returns the ledger that has the place of l, which may have been deleted while an
// episode was played. Then it puts l back, or counts the episode as opened in the one made since.
func (s *Ledgers) currentLedger(l *ShardLedger) *ShardLedger {
	now := s.byKey[l.key]
	switch {
	case now == nil:
		s.makeRoom(l.run) // without room, the table exceeds its bound by a session's ledger
		s.putLedger(l)
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

// findLedger returns a ledger that is used, nil for none.
func (s *Ledgers) findLedger(key Key) *ShardLedger {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l != nil {
		s.touchLedger(l)
	}
	return l
}

// Sign signs the current state of a ledger.
func (s *Ledgers) Sign(key Key, private ed25519.PrivateKey) (score.SignedLedger, error) {
	l := s.findLedger(key)
	if l == nil {
		return score.SignedLedger{}, ErrNoLedger
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sums.Sign(private)
}

// Fetched records that a signed ledger was sent.
func (s *Ledgers) Fetched(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if l := s.byKey[key]; l != nil {
		s.markUnread(l, false)
	}
}

// WaitDrained waits until every changed ledger has been fetched, or the context ends.
func (s *Ledgers) WaitDrained(ctx context.Context) {
	s.mu.Lock()
	if s.unread == 0 {
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
