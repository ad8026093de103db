package score

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/csenv/csenv/envserver/score/bitstream"
	"github.com/csenv/csenv/envserver/score/stats"
)

// Accumulator contains the sums from which a run's figures follow. Its size depends only on the
// run's tasks and categories. Folding a ledger is exact integer addition, so the order of shards
// doesn't matter. The zero value is empty. It is not safe for concurrent use.
type Accumulator struct {
	// Plan is the fingerprint of the plan whose ledgers are folded. A controller that resumes from
	// the text reads it; no sum depends on it.
	Plan string
	// Scored and Failed are the ledgers' counts.
	Scored, Failed int64
	// Errored, Retried, Mute, Tokens and Stored are reported by runners.
	Errored, Retried, Mute int64
	Tokens                 Tokens
	// Counts are reported by runners too. They are in a run's status, and not in the text, so that
	// earlier releases read that.
	Counts Counts
	// Stored counts the episodes in the result store, errored ones too.
	Stored       int64
	storeError   storeError
	durations    stats.Durations
	classes      stats.Groups[classSums]
	overall      stats.Clusters
	tasks        []taskFold // ordered by name
	categories   stats.Groups[stats.Clusters]
	difficulties stats.Groups[stats.Clusters]
	languages    stats.Groups[stats.Clusters]
	// table is the fingerprint of the scenario table of the same shards.
	table PlanDigest
}

// classSums count the attempts that were repeated and the episodes that errored with one class.
type classSums struct {
	retried, errored int64
}

func (c *classSums) merge(o *classSums) {
	c.retried += o.retried
	c.errored += o.errored
}

// storeError describes why some of a shard's episodes are not stored; text is "" if all are.
type storeError struct {
	shard int64
	text  string
}

// merge keeps the error of the lower shard, in any order of the calls.
func (e *storeError) merge(o storeError) {
	if o.text != "" && (e.text == "" || o.shard < e.shard || o.shard == e.shard && o.text < e.text) {
		*e = o
	}
}

// taskFold holds a task's range, histogram and dimensions, and its sums over scenarios.
type taskFold struct {
	TaskSums
	clusters stats.Clusters
	passHatK stats.PassSums
}

// Fold adds the ledger of one shard. A scenario must not be in two ledgers: the plan puts all
// episodes of a scenario into one shard.
func (a *Accumulator) Fold(l *Ledger) {
	a.Scored += l.Scored
	a.Failed += l.Failed
	for i := range l.Tasks {
		a.addTask(l.Tasks[i].Name).TaskSums.merge(l.Tasks[i])
	}
	for i := range l.Scenarios {
		a.foldScenario(&l.Scenarios[i])
	}
	a.table.AddSet(tableDigest(l.eachRow))
}

// FoldSummary adds the ledger of one shard and the counts that its runner reported with it.
func (a *Accumulator) FoldSummary(l *Ledger, s Summary) {
	a.Fold(l)
	a.Errored += s.ErroredEpisodes()
	a.Retried += s.Retried
	a.Mute += s.Mute
	a.Counts.Add(s.Counts)
	a.Tokens.Add(s.Tokens)
	a.Stored += s.Stored.Episodes
	a.storeError.merge(storeError{int64(l.Shard), s.Stored.Error})
	a.durations.Merge(s.Durations)
	for _, c := range s.Errored {
		a.classes.At(c.Class).errored += c.Episodes.Len()
	}
	for class, attempts := range s.RetriedBy {
		a.classes.At(class).retried += attempts
	}
	a.classes.Limit(maxClasses, (*classSums).merge)
}

func (a *Accumulator) foldScenario(s *ScenarioSums) {
	var all ScenarioTaskSums
	for _, row := range s.Tasks {
		all.add(row)
		t := a.addTask(row.Task)
		t.clusters.Add(row.Episodes, row.Passes, row.Sum)
		t.passHatK.Add(row.Episodes, row.Passes)
	}
	a.overall.Add(all.Episodes, all.Passes, all.Sum)
	for i, by := range a.listGroupings() {
		by.sums.At(*attributes[i](s)).Add(all.Episodes, all.Passes, all.Sum)
		by.sums.Limit(by.most, (*stats.Clusters).Merge)
	}
}

// The numbers of groups that a run's status lists.
const (
	maxCategories   = 32
	maxDifficulties = 16
	maxLanguages    = 16
	maxClasses      = 16
)

// grouping are the sums by one of a scenario's attributes.
type grouping struct {
	sums *stats.Groups[stats.Clusters]
	most int
}

// listGroupings are the groupings in the order of the ledger's attributes.
func (a *Accumulator) listGroupings() [3]grouping {
	return [3]grouping{{&a.categories, maxCategories}, {&a.difficulties, maxDifficulties}, {&a.languages, maxLanguages}}
}

func (a *Accumulator) addTask(name string) *taskFold {
	return findOrInsert(&a.tasks, taskFold{TaskSums: TaskSums{Name: name, Min: One}},
		func(t *taskFold) string { return t.Name })
}

