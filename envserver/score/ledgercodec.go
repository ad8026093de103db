package score

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// MaxLedgerBytes bounds the encoded ledgers that a decoder accepts.
const MaxLedgerBytes = 64 << 10

const ledgerVersion = 1

// maxCount bounds counts of episodes, and maxPoints sums of points, so that no sum that a decoder
// makes overflows. maxTasks and maxDims are as many as a run's status lists.
const (
	maxCount  = 1 << 31
	maxPoints = 1 << 53
	maxTasks  = 16
	maxDims   = 16
)

// ErrMalformed means that bytes are not the encoding of a ledger, or that its figures contradict
// each other.
var ErrMalformed = errors.New("malformed ledger")

// MarshalBinary writes the ledger as a bit stream: a header, tables of texts, then a column for
// each field. The figures of tasks that follow from those of scenarios are left out. Equal ledgers
// have equal bytes.
func (l *Ledger) MarshalBinary() ([]byte, error) {
	if err := l.validate(); err != nil {
		return nil, fmt.Errorf("encoding ledger: %w", err)
	}
	w := &bitWriter{}
	w.bits(ledgerVersion, 8)
	w.text(l.Run)
	w.number(int64(l.Shard))
	w.number(l.PassScore)
	w.text(l.ScenarioDigest)
	w.text(l.GraderVersion)
	w.text(l.Judge)
	w.number(l.Opened)
	w.number(l.Replayed)
	w.number(l.Failed)
	w.raw(l.Digest[:])
	l.writeScenarios(w)
	l.writeTasks(w)
	if len(w.bytes) > MaxLedgerBytes {
		return nil, fmt.Errorf("encoding ledger: %d bytes are more than %d: play fewer scenarios in a shard",
			len(w.bytes), MaxLedgerBytes)
	}
	return w.bytes, nil
}

// attributes are the scenario's fields that repeat, each written as a table and a column of
// positions.
var attributes = [...]func(*ScenarioSums) *string{
	func(s *ScenarioSums) *string { return &s.Category },
	func(s *ScenarioSums) *string { return &s.Difficulty },
	func(s *ScenarioSums) *string { return &s.Language },
}

func (l *Ledger) writeScenarios(w *bitWriter) {
	w.number(int64(len(l.Scenarios)))
	for _, s := range l.Scenarios {
		w.text(s.ID)
	}
	for _, field := range attributes {
		values := make([]string, len(l.Scenarios))
		for i := range l.Scenarios {
			values[i] = *field(&l.Scenarios[i])
		}
		table := writeTable(w, values)
		positions := make([]int64, len(values))
		for i, v := range values {
			positions[i] = position(table, v)
		}
		w.column(positions)
	}
}

// writeTable writes the distinct texts in order.
func writeTable(w *bitWriter, values []string) []string {
	table := slices.Sorted(slices.Values(values))
	table = slices.Compact(table)
	w.number(int64(len(table)))
	for _, v := range table {
		w.text(v)
	}
	return table
}

func position(table []string, v string) int64 {
	at, _ := slices.BinarySearch(table, v)
	return int64(at)
}

func (l *Ledger) writeTasks(w *bitWriter) {
	var names []string
	for _, t := range l.Tasks {
		for _, d := range t.Dimensions {
			names = append(names, d.Name)
		}
	}
	w.number(int64(len(l.Tasks)))
	table := writeTable(w, names)
	for i := range l.Tasks {
		t := &l.Tasks[i]
		w.text(t.Name)
		w.number(t.Min)
		w.number(t.Max)
		w.column(t.Hist[:])
		w.number(int64(len(t.Dimensions)))
		for _, d := range t.Dimensions {
			w.number(position(table, d.Name))
			w.signed(d.Earned)
			w.number(d.Offered)
		}
		l.writeRows(w, t)
	}
}

// writeRows writes which scenarios have the task, and their sums. Episodes are written as what is
// missing to the most, which is nothing as a rule.
func (l *Ledger) writeRows(w *bitWriter, t *TaskSums) {
	var most int64
	var rows []ScenarioTaskSums
	for i := range l.Scenarios {
		row, ok := l.Scenarios[i].row(t.Name)
		if !ok {
			w.bits(0, 1)
			continue
		}
		w.bits(1, 1)
		rows = append(rows, row)
		most = max(most, row.Episodes)
	}
	missing, passes, sums := make([]int64, len(rows)), make([]int64, len(rows)), make([]int64, len(rows))
	for i, row := range rows {
		missing[i], passes[i], sums[i] = most-row.Episodes, row.Passes, row.Sum
	}
	w.number(most)
	w.column(missing)
	w.column(passes)
	w.column(sums)
}

