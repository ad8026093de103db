package run

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// pollInterval is the least time between two questions to a pool's servers, however many runs
	// it plays.
	pollInterval = 5 * time.Second
	// maxShowInterval bounds the time between two writes of a run's progress. They come once in
	// every fiftieth part of the time that the run has taken, so that a long one isn't written for
	// ever.
	maxShowInterval = time.Minute
	showParts       = 50
	// maxPolled bounds the servers that are asked, and pollWidth how many of them at a time.
	maxPolled = 256
	pollWidth = 8
	// forgetAfter is the time after which pools and runs without requests are removed.
	forgetAfter = 10 * time.Minute
)

// liveFigures are the servers' counts of a run's episodes. They show progress, and never enter the
// score.
type liveFigures struct {
	// known is false before the servers have answered.
	known bool
	// due reports whether it is time to write them down.
	due bool
	// active and ended are numbers of episodes, ended ones including those of shards that are
	// counted. Servers that are gone took theirs with them.
	active, ended int64
}

// livePoller asks pools' servers for their statistics while runs are played, once for all runs of a
// pool, beside the passes: none of them waits for an answer. What it remembers can be lost at any
// time.
type livePoller struct {
	reader poolReader
	spawn  func(func())

	mu    sync.Mutex
	pools map[types.NamespacedName]*polledPool
	shown map[types.UID]time.Time
}

// polledPool is what a pool's servers said last, by run.
type polledPool struct {
	asked   time.Time
	answers map[string]score.RunReport
}

func newLivePoller(reader poolReader) *livePoller {
	return &livePoller{reader: reader, spawn: func(f func()) { go f() }, pools: map[types.NamespacedName]*polledPool{},
		shown: map[types.UID]time.Time{}}
}

// figures returns the run's counts as far as they are known. If they are old, it asks the servers.
func (p *livePoller) figures(pool types.NamespacedName, servers []string, run types.UID, interval time.Duration,
	now time.Time) *liveFigures {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(now)
	state := p.pools[pool]
	if state == nil {
		state = &polledPool{}
		p.pools[pool] = state
	}
	if now.Sub(state.asked) >= pollInterval {
		state.asked = now
		p.spawn(func() { p.ask(pool, servers) })
	}
	report, live := state.answers[string(run)], &liveFigures{known: state.answers != nil}
	live.active, live.ended = report.Active, report.Scored+report.Failed+report.Errored
	if live.due = live.known && now.Sub(p.shown[run]) >= interval; live.due {
		p.shown[run] = now
	}
	return live
}

// sweep removes what hasn't been requested for a while.
func (p *livePoller) sweep(now time.Time) {
	for key, state := range p.pools {
		if now.Sub(state.asked) >= forgetAfter {
			delete(p.pools, key)
		}
	}
	for key, at := range p.shown {
		if now.Sub(at) >= forgetAfter {
			delete(p.shown, key)
		}
	}
}

// ask asks all servers of a pool and adds their answers up.
func (p *livePoller) ask(pool types.NamespacedName, servers []string) {
	ctx, cancel := context.WithTimeout(context.Background(), reportBudget)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	sums := map[string]score.RunReport{}
	slots := make(chan struct{}, pollWidth)
	for _, server := range servers {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			report, err := p.reader.Report(ctx, server)
			if err != nil {
				return // its episodes are missing until it answers
			}
			mu.Lock()
			defer mu.Unlock()
			for _, run := range report.Runs {
				sums[run.Run] = sums[run.Run].Plus(run)
			}
		})
	}
	group.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if state := p.pools[pool]; state != nil {
		state.answers = sums
	}
}

// readLive reads what the pool's servers say of a run that is being played.
func (r *Reconciler) readLive(ctx context.Context, s *snapshot) error {
	if r.live == nil || s.env == nil || s.run.Status.StartTime == nil || suspended(s.run) {
		return nil
	}
	list, err := pods.Servers(ctx, r.client, client.ObjectKeyFromObject(s.env))
	if err != nil {
		return err
	}
	var servers []string
	for i := range list {
		if pods.IsRunning(&list[i]) && len(servers) < maxPolled {
			servers = append(servers, list[i].Status.PodIP)
		}
	}
	s.live = r.live.figures(client.ObjectKeyFromObject(s.env), servers, s.run.UID, showInterval(s.run, s.now), s.now)
	return nil
}

// showInterval is the time between two writes of a run's progress.
func showInterval(run *v1alpha1.EvaluationRun, now time.Time) time.Duration {
	return min(max(now.Sub(run.Status.StartTime.Time)/showParts, pollInterval), maxShowInterval)
}

// showLive writes how far the run is, and when it will be over if it goes on so. What isn't due
// stays as it was written last.
func showLive(d *decision, s snapshot) {
	if suspended(s.run) || heldByQueue(s) || s.live == nil {
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
		// A server that was lost took its counts along, and a shard that is played again counts
		// twice.
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

// estimatedEnd is when the rest is done at the pace of what is done, nil if that can't be
// estimated.
func estimatedEnd(began, now time.Time, done, total int64) *metav1.Time {
	left, known := evaluation.TimeLeft(now.Sub(began), done, total)
	if !known {
		return nil
	}
	return new(metav1.NewTime(now.Add(left).Truncate(time.Second)))
}

// jitter keeps runs that began together from being written together: up to two seconds, always the
// same for a run.
func jitter(run types.UID) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(run)) // never fails
	return time.Duration(hash.Sum32()%2000) * time.Millisecond
}

// forget removes what is shown of a run only while it is being played.
func forget(d *decision) {
	d.status.EstimatedCompletionTime = nil
	if d.status.Episodes != nil {
		d.status.Episodes.Active = nil
	}
}

// showActive writes what is for the eye alone, when the status is written anyway, or when playing
// begins or ends.
func showActive(d *decision, s snapshot, c collected) {
	before := ptr.Deref(ptr.Deref(s.run.Status.Episodes, v1alpha1.RunEpisodes{}).Active, 0)
	if suspended(s.run) {
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
