package episodes

import (
	"errors"
	"fmt"
	"io"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
)

// tally counts the episodes by the result of grading them again.
type tally struct {
	episodes, regraded, changed, passed, errored, skipped int
	// before and after are the sums of scores, over the episodes that have both.
	before, after float64
	both          int
	reasons       map[string]int
	// foreign counts the lines that aren't records.
	foreign      int
	firstForeign error
}

// skip counts an episode that keeps its grade, by reason.
func (t *tally) skip(err error) {
	t.skipped++
	reason := err.Error()
	for _, known := range []error{record.ErrUnfinished, record.ErrTruncated, episode.ErrUnknownTask,
		episode.ErrUnknownScenario, errNoVerdict, errUnfit} {
		if errors.Is(err, known) {
			reason = known.Error()
		}
	}
	t.reasons[reason]++
}

func (t *tally) count(before, after record.Grade) {
	t.regraded++
	if after.Outcome == score.Errored {
		t.errored++
		return
	}
	if before.Score == nil || *before.Score != *after.Score {
		t.changed++
	}
	if before.Score != nil {
		t.both++
		t.before += *before.Score
		t.after += *after.Score
	}
}

func (t *tally) print(w io.Writer) {
	fmt.Fprintf(w, "%d episodes: %d graded again (%d with another score, %d without a score), %d passed through, "+
		"%d not gradable\n", t.episodes, t.regraded, t.changed, t.errored, t.passed, t.skipped)
	if t.both > 0 {
		n := float64(t.both)
		fmt.Fprintf(w, "mean score of %d episodes: %.4f before, %.4f now\n", t.both, t.before/n, t.after/n)
	}
	for _, reason := range view.SortedKeys(t.reasons) {
		view.Paragraph(w, "  ", fmt.Sprintf("%d not gradable: %s", t.reasons[reason], reason))
	}
	if t.foreign > 0 {
		view.Paragraph(w, "  ", fmt.Sprintf("%s skipped because they aren't records; the first: %v",
			view.Count(t.foreign, "line"), t.firstForeign))
	}
}
