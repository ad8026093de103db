package index

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
)

// Progress is how far an update is.
type Progress struct {
	// Episodes are the records that were read, retried episodes twice.
	Episodes int64
	// Segments and Bytes were read of all that are new.
	Segments, AllSegments int
	Bytes, AllBytes       int64
}

// About estimates the number of episodes of all new segments.
func (p Progress) About() int64 {
	if p.Bytes == 0 {
		return 0
	}
	return int64(float64(p.Episodes) / float64(p.Bytes) * float64(p.AllBytes))
}

const (
	// batch is the number of segments of a transaction, and batchTime how long it waits for them.
	// Another batch is held while one is written.
	batch     = 32
	batchTime = time.Second
	// maxProblems bounds the errors that an update returns.
	maxProblems = 10
)

// job is a segment to read.
type job struct {
	run     *run
	segment results.Segment
	checker *source.Checker
}

// parsed is a segment that was read.
type parsed struct {
	job
	rows     []byte
	lines    []int    // of each record
	words    []string // of each record
	problems int
	problem  string
	err      error
}

// Update reads the new segments of the store at a location, and forgets runs that are no longer
// stored. Progress, if set, is called after each transaction: it may read the index. Queries work
// meanwhile and see whole segments. Runs and segments that can't be read are in the error, the
// others are indexed; the next update tries again.
func (x *Index) Update(ctx context.Context, location string, progress func(Progress)) error {
	x.updating.Lock()
	defer x.updating.Unlock()
	store, err := x.store(ctx, location)
	if err != nil {
		return err
	}
	jobs, problems, err := x.list(ctx, store, location)
	if err != nil {
		return x.explain(err)
	}
	x.count(jobs)
	defer x.count(nil)
	failed, err := x.readAll(ctx, store, jobs, progress)
	if err == nil {
		err = x.storeSums(ctx, location)
	}
	if err != nil {
		return x.explain(err)
	}
	problems = append(problems, failed...)
	return errors.Join(problems[:min(len(problems), maxProblems)]...)
}

// storeSums stores the sums of the runs of a location that have new segments, for the next process.
func (x *Index) storeSums(ctx context.Context, location string) error {
	runs, err := x.listRuns(ctx, "location = ? AND summed <> segments", location)
	if err != nil {
		return err
	}
	for _, r := range runs {
		// A run whose sum can't be computed says so where it is shown.
		if _, err := x.load(ctx, r); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		x.mu.Lock()
		kept, fresh := x.sums[r.number]
		x.mu.Unlock()
		if !fresh {
			continue
		}
		if _, err := x.db.ExecContext(ctx, "UPDATE runs SET sum = ?, summed = ? WHERE id = ?", kept.text, kept.segments,
			r.number); err != nil {
			return err
		}
		x.mu.Lock()
		delete(x.sums, r.number)
		x.mu.Unlock()
	}
	return nil
}

// count notes how many segments of each run are still to be read.
func (x *Index) count(jobs []job) {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.unread)
	for _, j := range jobs {
		x.unread[j.run.number]++
	}
}

// list compares the store with the index, and returns the segments to read.
func (x *Index) list(ctx context.Context, store *results.Store, location string) (jobs []job, problems []error,
	err error) {
	folders, err := store.Runs(ctx)
	if err != nil {
		return nil, nil, err
	}
	stored, err := x.runsAt(ctx, location)
	if err != nil {
		return nil, nil, err
	}
	known := map[string]*run{}
	for i := range stored {
		if r := &stored[i]; slices.Contains(folders, r.folder) {
			known[r.folder] = r
		} else if err := x.forget(ctx, r.number); err != nil {
			return nil, nil, err
		}
	}
	for _, folder := range folders {
		added, err := x.listRun(ctx, store, location, folder, known[folder])
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			problems = append(problems, err)
		}
		jobs = append(jobs, added...)
	}
	return jobs, problems, nil
}

