package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxRemembered bounds the memory of the runs with a plan, in bytes: a bit for each episode,
	// and one for each scenario of each task.
	maxRemembered = 64 << 20
	// runBytes is about what a run takes besides these.
	runBytes = 512
	// runIdle is the time after its last use from which a run may be forgotten for a new one.
	runIdle = 24 * time.Hour
)

// run is what a server keeps of a run. Its ledgers may be deleted before it.
type run struct {
	// plan is nil for a run without one. Its fingerprint is the one in the run's credential.
	plan        *score.Outline
	fingerprint string
	// ended has a bit for each episode of the plan, whoever graded it.
	ended indexes
	// holds are the shards of the plan that this server plays or asks its peers for, and asked is
	// the number of the last asking.
	holds   map[int]hold
	asked   int64
	ledgers int
	touched time.Time

	// These count what this server did itself: episodes that it began, that it graded, by outcome,
	// and those that errored. sum is that of the scores, in micro-points.
	opened                  atomic.Int64
	scored, failed, errored int64
	sum                     int64
}

// hold is a shard that a server plays, or takes over once its peers have given it up. No other
// server of the pool has one. asked numbers the asking of the peers.
type hold struct {
	asked int64
	plays bool
}

// indexes has a bit for each episode of a plan.
type indexes []uint64

func (b indexes) add(i int64) { b[i/64] |= 1 << (i % 64) }

func (b indexes) has(i int64) bool { return b[i/64]&(1<<(i%64)) != 0 }

var (
	// ErrGrading means that a plan is of other scenarios, another grader or another judge than the
	// server's.
	ErrGrading = errors.New("the plan is not of this server's scenarios, grader and judge")
	errPlan    = errors.New("the plan is not the one of the run's credential")
)

// Plan makes the plan of a run known, whose JSON must have the fingerprint that Admit has returned,
// unless that is "": then a run that is being played without a plan goes on so. A plan that is
// known may be sent again.
func (s *Ledgers) Plan(runID, fingerprint string, text []byte) error {
	got := score.FingerprintOf(text)
	if fingerprint != "" && fingerprint != got {
		return errPlan
	}
	s.mu.Lock()
	known := s.runs[runID]
	s.mu.Unlock()
	if known != nil && (known.fingerprint == got || known.plan == nil && fingerprint == "") {
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
	return s.remember(runID, &run{plan: outline, fingerprint: got,
		ended: make(indexes, outline.Episodes()/64+1), holds: map[int]hold{}})
}

// remember adds a run with a plan, for which it forgets idle ones. It returns ErrFull without room.
func (s *Ledgers) remember(id string, r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[id] != nil {
		return nil // another request has added it
	}
	r.touched = time.Now()
	for s.remembered+r.bytes() > maxRemembered {
		oldest := ""
		for id, other := range s.runs {
			if other.plan != nil && (oldest == "" || other.touched.Before(s.runs[oldest].touched)) {
				oldest = id
			}
		}
		if oldest == "" || r.touched.Sub(s.runs[oldest].touched) < runIdle {
			return ErrFull
		}
		s.forgetRun(oldest)
	}
	s.runs[id] = r
	s.remembered += r.bytes()
	return nil
}

// forgetRun deletes a run with a plan, and its ledgers.
func (s *Ledgers) forgetRun(id string) {
	r := s.runs[id]
	for _, l := range s.byKey {
		if l.run == r {
			s.forget(l)
		}
	}
	s.remembered -= r.bytes()
	delete(s.runs, id)
}

// bytes is about how much memory a run with a plan takes.
func (r *run) bytes() int64 { return runBytes + int64(len(r.ended))*8 + r.plan.Bytes() }

// admits returns an error unless an episode of a shard may be played: it is the plan's, and hasn't
// ended. A run without a plan, nil for a new one, has any episode.
func (r *run) admits(planned score.PlannedEpisode, shard int) error {
	if r == nil || r.plan == nil {
		return nil
	}
	if err := r.plan.Check(planned, shard); err != nil {
		return err
	}
	if r.ended.has(planned.Index) {
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
		if r.ended.has(index) {
			ended[index] = struct{}{}
		}
	}
	return ended
}

// plays reports whether the episodes of a shard are graded here: those of a planned run are graded
// by the one server that has taken the shard over.
func (r *run) plays(shard int) bool { return r == nil || r.plan == nil || r.holds[shard].plays }

// hasEnded reports whether an episode has ended.
func (r *run) hasEnded() bool {
	return slices.ContainsFunc(r.ended, func(word uint64) bool { return word != 0 })
}

// count counts an episode that this server has graded.
func (r *run) count(e score.Episode) {
	if e.Outcome == score.Failed {
		r.failed++
	} else {
		r.scored++
	}
	r.sum += e.Score
}

// RunReports reports the score.MaxRunReports runs that were played last, ordered by UID. Active has
// the number of running episodes of each run.
func (s *Ledgers) RunReports(active map[string]int64) []score.RunReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.SortedFunc(maps.Keys(s.runs), func(a, b string) int {
		return cmp.Or(s.runs[b].touched.Compare(s.runs[a].touched), cmp.Compare(a, b))
	})
	ids = ids[:min(len(ids), score.MaxRunReports)]
	slices.Sort(ids)
	reports := make([]score.RunReport, len(ids))
	for i, id := range ids {
		r := s.runs[id]
		reports[i] = score.RunReport{Run: id, Active: active[id], Opened: r.opened.Load(), Scored: r.scored,
			Failed: r.failed, Errored: r.errored, ScoreSum: r.sum}
	}
	return reports
}
