package source

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/controllers/evaluation"
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

// Standing returns whether a stored run that lacks episodes is under way or interrupted, as a
// reason, and why. A folder that csenv eval has locked says whether somebody plays the rest. Of
// another store nothing says it: the run is under way while the store grows. Written is when it
// last grew.
func Standing(run *v1alpha1.EvaluationRun, written time.Time) (reason, message string) {
	e := ptr.Deref(run.Status.Episodes, v1alpha1.RunEpisodes{})
	missing := e.Total - e.Scored - e.Failed - e.Errored
	if cli.IsAbandoned(strings.TrimPrefix(run.Status.Results, "file://")) {
		return local.ReasonInterrupted, fmt.Sprintf("%d of %d episodes are not stored, and no process plays them.",
			missing, e.Total)
	}
	quiet := time.Since(written)
	if quiet <= computeMaxQuiet(run.Status.Durations) {
		return v1alpha1.ReasonRunning, fmt.Sprintf("%d of %d episodes are still to be stored.", missing, e.Total)
	}
	return local.ReasonInterrupted, fmt.Sprintf("%d of %d episodes are not stored, and the store last grew %s ago: "+
		"the run was stopped, or its store failed.", missing, e.Total, quiet.Round(time.Minute))
}

// computeMaxQuiet is how long the store of a run under way may be without a new segment.
func computeMaxQuiet(durations *v1alpha1.Durations) time.Duration {
	if durations == nil {
		return unknownQuiet
	}
	longest := time.Duration(chart.ParseDecimal(durations.EpisodeP99) * float64(time.Second))
	return max(leastQuiet, quietEpisodes*longest)
}

// IsUnfinished reports whether a run that isn't of a cluster lacks episodes.
func IsUnfinished(run *v1alpha1.EvaluationRun) bool {
	c := evaluation.FindState(run.Status.Conditions)
	return run.ResourceVersion == "" && c != nil &&
		(c.Reason == v1alpha1.ReasonRunning || c.Reason == local.ReasonInterrupted)
}

// setStanding says whether an unfinished run is under way, by its newest segment. A reader that
// keeps an index knows that by itself.
func (s *Stored) setStanding(ctx context.Context, folder string, run *v1alpha1.EvaluationRun) error {
	reader, reads := s.Reader.(summing)
	if !reads || !IsUnfinished(run) {
		return nil
	}
	written := run.CreationTimestamp.Time
	segments, err := reader.Segments(ctx, folder)
	for _, segment := range segments {
		if segment.Modified.After(written) {
			written = segment.Modified
		}
	}
	reason, message := Standing(run, written)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionComplete} {
		if c := meta.FindStatusCondition(run.Status.Conditions, kind); c != nil {
			c.Reason, c.Message = reason, message+c.Message
		}
	}
	return err
}
