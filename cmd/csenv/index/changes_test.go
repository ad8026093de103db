package index

import (
	"cmp"
	"context"
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
	"pgregory.net/rapid"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// changing is a store that changes at random, and its index.
type changing struct {
	folder, path string
	plan         score.Plan
	planned      [][]score.PlannedEpisode // by shard
	random       *rand.Rand
	index        *Index
	written      int // segments with a word of their own
}

func newChanging(t *testing.T, seed uint64) *changing {
	t.Helper()
	c := &changing{folder: t.TempDir(), path: filepath.Join(t.TempDir(), "i.db"), random: rand.New(rand.NewPCG(seed, 1))}
	c.plan = writeStore(t, c.folder, runID)
	for shard := range c.plan.Shards {
		c.planned = append(c.planned, slices.Collect(c.plan.Shard(shard)))
	}
	c.index = openIndex(t, c.path)
	return c
}

// write writes a segment with a word of its own, of episodes with receipts or without.
func (c *changing) write(t *testing.T, shard, number int) {
	t.Helper()
	c.written++
	lines := make([]record.Episode, 1+c.random.IntN(4))
	for i := range lines {
		planned := c.planned[shard][c.random.IntN(len(c.planned[shard]))]
		lines[i] = episode(planned, 0.5, fmt.Sprintf("written%d", c.written))
		if c.random.IntN(2) == 0 {
			lines[i].Receipt = receipt(t, c.plan, planned, 500_000)
		}
	}
	writeSegment(t, c.folder, runID, shard, number, lines...)
}

// anySegment is the file of a segment, "" if the run has none.
func (c *changing) anySegment(t *testing.T) (file string, shard, number int) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(c.folder, runID, "shard-*", "*.jsonl"))
	if err != nil || len(all) == 0 {
		t.Fatal("the run has no segment", err)
	}
	file = all[c.random.IntN(len(all))]
	if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(file)), "shard-%d", &shard); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(filepath.Base(file), "%d.jsonl", &number); err != nil {
		t.Fatal(err)
	}
	return file, shard, number
}

// change changes the store or disturbs the index.
func (c *changing) change(t *testing.T) string {
	t.Helper()
	switch c.random.IntN(7) {
	case 0, 1:
		c.write(t, c.random.IntN(len(c.planned)), 500+c.written)
		return "a new segment"
	case 2:
		_, shard, number := c.anySegment(t)
		c.write(t, shard, number)
		return "a segment that was written again"
	case 3:
		file, _, _ := c.anySegment(t)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		return "a segment that was deleted"
	case 4:
		c.write(t, c.random.IntN(len(c.planned)), 500+c.written)
		ctx, cancel := context.WithCancel(t.Context())
		_ = c.index.Update(ctx, c.folder, func(Progress) { cancel() })
		cancel()
		return "an update that was stopped"
	case 5:
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.index.Update(ctx, c.folder, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("an update that may not begin: %v", err)
		}
		return "an update that was stopped at once"
	default:
		if err := c.index.Close(); err != nil {
			t.Fatal(err)
		}
		c.index = openIndex(t, c.path)
		return "another process"
	}
}

// check compares the index with the store.
func (c *changing) check(t *testing.T, after string) {
	t.Helper()
	update(t, c.index, c.folder)
	said := map[string]int{}
	var want, got []int64
	for _, e := range stored(t, c.folder) {
		want = append(want, e.Index)
		said[e.Turns[0].Said]++
	}
	for q := (Query{Run: runID, Limit: 50}); ; q.Offset += q.Limit {
		page, err := c.index.Episodes(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Episodes) == 0 {
			break
		}
		for _, e := range page.Episodes {
			got = append(got, e.Index)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("after %s, episodes (-store +index):\n%s", after, diff)
	}
	for n := range c.written {
		word := fmt.Sprintf("written%d", n+1)
		page, err := c.index.Episodes(t.Context(), Query{Run: runID, Text: word + " "})
		if err != nil || page.Total != said[word] {
			t.Fatalf("after %s, %d episodes say %s, want %d: %v", after, page.Total, word, said[word], err)
		}
	}
	for word := range said {
		found, _, err := c.index.Search(t.Context(), Search{Text: strings.Fields(word)[0], Limit: MaxLimit})
		if err != nil || len(found) < said[word] {
			t.Fatalf("after %s, %d found for %s, want %d: %v", after, len(found), word, said[word], err)
		}
	}
}

// TestNothingIsLostOrDoubled changes a store at random, stops updates and opens the index again,
// and wants after each change the episodes and figures of the store, each once.
func TestNothingIsLostOrDoubled(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newChanging(t, seed)
			for range 12 {
				c.check(t, c.change(t))
			}
			want, err := fromStore(t.Context(), c.folder)
			wanted := figuresOf(t, want, err)
			got, err := loaded(t.Context(), c.index, runID)
			if diff := gocmp.Diff(wanted, figuresOf(t, got, err)); diff != "" {
				t.Errorf("figures (-store +index):\n%s", diff)
			}
		})
	}
}

