package results

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
)

func key() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

// testPlan has one shard with twelve episodes.
func testPlan(t *testing.T) score.Plan {
	t.Helper()
	p, err := score.NewPlan(score.Plan{
		Run: "0a1b2c3d-4e5f", Seed: 7, PassScore: 800_000, ScenarioDigest: "sha256:00ff", GraderVersion: "3",
		Judge:     "offline",
		LedgerKey: score.FormatPublicKey(key().Public().(ed25519.PublicKey)),
		Tasks:     []score.PlanTask{{Name: "resolve", Trials: 4, Scenarios: []string{"A", "B", "C"}}},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// episode is the record of an episode of the plan that ended with a score, or errored below 0.
func episode(t *testing.T, p score.Plan, index int64, points float64) record.Episode {
	t.Helper()
	e := record.Episode{Run: p.Run, Index: index, Environment: "ticket", Task: "resolve", Scenario: "A",
		Turns: []record.Turn{{Action: json.RawMessage(`{"a":1}`)}}}
	if points < 0 {
		e.Outcome, e.Class = score.Errored, "timeout"
		return e
	}
	e.Outcome, e.Score = score.Scored, &points
	l := score.Ledger{Run: p.Run, PassScore: p.PassScore, ScenarioDigest: p.ScenarioDigest,
		GraderVersion: p.GraderVersion, Judge: p.Judge}
	var err error
	e.Receipt, err = l.Receipt(score.PlannedEpisode{Index: index, Task: e.Task, Scenario: e.Scenario},
		score.Episode{Outcome: score.Scored, Score: int64(points * score.One)}).Sign(key())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func open(t *testing.T, folder string) *Store {
	t.Helper()
	s, err := Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func shard(t *testing.T, s *Store, p score.Plan) *Shard {
	t.Helper()
	sh, err := s.Shard(t.Context(), "ns/run-0a1b2c3d", p, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// read lists a run's episodes as index:score, "-" for none.
func read(t *testing.T, s *Store) string {
	t.Helper()
	var list []string
	for e, err := range s.Episodes(t.Context(), "ns/run-0a1b2c3d") {
		switch {
		case err != nil:
			list = append(list, "error")
			t.Log(err)
		case e.Score == nil:
			list = append(list, fmt.Sprintf("%d:-", e.Index))
		default:
			list = append(list, fmt.Sprintf("%d:%.1f", e.Index, *e.Score))
		}
	}
	return strings.Join(list, " ")
}

func TestStoredEpisodesAreReadAgain(t *testing.T) {
	p := testPlan(t)
	s := open(t, filepath.Join(t.TempDir(), "new", "folder"))
	sh := shard(t, s, p)
	for i := range int64(12) {
		sh.Record(episode(t, p, i, float64(i)/20))
	}
	if got := sh.Close(t.Context(), 12); got != (score.Stored{Episodes: 12}) {
		t.Errorf("stored %+v", got)
	}
	if got, want := read(t,
		s), "0:0.0 1:0.1 2:0.1 3:0.1 4:0.2 5:0.2 6:0.3 7:0.3 8:0.4 9:0.5 10:0.5 11:0.6"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

// What a runner finds of an earlier one: receipts that hold are handed over, everything else is
// played again, and readers see each episode once.
func TestResume(t *testing.T) {
	p := testPlan(t)
	folder := t.TempDir()
	s := open(t, folder)
	first := shard(t, s, p)
	for i := range int64(5) {
		first.Record(episode(t, p, i, 0.5))
	}
	forged := episode(t, p, 5, 1)
	forged.Receipt = episode(t, p, 0, 1).Receipt
	foreign := p
	foreign.Run = "another"
	for _, e := range []record.Episode{episode(t, p, 6, -1), forged, episode(t, foreign, 7, 1)} {
		first.Record(e)
	}
	if got := first.Close(t.Context(), 12); got.Episodes != 8 || got.Error == "" {
		t.Errorf("stored %+v, want 8 and the other 4 named", got)
	}
	second := shard(t, s, p)
	if n := len(second.Receipts()); n != 5 {
		t.Fatalf("%d receipts, want those of the 5 episodes that count", n)
	}
	for i := int64(5); i < 12; i++ {
		second.Record(episode(t, p, i, 0.9))
	}
	// Played twice: the record with the receipt stands, wherever it is.
	again := episode(t, p, 3, 0.1)
	again.Receipt = ""
	second.Record(again)
	if got := second.Close(t.Context(), 12); got != (score.Stored{Episodes: 12}) {
		t.Errorf("stored %+v", got)
	}
	if got, want := read(t,
		s), "0:0.5 1:0.5 2:0.5 3:0.5 4:0.5 5:1.0 7:1.0 6:0.9 8:0.9 9:0.9 10:0.9 11:0.9"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

func TestTornSegments(t *testing.T) {
	p := testPlan(t)
	folder := t.TempDir()
	s := open(t, folder)
	first := shard(t, s, p)
	for i := range int64(3) {
		first.Record(episode(t, p, i, 0.5))
	}
	first.Close(t.Context(), 3)
	segment := filepath.Join(folder, "ns", "run-0a1b2c3d", "shard-00000", "000001.jsonl")
	text, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(segment, text[:len(text)-20], 0o600),
		os.WriteFile(filepath.Join(filepath.Dir(segment), "fileblob123"), text[:9], 0o600)); err != nil {
		t.Fatal(err)
	}
	second := shard(t, s, p)
	if n := len(second.Receipts()); n != 2 {
		t.Errorf("%d receipts, want the 2 of whole lines", n)
	}
	second.Record(episode(t, p, 2, 0.7))
	if got := second.Close(t.Context(), 3); got != (score.Stored{Episodes: 3}) {
		t.Errorf("stored %+v", got)
	}
	if got, want := read(t, s), "0:0.5 1:0.5 2:0.7"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

func TestRunsAndManifests(t *testing.T) {
	p := testPlan(t)
	folder := t.TempDir()
	s := open(t, folder)
	runs := []string{Folder("a", "one", "0123456789"), Folder("a", "two", "0123"), Folder("b", "one", "89abcdef-0")}
	if diff := cmp.Diff([]string{"a/one-01234567", "a/two-0123", "b/one-89abcdef"}, runs); diff != "" {
		t.Error(diff)
	}
	want := Manifest{Version: 1, Environment: "ticket", Plan: p, Agent: json.RawMessage(`{"type": "Builtin"}`),
		Runner: "v1"}
	for _, run := range runs {
		for _, runner := range []string{"v1", "v2"} { // the first one stands
			m := want
			m.Runner = runner
			if err := s.WriteManifest(t.Context(), run, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := s.Runs(t.Context())
	if diff := cmp.Diff(runs, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	m, err := s.Manifest(t.Context(), runs[1])
	if diff := cmp.Diff(want, m, cmp.Transformer("compact", func(raw json.RawMessage) string {
		var out bytes.Buffer
		_ = json.Compact(&out, raw)
		return out.String()
	})); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if own, err := open(t, filepath.Join(folder, "a", "one-01234567")).Runs(t.Context()); err != nil ||
		!slices.Equal(own, []string{""}) {
		t.Errorf("a run's own folder has the runs %q (%v)", own, err)
	}
	if _, err := s.Manifest(t.Context(), "c/none"); gcerrors.Code(err) != gcerrors.NotFound {
		t.Errorf("a run that isn't there: %v", err)
	}
}

func TestOpenAsksForTheProtocolOfAnEndpoint(t *testing.T) {
	_, err := Open(t.Context(), "s3://bucket/prefix?endpoint=minio:9000")
	if want := "its endpoint minio:9000 says no protocol: write http://minio:9000 or https://minio:9000"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("opened with %v, want %s", err, want)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, location := range []string{"ftp://x/y", "s3://bucket/prefix", "://", "s3://%zz"} {
		if _, err := Open(t.Context(), location); err == nil {
			t.Errorf("%s is opened without its driver", location)
		}
	}
}

// broken is a bucket in memory that fails as it is told.
type broken struct {
	driver.Bucket
	mu      sync.Mutex
	objects map[string][]byte
	// fail answers a write, nil to let it through.
	fail func(key string) error
	// hangs says whether a write waits for its context's end.
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
		// fail answers the nth write, from 1.
		fail func(n int) error
		want score.Stored
		// written are the records that the store holds in the end.
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
					time.Sleep(time.Second) //nolint:forbidigo // fake time: episodes end one after the other
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

// The end of the waiting says nothing about a store: what it failed with before does, or that it
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
				time.Sleep(segmentInterval + firstBackoff/2) //nolint:forbidigo // fake time: the first write has failed or hangs
				cancel()
				if diff := cmp.Diff(score.Stored{Error: tc.want}, sh.Close(ctx, 1)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A store that never answers takes no memory without end, and doesn't keep the runner.
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

// slow is a bucket of segments that each take their time, as do the pages of their list.
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

// A big shard takes long to take over: each segment is read once, and has its own time, as has each
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
					text, err := encode(episode(t, p, int64(i%12), 0.5))
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

// What reads a store for people waits for one that hangs as long as a runner does.
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

// A record that is longer than any that is read would hide those behind it.
func TestUnreadableRecordsAreNotWritten(t *testing.T) {
	p := testPlan(t)
	s := open(t, t.TempDir())
	sh := shard(t, s, p)
	long := episode(t, p, 0, 0.5)
	long.Turns[0].Said = strings.Repeat("x", record.MaxLine)
	sh.Record(long)
	sh.Record(episode(t, p, 1, 0.5))
	if got := sh.Close(t.Context(), 2); got.Episodes != 1 ||
		!strings.Contains(got.Error, "the record of episode 0 has") {
		t.Errorf("stored %+v", got)
	}
	if got, want := read(t, s), "1:0.5"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

func TestForeignObjectsAreBounded(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	manifest := filepath.Join(folder, "run", manifestName)
	if err := errors.Join(os.Mkdir(filepath.Dir(manifest), 0o700), os.WriteFile(manifest, nil, 0o600),
		os.Truncate(manifest, maxManifest+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Manifest(t.Context(), "run"); err == nil || !strings.Contains(err.Error(), "it has more than") {
		t.Errorf("a manifest without bounds: %v", err)
	}
}

func TestJoin(t *testing.T) {
	for location, want := range map[string]string{
		"s3://b/p?region=x": "s3://b/p/ns/r-1?region=x",
		"s3://b?region=x":   "s3://b/ns/r-1?region=x",
		"gs://b/p/":         "gs://b/p/ns/r-1",
		"file:///data/a?b":  "file:///data/a?b/ns/r-1",
		"./what?":           "./what?/ns/r-1",
	} {
		if got := Join(location, "ns/r-1"); got != want {
			t.Errorf("Join(%q) = %q, want %q", location, got, want)
		}
		if got := Join(location, ""); got != location {
			t.Errorf("Join(%q) without a folder = %q", location, got)
		}
	}
}