// listRun returns the new segments of a run. If segments have changed, the run was stored again and
// is read from its start.
func (x *Index) listRun(ctx context.Context, store *results.Store, location, folder string,
	r *run) ([]job, error) {
	segments, err := store.Segments(ctx, folder)
	if err != nil {
		return nil, err
	}
	read := map[segmentKey]bool{}
	if r != nil {
		if read, err = x.segmentsOf(ctx, r.number); err != nil {
			return nil, err
		}
	}
	var fresh []results.Segment
	same := 0
	for _, s := range segments {
		if read[keyOf(s)] {
			same++
		} else {
			fresh = append(fresh, s)
		}
	}
	if r != nil && same < len(read) {
		if err := x.forget(ctx, r.number); err != nil {
			return nil, err
		}
		r, fresh = nil, segments
	}
	if r == nil {
		if r, err = x.addRun(ctx, store, location, folder); err != nil {
			return nil, err
		}
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	m, err := x.manifest(ctx, *r)
	if err != nil {
		return nil, err
	}
	// Without a valid key no receipt is valid, and figures fail with the reason.
	checker, _ := source.NewChecker(m.Plan)
	jobs := make([]job, len(fresh))
	for i, s := range fresh {
		jobs[i] = job{r, s, checker}
	}
	return jobs, nil
}

// segmentKey identifies the content of a segment.
type segmentKey struct {
	shard, number  int
	size, modified int64
}

func keyOf(s results.Segment) segmentKey {
	return segmentKey{s.Shard, s.Number, s.Size, s.Modified.UnixNano()}
}

func (x *Index) segmentsOf(ctx context.Context, id int64) (map[segmentKey]bool, error) {
	rows, err := x.db.QueryContext(ctx, "SELECT shard, number, size, modified FROM segments WHERE run = ?", id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	read := map[segmentKey]bool{}
	for rows.Next() {
		var k segmentKey
		if err := rows.Scan(&k.shard, &k.number, &k.size, &k.modified); err != nil {
			return nil, err
		}
		read[k] = true
	}
	return read, rows.Err()
}

func (x *Index) addRun(ctx context.Context, store *results.Store, location, folder string) (*run, error) {
	m, err := store.Manifest(ctx, folder)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("indexing run %s: %w", folder, err)
	}
	r := &run{location: location, folder: folder, pass: m.Plan.PassScore}
	return r, x.db.QueryRowContext(ctx, "INSERT INTO runs (location, folder, manifest, pass, written) "+
		"VALUES (?, ?, ?, ?, ?) RETURNING id", location, folder, text, r.pass, m.Written.UnixNano()).Scan(&r.number)
}

// forget deletes a run from the index.
func (x *Index) forget(ctx context.Context, id int64) error {
	x.mu.Lock()
	delete(x.sums, id)
	x.mu.Unlock()
	return x.transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM docs WHERE rowid >= ? AND rowid < ?", docID(id, 0, 0),
			docID(id+1, 0, 0))
		if err == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM segments WHERE run = ?", id)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM runs WHERE id = ?", id)
		}
		return err
	})
}

func (x *Index) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// readAll reads segments on all cores and writes them in batches. It returns the errors of segments
// that can't be read.
func (x *Index) readAll(ctx context.Context, store *results.Store, jobs []job,
	progress func(Progress)) ([]error, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	done := Progress{AllSegments: len(jobs)}
	for _, j := range jobs {
		done.AllBytes += j.segment.Size
	}
	workers, reading := errgroup.WithContext(ctx)
	todo, read := make(chan job), make(chan parsed, batch)
	workers.Go(func() error {
		defer close(todo)
		for _, j := range jobs {
			if !sendValue(reading, todo, j) {
				break
			}
		}
		return nil
	})
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() error {
			text := newWords()
			for j := range todo {
				if p := parseSegment(reading, store, j, text); !sendValue(reading, read, p) {
					break
				}
			}
			return nil
		})
	}
	var problems []error
	workers.Go(func() error {
		for done.Segments < len(jobs) {
			ready, err := collectSegments(reading, read, len(jobs)-done.Segments)
			if err != nil {
				return err
			}
			failed, err := x.writeBatch(reading, ready, &done)
			if err != nil {
				return err
			}
			problems = append(problems, failed...)
			if progress != nil {
				progress(done)
			}
		}
		return nil
	})
	err := workers.Wait()
	return problems, err
}

