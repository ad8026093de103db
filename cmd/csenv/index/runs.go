package index

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/score"
)

// run is a row of the table of runs.
type run struct {
	number           int64
	location, folder string
	pass             int64
	segments         int
}

// id is the run's folder, or the last element of the location if that is the run's own folder.
func (r run) id() string {
	if r.folder != "" {
		return r.folder
	}
	location, _, _ := strings.Cut(r.location, "?")
	return path.Base(location)
}

const selectRuns = "SELECT id, location, folder, pass, segments FROM runs"

// runsAt lists the runs of a location, or all runs for "", by location and folder.
func (x *Index) runsAt(ctx context.Context, location string) ([]run, error) {
	return x.listRuns(ctx, "?1 IN ('', location)", location)
}

// listRuns lists the runs that meet a condition, by location and folder.
func (x *Index) listRuns(ctx context.Context, condition, value string) ([]run, error) {
	rows, err := x.db.QueryContext(ctx, selectRuns+" WHERE "+condition+" ORDER BY location, folder", value)
	if err != nil {
		return nil, x.explain(err)
	}
	defer rows.Close()
	var runs []run
	for rows.Next() {
		var r run
		if err := rows.Scan(r.columns()...); err != nil {
			return nil, x.explain(err)
		}
		runs = append(runs, r)
	}
	return runs, x.explain(rows.Err())
}

func (r *run) columns() []any {
	return []any{&r.number, &r.location, &r.folder, &r.pass, &r.segments}
}

// ErrNoRun means that a run isn't in the index.
var ErrNoRun = errors.New("is not in the index: choose one of the list of runs, or wait until it is indexed")

// find finds a run by its id. Of several locations that have it, it takes the first.
func (x *Index) find(ctx context.Context, id string) (run, error) {
	var r run
	err := x.db.QueryRowContext(ctx, selectRuns+" WHERE folder = ? AND folder <> '' ORDER BY location LIMIT 1",
		id).Scan(r.columns()...)
	if !errors.Is(err, sql.ErrNoRows) {
		return r, x.explain(err)
	}
	all, err := x.runsAt(ctx, "")
	if at := slices.IndexFunc(all, func(r run) bool { return r.id() == id }); at >= 0 {
		return all[at], err
	}
	return run{}, cmp.Or(err, fmt.Errorf("run %.100q %w", id, ErrNoRun))
}

// manifest reads the manifest of a run from the index.
func (x *Index) manifest(ctx context.Context, r run) (results.Manifest, error) {
	var text []byte
	var written int64
	err := x.db.QueryRowContext(ctx, "SELECT manifest, written FROM runs WHERE id = ?", r.number).Scan(&text, &written)
	if err != nil {
		return results.Manifest{}, x.explain(err)
	}
	m := results.Manifest{Written: time.Unix(0, written)}
	if err := json.Unmarshal(text, &m); err != nil {
		return results.Manifest{}, fmt.Errorf("reading the indexed manifest of run %s: %w", r.id(), err)
	}
	return m, nil
}

// StoredRun is an indexed run.
type StoredRun struct {
	// ID is NAMESPACE/NAME-UID8, see results.RunFolder. Location is its store's.
	ID, Location string
	// LoadedRun has the figures. It is nil if they can't be computed: Err is why.
	*source.LoadedRun
	Err error
	// Problems counts the stored lines that can't be read, and Problem is about the first. They are
	// in no figure.
	Problems int64
	Problem  string
	// Unread are the stored segments that the update under way has still to read, of Segments.
	Unread, Segments int
	// Newest is when the last segment that was read was written, according to its store, zero if
	// none was read.
	Newest time.Time
}

