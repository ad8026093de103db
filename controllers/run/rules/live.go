package rules

import (
	"fmt"
	"hash/fnv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
)

// idleAfter is the time without active or ended episodes of a run after which its runners count as
// waiting.
const idleAfter = 30 * time.Second

// showLive writes the run's progress and estimated end. Figures that aren't due stay as they were.
func showLive(d *Decision, s observe.Snapshot) {
	if observe.IsSuspended(s.Run) || runner.IsHeldByQueue(s.Job) || s.Live == nil {
		forget(d)
		return
	}
	d.wake(observe.ChooseInterval(s.Run, s.Now) + jitter(s.Run.UID))
	counted := d.Tally.Sums.Scored + d.Tally.Sums.Failed + d.Tally.Sums.Errored
	done := max(counted, progressBefore(s.Run))
	if before := s.Run.Status.Episodes; before != nil {
		d.Status.Episodes.Active = before.Active
	}
	if s.Live.Due {
		// The servers' count may be too small, because a server was lost, or too large, because a
		// shard was played again.
		done = min(max(counted, s.Live.Ended), d.Status.Episodes.Total)
		d.Status.Episodes.Active = new(s.Live.Active)
		d.Status.EstimatedCompletionTime = estimatedEnd(s.Run.Status.StartTime.Time, s.Now, done,
			d.Status.Episodes.Total)
	}
	d.Status.Progress = fmt.Sprintf("%d/%d", done, d.Status.Episodes.Total)
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
func forget(d *Decision) {
	d.Status.EstimatedCompletionTime = nil
	if d.Status.Episodes != nil {
		d.Status.Episodes.Active = nil
	}
}

// showActive writes the number of active episodes and the estimated end, which are indicative only,
// when the status is written anyway, or when playing begins or ends.
func showActive(d *Decision, s observe.Snapshot, c tally.Collection) {
	before := ptr.Deref(ptr.Deref(s.Run.Status.Episodes, v1alpha1.RunEpisodes{}).Active, 0)
	if observe.IsSuspended(s.Run) {
		forget(d)
		return
	}
	if len(c.Counted) == 0 && (before > 0) == (c.Active > 0) {
		return
	}
	d.Status.Episodes.Active = &c.Active
	if tally.ReadGoal(s.Run) > 0 {
		d.Status.EstimatedCompletionTime = estimatedEnd(s.Run.Status.StartTime.Time, s.Now, c.Sums.Opened,
			d.Status.Episodes.Total)
	}
}
