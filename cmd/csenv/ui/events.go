package ui

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
)

// event is an event of a run in the cluster. Type is Normal or Warning.
type event struct {
	Type, Reason, Message string
	Count                 int32
	Last                  time.Time
}

// events returns the events of a run, the latest first. There are none in public mode, without a
// cluster, and if the user may not list events.
func (s *site) events(ctx context.Context, run *source.LoadedRun) ([]event, error) {
	if s.public || s.sources.cluster == nil {
		return nil, nil
	}
	found, err := s.sources.cluster.Connection().Events(ctx, run.EvaluationRun)
	if err != nil {
		return nil, err
	}
	events := view.MapItems(found, newEvent)
	slices.SortStableFunc(events, func(a, b event) int { return b.Last.Compare(a.Last) })
	return events, nil
}

// newEvent reads the fields of both APIs of events.
func newEvent(e corev1.Event) event {
	out := event{Type: e.Type, Reason: e.Reason, Message: e.Message, Count: max(e.Count, 1)}
	last := []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time}
	if e.Series != nil {
		out.Count, last = e.Series.Count, append([]time.Time{e.Series.LastObservedTime.Time}, last...)
	}
	for _, at := range last {
		if out.Last.IsZero() {
			out.Last = at.UTC()
		}
	}
	out.Type = cmp.Or(out.Type, corev1.EventTypeNormal)
	return out
}
