package results

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gocloud.dev/gcerrors"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

func key() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

// testPlan returns a plan of one shard with twelve episodes.
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

// episode returns the record of an episode of the plan that ended with a score, or errored for a
// negative one.
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

// read lists a run's episodes as index:score, with "-" for no score.
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

// A runner resumes from an earlier one's records: it sends valid receipts, plays all other episodes
// again, and readers get each episode once.
func TestResume(t *testing.T) {
	p := testPlan(t)
	folder := t.TempDir()
	s := open(t, folder)
	first := shard(t, s, p)
	spent := &score.Tokens{Prompt: 100, Completion: 7}
	for i := range int64(5) {
		e := episode(t, p, i, 0.5)
		e.Tokens = spent
		first.Record(e)
	}
	forged := episode(t, p, 5, 1)
	forged.Receipt = episode(t, p, 0, 1).Receipt
	foreign := p
	foreign.Run = "another"
	errored := episode(t, p, 6, -1)
	errored.Tokens = spent
	for _, e := range []record.Episode{errored, forged, episode(t, foreign, 7, 1)} {
		first.Record(e)
	}
	if got := first.Close(t.Context(), 12); got.Episodes != 8 || got.Error == "" {
		t.Errorf("stored %+v, want 8 and an error about the other 4", got)
	}
	second := shard(t, s, p)
	if n := len(second.Receipts()); n != 5 {
		t.Fatalf("%d receipts, want those of the 5 episodes that count", n)
	}
	if got, want := second.Tokens(), (score.Tokens{Prompt: 600, Completion: 42}); got != want {
		t.Errorf("%+v tokens were used, want %+v", got, want)
	}
	for i := int64(5); i < 12; i++ {
		second.Record(episode(t, p, i, 0.9))
	}
	// Of an episode that was played twice, the record with the receipt counts, in either place.
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
	runs := []string{RunFolder("a", "one", "0123456789"), RunFolder("a", "two", "0123"), RunFolder("b", "one", "89abcdef-0")}
	if diff := cmp.Diff([]string{"a/one-01234567", "a/two-0123", "b/one-89abcdef"}, runs); diff != "" {
		t.Error(diff)
	}
	want := Manifest{Version: 1, Environment: "ticket", Plan: p, Agent: json.RawMessage(`{"type": "Builtin"}`),
		Runner: "v1"}
	for _, run := range runs {
		for _, runner := range []string{"v1", "v2"} { // the first one remains
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
	if m.Written.IsZero() {
		t.Error("a manifest has no time")
	}
	m.Written = time.Time{}
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
		t.Errorf("a missing run: %v", err)
	}
}

func TestOpenRequiresTheProtocolOfAnEndpoint(t *testing.T) {
	_, err := Open(t.Context(), "s3://bucket/prefix?endpoint=minio:9000")
	if want := "its endpoint minio:9000 has no protocol: write http://minio:9000 or https://minio:9000"; err == nil ||
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

// A record longer than the maximum would make the following ones unreadable.
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
		if got := JoinLocation(location, "ns/r-1"); got != want {
			t.Errorf("Join(%q) = %q, want %q", location, got, want)
		}
		if got := JoinLocation(location, ""); got != location {
			t.Errorf("Join(%q) without a folder = %q", location, got)
		}
	}
}
