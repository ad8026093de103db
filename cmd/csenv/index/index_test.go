package index

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/isolated"
)

func TestMain(m *testing.M) { isolated.Main(m) }

const runID = "ns/run-0a1b2c3d"

var signer = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func testPlan(t testing.TB) score.Plan {
	t.Helper()
	p, err := score.NewPlan(score.Plan{Run: "0a1b2c3d-4e5f", Seed: 7, PassScore: 800_000, ScenarioDigest: "sha256:00ff",
		GraderVersion: "3", Judge: "offline", LedgerKey: score.FormatPublicKey(signer.Public().(ed25519.PublicKey)),
		Tasks: []score.PlanTask{{Name: "refund", Trials: 20, Scenarios: []string{"A1", "B2", "C3"}},
			{Name: "resolve", Trials: 20, Scenarios: []string{"A1", "B2", "D4", "E5"}}}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// episode is the record of a planned episode.
func episode(planned score.PlannedEpisode, points float64, said string) record.Episode {
	return record.Episode{Run: "0a1b2c3d-4e5f", Index: planned.Index, Environment: "ticket", Task: planned.Task,
		Scenario: planned.Scenario, Trial: planned.Trial, Seed: planned.Seed, Attempts: 1,
		DurationMS: 100 + planned.Index*7919%1000,
		Turns: slices.Repeat([]record.Turn{{Answer: record.Answer{Said: said}, Action: json.RawMessage(
			`{"payload":{"message":"Dear customer, über alles"},"id":"hidden"}`)}}, int(planned.Index%4)+1),
		Grade: record.Grade{Outcome: score.Scored, Score: &points, Dimensions: []score.Dimension{{Name: "steps",
			Earned: int64(points * 1000), Offered: 1000}}}}
}

func receipt(t testing.TB, p score.Plan, planned score.PlannedEpisode, micro int64) string {
	t.Helper()
	_, shard, _ := p.NewIndex().Episode(planned.Index)
	l := score.Ledger{Run: p.Run, Shard: shard, PassScore: p.PassScore, ScenarioDigest: p.ScenarioDigest,
		GraderVersion: p.GraderVersion, Judge: p.Judge}
	text, err := l.Receipt(planned, score.Episode{Outcome: score.Scored, Score: micro, Category: "billing",
		Difficulty: "easy", Language: "en", Dimensions: []score.Dimension{{Name: "penalties", Earned: -100}}}).Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// writeStore writes a run with episodes of all kinds: with a receipt that says the same or another
// score, without one, with one that isn't valid, errored, retried, replayed and repeated.
func writeStore(t testing.TB, folder, id string) score.Plan {
	t.Helper()
	p := testPlan(t)
	s, err := results.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.WriteManifest(t.Context(), id, results.Manifest{Environment: "ticket", Plan: p, Runner: "v1",
		Agent: json.RawMessage(`{"type":"Builtin","builtin":{"policy":"Heuristic"}}`)}); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for shard := range p.Shards {
		var lines []record.Episode
		for planned := range p.Shard(shard) {
			e := episode(planned, float64(random.IntN(101))/100, fmt.Sprintf("word%d common", planned.Index%10))
			e.Receipt = receipt(t, p, planned, source.ToMicroPoints(*e.Score))
			switch planned.Index % 9 {
			case 1:
				e.Receipt = receipt(t, p, planned, 123_456)
			case 2:
				e.Receipt = ""
			case 3:
				e.Receipt = "forged"
			case 4:
				e.Outcome, e.Class, e.Score, e.Receipt, e.Attempts = score.Errored, "timeout", nil, "", 3
			case 5:
				e.Replayed, e.Receipt = true, ""
			case 6: // errored first
				first := e
				first.Outcome, first.Class, first.Score, first.Receipt = score.Errored, "capacity", nil, ""
				lines = append(lines, first)
			case 7: // repeated without a receipt
				lines = append(lines, e)
				e.Receipt, e.Score = "", new(0.0)
			}
			lines = append(lines, e)
		}
		random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		for n := 0; len(lines) > 0; n++ {
			size := min(7, len(lines))
			writeSegment(t, folder, id, shard, n+1, lines[:size]...)
			lines = lines[size:]
		}
	}
	return p
}

func writeSegment(t testing.TB, folder, id string, shard, number int, lines ...record.Episode) {
	t.Helper()
	var text bytes.Buffer
	w := record.NewWriter(&text)
	for _, e := range lines {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(folder, id, fmt.Sprintf("shard-%05d", shard), fmt.Sprintf("%06d.jsonl", number))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func openIndex(t testing.TB, path string) *Index {
	t.Helper()
	x, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func update(t testing.TB, x *Index, folder string) Progress {
	t.Helper()
	var last Progress
	if err := x.Update(t.Context(), folder, func(p Progress) { last = p }); err != nil {
		t.Fatal(err)
	}
	return last
}

// stored reads the episodes that count, by index.
func stored(t testing.TB, folder string) []record.Episode {
	t.Helper()
	s, err := results.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all []record.Episode
	for e, err := range s.Episodes(t.Context(), runID) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b record.Episode) int { return cmp.Compare(a.Index, b.Index) })
	return all
}

// figuresOf is everything that csenv results computes, as JSON.
func figuresOf(t testing.TB, r *source.LoadedRun, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Scores(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent([]any{r.EvaluationRun, rows}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func fromStore(ctx context.Context, folder string) (*source.LoadedRun, error) {
	s, err := source.OpenStored(ctx, folder)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Load(ctx, runID)
}

// loaded returns a run with its figures.
func loaded(ctx context.Context, x *Index, id string) (*source.LoadedRun, error) {
	r, err := x.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return x.load(ctx, r)
}

// The figures from the index are those from the store, digit for digit, in whatever portions the
// segments are read.
func TestFiguresOfTheIndexAndOfTheStore(t *testing.T) {
	folder := t.TempDir()
	p := writeStore(t, folder, runID)
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	check := func() {
		t.Helper()
		update(t, x, folder)
		want, err := fromStore(t.Context(), folder)
		wanted := figuresOf(t, want, err)
		for range 2 { // computed and cached
			got, err := loaded(t.Context(), x, runID)
			if diff := gocmp.Diff(wanted, figuresOf(t, got, err)); diff != "" {
				t.Fatal(diff)
			}
		}
		for _, e := range stored(t, folder) {
			got, err := x.Episode(t.Context(), runID, e.Index)
			if diff := gocmp.Diff(e, got); diff != "" || err != nil {
				t.Fatal(diff, err)
			}
		}
	}
	check()
	// Later segments replace a record without a receipt, and don't replace one with a receipt.
	for planned := range p.Shard(0) {
		e := episode(planned, 0.25, "later")
		if planned.Index%2 == 0 {
			e.Receipt = receipt(t, p, planned, 250_000)
		}
		writeSegment(t, folder, runID, 0, int(1000+planned.Index), e)
		if planned.Index%13 == 0 {
			check()
		}
	}
	check()
}

func TestQueries(t *testing.T) {
	folder := t.TempDir()
	p := writeStore(t, folder, runID)
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	update(t, x, folder)
	checker, err := source.NewChecker(p)
	if err != nil {
		t.Fatal(err)
	}
	all := stored(t, folder)
	points := func(e record.Episode) int64 {
		if c := checker.Count(e); c.Counts {
			return c.Episode.Score
		}
		return -1
	}
	for name, tt := range map[string]struct {
		query Query
		keep  func(record.Episode) bool
		order func(a, b record.Episode) int
	}{
		"all":           {Query{}, func(record.Episode) bool { return true }, nil},
		"a task":        {Query{Tasks: []string{"refund"}}, func(e record.Episode) bool { return e.Task == "refund" }, nil},
		"unknown":       {Query{Tasks: []string{"x"}}, func(record.Episode) bool { return false }, nil},
		"scenarios":     {Query{Scenarios: []string{"A1", "E5"}}, func(e record.Episode) bool { return e.Scenario == "A1" || e.Scenario == "E5" }, nil},
		"errored":       {Query{Outcomes: []string{"errored"}}, func(e record.Episode) bool { return e.Outcome == score.Errored }, nil},
		"a class":       {Query{Class: "timeout"}, func(e record.Episode) bool { return e.Class == "timeout" }, nil},
		"passed":        {Query{Passed: new(true)}, func(e record.Episode) bool { return points(e) >= 800_000 }, nil},
		"not passed":    {Query{Passed: new(false)}, func(e record.Episode) bool { return points(e) < 800_000 }, nil},
		"a range":       {Query{Least: new(int64(200_000)), Most: new(int64(500_000))}, func(e record.Episode) bool { return points(e) >= 200_000 && points(e) <= 500_000 }, nil},
		"a text":        {Query{Text: "WORD3 uber"}, func(e record.Episode) bool { return e.Index%10 == 3 }, nil},
		"a beginning":   {Query{Text: "comm"}, func(record.Episode) bool { return true }, nil},
		"a whole word":  {Query{Text: "comm "}, func(record.Episode) bool { return false }, nil},
		"hidden":        {Query{Text: "hidden"}, func(record.Episode) bool { return false }, nil},
		"syntax":        {Query{Text: `word3" OR * ( NEAR common -`}, func(record.Episode) bool { return false }, nil},
		"signs alone":   {Query{Text: `"*()`}, func(record.Episode) bool { return true }, nil},
		"by score":      {Query{Sort: ByScore}, nil, func(a, b record.Episode) int { return cmp.Compare(points(a), points(b)) }},
		"from the best": {Query{Sort: ByScore, Descending: true}, nil, func(a, b record.Episode) int { return cmp.Compare(points(b), points(a)) }},
		"by scenario":   {Query{Sort: ByScenario}, nil, func(a, b record.Episode) int { return cmp.Compare(a.Scenario, b.Scenario) }},
		"by task":       {Query{Sort: ByTask, Descending: true}, nil, func(a, b record.Episode) int { return cmp.Compare(b.Task, a.Task) }},
		"by turns":      {Query{Sort: ByTurns}, nil, func(a, b record.Episode) int { return cmp.Compare(len(a.Turns), len(b.Turns)) }},
		"by duration":   {Query{Sort: ByDuration, Tasks: []string{"resolve"}}, func(e record.Episode) bool { return e.Task == "resolve" }, func(a, b record.Episode) int { return cmp.Compare(a.DurationMS, b.DurationMS) }},
		"by outcome":    {Query{Sort: ByOutcome}, nil, func(a, b record.Episode) int { return cmp.Compare(a.Outcome, b.Outcome) }},
		"from the last": {Query{Descending: true}, nil, func(a, b record.Episode) int { return cmp.Compare(b.Index, a.Index) }},
	} {
		t.Run(name, func(t *testing.T) {
			var want []int64
			kept := slices.DeleteFunc(slices.Clone(all), func(e record.Episode) bool { return tt.keep != nil && !tt.keep(e) })
			if tt.order != nil {
				slices.SortStableFunc(kept, tt.order)
			}
			for _, e := range kept {
				want = append(want, e.Index)
			}
			q := tt.query
			q.Run, q.Limit = runID, 7
			var got []int64
			for {
				page, err := x.Episodes(t.Context(), q)
				if err != nil || page.Total != len(want) || page.All != len(all) {
					t.Fatalf("%d of %d episodes, want %d of %d: %v", page.Total, page.All, len(want), len(all), err)
				}
				if len(page.Episodes) == 0 {
					break
				}
				for _, e := range page.Episodes {
					got = append(got, e.Index)
				}
				q.Offset += q.Limit
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
			if len(want) > 2 {
				n, err := x.Neighbours(t.Context(), q, want[1])
				if diff := gocmp.Diff(Neighbours{&want[0], &want[2], 1, len(want)}, n); diff != "" || err != nil {
					t.Error(diff, err)
				}
			}
		})
	}
}

func TestCountsOfFilters(t *testing.T) {
	folder := t.TempDir()
	writeStore(t, folder, runID)
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	update(t, x, folder)
	page, err := x.Episodes(t.Context(), Query{Run: runID, Tasks: []string{"refund"}, Outcomes: []string{"errored"}})
	if err != nil {
		t.Fatal(err)
	}
	tasks, outcomes := map[string]int{"refund": 0, "resolve": 0}, map[string]int{"scored": 0, "errored": 0}
	for _, e := range stored(t, folder) {
		if e.Outcome == score.Errored {
			tasks[e.Task]++
		}
		if e.Task == "refund" {
			outcomes[string(e.Outcome)]++
		}
	}
	if diff := gocmp.Diff([]Count{{"refund", tasks["refund"]}, {"resolve", tasks["resolve"]}}, page.Tasks); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]Count{{"errored", outcomes["errored"]}, {"scored", outcomes["scored"]}},
		page.Outcomes); diff != "" {
		t.Error(diff)
	}
}

// A later update reads what is new. A run that was deleted vanishes, and one that was stored again
// is read from its start.
func TestUpdates(t *testing.T) {
	folder, path := t.TempDir(), filepath.Join(t.TempDir(), "i.db")
	p := writeStore(t, folder, runID)
	writeStore(t, folder, "ns/other-0a1b2c3d")
	x := openIndex(t, path)
	first := update(t, x, folder)
	if first.Segments == 0 || first.Bytes != first.AllBytes || first.About() != first.Episodes {
		t.Errorf("%+v", first)
	}
	if again := update(t, x, folder); again.AllSegments != 0 {
		t.Errorf("read again: %+v", again)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = openIndex(t, path)
	if err := os.RemoveAll(filepath.Join(folder, "ns", "other-0a1b2c3d")); err != nil {
		t.Fatal(err)
	}
	for planned := range p.Shard(1) {
		e := episode(planned, 1, "unique")
		e.Receipt = receipt(t, p, planned, score.One)
		writeSegment(t, folder, runID, 1, 1, e)
	}
	if got := update(t, x, folder); got.Segments != first.Segments/2 {
		t.Errorf("%+v", got)
	}
	infos, err := x.Runs(t.Context())
	if err != nil || len(infos) != 1 || infos[0].ID != runID || infos[0].Err != nil || infos[0].Status.Score == nil {
		t.Errorf("%+v, %v", infos, err)
	}
	page, err := x.Episodes(t.Context(), Query{Run: runID, Text: "unique"})
	if err != nil || page.Total != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := x.Episodes(t.Context(), Query{Run: "ns/other-0a1b2c3d"}); !errors.Is(err, ErrNoRun) {
		t.Error(err)
	}
}

// An update may be asked for the figures of all runs whenever it reports its progress.
func TestRunsDuringAnUpdate(t *testing.T) {
	folder := t.TempDir()
	for n := range 3 {
		writeStore(t, folder, fmt.Sprintf("ns/run-0a1b2c3%d", n))
	}
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	calls, begun := 0, false
	if err := x.Update(t.Context(), folder, func(p Progress) {
		calls++
		runs, err := x.Runs(t.Context())
		if err != nil {
			t.Error(err)
		}
		unread := 0
		for _, r := range runs {
			if r.Err != nil {
				t.Errorf("run %s: %v", r.ID, r.Err)
			}
			unread += r.Unread
			begun = begun || r.Unread > 0 && r.Unread < r.Segments
		}
		if len(runs) != 3 || unread != p.AllSegments-p.Segments {
			t.Errorf("%d runs with %d unread segments after %+v", len(runs), unread, p)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if calls < 2 || !begun {
		t.Errorf("%d calls, a run partly read: %v", calls, begun)
	}
	runs, err := x.Runs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.Unread != 0 {
			t.Errorf("run %s has %d unread segments", r.ID, r.Unread)
		}
	}
}

// The episodes of a reason are as many as the figures say.
func TestLostPoints(t *testing.T) {
	folder := t.TempDir()
	writeStore(t, folder, runID)
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	update(t, x, folder)
	run, err := loaded(t.Context(), x, runID)
	if err != nil {
		t.Fatal(err)
	}
	want, err := fromStore(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want.Lost, run.Lost); diff != "" || len(run.Lost) < 2 {
		t.Errorf("lost points, - of the store, + of the index: %s", diff)
	}
	for _, l := range run.Lost {
		for _, text := range []string{"", "common"} {
			page, err := x.Episodes(t.Context(), Query{Run: runID, Lost: l.Reason(), Text: text})
			if err != nil {
				t.Fatal(err)
			}
			if int64(page.Total) != l.Episodes {
				t.Errorf("%d episodes with %q lost points for %+v", page.Total, text, l)
			}
		}
	}
}

// A second process has an index of its own.
func TestDefaultFiles(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	folder := t.TempDir()
	writeStore(t, folder, runID)
	var all []*Index
	for range 2 {
		x, err := OpenDefault(t.Context(), folder)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		update(t, x, folder)
		all = append(all, x)
	}
	first, err := DefaultPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if all[0].path != first || all[1].path == first {
		t.Errorf("files %s and %s, the first is %s", all[0].path, all[1].path, first)
	}
}

func TestUnusableFilesAreReplaced(t *testing.T) {
	folder := t.TempDir()
	writeStore(t, folder, runID)
	path := filepath.Join(t.TempDir(), "i.db")
	for name, spoil := range map[string]func(*Index) error{
		"another version": func(x *Index) error {
			_, err := x.db.ExecContext(t.Context(), "PRAGMA user_version = 99")
			return errors.Join(err, x.Close())
		},
		"no database": func(x *Index) error {
			return errors.Join(x.Close(), os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600))
		},
		"cut off": func(x *Index) error { return errors.Join(x.Close(), os.Truncate(path, 8192)) },
	} {
		x := openIndex(t, path)
		update(t, x, folder)
		if err := spoil(x); err != nil {
			t.Fatal(err)
		}
		x = openIndex(t, path)
		if got := update(t, x, folder); got.Segments == 0 {
			t.Errorf("%s: the file was kept", name)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneProcessOpensTheIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "i.db")
	openIndex(t, path)
	if _, err := Open(t.Context(), path); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
}

// Lines that are no records are counted, and the others are indexed.
func TestUnreadableLines(t *testing.T) {
	folder := t.TempDir()
	p := writeStore(t, folder, runID)
	lines := []record.Episode{}
	for planned := range p.Shard(0) {
		lines = append(lines, episode(planned, 1, "x"))
	}
	lines[0].Index, lines[1].Task = -1, strings.Repeat("x", 300)
	writeSegment(t, folder, runID, 0, 1, lines[:3]...)
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	update(t, x, folder)
	infos, err := x.Runs(t.Context())
	if err != nil || infos[0].Problems != 1 || !strings.Contains(infos[0].Problem, "its index is -1") {
		t.Errorf("%+v, %v", infos, err)
	}
	if got, err := x.Episode(t.Context(), runID, lines[2].Index); err != nil || got.Index != lines[2].Index {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRefusedQueries(t *testing.T) {
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	for want, q := range map[string]Query{
		"choose one of [index": {Sort: "x; DROP TABLE runs"},
		"begin at 0":           {Offset: -1},
		"choose 1 to":          {Limit: MaxLimit + 1},
		"shorten it":           {Text: strings.Repeat("x", MaxText+1)},
		"exchange them":        {Least: new(int64(2)), Most: new(int64(1))},
		"is not in the index":  {Run: "../x"},
	} {
		if _, err := x.Episodes(t.Context(), q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", q, err, want)
		}
	}
}

func TestMatch(t *testing.T) {
	for text, want := range map[string]string{
		"":            "",
		`"'*-`:        "",
		"Refund":      `"refund" *`,
		"refund now ": `"refund" AND "now"`, //nolint:gocritic // the text ends with a space
		"Über-größe":  `"uber" AND "große" *`,
		"a":           `"a"`,
		"返金":          `"返" AND "金"`,
	} {
		if got := buildMatchQuery(text); got != want {
			t.Errorf("match(%q) = %s, want %s", text, got, want)
		}
	}
}

func FuzzSearch(f *testing.F) {
	x := openIndex(f, filepath.Join(f.TempDir(), "i.db"))
	folder := f.TempDir()
	writeStore(f, folder, runID)
	update(f, x, folder)
	f.Add(`a" OR b*`)
	f.Add("\x00NEAR(é 𞤀")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := x.Episodes(t.Context(), Query{Run: runID, Text: text[:min(len(text), MaxText)]}); err != nil {
			t.Error(err)
		}
	})
}
