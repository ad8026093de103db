package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/score"
)

// Sort is what episodes are ordered by.
type Sort string

// The sorts. Episodes that are equal are ordered by index.
const (
	ByIndex    Sort = "index"
	ByScore    Sort = "score" // episodes without a score first
	ByScenario Sort = "scenario"
	ByTask     Sort = "task"
	ByTurns    Sort = "turns"
	ByDuration Sort = "duration"
	ByOutcome  Sort = "outcome"
)

// Sorts are all sorts.
var Sorts = []Sort{ByIndex, ByScore, ByScenario, ByTask, ByTurns, ByDuration, ByOutcome}

// The bounds of a query.
const (
	DefaultLimit = 50
	MaxLimit     = 500
	// MaxText bounds the text to search for, in bytes, MaxValues the values of a filter.
	MaxText   = 400
	MaxValues = 20_000
)

// Query selects episodes of a run. A filter that is empty or nil selects all.
type Query struct {
	// Run is the run's id, see StoredRun.
	Run string
	// Tasks, Scenarios and Outcomes are names. An episode must have one of each.
	Tasks, Scenarios, Outcomes []string
	// Least and Most bound the score, in micro-points.
	Least, Most *int64
	// Passed selects by the run's pass score, and Class by the class of error.
	Passed *bool
	Class  string
	// Lost is the reason of source.LostPoints for which the episodes lost points.
	Lost string
	// Text is searched for in scenario ids, classes of errors and the agent's texts. Episodes have
	// all its words; the last word may be incomplete.
	Text string

	// Sort is ByIndex by default.
	Sort       Sort
	Descending bool
	// Offset and Limit select a page. The default of Limit is DefaultLimit.
	Offset, Limit int
}

// validate completes a query.
func (q *Query) validate() error {
	if q.Sort == "" {
		q.Sort = ByIndex
	}
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	switch {
	case !slices.Contains(Sorts, q.Sort):
		return fmt.Errorf("sort %.40q: choose one of %v", q.Sort, Sorts)
	case q.Offset < 0:
		return fmt.Errorf("offset %d: begin at 0", q.Offset)
	case q.Limit < 1 || q.Limit > MaxLimit:
		return fmt.Errorf("limit %d: choose 1 to %d episodes", q.Limit, MaxLimit)
	case len(q.Text) > MaxText:
		return fmt.Errorf("the text to search for has %d bytes: shorten it to %d", len(q.Text), MaxText)
	case max(len(q.Tasks), len(q.Scenarios), len(q.Outcomes)) > MaxValues:
		return fmt.Errorf("a filter has more than %d values: choose fewer", MaxValues)
	case q.Least != nil && q.Most != nil && *q.Least > *q.Most:
		return errors.New("the least score is above the greatest: exchange them")
	}
	return nil
}

// Episode is what lists show of an episode.
type Episode struct {
	Index          int64
	Task, Scenario string
	Trial          int
	Seed           int64
	// Outcome and Score are those that count in the figures. Score is in micro-points, nil for
	// none.
	Outcome score.Outcome
	Class   string
	Score   *int64
	Passed  bool
	// Differs is set if the record has another result than the figures, Receipt if it has a
	// receipt, and Claimed if it has a score and no valid one.
	Differs, Receipt, Claimed bool
	Turns, Attempts           int
	DurationMS                int64
	// The record is item Line, from 0, of results.Store.Segment of the segment.
	Shard, Segment, Line int
}

// Count is how many episodes have a name.
type Count struct {
	Name     string
	Episodes int
}

// Page is a part of the episodes that a query selects.
type Page struct {
	Episodes []Episode
	// Total is the number of selected episodes, All the number of all indexed episodes of the run.
	Total, All int
	// Tasks and Outcomes count the episodes that the other filters select, ordered by name, also
	// those with 0.
	Tasks, Outcomes []Count
	// Scores counts the selected episodes with a score in bins as of score.Bins.
	Scores [score.Bins]int64
}

