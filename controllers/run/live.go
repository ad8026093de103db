package run

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// pollInterval is the minimum time between two polls of a pool, however many runs it plays.
	pollInterval = 5 * time.Second
	// A run's progress is written whenever another 1/showParts of its elapsed time has passed, at
	// least every maxShowInterval.
	maxShowInterval = time.Minute
	showParts       = 50
	// maxPolled bounds the servers of a poll, and pollWidth those that are polled at a time.
	maxPolled = 1000
	pollWidth = 16
	// forgetAfter is the time after which pools and runs without requests are removed.
	forgetAfter = 10 * time.Minute
	// maxRuns bounds the runs of a pool with counts. Servers report fewer each.
	maxRuns = 4096
)

// liveFigures are the servers' counts of a run's episodes. They show progress, and never enter the
// score.
type liveFigures struct {
	known bool // false before the first poll has ended
	due   bool // whether it is time to write them to the status
	// active and ended are numbers of episodes, ended ones including those of counted shards.
	// Episodes of servers that no longer exist are missing.
	active, ended int64
	// idle is how long no episode was active and none has ended.
	idle time.Duration
	// sessions are those of all servers that answered the last poll.
	sessions score.Sessions
}

// livePoller polls pools' servers for their statistics in the background, once for all runs of a
// pool. No pass waits for it, and its memory may be lost at any time.
type livePoller struct {
	reader poolReader
	do     func(ctx context.Context, pool types.NamespacedName, requests func(context.Context))

	mu    sync.Mutex
	pools map[types.NamespacedName]*polledPool
	shown map[types.UID]time.Time
	busy  map[types.UID]activity
}

type polledPool struct {
	polled   time.Time                  // when the last poll was requested
	pending  bool                       // it hasn't ended
	reports  map[string]score.RunReport // by run
	sessions score.Sessions
}

// activity is when an episode of a run was last seen active or ending.
type activity struct {
	ended    int64
	at, seen time.Time
}

func newLivePoller(reader poolReader,
	do func(context.Context, types.NamespacedName, func(context.Context))) *livePoller {
	return &livePoller{reader: reader, do: do,
		pools: map[types.NamespacedName]*polledPool{}, shown: map[types.UID]time.Time{},
		busy: map[types.UID]activity{}}
}

// figures returns the run's last counts, and starts a poll if they are old.
func (p *livePoller) figures(ctx context.Context, pool types.NamespacedName, token string, servers []string,
	run types.UID, interval time.Duration, now time.Time) *liveFigures {
	if p.begins(pool, now) {
		p.do(ctx, pool, func(ctx context.Context) { p.poll(ctx, pool, token, servers) })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	state := p.pools[pool]
	report, live := state.reports[string(run)], &liveFigures{known: state.reports != nil}
	live.active, live.ended = report.Active, report.Scored+report.Failed+report.Errored
	live.sessions, live.idle = state.sessions, p.idle(run, live, now)
	if live.due = live.known && now.Sub(p.shown[run]) >= interval; live.due {
		p.shown[run] = now
	}
	return live
}

// idle returns for how long a run has shown no activity.
func (p *livePoller) idle(run types.UID, live *liveFigures, now time.Time) time.Duration {
	last, known := p.busy[run]
	if !known || !live.known || live.active > 0 || live.ended != last.ended {
		last = activity{ended: live.ended, at: now}
	}
	last.seen = now
	p.busy[run] = last
	return now.Sub(last.at)
}

// begins reports whether it is time for another poll of the pool.
func (p *livePoller) begins(pool types.NamespacedName, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(now)
	state := p.pools[pool]
	if state == nil {
		state = &polledPool{}
		p.pools[pool] = state
	}
	if state.pending || now.Sub(state.polled) < pollInterval {
		return false
	}
	state.polled, state.pending = now, true
	return true
}

// sweep removes pools and runs without recent requests.
func (p *livePoller) sweep(now time.Time) {
	maps.DeleteFunc(p.pools, func(_ types.NamespacedName, pool *polledPool) bool {
		return !pool.pending && now.Sub(pool.polled) >= forgetAfter
	})
	maps.DeleteFunc(p.shown, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= forgetAfter })
	maps.DeleteFunc(p.busy, func(_ types.UID, a activity) bool { return now.Sub(a.seen) >= forgetAfter })
}