// TestForgottenRunsAreNotFound wants no word of a run that was deleted, and every one of a run that
// was stored later.
func TestForgottenRunsAreNotFound(t *testing.T) {
	folder := t.TempDir()
	p := writeStore(t, folder, runID)
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	planned := slices.Collect(p.Shard(0))
	writeSegment(t, folder, runID, 0, 900, episode(planned[0], 1, "vanishing"))
	update(t, x, folder)
	count := func(word string) int {
		found, _, err := x.Search(t.Context(), Search{Text: word})
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if n := count("vanishing"); n != 1 {
		t.Fatalf("%d episodes are found before", n)
	}
	if err := os.RemoveAll(filepath.Join(folder, runID)); err != nil {
		t.Fatal(err)
	}
	writeStore(t, folder, "ns/later-0a1b2c3d")
	update(t, x, folder)
	if n := count("vanishing"); n != 0 {
		t.Errorf("%d episodes of a run that was deleted are found", n)
	}
	var rows, records int
	if err := x.db.QueryRowContext(t.Context(),
		"SELECT (SELECT count(*) FROM docs), (SELECT sum(records) FROM segments)").
		Scan(&rows, &records); err != nil {
		t.Fatal(err)
	}
	infos, err := x.Runs(t.Context())
	if err != nil || len(infos) != 1 || rows != records || count("common") == 0 {
		t.Errorf("%d runs with %d rows of %d records: %v", len(infos), rows, records, err)
	}
}

// TestRowsComeBack packs records at random, and wants them back as they were. A row that is cut off
// is an error.
func TestRowsComeBack(t *testing.T) {
	outcomes := []score.Outcome{score.Scored, score.Failed, score.Errored}
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string) int64 { return rapid.Int64Range(0, maxIndex-1).Draw(t, name) }
		name := rapid.SampledFrom([]string{"", "refund", "größe", "x y", strings.Repeat("n", maxNameBytes)})
		pack := newPacker()
		type kept struct {
			line int
			e    record.Episode
			c    source.Counted
		}
		var all []kept
		line := 0
		for range rapid.IntRange(0, 6).Draw(t, "records") {
			line += rapid.IntRange(0, 3).Draw(t, "skipped")
			e := record.Episode{Index: number("index"), Seed: number("seed") - 5, Task: name.Draw(t, "task"),
				Scenario: name.Draw(t, "scenario"), Trial: int(number("trial") % 100), Attempts: 2, DurationMS: number("ms"),
				Turns: make([]record.Turn, rapid.IntRange(0, 3).Draw(t, "turns")),
				Grade: record.Grade{Outcome: rapid.SampledFrom(outcomes).Draw(t, "outcome"), Class: name.Draw(t, "class")}}
			counted := source.Counted{Index: e.Index, Attempts: e.Attempts, DurationMS: e.DurationMS,
				Errored: e.Outcome == score.Errored, Counts: rapid.Bool().Draw(t, "counts"), Mute: rapid.Bool().Draw(t, "mute"),
				Tokens: score.Tokens{Prompt: number("prompt"), Completion: number("completion")}}
			if counted.Errored {
				counted.Class = e.Class
			}
			if counted.Counts {
				counted.Planned = score.PlannedEpisode{Index: e.Index, Task: name.Draw(t, "planned task"),
					Scenario: name.Draw(t, "planned scenario"), Trial: 3, Seed: -number("planned seed"),
					Pressure: rapid.Bool().Draw(t, "pressure")}
				counted.Episode = score.Episode{Outcome: score.Scored, Score: number("score") % score.One,
					Category: name.Draw(t, "category"), Difficulty: "easy", Language: "en",
					Dimensions: []score.Dimension{{Name: name.Draw(t, "dimension"), Earned: -number("earned"), Offered: 7}}}
				counted.Lost = []source.Lost{{Reason: name.Draw(t, "reason"), Points: number("points")}}
			}
			if err := pack.add(line, e, counted); err != nil {
				t.Fatal(err)
			}
			all = append(all, kept{line, e, counted})
			line++
		}
		blob := pack.bytes()
		u, err := newUnpacker(blob)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range all {
			e, err := u.next()
			if err != nil || e == nil {
				t.Fatalf("a row is missing: %v", err)
			}
			if e.line != want.line || e.index != want.e.Index || e.seed != want.e.Seed || e.trial != int64(want.e.Trial) ||
				e.turns != int64(len(want.e.Turns)) || u.names[e.task] != want.e.Task || u.names[e.scenario] != want.e.Scenario ||
				u.names[e.outcome] != string(want.e.Outcome) || u.names[e.class] != want.e.Class {
				t.Errorf("the row is %+v, want %+v", *e, want)
			}
			if diff := gocmp.Diff(want.c, u.counted()); diff != "" {
				t.Errorf("what counts (-want +got):\n%s", diff)
			}
		}
		if e, err := u.next(); e != nil || err != nil {
			t.Errorf("after the last row: %+v, %v", e, err)
		}
		if len(all) > 0 {
			testCutOff(t, blob[:len(blob)-1], len(all))
		}
	})
}

