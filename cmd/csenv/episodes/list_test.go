package episodes

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/play/record"
)

// Episodes are stored as they end, and listed as they were planned.
func TestEpisodesInThePlansOrder(t *testing.T) {
	run := &source.LoadedRun{EvaluationRun: &v1alpha1.EvaluationRun{}}
	run.Episodes = func(context.Context) iter.Seq2[record.Episode, error] {
		return func(yield func(record.Episode, error) bool) {
			for _, index := range []int64{2, 0, 3, 1} {
				if !yield(record.Episode{Index: index}, nil) {
					return
				}
			}
		}
	}
	rows, err := (&episodeFilter{}).rows(t.Context(), run)
	got := view.MapItems(rows, func(r episodeRow) int64 { return r.Index })
	if want := []int64{0, 1, 2, 3}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
}
