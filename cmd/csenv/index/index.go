package index

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/play/results"
)

// version counts the changes of the schema and of the blobs.
const version = 5

const schema = `
CREATE TABLE runs (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	location TEXT NOT NULL,
	folder TEXT NOT NULL,
	manifest BLOB NOT NULL,
	pass INTEGER NOT NULL,
	written INTEGER NOT NULL,
	-- segments is the number of those that are read: the version of what follows from them.
	segments INTEGER NOT NULL DEFAULT 0,
	sum BLOB, summed INTEGER NOT NULL DEFAULT -1,
	UNIQUE (location, folder)
);
CREATE TABLE segments (
	run INTEGER NOT NULL,
	-- place counts the run's segments from 0 in the order in which they were read.
	place INTEGER NOT NULL,
	shard INTEGER NOT NULL,
	number INTEGER NOT NULL,
	size INTEGER NOT NULL,
	modified INTEGER NOT NULL,
	records INTEGER NOT NULL,
	problems INTEGER NOT NULL,
	problem TEXT NOT NULL,
	rows BLOB NOT NULL,
	PRIMARY KEY (run, place)
) WITHOUT ROWID;
CREATE UNIQUE INDEX segments_listed ON segments (run, shard, number, size, modified);
-- The row of a record has the number that docID returns. Words are separated in Go.
CREATE VIRTUAL TABLE docs USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii');
INSERT INTO docs (docs, rank) VALUES ('hashsize', 8388608);
`

const (
	// maxConnections bounds the connections, each with a page cache of cacheKiB.
	maxConnections = 4
	cacheKiB       = 4096
	// maxLoaded bounds the records of the runs that stay loaded. The last run stays in any case.
	maxLoaded = 1_200_000
)

// Index is an open index. It is safe for concurrent use.
type Index struct {
	path string
	db   *sql.DB
	lock *sql.DB

	updating sync.Mutex
	// summing is held while a sum is computed, so that two readers who need one compute it once.
	summing sync.Mutex

	mu     sync.Mutex
	stores map[string]*results.Store
	loaded []*table // the last one was used last
	// sums are those that no update has stored yet, and unread the segments that the update under
	// way has still to read, both by run.
	sums   map[int64]summed
	unread map[int64]int
}

// DefaultPath is the default file of the index of some locations, below the user's cache folder.
func DefaultPath(locations ...string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("choosing a file for the index: %w: set XDG_CACHE_HOME or HOME, or name a file with "+
			"--index", err)
	}
	named := make([]string, len(locations))
	for i, location := range locations {
		if named[i] = location; !strings.Contains(location, "://") {
			if named[i], err = filepath.Abs(location); err != nil {
				return "", fmt.Errorf("choosing a file for the index: %w", err)
			}
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(named, "\n")))
	return filepath.Join(cache, "csenv", "index", hex.EncodeToString(sum[:8])+".db"), nil
}

// Open opens the index in a file, which it creates with its folder. A file that is damaged or of
// another release is replaced. One process at a time can open it.
func Open(ctx context.Context, path string) (*Index, error) {
	x, err := openLocked(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("opening the index %s: %w", path, err)
	}
	return x, nil
}

// maxFiles bounds the files of OpenDefault.
const maxFiles = 16

// OpenDefault opens the first default file of the index of some locations that no other process
// uses, so that several processes can show the same store.
func OpenDefault(ctx context.Context, locations ...string) (*Index, error) {
	first, err := DefaultPath(locations...)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		path := first
		if n > 1 {
			path = fmt.Sprintf("%s-%d.db", strings.TrimSuffix(first, ".db"), n)
		}
		x, err := Open(ctx, path)
		if n == maxFiles || !errors.Is(err, ErrInUse) {
			return x, err
		}
	}
}

// ErrInUse means that another process has opened the index.
var ErrInUse = errors.New("another csenv uses it: stop that one, or choose another file")