// testCutOff wants an error before the last of the rows.
func testCutOff(t *rapid.T, blob []byte, rows int) {
	u, err := newUnpacker(blob)
	for n := 0; err == nil; n++ {
		var e *entry
		if e, err = u.next(); e == nil && err == nil {
			t.Fatal("a row that is cut off is no error")
		}
		if n > rows {
			t.Fatal("a row that is cut off is read")
		}
	}
	if !errors.Is(err, errBlob) {
		t.Error(err)
	}
}

// TestMergeKeepsTheRecordThatCounts merges rows in portions, and wants of each episode of a shard
// the first row with a receipt, or else the last one, in order.
func TestMergeKeepsTheRecordThatCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := &table{names: map[string]uint32{}}
		var want []row
		for portion := range rapid.IntRange(1, 4).Draw(t, "portions") {
			table.segments = append(table.segments, segment{shard: rapid.IntRange(0, 1).Draw(t, "shard"),
				number: rapid.IntRange(1, 9).Draw(t, "number")*10 + portion})
			var added []row
			for line := range rapid.IntRange(0, 5).Draw(t, "rows") {
				r := row{index: rapid.Int64Range(0, 3).Draw(t, "index"), place: int32(portion), line: int32(line)}
				if rapid.Bool().Draw(t, "receipt") {
					r.flags = hasReceipt
				}
				added = append(added, r)
			}
			want = append(want, added...)
			table.merge(added)
		}
		byTime := func(a, b row) int {
			return cmp.Or(cmp.Compare(table.segments[a.place].number, table.segments[b.place].number), cmp.Compare(a.line,
				b.line))
		}
		slices.SortStableFunc(want, byTime)
		counts := map[[2]int64]row{}
		for _, r := range want {
			key := [2]int64{r.index, int64(table.segments[r.place].shard)}
			if before, ok := counts[key]; !ok || before.flags&hasReceipt == 0 {
				counts[key] = r
			}
		}
		if len(counts) != len(table.rows) {
			t.Errorf("%d rows remain, want %d", len(table.rows), len(counts))
		}
		for i, r := range table.rows {
			key := [2]int64{r.index, int64(table.segments[r.place].shard)}
			if counts[key] != r {
				t.Errorf("of episode %v remains %+v, want %+v", key, r, counts[key])
			}
			if i > 0 && table.byEpisode(table.rows[i-1], r) >= 0 {
				t.Errorf("the rows are out of order at %d", i)
			}
		}
	})
}

// TestWordsOfActions wants the texts that an agent wrote to people, and no other members.
func TestWordsOfActions(t *testing.T) {
	w := newWords()
	w.action(json.RawMessage(`{"action_type":"hidden1",` +
		`"payload":{"message":"Grüße, Bo","reason":["ZU teuer"],"team":"hidden2"},` +
		`"query":{"inner":"hidden3","query":"find 12"}}`))
	got := strings.Fields(w.list.String())
	slices.Sort(got)
	if want := []string{"12", "bo", "find", "gruße", "teuer", "zu"}; !slices.Equal(got, want) {
		t.Errorf("the words are %q, want %q", got, want)
	}
}
