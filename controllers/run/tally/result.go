// Package tally adds the summaries of a run's runners and the segments of its pool's servers to the
// sums in the run's status, each once. It is pure.
package tally

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/score"
)

// Result is the result of adding summaries or segments to the sums.
type Result struct {
	Sums      score.Accumulator
	Completed score.IndexSet
	Counted   []Shard // by this pass
	Refused   []Refusal
	Ledgers   []*score.Ledger // of the shards in Counted, or of the segments that this pass has added
	Summaries []score.Summary // of the shards in Counted
	Errored   int64           // errored episodes of those segments
	Stopped   []Stopped       // shards that have used their share of the budget
	of        Expected
}

// Stopped is what a runner has played of a shard until its share of the budget was used up. It is
// in the figures of a run only if the run ends so, because the shard may go on.
type Stopped struct {
	Shard   int
	Pod     *corev1.Pod
	ledger  *score.Ledger
	summary score.Summary
}

// UsedTokens counts the tokens of the counted shards and of the stopped ones.
func (f Result) UsedTokens() score.Tokens {
	used := f.Sums.Tokens
	for _, s := range f.Stopped {
		used.Add(s.summary.Tokens)
	}
	return used
}

// AddStopped adds the stopped shards to the sums of a run that ends. They stay incomplete.
func (f *Result) AddStopped() {
	for _, s := range f.Stopped {
		f.add(s.Shard, s.Pod, s.ledger, s.summary)
	}
	f.Stopped = nil
}

// add adds a shard, or the part of it that was played.
func (f *Result) add(shard int, pod *corev1.Pod, ledger *score.Ledger, summary score.Summary) {
	stopped := runner.CountStopped(pod)
	if f.of.Resumed {
		stopped++
	}
	f.Sums.FoldSummary(ledger, summary)
	f.Ledgers, f.Summaries = append(f.Ledgers, ledger), append(f.Summaries, summary)
	f.Counted = append(f.Counted, Shard{
		Index: shard, Duration: runner.MeasurePlaying(pod), Replayed: ledger.Replayed,
		Errored: countErrored(summary), Unplayed: summary.Unplayed,
		Unreported: countUnreported(ledger, summary, stopped, f.of.Sessions),
	})
}

// Shard is a shard that a pass has counted.
type Shard struct {
	Index    int
	Duration time.Duration
	// Replayed is the number of episodes that ended again and weren't graded, Unreported the number
	// of attempts that were begun and no runner reports.
	Replayed, Unreported int64
	Errored              map[string]int64 // episodes by class
	Unplayed             int64            // episodes that the budget left
}

// IsSuspect reports whether the servers have begun more attempts than the shard's runners report.
// An episode that ended again isn't suspect: its runner lost the answer to its last action.
func (c Shard) IsSuspect() bool { return c.Unreported > 0 }

// isFlawed reports whether episodes of the shard errored or were not played.
func (c Shard) isFlawed() bool {
	if c.Unplayed > 0 {
		return true
	}
	for _, n := range c.Errored {
		if n > 0 {
			return true
		}
	}
	return false
}

// Missing are the shards of a plan that aren't counted.
func (f Result) Missing(total int32) score.IndexSet {
	var shards score.IndexSet
	for shard := range int64(total) {
		if !f.Completed.Contains(shard) {
			shards.Add(shard)
		}
	}
	return shards
}

// Endpoint is what a rehearsal saw of the agent's endpoint, "" if no summary says that.
func (f Result) Endpoint() string {
	for _, summary := range f.Summaries {
		if summary.Endpoint != "" {
			return summary.Endpoint
		}
	}
	return ""
}

// Refuses reports whether the pod's summary is refused.
func (f Result) Refuses(pod *corev1.Pod) bool {
	return slices.ContainsFunc(f.Refused, func(r Refusal) bool { return r.Pod.UID == pod.UID })
}
