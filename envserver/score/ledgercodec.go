package score

import (
	"errors"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// MaxLedgerBytes bounds the encoded ledgers that a decoder accepts.
const MaxLedgerBytes = 64 << 10

// ledgerVersions are versions of ledgers that are read: signed and stored ones outlive a release.
var ledgerVersions = bitstream.Versions{Oldest: 1, Newest: 1}

// maxCount bounds counts of episodes, and maxPoints sums of points, so that a decoder's sums don't
// overflow. maxTasks and maxDims are the numbers that a run's status lists, and maxName bounds the
// names in it, in bytes.
const (
	maxCount  = 1 << 31
	maxPoints = 1 << 53
	maxTasks  = 16
	maxDims   = 16
	maxName   = 63
)

// ErrMalformed means that bytes are not the encoding of a ledger, or that its figures contradict
// each other.
var ErrMalformed = errors.New("malformed ledger")

// MarshalBinary encodes the ledger as a bit stream: a header, tables of texts, then a column for
// each field. Figures of tasks that follow from the scenarios' figures are omitted. Equal ledgers
// have equal bytes.
func (l *Ledger) MarshalBinary() ([]byte, error) {
	if err := l.validate(); err != nil {
		return nil, fmt.Errorf("encoding ledger: %w", err)
	}
	data := bitstream.Encode(ledgerVersions.Newest, l.code)
	if len(data) > MaxLedgerBytes {
		return nil, fmt.Errorf("encoding ledger: %d bytes are more than %d: play fewer scenarios in a shard",
			len(data), MaxLedgerBytes)
	}
	return data, nil
}

// UnmarshalBinary decodes a ledger from untrusted bytes. Without an error, the ledger is
// consistent. An error wraps ErrMalformed.
func (l *Ledger) UnmarshalBinary(data []byte) error {
	if len(data) > MaxLedgerBytes {
		return fmt.Errorf("%w: %d bytes are more than %d", ErrMalformed, len(data), MaxLedgerBytes)
	}
	var got Ledger
	if err := bitstream.Decode(data, ledgerVersions, got.code, got.validate); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	*l = got
	return nil
}

// code describes the ledger's encoding.
func (l *Ledger) code(s *bitstream.Stream) {
	s.Text(&l.Run)
	s.Int(&l.Shard)
	s.Number(&l.PassScore)
	s.Texts(&l.ScenarioDigest, &l.GraderVersion, &l.Judge)
	s.Numbers(&l.Opened, &l.Replayed, &l.Failed)
	s.Raw(l.Digest[:])
	l.codeScenarios(s)
	l.codeTasks(s)
	if s.Writing() {
		return
	}
	l.Scored = -l.Failed
	for _, t := range l.Tasks {
		l.Scored += t.Episodes
	}
}

// attributes are the scenario's fields that repeat, each coded as a table and a column of
// positions.
var attributes = [...]func(*ScenarioSums) *string{
	func(s *ScenarioSums) *string { return &s.Category },
	func(s *ScenarioSums) *string { return &s.Difficulty },
	func(s *ScenarioSums) *string { return &s.Language },
}

func (l *Ledger) codeScenarios(s *bitstream.Stream) {
	bitstream.CodeList(s, &l.Scenarios, bitstream.MinTextBits, func(sc *ScenarioSums) { s.Text(&sc.ID) })
	values, positions := make([]string, len(l.Scenarios)), make([]int64, len(l.Scenarios))
	for _, field := range attributes {
		for i := range l.Scenarios {
			values[i] = *field(&l.Scenarios[i])
		}
		table := codeTable(s, values)
		for i, v := range values {
			positions[i] = findIndex(table, v)
		}
		s.Column(positions)
		if s.Writing() {
			continue
		}
		for i, at := range positions {
			*field(&l.Scenarios[i]) = lookUpEntry(s, table, at)
		}
	}
}

// codeTable codes the distinct texts in order, and returns them.
func codeTable(s *bitstream.Stream, values []string) []string {
	var table []string
	if s.Writing() {
		table = slices.Compact(slices.Sorted(slices.Values(values)))
	}
	bitstream.CodeList(s, &table, bitstream.MinTextBits, s.Text)
	return table
}

func findIndex(table []string, v string) int64 {
	at, _ := slices.BinarySearch(table, v)
	return int64(at)
}

func lookUpEntry(s *bitstream.Stream, table []string, at int64) string {
	if at >= int64(len(table)) {
		s.Failf("it refers to text %d of %d", at, len(table))
		return ""
	}
	return table[at]
}

func (l *Ledger) codeTasks(s *bitstream.Stream) {
	n := s.Len(len(l.Tasks), bitstream.MinTextBits)
	if n > maxTasks {
		s.Failf("it has %d tasks", n)
		return
	}
	var names []string
	for _, t := range l.Tasks {
		for _, d := range t.Dimensions {
			names = append(names, d.Name)
		}
	}
	table := codeTable(s, names)
	for i := range n {
		if !s.Writing() {
			l.Tasks = append(l.Tasks, TaskSums{})
		}
		t := &l.Tasks[i]
		t.code(s)
		bitstream.CodeList(s, &t.Dimensions, 3*6, func(d *Dimension) {
			at := findIndex(table, d.Name)
			if s.Number(&at); !s.Writing() {
				d.Name = lookUpEntry(s, table, at)
			}
			s.Signed(&d.Earned)
			s.Number(&d.Offered)
		})
		if s.Failed() {
			return
		}
		l.codeRows(s, t)
	}
}

// code describes the encoding of a task, without its dimensions and rows.
func (t *TaskSums) code(s *bitstream.Stream) {
	s.Text(&t.Name)
	s.Numbers(&t.Min, &t.Max)
	s.Column(t.Hist[:])
}

// codeRows codes which scenarios have the task, and their sums. Episodes are coded as the
// difference from the largest number, which is usually 0.
func (l *Ledger) codeRows(s *bitstream.Stream, t *TaskSums) {
	var most int64
	var scenarios []*ScenarioSums
	var rows []ScenarioTaskSums
	for i := range l.Scenarios {
		row, played := l.Scenarios[i].row(t.Name)
		if s.Flag(&played); played {
			scenarios, rows = append(scenarios, &l.Scenarios[i]), append(rows, row)
			most = max(most, row.Episodes)
		}
	}
	missing, passes, sums := make([]int64, len(rows)), make([]int64, len(rows)), make([]int64, len(rows))
	for i, row := range rows {
		missing[i], passes[i], sums[i] = most-row.Episodes, row.Passes, row.Sum
	}
	s.Number(&most)
	s.Column(missing)
	s.Column(passes)
	s.Column(sums)
	if s.Writing() {
		return
	}
	for i, sc := range scenarios {
		row := ScenarioTaskSums{Task: t.Name, Episodes: most - missing[i], Passes: passes[i], Sum: sums[i]}
		if row.Episodes < 0 || row.Episodes > maxCount || row.Sum > maxPoints {
			s.Failf("scenario %q has impossible sums", sc.ID)
			return
		}
		sc.Tasks = append(sc.Tasks, row)
		t.Episodes += row.Episodes
		t.Passes += row.Passes
		t.Sum += row.Sum
	}
}

func (s *ScenarioSums) row(task string) (ScenarioTaskSums, bool) {
	for _, r := range s.Tasks {
		if r.Task == task {
			return r, true
		}
	}
	return ScenarioTaskSums{}, false
}

// validate refuses impossible figures.
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
		if len(text) > bitstream.MaxText {
			return fmt.Errorf("a text of %d bytes is longer than %d", len(text), bitstream.MaxText)
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
		sum.add(row)
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
			return fmt.Errorf("task %q: its sums differ from its scenarios'", t.Name)
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
	if total != t.Episodes || t.Hist[binIndex(t.Min)] == 0 || t.Hist[binIndex(t.Max)] == 0 {
		return fmt.Errorf("task %q: its histogram doesn't describe its episodes", t.Name)
	}
	return nil
}