func openLocked(ctx context.Context, path string) (*Index, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil { //nolint:gosec // the user's own folder
		return nil, err
	}
	x := &Index{path: path, stores: map[string]*results.Store{}, sums: map[int64]summed{}, unread: map[int64]int{}}
	if x.lock, err = takeLock(ctx, path+".lock"); err != nil {
		return nil, err
	}
	if x.db, err = openFile(path); err == nil && !isUsable(ctx, x.db) {
		err = x.replace(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// takeLock locks a file by a transaction, which ends with the process.
func takeLock(ctx context.Context, path string) (*sql.DB, error) {
	lock, err := sql.Open("sqlite", buildFileURL(path, "_pragma=journal_mode(MEMORY)"))
	if err != nil {
		return nil, err
	}
	lock.SetMaxOpenConns(1)
	if _, err = lock.ExecContext(ctx, "BEGIN EXCLUSIVE"); err == nil {
		return lock, nil
	}
	if findErrorCode(err) == sqlite3.SQLITE_BUSY {
		err = ErrInUse
	}
	return nil, errors.Join(err, lock.Close())
}

func buildFileURL(path, parameters string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: parameters}).String()
}

func openFile(path string) (*sql.DB, error) {
	db, err := sql.Open(
		"sqlite",
		buildFileURL(path, fmt.Sprintf("_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&"+
			"_pragma=synchronous(NORMAL)&_pragma=cache_size(-%d)&_txlock=immediate", cacheKiB)),
	)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	return db, nil
}

// isUsable reports whether a file is an index of this release. It reads the list of segments, and
// so notices most damage.
func isUsable(ctx context.Context, db *sql.DB) bool {
	var found, n int64
	return db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found) == nil && found == version &&
		db.QueryRowContext(ctx, "SELECT count(*) FROM runs").Scan(&n) == nil &&
		db.QueryRowContext(ctx, "SELECT count(*) + total(modified) FROM segments INDEXED BY segments_listed").
			Scan(new(float64)) == nil &&
		db.QueryRowContext(ctx, "SELECT count(*) FROM docs WHERE docs MATCH '\"a\"' LIMIT 1").Scan(&n) == nil
}

// replace writes an empty index.
func (x *Index) replace(ctx context.Context) error {
	_ = x.db.Close()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(x.path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	var err error
	if x.db, err = openFile(x.path); err != nil {
		return err
	}
	_, err = x.db.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA user_version = %d", version))
	return err
}

// Close closes the index and the stores that it has opened.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var errs []error
	for _, store := range x.stores {
		errs = append(errs, store.Close())
	}
	for _, db := range []*sql.DB{x.db, x.lock} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	x.stores, x.loaded = map[string]*results.Store{}, nil
	return errors.Join(errs...)
}

// findErrorCode is SQLite's code of an error, 0 for other errors.
func findErrorCode(err error) int {
	if failed, ok := errors.AsType[*sqlite.Error](err); ok {
		return failed.Code() & 0xff
	}
	return 0
}

// explain says what to do about an error of the file.
func (x *Index) explain(err error) error {
	switch findErrorCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("the index %s is damaged: delete the file and start again: %w", x.path, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("the volume of the index %s is full: free some space: %w", x.path, err)
	}
	return err
}

// store opens the store at a location, once.
func (x *Index) store(ctx context.Context, location string) (*results.Store, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if store := x.stores[location]; store != nil {
		return store, nil
	}
	store, err := source.OpenStore(ctx, location)
	if err == nil {
		x.stores[location] = store
	}
	return store, err
}

// use returns the loaded table of a run, or an empty one. It forgets tables that were used longest
// ago.
func (x *Index) use(r run) *table {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := slices.IndexFunc(x.loaded, func(t *table) bool { return t.run == r.number })
	t := &table{run: r.number, pass: r.pass, names: map[string]uint32{}}
	if at >= 0 {
		t = x.loaded[at]
		x.loaded = slices.Delete(x.loaded, at, at+1)
	}
	x.loaded = append(x.loaded, t)
	for total := x.records(); len(x.loaded) > 1 && total > maxLoaded; total = x.records() {
		x.loaded = slices.Delete(x.loaded, 0, 1)
	}
	return t
}

// records is the number of records that are loaded.
func (x *Index) records() int64 {
	var n int64
	for _, t := range x.loaded {
		n += t.size.Load()
	}
	return n
}