func (s *ScenarioSums) row(task string) (ScenarioTaskSums, bool) {
	for _, r := range s.Tasks {
		if r.Task == task {
			return r, true
		}
	}
	return ScenarioTaskSums{}, false
}

// UnmarshalBinary reads an encoded ledger. The bytes may be anybody's: an error wraps ErrMalformed,
// and the ledger is consistent when there is none.
func (l *Ledger) UnmarshalBinary(data []byte) error {
	if len(data) > MaxLedgerBytes {
		return fmt.Errorf("%w: %d bytes are more than %d", ErrMalformed, len(data), MaxLedgerBytes)
	}
	r := &bitReader{bytes: data}
	if version := r.bits(8); version != ledgerVersion {
		return fmt.Errorf("%w: version %d is not %d: operator and pool are of different releases", ErrMalformed,
			version, ledgerVersion)
	}
	got := readLedger(r)
	if err := errors.Join(r.end(), got.validate()); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	// One ledger has one encoding: a signature then stands for the figures, not for one of several
	// spellings.
	if again, err := got.MarshalBinary(); err != nil || !bytes.Equal(again, data) {
		return fmt.Errorf("%w: not its shortest encoding", ErrMalformed)
	}
	*l = *got
	return nil
}

func readLedger(r *bitReader) *Ledger {
	l := &Ledger{
		Run: r.text(), Shard: int(r.number()), PassScore: r.number(),
		ScenarioDigest: r.text(), GraderVersion: r.text(), Judge: r.text(),
		Opened: r.number(), Replayed: r.number(), Failed: r.number(),
	}
	copy(l.Digest[:], r.raw(len(l.Digest)))
	l.readScenarios(r)
	l.readTasks(r)
	for _, t := range l.Tasks {
		l.Scored += t.Episodes
	}
	l.Scored -= l.Failed
	return l
}

// minTextBits is the size of the shortest text.
const minTextBits = 8

func (l *Ledger) readScenarios(r *bitReader) {
	if n := r.count(minTextBits); n > 0 {
		l.Scenarios = make([]ScenarioSums, n)
	}
	for i := range l.Scenarios {
		l.Scenarios[i].ID = r.text()
	}
	for _, field := range attributes {
		table := readTable(r)
		for i, at := range r.column(len(l.Scenarios)) {
			*field(&l.Scenarios[i]) = entry(r, table, at)
		}
	}
}

func readTable(r *bitReader) []string {
	table := make([]string, r.count(minTextBits))
	for i := range table {
		table[i] = r.text()
	}
	return table
}

func entry(r *bitReader, table []string, at int64) string {
	if at >= int64(len(table)) {
		r.failf("it refers to text %d of %d", at, len(table))
		return ""
	}
	return table[at]
}

func (l *Ledger) readTasks(r *bitReader) {
	n := r.count(minTextBits)
	if n > maxTasks {
		r.failf("it has %d tasks", n)
		return
	}
	if n > 0 {
		l.Tasks = make([]TaskSums, n)
	}
	table := readTable(r)
	for i := range l.Tasks {
		t := &l.Tasks[i]
		t.Name, t.Min, t.Max = r.text(), r.number(), r.number()
		copy(t.Hist[:], r.column(Bins))
		for range r.count(3 * 6) {
			name := entry(r, table, r.number())
			t.Dimensions = append(t.Dimensions, DimensionSums{Name: name, Earned: r.signed(), Offered: r.number()})
		}
		if r.err != nil {
			return
		}
		l.readRows(r, t)
	}
}

func (l *Ledger) readRows(r *bitReader, t *TaskSums) {
	var scenarios []*ScenarioSums
	for i := range l.Scenarios {
		if r.bits(1) == 1 {
			scenarios = append(scenarios, &l.Scenarios[i])
		}
	}
	most := r.number()
	missing, passes, sums := r.column(len(scenarios)), r.column(len(scenarios)), r.column(len(scenarios))
	for i, s := range scenarios {
		row := ScenarioTaskSums{Task: t.Name, Episodes: most - missing[i], Passes: passes[i], Sum: sums[i]}
		if row.Episodes < 0 || row.Episodes > maxCount || row.Sum > maxPoints {
			r.failf("scenario %q has impossible sums", s.ID)
			return
		}
		s.Tasks = append(s.Tasks, row)
		t.Episodes += row.Episodes
		t.Passes += row.Passes
		t.Sum += row.Sum
	}
}

