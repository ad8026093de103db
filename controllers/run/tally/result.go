// Package tally adds the summaries of a run's runners and the segments of its pool's servers to the
// sums in the run's status, each once. It is pure.
package tally

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/envserver/score"
)

// Result is the result of adding summaries or segments to the sums.
type Result struct {
	Sums      score.Accumulator
	Completed score.IndexSet
	Counted   []Shard // by this pass
	Refused   []Refusal
	Ledgers   []*score.Ledger // of the shards in counted, or of the segments that this pass has added
	Summaries []score.Summary // of the shards in counted
	Errored   int64           // errored episodes of those segments
}

// Shard is a shard that a pass has counted.
type Shard struct {
	Index    int
	Duration time.Duration
	// Replayed is the number of episodes that ended again and weren't graded, unreported that of
	// attempts that the servers began and no runner reports.
	Replayed, Unreported int64
	Errored              map[string]int64 // episodes by class
}

// IsSuspect reports whether the servers counted more episodes than the shard's runner.
func (c Shard) IsSuspect() bool { return c.Replayed > 0 || c.Unreported > 0 }

// isFlawed reports whether episodes of the shard errored.
func (c Shard) isFlawed() bool {
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