func (t *taskFold) merge(o *taskFold) {
	t.TaskSums.merge(o.TaskSums)
	t.clusters.Merge(&o.clusters)
	t.passHatK.Merge(&o.passHatK)
}

// accumulatorVersions are versions of accumulators in statuses. Runs outlive a release: a change to
// the encoding raises the newest version, and older ones stay readable (Stream.Version).
var accumulatorVersions = bitstream.Versions{Oldest: 2, Newest: 3}

// MarshalText encodes the accumulator in base64 (a few kilobytes), or as "" if it is empty. Equal
// accumulators have equal texts.
func (a *Accumulator) MarshalText() ([]byte, error) {
	if a.isEmpty() {
		return []byte{}, nil
	}
	version := accumulatorVersions.Newest
	if a.Mute == 0 {
		version = accumulatorVersions.Oldest // which the release before reads after a rollback
	}
	return []byte(base64.StdEncoding.EncodeToString(bitstream.Encode(version, a.code))), nil
}

func (a *Accumulator) isEmpty() bool {
	for _, count := range a.counts() {
		if *count != 0 {
			return false
		}
	}
	return a.Plan == "" && a.storeError.text == "" && a.durations == stats.Durations{} && len(a.classes) == 0 &&
		a.overall.Count == 0
}

func (a *Accumulator) counts() []*int64 {
	return []*int64{&a.Scored, &a.Failed, &a.Errored, &a.Retried, &a.Tokens.Prompt, &a.Tokens.Completion, &a.Stored}
}

// UnmarshalText decodes the text of MarshalText. Others may edit the status that contains the text,
// so it must be a valid accumulator, not only decodable.
func (a *Accumulator) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.Strict().DecodeString(string(text))
	var got Accumulator
	if err == nil && len(raw) > 0 {
		err = bitstream.Decode(raw, accumulatorVersions, got.code, got.validate)
	}
	if err != nil {
		return fmt.Errorf("decoding accumulator: %w", err)
	}
	if len(raw) > 0 && got.isEmpty() || base64.StdEncoding.EncodeToString(raw) != string(text) {
		return errors.New("decoding accumulator: not its shortest encoding")
	}
	*a = got
	return nil
}

// code describes the accumulator's encoding.
func (a *Accumulator) code(s *bitstream.Stream) {
	s.Text(&a.Plan)
	s.Numbers(a.counts()...)
	if s.Version() >= 3 {
		s.Number(&a.Mute)
	}
	s.Number(&a.storeError.shard)
	s.Text(&a.storeError.text)
	a.durations.Code(s)
	a.classes.Code(s, func(c *classSums, s *bitstream.Stream) { s.Numbers(&c.retried, &c.errored) })
	a.overall.Code(s)
	bitstream.CodeList(s, &a.tasks, bitstream.MinTextBits, func(t *taskFold) { t.code(s) })
	for _, by := range a.listGroupings() {
		by.sums.Code(s, (*stats.Clusters).Code)
	}
	s.Raw(a.table[:])
}

func (t *taskFold) code(s *bitstream.Stream) {
	t.TaskSums.code(s)
	codeDimensions(s, &t.Dimensions)
	t.clusters.Code(s)
	t.passHatK.Code(s)
	if !s.Writing() {
		t.Episodes, t.Passes, t.Sum = t.clusters.Episodes, t.clusters.Passes, t.clusters.Score
	}
}

func codeDimensions(s *bitstream.Stream, list *[]Dimension) {
	bitstream.CodeList(s, list, bitstream.MinTextBits, func(d *Dimension) {
		s.Text(&d.Name)
		s.Signed(&d.Earned)
		s.Number(&d.Offered)
	})
}

// maxTotal bounds the counts that runners report for a run. It is more than all shards can report,
// and small enough to avoid an overflow.
const maxTotal = 1 << 62

// validate refuses sums with which the figures would overflow or divide by zero.
func (a *Accumulator) validate() error {
	for _, count := range a.counts() {
		if *count > maxTotal {
			return fmt.Errorf("a count of %d", *count)
		}
	}
	episodes := a.Scored + a.Failed
	if a.Scored > maxCount || a.Failed > maxCount {
		return fmt.Errorf("a count of %d episodes", episodes)
	}
	if err := a.overall.Validate(episodes); err != nil {
		return err
	}
	for i := range a.tasks {
		t := &a.tasks[i]
		if i > 0 && a.tasks[i-1].Name >= t.Name {
			return fmt.Errorf("task %q is out of order", t.Name)
		}
		if err := errors.Join(t.validate(), t.clusters.Validate(episodes)); err != nil {
			return err
		}
	}
	validateClusters := func(c *stats.Clusters) error { return c.Validate(episodes) }
	for _, by := range a.listGroupings() {
		if err := by.sums.Validate(by.most, validateClusters); err != nil {
			return err
		}
	}
	return a.classes.Validate(maxClasses, (*classSums).validate)
}

func (c *classSums) validate() error {
	if c.retried > maxTotal || c.errored > maxTotal {
		return errors.New("impossible counts of errors")
	}
	return nil
}