// sendValue reports whether a value was sent before the context ended.
func sendValue[T any](ctx context.Context, to chan<- T, value T) bool {
	select {
	case to <- value:
		return true
	case <-ctx.Done():
		return false
	}
}

// parseSegment reads a segment and verifies its receipts.
func parseSegment(ctx context.Context, store *results.Store, j job, text *words) parsed {
	p, pack := parsed{job: j}, newPacker()
	line := 0
	for e, err := range store.Segment(ctx, j.run.folder, j.segment) {
		var counted source.Counted
		if err == nil && line >= maxLines {
			err = fmt.Errorf("%w: the segment has more than %d lines", record.ErrNotRecord, maxLines)
		}
		if err == nil {
			counted = j.checker.Count(e)
			err = pack.add(line, e, counted)
		}
		switch {
		case err == nil:
			p.lines, p.words = append(p.lines, line), append(p.words, text.episode(e, counted.Lost))
		case errors.Is(err, record.ErrNotRecord) || errors.Is(err, errNotKept) || errors.Is(err, bufio.ErrTooLong):
			if p.problems++; p.problems == 1 {
				p.problem = err.Error()
			}
		default:
			return parsed{job: j, err: err}
		}
		line++
	}
	p.rows = pack.bytes()
	return p
}

// collectSegments waits for a segment, and takes those that follow soon, before a transaction
// begins.
func collectSegments(ctx context.Context, read <-chan parsed, left int) ([]parsed, error) {
	var ready []parsed
	var soon <-chan time.Time
	for len(ready) < min(batch, left) {
		select {
		case p := <-read:
			if ready = append(ready, p); soon == nil {
				soon = time.After(batchTime)
			}
		case <-soon:
			return ready, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return ready, nil
}

// writeBatch writes segments in one transaction, so that each is in the index as a whole or not at
// all. Nothing else is waited for within the transaction.
func (x *Index) writeBatch(ctx context.Context, ready []parsed, done *Progress) (problems []error, err error) {
	counts := map[*run]int{} // the segments of the runs after this transaction
	err = x.transact(ctx, func(tx *sql.Tx) error {
		add, err := tx.PrepareContext(ctx, "INSERT INTO docs (rowid, words) VALUES (?, ?)")
		if err != nil {
			return err
		}
		defer add.Close()
		for _, p := range ready {
			if p.err != nil {
				problems = append(problems, p.err)
			} else if err := storeSegment(ctx, tx, add, p, counts); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for r, n := range counts {
		r.segments = n
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range ready {
		done.Segments++
		done.Bytes += p.segment.Size
		done.Episodes += int64(len(p.lines))
		x.unread[p.run.number]--
	}
	return problems, nil
}

// storeSegment writes a segment.
func storeSegment(ctx context.Context, tx *sql.Tx, add *sql.Stmt, p parsed, counts map[*run]int) error {
	place, begun := counts[p.run]
	if !begun {
		place = p.run.segments
	}
	if place >= maxPlaces {
		return fmt.Errorf("run %s has more than %d segments", p.run.folder, maxPlaces)
	}
	counts[p.run] = place + 1
	for i, line := range p.lines {
		if _, err := add.ExecContext(ctx, docID(p.run.number, place, line), p.words[i]); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO segments (run, place, shard, number, size, modified, records, "+
		"problems, problem, rows) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", p.run.number, place, p.segment.Shard,
		p.segment.Number, p.segment.Size, p.segment.Modified.UnixNano(), len(p.lines), p.problems, p.problem, p.rows)
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE runs SET segments = ? WHERE id = ?", place+1, p.run.number)
	}
	return err
}
