package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxRemembered bounds the memory of the runs with a plan, in bytes: a bit for each episode,
	// and one for each scenario of each task.
	maxRemembered = 64 << 20
	// runBytes is the approximate fixed overhead of a run, in bytes.
	runBytes = 512
	// runIdle is the time after its last use from which a run may be forgotten for a new one.
	runIdle = 24 * time.Hour
)

// run is what a server keeps of a run. Its ledgers may be deleted before it.
type run struct {
	share *share // of its namespace
	// plan is nil for a run without one. Its fingerprint is the one in the run's credential.
	plan        *score.Outline
	fingerprint string
	// ended has a bit for each episode of the plan, whoever graded it.
	ended score.Bitset
	// holds has the shards of the plan that this server plays or asks its peers for. asked numbers
	// the requests to peers, and lastTurn is the number of the newest runner.
	holds    map[int]hold
	asked    int64
	lastTurn int64
	touched  time.Time
	// ledgers has the shards' ledgers, and place is the run's in the queue of its share.
	ledgers queue[*ShardLedger]
	place   int

	// These count what this server did itself: episodes that it began, that it graded, by outcome,
	// and those that errored. sum adds their scores up, in micro-points.
	opened, scored, failed, errored int64
	sum                             int64
}

// share is what the runs of a namespace take of a server: ledgers, and with a plan bytes of memory.
type share struct {
	namespace string
	ledgers   int
	bytes     int64
	// runs are those with ledgers, and place is the share's in the order.
	runs  queue[*run]
	place int
}

// shareOf returns the share of a namespace, "" for runs without a plan. It is kept while something
// is charged to it.
func (s *Ledgers) shareOf(namespace string) *share {
	if found := s.shares[namespace]; found != nil {
		return found
	}
	return &share{namespace: namespace}
}

// chargeShare adds ledgers and bytes to a share, or takes them away.
func (s *Ledgers) chargeShare(of *share, ledgers int, bytes int64) {
	of.ledgers += ledgers
	of.bytes += bytes
	s.remembered += bytes
	if s.shares[of.namespace] = of; of.ledgers == 0 && of.bytes == 0 {
		delete(s.shares, of.namespace)
	}
}

// hold is a shard that a server plays, or takes over once its peers have given it up. No other
// server of the pool has one.
type hold struct {
	asked int64 // the number of the newest request to the peers
	plays bool
	turn  int64     // the number of its present runner
	since time.Time // when a peer was first silent
}

// Turn begins the turn of another runner of a shard, and returns its number, which its resets have.
// Those of runners before it are refused. It is 0 for a shard that isn't played here.
func (s *Ledgers) Turn(key Key) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[key.Run]
	if r == nil || r.plan == nil || !r.playsShard(key.Shard) {
		return 0
	}
	r.lastTurn++
	held := r.holds[key.Shard]
	held.turn = r.lastTurn
	r.holds[key.Shard] = held
	return held.turn
}

var (
	// ErrGrading means that a plan is of other scenarios, another grader or another judge than the
	// server's.
	ErrGrading = errors.New("the plan is not of this server's scenarios, grader and judge")
	errPlan    = errors.New("the plan is not the one of the run's credential")
)

// Plan makes the plan of a run known, whose JSON must have the fingerprint of the grant that Admit
// has returned, unless that is "": then a run that is being played without a plan goes on so. A
// plan that is known may be sent again.
func (s *Ledgers) Plan(runID string, grant poolkey.Grant, text []byte) error {
	got := score.FingerprintOf(text)
	if grant.Plan != "" && grant.Plan != got {
		return errPlan
	}
	s.mu.Lock()
	known := s.runs[runID]
	s.mu.Unlock()
	if known != nil && (known.fingerprint == got || known.plan == nil && grant.Plan == "") {
		return nil
	}
	plan, err := score.ParsePlan(text)
	switch {
	case err != nil:
		return err
	case plan.Run != runID || known != nil:
		return fmt.Errorf("%w, or another plan of run %s is being played", errPlan, runID)
	}
	for _, c := range []struct{ what, pool, plan string }{
		{"scenario digest", s.scenarioDigest, plan.ScenarioDigest},
		{"grader version", s.graderVersion, plan.GraderVersion}, {"judge", s.judge, plan.Judge},
	} {
		if c.pool != c.plan {
			return fmt.Errorf("%w: the %s is %s, the plan's is %s", ErrGrading, c.what, c.pool, c.plan)
		}
	}
	outline, err := plan.Outline(s.catalogue)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGrading, err)
	}
	return s.addPlannedRun(runID, grant.Namespace, &run{plan: outline, fingerprint: got,
		ended: score.NewBitset(outline.Episodes()), holds: map[int]hold{}})
}

