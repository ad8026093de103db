package results

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/csenv/csenv/envserver/score"
)

// broken is an in-memory bucket that fails on request.
type broken struct {
	driver.Bucket
	mu      sync.Mutex
	objects map[string][]byte
	// fail returns the error of a write, nil for success.
	fail func(key string) error
	// hangs reports whether a write waits for the end of its context.
	hangs func() bool
}

func (b *broken) NewTypedWriter(ctx context.Context, key, _ string, o *driver.WriterOptions) (driver.Writer, error) {
	return &brokenWriter{bucket: b, ctx: ctx, key: key, once: o.IfNotExist}, nil
}

func (b *broken) ListPaged(context.Context, *driver.ListOptions) (*driver.ListPage, error) {
	return &driver.ListPage{}, nil
}

func (b *broken) ErrorCode(err error) gcerrors.ErrorCode {
	if errors.Is(err, os.ErrExist) {
		return gcerrors.FailedPrecondition
	}
	return gcerrors.Unknown
}

func (b *broken) As(any) bool { return false }

func (b *broken) ErrorAs(err error, target any) bool { return errors.As(err, target) }

func (b *broken) Close() error { return nil }

type brokenWriter struct {
	bytes.Buffer
	bucket *broken
	ctx    context.Context
	key    string
	once   bool
}

func (w *brokenWriter) Close() error {
	if w.bucket.hangs != nil && w.bucket.hangs() {
		<-w.ctx.Done()
		return w.ctx.Err()
	}
	err := w.bucket.fail(w.key)
	w.bucket.mu.Lock()
	defer w.bucket.mu.Unlock()
	if err != nil {
		return err
	}
	if w.bucket.objects[w.key] != nil && w.once {
		return os.ErrExist
	}
	w.bucket.objects[w.key] = bytes.Clone(w.Bytes())
	return nil
}

func (b *broken) lines() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Count(bytes.Join(slices.Collect(maps.Values(b.objects)), nil), []byte("\n"))
}

func TestFaultyStores(t *testing.T) {
	full := errors.New("no space is left in the bucket")
	cases := map[string]struct {
		// fail returns the result of the nth write, from 1.
		fail func(n int) error
		want score.Stored
		// written is the number of records in the store at the end.
		written int
	}{
		"a sound one": {func(int) error { return nil }, score.Stored{Episodes: 12}, 12},
		"one that recovers": {func(n int) error { return map[bool]error{true: full}[n <= 4] },
			score.Stored{Episodes: 12}, 12},
		"one that stays full": {func(int) error { return full },
			score.Stored{Error: "12 episodes not written: " + full.Error()}, 0},
		"one that lies of one": {func(n int) error { return map[bool]error{true: os.ErrExist}[n == 1] },
			score.Stored{Episodes: 12}, 12},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, writes := testPlan(t), 0
				b := &broken{objects: map[string][]byte{}}
				b.fail = func(string) error { writes++; return tc.fail(writes) }
				sh := shard(t, &Store{bucket: blob.NewBucket(b)}, p)
				for i := range int64(12) {
					sh.Record(episode(t, p, i, 0.5))
					time.Sleep(time.Second) //nolint:forbidigo // simulated time: episodes end one after another
				}
				began := time.Now()
				if diff := cmp.Diff(tc.want, sh.Close(t.Context(), 12)); diff != "" {
					t.Error(diff)
				}
				if took := time.Since(began); took > closeTimeout+closeGrace {
					t.Errorf("closed after %s", took)
				}
				if got := b.lines(); got != tc.written {
					t.Errorf("%d records are written, want %d", got, tc.written)
				}
			})
		})
	}
}