// Runs returns the runs of all locations.
func (x *Index) Runs(ctx context.Context) ([]StoredRun, error) {
	runs, err := x.runsAt(ctx, "")
	if err != nil {
		return nil, err
	}
	stored := make([]StoredRun, len(runs))
	for i, r := range runs {
		made := StoredRun{ID: r.id(), Location: r.location, Unread: x.unreadOf(r.number)}
		made.Segments = r.segments + made.Unread
		var newest sql.NullInt64
		if err := x.db.QueryRowContext(ctx, "SELECT coalesce(sum(problems), 0), coalesce(max(problem), ''), "+
			"max(modified) FROM segments WHERE run = ?", r.number).Scan(&made.Problems, &made.Problem,
			&newest); err != nil {
			return nil, x.explain(err)
		}
		if newest.Valid {
			made.Newest = time.Unix(0, newest.Int64)
		}
		if made.LoadedRun, made.Err = x.load(ctx, r); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		stored[i] = made
	}
	return stored, nil
}

func (x *Index) unreadOf(run int64) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.unread[run]
}

// load returns a run with its figures, scores by scenario and comparison, as source.Flags.Find
// does.
func (x *Index) load(ctx context.Context, r run) (*source.LoadedRun, error) {
	return source.NewStored(&reader{x, r.location}, r.location).Load(ctx, r.folder)
}

// ErrNoEpisode means that an episode isn't in the index.
var ErrNoEpisode = errors.New("isn't stored: choose one of the list of episodes")

// Episode reads the record of an episode that counts from its store.
func (x *Index) Episode(ctx context.Context, id string, index int64) (record.Episode, error) {
	var found run
	var at Episode
	find := func(r run, t *table) error {
		n, ok := slices.BinarySearchFunc(t.rows, index,
			func(r row, index int64) int { return cmp.Compare(r.index, index) })
		if !ok {
			return fmt.Errorf("run %s: episode %d %w", id, index, ErrNoEpisode)
		}
		found, at = r, t.episode(&t.rows[n])
		return nil
	}
	err := x.withTable(ctx, id, false, find)
	if errors.Is(err, ErrNoEpisode) {
		err = x.withTable(ctx, id, true, find)
	}
	if err != nil {
		return record.Episode{}, err
	}
	store, err := x.store(ctx, found.location)
	if err != nil {
		return record.Episode{}, err
	}
	line := 0
	for e, err := range store.Segment(ctx, found.folder, results.Segment{Shard: at.Shard, Number: at.Segment}) {
		if line == at.Line && err == nil && e.Index == index {
			return e, nil
		}
		if err != nil && !errors.Is(err, record.ErrNotRecord) {
			return e, err
		}
		line++
	}
	return record.Episode{}, fmt.Errorf("episode %d of run %s is no longer where it was indexed: the store was "+
		"changed; reload the page when it is indexed again", index, id)
}

// reader reads the runs of one location for package source.
type reader struct {
	x        *Index
	location string
}

// Close leaves the index open.
func (*reader) Close() error { return nil }

// Runs lists the folders of the indexed runs.
func (d *reader) Runs(ctx context.Context) ([]string, error) {
	runs, err := d.x.runsAt(ctx, d.location)
	folders := make([]string, len(runs))
	for i, r := range runs {
		folders[i] = r.folder
	}
	return folders, err
}

func (d *reader) find(ctx context.Context, folder string) (run, error) {
	var r run
	err := d.x.db.QueryRowContext(ctx, selectRuns+" WHERE location = ? AND folder = ?", d.location,
		folder).Scan(r.columns()...)
	if errors.Is(err, sql.ErrNoRows) {
		return r, fmt.Errorf("run %q %w", folder, ErrNoRun)
	}
	return r, d.x.explain(err)
}

// Manifest reads a manifest from the index.
func (d *reader) Manifest(ctx context.Context, folder string) (results.Manifest, error) {
	r, err := d.find(ctx, folder)
	if err != nil {
		return results.Manifest{}, err
	}
	return d.x.manifest(ctx, r)
}

