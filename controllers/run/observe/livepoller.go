package observe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxPolled bounds the servers of a poll, and pollWidth those that are polled at a time.
	maxPolled = 1000
	pollWidth = 16
	// forgetAfter is the time after which pools and runs without requests are removed.
	forgetAfter = 10 * time.Minute
)

// LivePoller polls pools' servers for their statistics in the background, once for all runs of a
// pool. No pass waits for it, and its memory may be lost at any time.
type LivePoller struct {
	reader PoolReader
	do     func(ctx context.Context, pool types.NamespacedName, requests func(context.Context))

	mu    sync.Mutex
	pools map[types.NamespacedName]*polledPool
	shown map[types.UID]time.Time
	busy  map[types.UID]activity
}

type polledPool struct {
	polled   time.Time                  // when the last poll was requested
	asOf     time.Time                  // when the last one that has ended was
	pending  bool                       // it hasn't ended
	complete bool                       // every server has answered
	wanted   map[string]time.Time       // the runs that it asks for, with when they were requested
	reports  map[string]score.RunReport // by run, also of those that no server knows
	sessions score.Sessions
}

// activity is when an episode of a run was last seen active or ending.
type activity struct {
	ended    int64
	at, seen time.Time
}

// NewLivePoller returns a poller whose requests the function runs in the background.
func NewLivePoller(reader PoolReader,
	do func(context.Context, types.NamespacedName, func(context.Context))) *LivePoller {
	return &LivePoller{reader: reader, do: do,
		pools: map[types.NamespacedName]*polledPool{}, shown: map[types.UID]time.Time{},
		busy: map[types.UID]activity{}}
}

// figures returns the last counts of a run that began at a time, and starts a poll if they are old.
func (p *LivePoller) figures(ctx context.Context, pool types.NamespacedName, token string, servers []string,
	run types.UID, began time.Time, interval time.Duration, now time.Time) *snapshot.Live {
	if p.isDue(pool, run, now) {
		p.do(ctx, pool, func(ctx context.Context) { p.pollPool(ctx, pool, token, servers) })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	state := p.pools[pool]
	report, known := state.reports[string(run)]
	live := &snapshot.Live{Known: known, Complete: state.complete}
	live.Active, live.Ended = report.Active, report.Scored+report.Failed+report.Errored
	live.AsOf, live.Graded = state.asOf, report.Scored+report.Failed
	live.Sessions, live.Idle = state.sessions, p.idleTime(run, live, now)
	// The status that began the run shows that nothing has been played.
	if last := p.shown[run]; last.After(began) {
		began = last
	}
	if live.Due = live.Known && now.Sub(began) >= interval; live.Due {
		p.shown[run] = now
	}
	return live
}

// idleTime returns for how long a run has shown no activity.
func (p *LivePoller) idleTime(run types.UID, live *snapshot.Live, now time.Time) time.Duration {
	last, known := p.busy[run]
	if !known || !live.Known || live.Active > 0 || live.Ended != last.ended {
		last = activity{ended: live.Ended, at: now}
	}
	last.seen = now
	p.busy[run] = last
	return now.Sub(last.at)
}

// isDue reports whether it is time for another poll of the pool. The next one asks for the run.
func (p *LivePoller) isDue(pool types.NamespacedName, run types.UID, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeUnused(now)
	state := p.pools[pool]
	if state == nil {
		state = &polledPool{wanted: map[string]time.Time{}}
		p.pools[pool] = state
	}
	state.wanted[string(run)] = now
	if state.pending || now.Sub(state.polled) < snapshot.PollInterval {
		return false
	}
	state.polled, state.pending = now, true
	return true
}

// removeUnused removes pools and runs without recent requests.
func (p *LivePoller) removeUnused(now time.Time) {
	maps.DeleteFunc(p.pools, func(_ types.NamespacedName, pool *polledPool) bool {
		return !pool.pending && now.Sub(pool.polled) >= forgetAfter
	})
	for _, pool := range p.pools {
		maps.DeleteFunc(pool.wanted, func(_ string, at time.Time) bool { return now.Sub(at) >= forgetAfter })
	}
	maps.DeleteFunc(p.shown, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= forgetAfter })
	maps.DeleteFunc(p.busy, func(_ types.UID, a activity) bool { return now.Sub(a.seen) >= forgetAfter })
}

// pollPool adds up the statistics of all servers of a pool that answer.
func (p *LivePoller) pollPool(ctx context.Context, pool types.NamespacedName, token string, servers []string) {
	p.mu.Lock()
	var runs []string
	if state := p.pools[pool]; state != nil {
		runs = slices.Sorted(maps.Keys(state.wanted))
	}
	p.mu.Unlock()
	var mu sync.Mutex
	sums := make(map[string]score.RunReport, len(runs))
	for _, run := range runs {
		sums[run] = score.RunReport{Run: run}
	}
	var sessions score.Sessions
	complete := true
	forEach(ctx, servers, pollWidth, func(ctx context.Context, server string) {
		report, err := p.askServer(ctx, server, token, runs)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			complete = false
			return
		}
		sessions.Active += report.Sessions.Active
		sessions.Capacity += report.Sessions.Capacity
		for _, run := range report.Runs {
			if sum, wanted := sums[run.Run]; wanted {
				sums[run.Run] = sum.Plus(run)
			}
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if state := p.pools[pool]; state != nil {
		state.reports, state.sessions, state.complete = sums, sessions, complete
		state.pending, state.asOf = false, state.polled
	}
}

// askServer asks a server for its counts of all runs.
func (p *LivePoller) askServer(ctx context.Context, server, token string, runs []string) (score.Report, error) {
	var all score.Report
	for part := range slices.Chunk(runs, score.MaxRunReports) {
		report, err := p.reader.Report(ctx, server, token, part...)
		if err != nil {
			return all, err
		}
		report.Runs = append(all.Runs, report.Runs...)
		all = report
	}
	return all, nil
}