// poll adds up the statistics of all servers of a pool that answer.
func (p *livePoller) poll(ctx context.Context, pool types.NamespacedName, token string, servers []string) {
	var mu sync.Mutex
	sums := map[string]score.RunReport{}
	var sessions score.Sessions
	forEach(ctx, servers, pollWidth, func(ctx context.Context, server string) {
		report, err := p.reader.Report(ctx, server, token)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		sessions.Active += report.Sessions.Active
		sessions.Capacity += report.Sessions.Capacity
		for _, run := range report.Runs {
			if sum, known := sums[run.Run]; known || len(sums) < maxRuns {
				sums[run.Run] = sum.Plus(run)
			}
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if state := p.pools[pool]; state != nil {
		state.reports, state.sessions, state.pending = sums, sessions, false
	}
}

// readLive reads the live counts of a run that is being played.
func (r *Reader) readLive(ctx context.Context, s *snapshot) error {
	if r.live == nil || s.env == nil || s.run.Status.StartTime == nil || isSuspended(s.run) {
		return nil
	}
	list, err := objects.Servers(ctx, r.cache, client.ObjectKeyFromObject(s.env))
	if err != nil {
		return err
	}
	pool := client.ObjectKeyFromObject(s.env)
	secrets, err := r.keys.Secrets(ctx, pool, s.env.Status.LedgerPublicKey)
	if err != nil {
		logf.FromContext(ctx).V(1).Info("Progress not read", "reason", err.Error())
		return nil
	}
	var servers []string
	for i := range list {
		if pods.IsRunning(&list[i]) && len(servers) < maxPolled {
			servers = append(servers, list[i].Status.PodIP)
		}
	}
	s.live = r.live.figures(ctx, pool, secrets.Operations, servers, s.run.UID, showInterval(s.run, s.now), s.now)
	return nil
}

// showInterval is the time between two writes of a run's progress.
func showInterval(run *v1alpha1.EvaluationRun, now time.Time) time.Duration {
	return min(max(now.Sub(run.Status.StartTime.Time)/showParts, pollInterval), maxShowInterval)
}

// idleAfter is the time without active or ended episodes of a run after which its runners count as
// waiting.
const idleAfter = 30 * time.Second

// showLive writes the run's progress and estimated end. Figures that aren't due stay as they were.
func showLive(d *decision, s snapshot) {
	if isSuspended(s.run) || heldByQueue(s.job) || s.live == nil {
		forget(d)
		return
	}
	d.wake(showInterval(s.run, s.now) + jitter(s.run.UID))
	counted := d.folding.sums.Scored + d.folding.sums.Failed + d.folding.sums.Errored
	done := max(counted, progressBefore(s.run))
	if before := s.run.Status.Episodes; before != nil {
		d.status.Episodes.Active = before.Active
	}
	if s.live.due {
		// The servers' count may be too small, because a server was lost, or too large, because a
		// shard was played again.
		done = min(max(counted, s.live.ended), d.status.Episodes.Total)
		d.status.Episodes.Active = new(s.live.active)
		d.status.EstimatedCompletionTime = estimatedEnd(s.run.Status.StartTime.Time, s.now, done,
			d.status.Episodes.Total)
	}
	d.status.Progress = fmt.Sprintf("%d/%d", done, d.status.Episodes.Total)
}

// progressBefore is the number of episodes that the status shows as ended.
func progressBefore(run *v1alpha1.EvaluationRun) int64 {
	var done, total int64
	if _, err := fmt.Sscanf(run.Status.Progress, "%d/%d", &done, &total); err != nil ||
		total != run.Status.Episodes.Total {
		return 0
	}
	return done
}

// estimatedEnd is when all episodes will have ended at the present rate, nil if it is not known.
func estimatedEnd(began, now time.Time, done, total int64) *metav1.Time {
	left, known := evaluation.TimeLeft(now.Sub(began), done, total)
	if !known {
		return nil
	}
	return new(metav1.NewTime(now.Add(left).Truncate(time.Second)))
}

// jitter spreads the writes of runs that began together by up to two seconds. It is constant for a
// run.
func jitter(run types.UID) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(run)) // never fails
	return time.Duration(hash.Sum32()%2000) * time.Millisecond
}

// forget removes the fields that are set only while a run is being played.
func forget(d *decision) {
	d.status.EstimatedCompletionTime = nil
	if d.status.Episodes != nil {
		d.status.Episodes.Active = nil
	}
}

// showActive writes the number of active episodes and the estimated end, which are indicative only,
// when the status is written anyway, or when playing begins or ends.
func showActive(d *decision, s snapshot, c collected) {
	before := ptr.Deref(ptr.Deref(s.run.Status.Episodes, v1alpha1.RunEpisodes{}).Active, 0)
	if isSuspended(s.run) {
		forget(d)
		return
	}
	if len(c.counted) == 0 && (before > 0) == (c.active > 0) {
		return
	}
	d.status.Episodes.Active = &c.active
	if goal(s.run) > 0 {
		d.status.EstimatedCompletionTime = estimatedEnd(s.run.Status.StartTime.Time, s.now, c.sums.Opened,
			d.status.Episodes.Total)
	}
}
