package index

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/score"
)

// table has the records of a run that count, in memory.
type table struct {
	run  int64
	pass int64
	size atomic.Int64

	// mu guards everything below, and is locked for writing to load further segments.
	mu sync.RWMutex
	// rows are ordered by index and shard.
	rows     []row
	segments []segment // by place
	records  int       // lines of all segments
	// names are all texts of the rows, numbered in texts.
	names map[string]uint32
	texts []string

	cache cache

	// refreshed is when segments were loaded last, and took how long that was.
	refreshed time.Time
	took      time.Duration
}

const (
	// staleTime is how old a table gets at least while its run is being read, and staleShare how
	// often the time that loading takes. Figures, which are computed beside the pages, load the
	// table too.
	staleTime  = 10 * time.Second
	staleShare = 20
)

// segment is where a segment's lines begin among the lines of all segments.
type segment struct {
	shard, number int
	first         int
}

// row is a record that counts.
type row struct {
	index, seed                    int64
	score                          int32 // micro-points as counted, -1 for none
	task, scenario, outcome, class uint32
	trial, turns, attempts         int32
	duration                       uint32 // milliseconds
	place, line                    int32
	flags                          uint16
}

// refresh loads the segments up to the given number.
func (t *table) refresh(ctx context.Context, db *sql.DB, segments int) error {
	t.mu.RLock()
	current := len(t.segments) >= segments
	t.mu.RUnlock()
	if current {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.segments) >= segments {
		return nil
	}
	began := time.Now()
	var records int
	if err := db.QueryRowContext(ctx, "SELECT coalesce(sum(records), 0) FROM segments WHERE run = ? AND place >= ? "+
		"AND place < ?", t.run, len(t.segments), segments).Scan(&records); err != nil {
		return err
	}
	loading := load{table: t, added: make([]row, 0, records), segments: t.segments, records: t.records}
	if err := loading.read(ctx, db, segments); err != nil {
		return err
	}
	t.segments, t.records = loading.segments, loading.records
	t.merge(loading.added)
	t.size.Store(int64(len(t.rows)))
	t.cache.clear()
	t.refreshed = time.Now()
	t.took = t.refreshed.Sub(began)
	return nil
}

// load reads segments into rows.
type load struct {
	*table
	added    []row
	segments []segment
	records  int
}

func (l *load) read(ctx context.Context, db *sql.DB, segments int) error {
	found, err := db.QueryContext(ctx, "SELECT shard, number, rows FROM segments WHERE run = ? AND place >= ? AND "+
		"place < ? ORDER BY place", l.run, len(l.segments), segments)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var s segment
		var blob sql.RawBytes
		if err := found.Scan(&s.shard, &s.number, &blob); err != nil {
			return err
		}
		s.first = l.records
		l.segments = append(l.segments, s)
		if err := l.add(blob); err != nil {
			return err
		}
	}
	if err := found.Err(); err != nil {
		return err
	}
	if len(l.segments) < segments {
		return fmt.Errorf("%d of %d segments are indexed: reload the page", len(l.segments), segments)
	}
	return nil
}

// add reads the rows of the last segment.
func (l *load) add(blob []byte) error {
	u, err := newUnpacker(blob)
	if err != nil {
		return err
	}
	ids := make([]uint32, len(u.names))
	for i, name := range u.names {
		ids[i] = l.intern(name)
	}
	for {
		e, err := u.next()
		if err != nil {
			return err
		}
		if e == nil {
			return nil
		}
		if e.line < 0 || e.line >= maxLines {
			return errBlob
		}
		r := row{index: e.index, seed: e.seed, score: -1, task: ids[e.task], scenario: ids[e.scenario],
			outcome: ids[e.outcome], class: ids[e.class], trial: clampInt32(e.trial), turns: clampInt32(e.turns),
			attempts: clampInt32(e.attempts), duration: uint32(min(max(e.duration, 0), math.MaxUint32)),
			place: int32(len(l.segments) - 1), line: int32(e.line), flags: uint16(e.flags)} //nolint:gosec // bounded
		if e.flags&isCounted != 0 {
			r.outcome, r.score = ids[e.countedOutcome], int32(min(max(e.score, 0), score.One))
		}
		l.records = l.segments[len(l.segments)-1].first + e.line + 1
		l.added = append(l.added, r)
	}
}

func clampInt32(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

func (t *table) intern(name string) uint32 {
	id, known := t.names[name]
	if !known {
		id = uint32(len(t.texts)) //nolint:gosec // fewer than records
		t.names[name] = id
		t.texts = append(t.texts, name)
	}
	return id
}

// merge adds rows. Of several rows of an episode the one remains that results.Store.Episodes
// yields: the first with a receipt, or else the last.
func (t *table) merge(added []row) {
	slices.SortFunc(added, func(a, b row) int { return cmp.Or(t.byEpisode(a, b), t.byRank(a, b)) })
	added = slices.CompactFunc(added, func(a, b row) bool { return t.byEpisode(a, b) == 0 })
	if len(t.rows) == 0 {
		t.rows = added
		return
	}
	fresh := added[:0]
	for _, r := range added {
		at, found := slices.BinarySearchFunc(t.rows, r, t.byEpisode)
		switch {
		case !found:
			fresh = append(fresh, r)
		case t.byRank(r, t.rows[at]) < 0:
			t.rows[at] = r
		}
	}
	// Both lists are ordered: the greatest row moves to the end, and so on.
	to, from := len(t.rows)+len(fresh)-1, len(t.rows)-1
	t.rows = append(t.rows, fresh...)
	for i := len(fresh) - 1; i >= 0; to-- {
		if from >= 0 && t.byEpisode(t.rows[from], fresh[i]) > 0 {
			t.rows[to] = t.rows[from]
			from--
		} else {
			t.rows[to] = fresh[i]
			i--
		}
	}
}

func (t *table) byEpisode(a, b row) int {
	if a.index != b.index {
		return cmp.Compare(a.index, b.index)
	}
	return cmp.Compare(t.segments[a.place].shard, t.segments[b.place].shard)
}

// byRank orders the records of one episode, the one that counts first.
func (t *table) byRank(a, b row) int {
	receipts := a.flags & hasReceipt
	if receipts != b.flags&hasReceipt {
		return cmp.Compare(b.flags&hasReceipt, receipts)
	}
	later := cmp.Or(cmp.Compare(t.segments[a.place].number, t.segments[b.place].number), cmp.Compare(a.line, b.line))
	if receipts == 0 {
		return -later
	}
	return later
}

// bits is a set of records, by their number among the lines of all segments.
type bits []uint64

func (t *table) newBits() bits { return make(bits, (t.records+63)/64) }

func (b bits) set(n int) { b[n/64] |= 1 << (n % 64) }

func (b bits) has(n int) bool { return b[n/64]&(1<<(n%64)) != 0 }

// record is the number of a row's record.
func (t *table) record(r *row) int { return t.segments[r.place].first + int(r.line) }