// addPlannedRun adds a run of a namespace with a plan, for which it forgets idle runs, first of the
// namespace that takes most. It returns ErrFull without room. A namespace may have half of what the
// others leave, so that there is room for another one, whatever the others take.
func (s *Ledgers) addPlannedRun(id, namespace string, r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[id] != nil {
		return nil // another request has added it
	}
	r.touched, r.share = time.Now(), s.shareOf(namespace)
	for {
		if free := maxRemembered - (s.remembered - r.share.bytes); r.share.bytes+r.bytes() <= free/2 {
			s.storeRun(id, r)
			return nil
		}
		idle := ""
		for id, other := range s.runs {
			if other.plan != nil && r.touched.Sub(other.touched) >= runIdle && (idle == "" ||
				cmp.Or(cmp.Compare(s.runs[idle].share.bytes, other.share.bytes),
					other.touched.Compare(s.runs[idle].touched)) < 0) {
				idle = id
			}
		}
		if idle == "" {
			return ErrFull
		}
		s.forgetRun(idle)
	}
}

// storeRun stores a run that isn't stored.
func (s *Ledgers) storeRun(id string, r *run) {
	s.runs[id] = r
	r.share = s.shareOf(r.share.namespace)
	s.chargeShare(r.share, 0, r.bytes())
}

// forgetRun deletes a run with a plan, and its ledgers.
func (s *Ledgers) forgetRun(id string) {
	r := s.runs[id]
	for len(r.ledgers) > 0 {
		s.deleteLedger(r.ledgers[0])
	}
	s.chargeShare(r.share, 0, -r.bytes())
	delete(s.runs, id)
}

// bytes is about how much memory a run with a plan takes, 0 for one without, which has ledgers.
func (r *run) bytes() int64 {
	if r.plan == nil {
		return 0
	}
	return runBytes + int64(len(r.ended))*8 + r.plan.Bytes()
}

// checkEpisode returns an error unless an episode of a shard may be played: it is the plan's, and
// hasn't ended. A run without a plan, nil for a new one, has any episode.
func (r *run) checkEpisode(planned score.PlannedEpisode, shard int) error {
	if r == nil || r.plan == nil {
		return nil
	}
	if err := r.plan.Check(planned, shard); err != nil {
		return err
	}
	if r.ended.Contains(planned.Index) {
		return ErrEnded
	}
	return nil
}

// listEnded returns the ended episodes of a shard.
func (r *run) listEnded(shard int) map[int64]struct{} {
	ended := map[int64]struct{}{}
	if r.plan == nil || !r.hasEnded() {
		return ended
	}
	for index := range r.plan.Indexes(shard) {
		if r.ended.Contains(index) {
			ended[index] = struct{}{}
		}
	}
	return ended
}

// playsShard reports whether the episodes of a shard are graded here: a planned run's are graded by
// the one server that has taken the shard over.
func (r *run) playsShard(shard int) bool { return r == nil || r.plan == nil || r.holds[shard].plays }

// hasEnded reports whether an episode has ended.
func (r *run) hasEnded() bool {
	return slices.ContainsFunc(r.ended, func(word uint64) bool { return word != 0 })
}

// countEpisode counts an episode that this server has graded.
func (r *run) countEpisode(e score.Episode) {
	if e.Outcome == score.Failed {
		r.failed++
	} else {
		r.scored++
	}
	r.sum += e.Score
}

// RunReports reports what the server has counted of the named runs that it knows, without names of
// any, and of score.MaxRunReports at most. Active has the number of running episodes of each run.
func (s *Ledgers) RunReports(runs []string, active map[string]int64) (reports []score.RunReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(runs) == 0 {
		runs = slices.Sorted(maps.Keys(s.runs))
	}
	for _, id := range runs[:min(len(runs), score.MaxRunReports)] {
		if r := s.runs[id]; r != nil {
			reports = append(reports, score.RunReport{Run: id, Active: active[id], Opened: r.opened,
				Scored: r.scored, Failed: r.failed, Errored: r.errored, ScoreSum: r.sum})
		}
	}
	return reports
}
