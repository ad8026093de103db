package index

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Search selects episodes that meet one of its conditions.
type Search struct {
	// Run is the run's id, "" for all runs.
	Run string
	// Text is searched for as in a Query, except that the last word is complete too: the records of
	// all words with the same beginning are too many for an answer within a moment.
	Text string
	// Scenarios are ids of scenarios, and Reasons those in source.LostPoints for which an episode
	// lost points.
	Scenarios, Reasons []string
	// Limit bounds the episodes, DefaultLimit by default.
	Limit int
}

// Found is an episode that a search has found.
type Found struct {
	// Run is the run's id, see StoredRun.
	Run string
	Episode
}

// expression is the full-text query of a search, "" if nothing is searched for.
func (s Search) expression() string {
	var conditions []string
	add := func(query string) {
		if query != "" {
			conditions = append(conditions, "("+query+")")
		}
	}
	for _, text := range append([]string{s.Text}, s.Scenarios...) {
		add(buildMatchQuery(text + " ")) // the space ends the last word
	}
	for _, reason := range s.Reasons {
		add(`"` + lostWord(reason) + `"`)
	}
	return strings.Join(conditions, " OR ")
}

// Search returns the first episodes that a search selects, with the runs that were indexed last
// first, and whether there are more. It reads the segments of these episodes only, so that its time
// hardly depends on the number of runs. An episode that was attempted again is also found by what
// only a record says that doesn't count.
func (x *Index) Search(ctx context.Context, s Search) (found []Found, more bool, err error) {
	limit := cmp.Or(s.Limit, DefaultLimit)
	switch {
	case limit < 1 || limit > MaxLimit:
		return nil, false, fmt.Errorf("limit %d: choose 1 to %d episodes", limit, MaxLimit)
	case len(s.Text) > MaxText:
		return nil, false, fmt.Errorf("the text to search for has %d bytes: shorten it to %d", len(s.Text), MaxText)
	}
	query := s.expression()
	if query == "" {
		return nil, false, nil
	}
	low, high := int64(0), int64(math.MaxInt64)
	if s.Run != "" {
		r, err := x.find(ctx, s.Run)
		if err != nil {
			return nil, false, err
		}
		low, high = docID(r.number, 0, 0), docID(r.number+1, 0, 0)
	}
	most := 2*limit + 1 // records of episodes that were attempted again are found twice
	ids, err := x.searchAll(ctx, query, low, high, most)
	if err != nil {
		return nil, false, x.explain(err)
	}
	more = len(ids) == most
	reading := hits{x: x, runs: map[int64]run{}}
	type key struct {
		run   string
		index int64
	}
	seen := map[key]bool{}
	for _, id := range ids {
		e, err := reading.episode(ctx, id)
		if errors.Is(err, sql.ErrNoRows) {
			continue // an update has forgotten the run since
		}
		if err != nil {
			return nil, false, x.explain(err)
		}
		k := key{e.Run, e.Index}
		if seen[k] {
			continue
		}
		if len(found) == limit {
			return found, true, nil
		}
		seen[k] = true
		found = append(found, e)
	}
	return found, more, nil
}

// searchAll returns the numbers of the last records from low to below high that match a full-text
// query.
func (x *Index) searchAll(ctx context.Context, query string, low, high int64, limit int) ([]int64, error) {
	rows, err := x.db.QueryContext(ctx, "SELECT rowid FROM docs WHERE docs MATCH ? AND rowid >= ? AND rowid < ? "+
		"ORDER BY rowid DESC LIMIT ?", query, low, high, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// hits reads the episodes of records by their numbers, which descend.
type hits struct {
	x    *Index
	runs map[int64]run
	// segment is the number of the first record of the segment that was read last.
	segment int64
	table   *table
}

func (h *hits) episode(ctx context.Context, id int64) (Found, error) {
	number := id >> (placeBits + lineBits)
	r, known := h.runs[number]
	if !known {
		if err := h.x.db.QueryRowContext(ctx, selectRuns+" WHERE id = ?", number).Scan(r.columns()...); err != nil {
			return Found{}, err
		}
		h.runs[number] = r
	}
	if segment := id &^ (maxLines - 1); h.table == nil || h.segment != segment {
		if err := h.read(ctx, r, id>>lineBits&(maxPlaces-1)); err != nil {
			return Found{}, err
		}
		h.segment = segment
	}
	for i := range h.table.rows {
		if row := &h.table.rows[i]; int64(row.line) == id&(maxLines-1) {
			return Found{r.id(), h.table.episode(row)}, nil
		}
	}
	return Found{}, errBlob
}

// read reads a segment of a run.
func (h *hits) read(ctx context.Context, r run, place int64) error {
	var s segment
	var blob []byte
	if err := h.x.db.QueryRowContext(ctx, "SELECT shard, number, rows FROM segments WHERE run = ? AND place = ?",
		r.number, place).Scan(&s.shard, &s.number, &blob); err != nil {
		return err
	}
	h.table = &table{run: r.number, pass: r.pass, names: map[string]uint32{}, segments: []segment{s}}
	loading := load{table: h.table, segments: h.table.segments}
	err := loading.add(blob)
	h.table.rows = loading.added
	return err
}

// SplitWords are the words of a text as searches compare them.
func SplitWords(text string) []string {
	w := newWords()
	w.add(text)
	return strings.Fields(w.list.String())
}
