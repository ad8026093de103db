package score

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func tableText(t interface{ Fatal(...any) }, table *ScenarioTable) string {
	text, err := table.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestScenarioTableText(t *testing.T) {
	var table ScenarioTable
	table.Fold(playedLedger(t))
	text := tableText(t, &table)
	if first, _, _ := strings.Cut(text,
		"\n"); first != "task,scenario,category,difficulty,language,episodes,passes,mean" {
		t.Errorf("the header is %q", first)
	}
	var got ScenarioTable
	if err := got.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table.Rows(), got.Rows()); diff != "" {
		t.Error(diff)
	}
}

// The table is written before the sums of the same shards. A writer may crash between the two
// writes and resume from the written values. For any order and any crashes, the final table matches
// the sums, and no other table does.
func TestTableAndSumsAgreeAfterEveryCrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPlan(drawPlan(t), rapid.IntRange(1, 8).Draw(t, "parallelism"))
		if err != nil {
			t.Fatal(err)
		}
		var written struct {
			table, sums string
			done        IndexSet
		}
		for written.done.Len() < int64(p.Shards) {
			var table ScenarioTable
			var sums Accumulator
			if written.table != "" {
				if err := table.UnmarshalText([]byte(written.table)); err != nil {
					t.Fatal(err)
				}
			}
			if err := sums.UnmarshalText([]byte(written.sums)); err != nil {
				t.Fatal(err)
			}
			table.Keep(p, written.done)
			if !sums.Holds(&table) {
				t.Fatalf("after shards %s the table doesn't match the sums", written.done)
			}
			done := written.done.Clone()
			// A shard that was lost in a crash is played again, with other scores.
			shard := rapid.IntRange(0, p.Shards-1).Filter(func(i int) bool { return !done.Contains(int64(i)) }).Draw(t,
				"shard")
			l := drawLedger(t, p, shard)
			table.Fold(l)
			table.Fold(l)
			sums.Fold(l)
			done.Add(int64(shard))
			if rapid.IntRange(0, 3).Draw(t, "crash before the table") == 0 {
				continue
			}
			written.table = tableText(t, &table)
			if rapid.IntRange(0, 3).Draw(t, "crash before the sums") == 0 {
				continue
			}
			written.sums, written.done = text(t, &sums), done
		}
		var table ScenarioTable
		var sums Accumulator
		if err := errors.Join(table.UnmarshalText([]byte(written.table)),
			sums.UnmarshalText([]byte(written.sums))); err != nil || !sums.Holds(&table) {
			t.Fatalf("the final table doesn't match the sums (%v)", err)
		}
		row := table.Rows()[0]
		row.Episodes++
		table.Put(row)
		if sums.Holds(&table) {
			t.Fatal("a changed table matches the sums")
		}
	})
}

func TestScenarioTableRefuses(t *testing.T) {
	header := "task,scenario,category,difficulty,language,episodes,passes,mean\n"
	for name, text := range map[string]string{
		"nothing":         "",
		"another header":  "task,scenario\n",
		"a short line":    header + "t,A,c,easy,en,1,1\n",
		"no number":       header + "t,A,c,easy,en,one,1,1.000000\n",
		"no episodes":     header + "t,A,c,easy,en,0,0,0.000000\n",
		"too many passes": header + "t,A,c,easy,en,1,2,1.000000\n",
		"above one":       header + "t,A,c,easy,en,1,1,1.500000\n",
		"twice":           header + "t,A,c,easy,en,1,1,1.000000\nt,A,c,easy,en,1,1,1.000000\n",
		"too long":        header + strings.Repeat("t,A,c,easy,en,1,1,1.000000\n", 30_000),
		"an open quote":   header + `t,"A,c,easy,en,1,1,1.000000`,
	} {
		t.Run(name, func(t *testing.T) {
			var table ScenarioTable
			table.Put(ScenarioScore{Task: "kept"})
			if err := table.UnmarshalText([]byte(text)); err == nil {
				t.Error("no error")
			}
			if len(table.Rows()) != 1 {
				t.Error("a refused text changed the table")
			}
		})
	}
}

func TestScenarioTableIsBounded(t *testing.T) {
	var table ScenarioTable
	for i := range 30_000 {
		table.Put(ScenarioScore{Task: "t", Scenario: fmt.Sprintf("S%05d", i), Episodes: 1})
	}
	if _, err := table.MarshalText(); !errors.Is(err, ErrTableTooLarge) {
		t.Errorf("error %v, want ErrTableTooLarge", err)
	}
}

func FuzzScenarioTable(f *testing.F) {
	var table ScenarioTable
	table.Fold(playedLedger(f))
	f.Add(tableText(f, &table))
	f.Fuzz(func(t *testing.T, text string) {
		var table, again ScenarioTable
		if table.UnmarshalText([]byte(text)) != nil {
			return
		}
		written, err := table.MarshalText()
		if errors.Is(err, ErrTableTooLarge) {
			return
		}
		if err != nil || again.UnmarshalText(written) != nil {
			t.Fatalf("%q is written as %q (%v), which can't be decoded", text, written, err)
		}
		if diff := cmp.Diff(table.Rows(), again.Rows()); diff != "" {
			t.Error(diff)
		}
	})
}