// Episodes returns a page of the episodes that a query selects.
func (x *Index) Episodes(ctx context.Context, q Query) (Page, error) {
	var page Page
	err := x.selected(ctx, q, func(t *table, s *selection, q Query) {
		page = Page{Total: len(s.rows), All: len(t.rows), Tasks: s.tasks, Outcomes: s.outcomes, Scores: s.scores}
		first := min(q.Offset, len(s.rows))
		for _, at := range s.rows[first:min(first+q.Limit, len(s.rows))] {
			page.Episodes = append(page.Episodes, t.episode(&t.rows[at]))
		}
	})
	return page, err
}

// Neighbours are the episodes around one in the order of a query.
type Neighbours struct {
	// Previous and Next are indexes, nil at the ends.
	Previous, Next *int64
	// Position is the episode's, from 0, among Total selected ones. It is -1 if the query does
	// not select the episode.
	Position, Total int
}

// Neighbours returns the episodes before and after one in the order of a query.
func (x *Index) Neighbours(ctx context.Context, q Query, index int64) (Neighbours, error) {
	n := Neighbours{Position: -1}
	err := x.selected(ctx, q, func(t *table, s *selection, _ Query) {
		n.Total = len(s.rows)
		n.Position = slices.IndexFunc(s.rows, func(at uint32) bool { return t.rows[at].index == index })
		if n.Position > 0 {
			n.Previous = new(t.rows[s.rows[n.Position-1]].index)
		}
		if n.Position >= 0 && n.Position+1 < n.Total {
			n.Next = new(t.rows[s.rows[n.Position+1]].index)
		}
	})
	return n, err
}

// selected calls use with the episodes that a query selects, while they can't change.
func (x *Index) selected(ctx context.Context, q Query, use func(*table, *selection, Query)) error {
	if err := q.validate(); err != nil {
		return err
	}
	return x.withTable(ctx, q.Run, false, func(_ run, t *table) error {
		s, err := t.selection(ctx, x, q)
		if err != nil {
			return err
		}
		use(t, s, q)
		return nil
	})
}

// withTable calls use with the loaded records of a run, while they can't change. While the run is
// being read, the last segments may be missing unless all are wanted.
func (x *Index) withTable(ctx context.Context, id string, all bool, use func(run, *table) error) error {
	r, err := x.find(ctx, id)
	if err != nil {
		return err
	}
	t := x.use(r)
	if all || x.unreadOf(r.number) == 0 || t.stale() {
		if err := t.refresh(ctx, x.db, r.segments); err != nil {
			return fmt.Errorf("reading the index of run %s: %w", r.id(), x.explain(err))
		}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return use(r, t)
}

// stale reports whether a query should wait for further segments although more are being read.
func (t *table) stale() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.segments) == 0 || time.Since(t.refreshed) > max(staleTime, staleShare*t.took)
}

func (t *table) episode(r *row) Episode {
	e := Episode{Index: r.index, Task: t.texts[r.task], Scenario: t.texts[r.scenario],
		Trial: int(r.trial), Seed: r.seed,
		Outcome: score.Outcome(t.texts[r.outcome]), Class: t.texts[r.class], Passed: t.passed(r),
		Differs: r.flags&isDifferent != 0, Receipt: r.flags&hasReceipt != 0, Claimed: r.flags&isClaimed != 0,
		Turns: int(r.turns), Attempts: int(r.attempts), DurationMS: int64(r.duration),
		Shard: t.segments[r.place].shard, Segment: t.segments[r.place].number, Line: int(r.line)}
	if r.score >= 0 {
		e.Score = new(int64(r.score))
	}
	return e
}

func (t *table) passed(r *row) bool {
	return r.score >= 0 && int64(r.score) >= t.pass && r.flags&isWrong == 0
}

// key identifies what a query selects, whatever its page.
func (q Query) key() (string, error) {
	q.Offset, q.Limit = 0, 0
	key, err := json.Marshal(q)
	return string(key), err
}
