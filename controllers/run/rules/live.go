package rules

import (
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/snapshot"
)

// idleAfter is the time without active or ended episodes of a run after which its runners count as
// waiting.
const idleAfter = 30 * time.Second

// showLive writes the run's progress and estimated end. Figures that aren't due stay as they were.
func (p *pass) showLive() {
	if p.planErr != nil {
		return
	}
	if evaluation.IsSuspended(p.s.Run) || runner.IsHeldByQueue(p.s.Job) || p.s.Live == nil {
		p.d.hideLive()
		return
	}
	p.d.wakeAfter(p.s.LiveInterval() + chooseJitter(p.s.Run.UID))
	counted := p.d.Tally.Sums.Scored + p.d.Tally.Sums.Failed + p.d.Tally.Sums.Errored
	done := max(counted, readProgress(p.s.Run))
	if before := p.s.Run.Status.Episodes; before != nil {
		p.d.Status.Episodes.Active = before.Active
	}
	if p.s.Live.Due {
		// The servers' count may be too small, because a server was lost, or too large, because a
		// shard was played again.
		done = min(max(counted, p.s.Live.Ended), p.d.Status.Episodes.Total)
		p.d.Status.Episodes.Active = new(p.s.Live.Active)
		p.d.Status.EstimatedCompletionTime = estimateEnd(p.s.Run.Status.StartTime.Time, p.s.Now, done,
			p.d.Status.Episodes.Total)
	}
	p.d.Status.Progress = fmt.Sprintf("%d/%d", done, p.d.Status.Episodes.Total)
}

// compareCounts compares the figures of a run that has just completed with the servers' counts.
// Those of servers that are gone, or don't answer for a while, are missing, so that fewer graded
// episodes mean nothing.
func (p *pass) compareCounts() {
	live, ended, episodes := p.s.Live, p.d.Status.CompletionTime, p.d.Status.Episodes
	if live == nil || ended == nil || episodes == nil ||
		!meta.IsStatusConditionTrue(p.d.Status.Conditions, v1alpha1.ConditionComplete) {
		return
	}
	patient := p.s.Now.Sub(ended.Time) < snapshot.CountsPatience/2
	if !live.Known || !live.AsOf.After(ended.Time) || !live.Complete && patient {
		p.d.wakeAfter(countsInterval)
		return
	}
	before := episodes.GradedAgain
	episodes.GradedAgain = max(before, live.Graded-episodes.Scored-episodes.Failed)
	if c, repeated := evaluation.PlayedOnceCondition(episodes); repeated && episodes.GradedAgain > before {
		p.set(c)
		p.d.addEvent(corev1.EventTypeWarning, c.Reason, c.Message)
	}
}

// countsInterval is the time until servers have been polled again.
const countsInterval = 5 * time.Second

// readProgress reads the number of episodes that the status shows as ended.
func readProgress(run *v1alpha1.EvaluationRun) int64 {
	var done, total int64
	if _, err := fmt.Sscanf(run.Status.Progress, "%d/%d", &done, &total); err != nil ||
		total != run.Status.Episodes.Total {
		return 0
	}
	return done
}

// estimateEnd estimates when all episodes will have ended at the present rate, nil if it is not
// known.
func estimateEnd(began, now time.Time, done, total int64) *metav1.Time {
	left, known := evaluation.TimeLeft(now.Sub(began), done, total)
	if !known {
		return nil
	}
	return new(metav1.NewTime(now.Add(left).Truncate(time.Second)))
}

// chooseJitter spreads the writes of runs that began together by up to two seconds. It is constant
// for a run.
func chooseJitter(run types.UID) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(run)) // never fails
	return time.Duration(hash.Sum32()%2000) * time.Millisecond
}