// Episodes reads the episodes from their store.
func (d *reader) Episodes(ctx context.Context, folder string) iter.Seq2[record.Episode, error] {
	return func(yield func(record.Episode, error) bool) {
		store, err := d.x.store(ctx, d.location)
		if err != nil {
			yield(record.Episode{}, err)
			return
		}
		store.Episodes(ctx, folder)(yield)
	}
}

// summed is the sum of the first segments of a run, as JSON.
type summed struct {
	segments int
	text     []byte
}

// Sum sums up a run from the index, unless that was done since the last new segment. It writes
// nothing: an update stores the sum.
func (d *reader) Sum(ctx context.Context, folder string, plan score.Plan) (*source.Sum, error) {
	if _, err := source.NewChecker(plan); err != nil {
		return nil, err
	}
	r, err := d.find(ctx, folder)
	if err != nil {
		return nil, err
	}
	d.x.summing.Lock()
	defer d.x.summing.Unlock()
	kept, err := d.x.keptSum(ctx, r)
	if err != nil {
		return nil, err
	}
	sum := &source.Sum{}
	if kept.segments >= r.segments && json.Unmarshal(kept.text, sum) == nil {
		return sum, nil
	}
	sum, segments, err := d.x.sum(ctx, r, plan)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(sum)
	if err != nil {
		return nil, fmt.Errorf("summing up run %s: %w", r.id(), err)
	}
	d.x.mu.Lock()
	defer d.x.mu.Unlock()
	if d.x.sums[r.number].segments <= segments {
		d.x.sums[r.number] = summed{segments, text}
	}
	return sum, nil
}

// keptSum is the sum of a run in memory, or else that in the file. Its segments are -1 if there is
// none.
func (x *Index) keptSum(ctx context.Context, r run) (summed, error) {
	x.mu.Lock()
	kept, found := x.sums[r.number]
	x.mu.Unlock()
	if found {
		return kept, nil
	}
	err := x.db.QueryRowContext(ctx, "SELECT summed, sum FROM runs WHERE id = ?", r.number).Scan(&kept.segments,
		&kept.text)
	if errors.Is(err, sql.ErrNoRows) {
		return summed{segments: -1}, nil
	}
	return kept, x.explain(err)
}

// sum adds up the episodes that count, by shard and in the order in which they ended. It returns
// the number of segments that have them.
func (x *Index) sum(ctx context.Context, r run, plan score.Plan) (*source.Sum, int, error) {
	sum, t := source.NewSum(plan), x.use(r)
	if err := t.refresh(ctx, x.db, r.segments); err != nil {
		return nil, 0, x.explain(err)
	}
	counts, segments := t.counted()
	rows, err := x.db.QueryContext(ctx, "SELECT place, rows FROM segments WHERE run = ? AND place < ? "+
		"ORDER BY shard, number", r.number, len(segments))
	if err != nil {
		return nil, 0, x.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var place int
		var blob sql.RawBytes
		if err := rows.Scan(&place, &blob); err != nil {
			return nil, 0, x.explain(err)
		}
		if err := addSegment(sum, segments[place].first, blob, counts); err != nil {
			return nil, 0, err
		}
	}
	return sum, len(segments), x.explain(rows.Err())
}

// counted returns the records that count and the segments that have them. The sum is computed of
// these, not of the table, because it takes seconds, in which nobody else could use the table.
func (t *table) counted() (bits, []segment) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	counts := t.newBits()
	for i := range t.rows {
		counts.set(t.record(&t.rows[i]))
	}
	return counts, slices.Clone(t.segments)
}

// addSegment adds the records of a segment that count. The number of its first line is given.
func addSegment(sum *source.Sum, first int, blob []byte, counts bits) error {
	u, err := newUnpacker(blob)
	if err != nil {
		return err
	}
	for {
		e, err := u.next()
		if err != nil || e == nil {
			return err
		}
		if n := first + e.line; n >= 64*len(counts) || !counts.has(n) {
			continue
		}
		if err := sum.Add(u.counted()); err != nil {
			return err
		}
	}
}
