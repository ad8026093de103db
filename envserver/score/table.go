package score

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/csenv/csenv/envserver/score/stats"
)

// MaxTableBytes bounds the text of a scenario table, so that it fits into a ConfigMap with room to
// spare.
const MaxTableBytes = 512 << 10

// ErrTableTooLarge means that the text of a scenario table would take more than MaxTableBytes.
var ErrTableTooLarge = errors.New("too many scenarios for a table")

// ScenarioScore is the score of one scenario in one task. Mean is in micro-points, over Episodes.
type ScenarioScore struct {
	Task, Scenario                 string
	Category, Difficulty, Language string
	Episodes, Passes               int64
	Mean                           int64
}

// ScenarioTable contains the score of every (task, scenario) pair of some shards. The zero value is
// empty. It is not safe for concurrent use.
//
// It is far larger than an Accumulator, so it is stored separately and written separately. The
// accumulator contains the table's fingerprint, with which Accumulator.Holds detects a table that
// lacks a shard, has one too many or was changed.
type ScenarioTable struct {
	rows map[pair]ScenarioScore
}

// Fold adds the rows of a shard's ledger. Folding the same ledger again changes nothing.
func (t *ScenarioTable) Fold(l *Ledger) {
	for row := range l.eachRow {
		t.Put(row)
	}
}

// eachRow yields the ledger's rows.
func (l *Ledger) eachRow(yield func(ScenarioScore) bool) {
	for i := range l.Scenarios {
		s := &l.Scenarios[i]
		for _, sums := range s.Tasks {
			row := ScenarioScore{
				Task: sums.Task, Scenario: s.ID, Category: s.Category, Difficulty: s.Difficulty, Language: s.Language,
				Episodes: sums.Episodes, Passes: sums.Passes, Mean: stats.Mean(sums.Sum, sums.Episodes),
			}
			if !yield(row) {
				return
			}
		}
	}
}

// Put adds a row, which replaces one of the same task and scenario.
func (t *ScenarioTable) Put(row ScenarioScore) {
	if t.rows == nil {
		t.rows = map[pair]ScenarioScore{}
	}
	t.rows[pair{row.Task, row.Scenario}] = row
}

// Keep drops the rows of all other shards: rows are written before the sums of their shard.
func (t *ScenarioTable) Keep(p Plan, shards IndexSet) {
	kept := map[string]bool{}
	for j, id := range p.listScenarios() {
		kept[id] = shards.Contains(int64(j % p.Shards))
	}
	maps.DeleteFunc(t.rows, func(of pair, _ ScenarioScore) bool { return !kept[of.scenario] })
}

// Rows are ordered by task and scenario.
func (t *ScenarioTable) Rows() []ScenarioScore {
	return slices.SortedFunc(maps.Values(t.rows), func(a, b ScenarioScore) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Scenario, b.Scenario))
	})
}

// Holds reports whether the table has exactly the rows of the shards in the accumulator.
func (a *Accumulator) Holds(t *ScenarioTable) bool {
	return a.table.Equal(tableDigest(maps.Values(t.rows)))
}

func tableDigest(rows iter.Seq[ScenarioScore]) PlanDigest {
	var sum PlanDigest
	for row := range rows {
		sum.AddSet(row.digest())
	}
	return sum
}

func (s ScenarioScore) digest() PlanDigest {
	return sha256.Sum256(appendFields(nil, s.Task, s.Scenario, s.Category, s.Difficulty, s.Language, s.Episodes,
		s.Passes, s.Mean))
}

var tableHeader = []string{"task", "scenario", "category", "difficulty", "language", "episodes", "passes", "mean"}

// MarshalText writes the table as CSV, with a header and six decimals of the mean. It fails with
// ErrTableTooLarge.
func (t *ScenarioTable) MarshalText() ([]byte, error) {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	rows := t.Rows()
	lines := append(make([][]string, 0, 1+len(rows)), tableHeader)
	for _, row := range rows {
		lines = append(lines, []string{
			row.Task, row.Scenario, row.Category, row.Difficulty, row.Language,
			strconv.FormatInt(row.Episodes, 10), strconv.FormatInt(row.Passes, 10),
			fmt.Sprintf("%d.%06d", row.Mean/One, row.Mean%One),
		})
	}
	if err := w.WriteAll(lines); err != nil {
		return nil, fmt.Errorf("writing scenario table: %w", err)
	}
	if text.Len() > MaxTableBytes {
		return nil, fmt.Errorf("%w: %d rows take %d bytes, more than %d", ErrTableTooLarge, len(rows), text.Len(),
			MaxTableBytes)
	}
	return text.Bytes(), nil
}

// UnmarshalText reads what MarshalText wrote. The text is untrusted.
func (t *ScenarioTable) UnmarshalText(text []byte) error {
	if len(text) > MaxTableBytes {
		return fmt.Errorf("reading scenario table: %w: %d bytes", ErrTableTooLarge, len(text))
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = len(tableHeader)
	if header, err := r.Read(); err != nil || !slices.Equal(header, tableHeader) {
		return fmt.Errorf("reading scenario table: it begins with %.100q, not with the names of its columns", header)
	}
	var got ScenarioTable
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			*t = got
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading scenario table: %w", err)
		}
		row, err := parseScenarioScore(record)
		if err != nil {
			return fmt.Errorf("reading scenario table: %w", err)
		}
		if _, twice := got.rows[pair{row.Task, row.Scenario}]; twice {
			return fmt.Errorf("reading scenario table: task %s, scenario %s appears twice", row.Task, row.Scenario)
		}
		got.Put(row)
	}
}

func parseScenarioScore(record []string) (ScenarioScore, error) {
	s := ScenarioScore{Task: record[0], Scenario: record[1], Category: record[2], Difficulty: record[3],
		Language: record[4]}
	var errs [3]error
	s.Episodes, errs[0] = strconv.ParseInt(record[5], 10, 64)
	s.Passes, errs[1] = strconv.ParseInt(record[6], 10, 64)
	s.Mean, errs[2] = ParseDecimal(record[7])
	if err := errors.Join(errs[:]...); err != nil {
		return s, fmt.Errorf("task %.40q, scenario %.40q: %w", s.Task, s.Scenario, err)
	}
	if s.Episodes < 1 || s.Episodes > maxCount || s.Passes < 0 || s.Passes > s.Episodes {
		return s, fmt.Errorf("task %.40q, scenario %.40q: %d passes of %d episodes", s.Task, s.Scenario, s.Passes,
			s.Episodes)
	}
	return s, nil
}
