package ui

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/web/chart"
)

const (
	// leastQuiet is how long the store of a run under way may be without a new segment, and
	// quietEpisodes how many of the run's longest episodes that time has at least: a segment is
	// written seconds after an episode has ended. unknownQuiet is for a run without an episode.
	leastQuiet    = 5 * time.Minute
	quietEpisodes = 3
	unknownQuiet  = 15 * time.Minute
)

// isIncomplete reports whether a stored run lacks episodes. Nothing in a store says whether
// somebody plays the rest.
func isIncomplete(run *source.LoadedRun) bool {
	state, _ := figures.StateOf(run.EvaluationRun)
	return state == "Incomplete"
}

// stateOf returns the state of a run, and the message of the condition that sets it. A run that
// lacks episodes is under way while its store grows, and otherwise interrupted.
func (s *sources) stateOf(run *source.LoadedRun) (stateView, string) {
	state, message := stateOf(run.EvaluationRun)
	if !isIncomplete(run) {
		return state, message
	}
	episodes := ptr.Deref(run.Status.Episodes, v1alpha1.RunEpisodes{})
	missing := episodes.Total - episodes.Scored - episodes.Failed - episodes.Errored
	written := run.CreationTimestamp.Time
	if s.stored != nil {
		written = s.stored.written(run)
	}
	if time.Since(written) <= computeMaxQuiet(run.Status.Durations) {
		return stateView{v1alpha1.ReasonRunning, "busy"}, fmt.Sprintf("%d of %d episodes are still to be stored.",
			missing, episodes.Total)
	}
	return stateView{local.ReasonInterrupted, "bad"}, fmt.Sprintf("%d of %d episodes are not stored, and the store "+
		"last grew %s: the run was stopped, or its store failed.", missing, episodes.Total, ageOf(written).Age)
}

// computeMaxQuiet is how long the store of a run under way may be without a new segment.
func computeMaxQuiet(durations *v1alpha1.Durations) time.Duration {
	if durations == nil {
		return unknownQuiet
	}
	longest := time.Duration(chart.ParseDecimal(durations.EpisodeP99) * float64(time.Second))
	return max(leastQuiet, quietEpisodes*longest)
}

// written is when a run was stored last: its manifest or its newest segment.
func (s *stored) written(run *source.LoadedRun) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := run.CreationTimestamp.Time
	if newest := s.byID[runID(run.EvaluationRun)].Newest; newest.After(written) {
		written = newest
	}
	return written
}
