package episodes

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/record"
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
	for limit, want := range map[int][]int64{0: {0, 1, 2, 3}, 2: {0, 1}, 9: {0, 1, 2, 3}} {
		rows, err := (&episodeFilter{limit: limit}).rows(t.Context(), run)
		if got := view.MapItems(rows, func(r episodeRow) int64 { return r.Index }); err != nil || !slices.Equal(got, want) {
			t.Errorf("--limit %d: %v (%v), want %v", limit, got, err, want)
		}
	}
}