// If Close gives up waiting, the error is the store's earlier failure, or reports that the store
// hung.
func TestGivingUpHidesNoFailure(t *testing.T) {
	full := errors.New("no space is left in the bucket")
	for name, tc := range map[string]struct {
		first error
		want  string
	}{
		"full, then hanging": {full, "1 episodes not written: " + full.Error()},
		"hanging": {nil, "1 episodes not written: the store does not answer in time: check whether it " +
			"hangs: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, writes := testPlan(t), 0
				b := &broken{objects: map[string][]byte{}}
				b.fail = func(string) error {
					if writes++; writes == 1 && tc.first != nil {
						return tc.first
					}
					return nil
				}
				b.hangs = func() bool { return writes > 0 || tc.first == nil }
				sh := shard(t, &Store{bucket: blob.NewBucket(b)}, p)
				sh.Record(episode(t, p, 0, 0.5))
				ctx, cancel := context.WithCancel(t.Context())
				// The first write has failed or is waiting.
				time.Sleep(segmentInterval + firstBackoff/2) //nolint:forbidigo // simulated time
				cancel()
				if diff := cmp.Diff(score.Stored{Error: tc.want}, sh.Close(ctx, 1)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A store that never answers causes no unbounded use of memory, and doesn't stop the runner from
// ending.
func TestHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPlan(t)
		b := &broken{objects: map[string][]byte{}}
		release := make(chan struct{})
		b.fail = func(string) error { <-release; return errors.New("too late") }
		sh := shard(t, &Store{bucket: blob.NewBucket(b)}, p)
		e := episode(t, p, 0, 0.5)
		e.Turns[0].Said = strings.Repeat("x", 1<<20)
		for range 100 {
			sh.Record(e)
		}
		if sh.bytes > maxPending || sh.dropped < 60 {
			t.Errorf("%d bytes wait, %d records are dropped", sh.bytes, sh.dropped)
		}
		defer close(release)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		got := sh.Close(ctx, 100)
		if took := time.Since(began); took > time.Second+stopTimeout+closeGrace || got.Episodes != 0 ||
			!strings.HasPrefix(got.Error, "100 episodes not written: ") {
			t.Errorf("closed after %s with %+v", took, got)
		}
	})
}

func TestSegmentsAreBounded(t *testing.T) {
	p := testPlan(t)
	folder := t.TempDir()
	sh := shard(t, open(t, folder), p)
	for i := range int64(1000) {
		sh.Record(episode(t, p, i, -1))
	}
	if got := sh.Close(t.Context(), 1000); got != (score.Stored{Episodes: 1000}) {
		t.Errorf("stored %+v", got)
	}
	segments, err := filepath.Glob(filepath.Join(folder, "ns", "run-0a1b2c3d", "shard-00000", "*.jsonl"))
	if err != nil || len(segments) < 4 {
		t.Errorf("%d segments (%v), want at least 4 of %d episodes", len(segments), err, segmentEpisodes)
	}
	for _, segment := range segments {
		if text, err := os.ReadFile(segment); err != nil || bytes.Count(text, []byte("\n")) > segmentEpisodes {
			t.Errorf("%s has %d lines (%v)", segment, bytes.Count(text, []byte("\n")), err)
		}
	}
}

// slow is a bucket in which each segment, and each page of their list, takes some time.
type slow struct {
	broken
	takes, listTakes time.Duration
	reads            []string
}

func (s *slow) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.listTakes):
	}
	page := &driver.ListPage{}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if n := len(page.Objects); n == o.PageSize {
			page.NextPageToken = []byte(page.Objects[n-1].Key)
			break
		}
		if key > string(o.PageToken) {
			page.Objects = append(page.Objects, &driver.ListObject{Key: key})
		}
	}
	return page, nil
}

func (s *slow) NewRangeReader(ctx context.Context, key string, _, _ int64,
	_ *driver.ReaderOptions) (driver.Reader, error) {
	s.reads = append(s.reads, key)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.takes):
	}
	return slowReader{bytes.NewReader(s.objects[key])}, nil
}

type slowReader struct{ *bytes.Reader }

func (slowReader) Close() error { return nil }

func (slowReader) Attributes() *driver.ReaderAttributes { return &driver.ReaderAttributes{} }

func (slowReader) As(any) bool { return false }

// Resuming a large shard takes long: each segment is read once with its own timeout, and so is each
// page of their list.
func TestEachSegmentIsReadOnceInItsOwnTime(t *testing.T) {
	p := testPlan(t)
	const run = "ns/run-0a1b2c3d"
	for name, tc := range map[string]struct {
		takes, listTakes          time.Duration
		segments, receipts, reads int
	}{
		"slow segments":     {20 * time.Second, 0, 3, 3, 3},
		"one hangs forever": {time.Hour, 0, 3, -1, 1},
		"slow pages":        {0, 20 * time.Second, 2*pageObjects + 1, 12, 2*pageObjects + 1},
		"the list hangs":    {0, time.Hour, 3, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := &slow{takes: tc.takes, listTakes: tc.listTakes, broken: broken{objects: map[string][]byte{}}}
				for i := range tc.segments {
					text, err := encodeRecord(episode(t, p, int64(i%12), 0.5))
					if err != nil {
						t.Fatal(err)
					}
					bucket.objects[segmentKey(run, 0, i+1)] = text
				}
				s := &Store{bucket: blob.NewBucket(bucket)}
				receipts := -1
				sh, err := s.Shard(t.Context(), run, p, 0, slog.New(slog.DiscardHandler))
				if err == nil {
					receipts = len(sh.Receipts())
					sh.Close(t.Context(), 3)
				}
				if once := slices.Compact(slices.Sorted(slices.Values(bucket.reads))); receipts != tc.receipts ||
					len(bucket.reads) != tc.reads || len(once) != tc.reads {
					t.Errorf("%d receipts (%v) of %d reads of %d segments, want %d of %d", receipts, err,
						len(bucket.reads), len(once), tc.receipts, tc.reads)
				}
				_ = s.Close()
			})
		})
	}
}

// Commands that read a store have the same timeouts as a runner.
func TestReadersDoNotHang(t *testing.T) {
	for name, read := range map[string]func(context.Context, *Store) error{
		"runs":     func(ctx context.Context, s *Store) error { _, err := s.Runs(ctx); return err },
		"manifest": func(ctx context.Context, s *Store) error { _, err := s.Manifest(ctx, "run"); return err },
		"episodes": func(ctx context.Context, s *Store) error {
			for _, err := range s.Episodes(ctx, "run") {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Store{bucket: blob.NewBucket(&slow{takes: time.Hour, listTakes: time.Hour})}
				defer s.Close()
				began := time.Now()
				if err := read(t.Context(), s); err == nil || !strings.Contains(err.Error(),
					"the store does not answer in time") || time.Since(began) > readTimeout {
					t.Errorf("%v after %s", err, time.Since(began))
				}
			})
		})
	}
}