// validate refuses figures that can't be, whoever wrote them.
func (l *Ledger) validate() error {
	for _, n := range []int64{int64(l.Shard), l.Opened, l.Replayed, l.Failed, l.Scored} {
		if n < 0 || n > maxCount {
			return fmt.Errorf("a count of %d is not within 0 and %d", n, maxCount)
		}
	}
	if l.PassScore < 0 || l.PassScore > One {
		return fmt.Errorf("pass score %d is not within 0 and %d", l.PassScore, One)
	}
	for _, text := range []string{l.Run, l.ScenarioDigest, l.GraderVersion, l.Judge} {
		if len(text) > maxText {
			return fmt.Errorf("a text of %d bytes is longer than %d", len(text), maxText)
		}
	}
	byTask := map[string]ScenarioTaskSums{}
	for i := range l.Scenarios {
		if i > 0 && l.Scenarios[i-1].ID >= l.Scenarios[i].ID {
			return fmt.Errorf("scenario %q is out of order", l.Scenarios[i].ID)
		}
		if err := l.Scenarios[i].validate(byTask); err != nil {
			return err
		}
	}
	return l.validateTasks(byTask)
}

// validate checks a scenario's rows and adds them to the tasks' sums.
func (s *ScenarioSums) validate(byTask map[string]ScenarioTaskSums) error {
	for _, text := range []string{s.ID, s.Category, s.Difficulty, s.Language} {
		if len(text) > maxName {
			return fmt.Errorf("name %q is longer than %d bytes", text, maxName)
		}
	}
	if len(s.Tasks) == 0 {
		return fmt.Errorf("scenario %q has no episodes", s.ID)
	}
	for i, row := range s.Tasks {
		if i > 0 && s.Tasks[i-1].Task >= row.Task {
			return fmt.Errorf("scenario %q: task %q is out of order", s.ID, row.Task)
		}
		if row.Episodes < 1 || row.Episodes > maxCount || row.Passes < 0 || row.Passes > row.Episodes || row.Sum < 0 ||
			row.Sum > row.Episodes*One {
			return fmt.Errorf("scenario %q: task %q has impossible sums", s.ID, row.Task)
		}
		sum := byTask[row.Task]
		sum.Episodes += row.Episodes
		sum.Passes += row.Passes
		sum.Sum += row.Sum
		byTask[row.Task] = sum
	}
	return nil
}

func (l *Ledger) validateTasks(byTask map[string]ScenarioTaskSums) error {
	if len(l.Tasks) > maxTasks {
		return fmt.Errorf("%d tasks are more than %d", len(l.Tasks), maxTasks)
	}
	if len(byTask) != len(l.Tasks) {
		return fmt.Errorf("%d tasks have episodes, %d have figures", len(byTask), len(l.Tasks))
	}
	var episodes int64
	for i := range l.Tasks {
		t := &l.Tasks[i]
		if i > 0 && l.Tasks[i-1].Name >= t.Name {
			return fmt.Errorf("task %q is out of order", t.Name)
		}
		if sum := byTask[t.Name]; sum.Episodes != t.Episodes || sum.Passes != t.Passes || sum.Sum != t.Sum {
			return fmt.Errorf("task %q: its sums are not those of its scenarios", t.Name)
		}
		if err := t.validate(); err != nil {
			return err
		}
		episodes += t.Episodes
	}
	if episodes != l.Scored+l.Failed {
		return fmt.Errorf("%d episodes have figures, %d ended", episodes, l.Scored+l.Failed)
	}
	return nil
}

func (t *TaskSums) validate() error {
	if len(t.Name) > maxName {
		return fmt.Errorf("name %q is longer than %d bytes", t.Name, maxName)
	}
	if len(t.Dimensions) > maxDims {
		return fmt.Errorf("task %q: %d dimensions are more than %d", t.Name, len(t.Dimensions), maxDims)
	}
	if t.Episodes > maxCount || t.Min < 0 || t.Min > t.Max || t.Max > One {
		return fmt.Errorf("task %q: impossible figures", t.Name)
	}
	if err := t.validateHist(); err != nil {
		return err
	}
	for i, d := range t.Dimensions {
		if i > 0 && t.Dimensions[i-1].Name >= d.Name {
			return fmt.Errorf("task %q: dimension %q is out of order", t.Name, d.Name)
		}
		if len(d.Name) > maxName || d.Offered < 0 || d.Offered > maxPoints || d.Earned < -maxPoints ||
			d.Earned > maxPoints {
			return fmt.Errorf("task %q: dimension %q has impossible sums", t.Name, d.Name)
		}
	}
	return nil
}

func (t *TaskSums) validateHist() error {
	var total int64
	for _, n := range t.Hist {
		if n < 0 || n > maxCount {
			return fmt.Errorf("task %q: a bin counts %d", t.Name, n)
		}
		total += n
	}
	if total != t.Episodes || t.Hist[bin(t.Min)] == 0 || t.Hist[bin(t.Max)] == 0 {
		return fmt.Errorf("task %q: its histogram is not that of its episodes", t.Name)
	}
	return nil
}
