package score

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Bins is the number of bins of a score histogram: bin i holds the scores from i/Bins up to
// (i+1)/Bins, and the last one the full score too.
const Bins = 50

// Ledger is a server's record of the graded episodes of one shard of a run: exact sums, of a size
// that doesn't depend on the number of episodes. It is not safe for concurrent use.
type Ledger struct {
	// Run is the UID of the EvaluationRun, or the result of SegmentRun. Shard counts from 0.
	Run   string
	Shard int
	// PassScore is the least score, in micro-points, with which an episode passes that was right.
	PassScore int64
	// ScenarioDigest, GraderVersion and Judge identify what the server graded with.
	ScenarioDigest string
	GraderVersion  string
	Judge          string
	// Opened counts episodes begun, restarts included. If more have begun than ended, some were
	// retried, abandoned or errored.
	Opened int64
	// Replayed counts repeated ends of episodes. Only the first end of an episode is in the sums.
	Replayed int64
	// Scored and Failed count the episodes in the sums by outcome.
	Scored int64
	Failed int64
	// Digest is the fingerprint of the episodes in the sums.
	Digest PlanDigest
	// Tasks are ordered by name, Scenarios by id.
	Tasks     []TaskSums
	Scenarios []ScenarioSums
}

// TaskSums are the sums over a task's episodes. Min, Max and Sum are in micro-points.
type TaskSums struct {
	Name       string
	Episodes   int64
	Passes     int64
	Sum        int64
	Min        int64
	Max        int64
	Hist       [Bins]int64
	Dimensions []Dimension // ordered by name
}

// ScenarioSums are the sums over one scenario's episodes, the cluster of the statistics.
type ScenarioSums struct {
	ID         string
	Category   string
	Difficulty string
	Language   string
	Tasks      []ScenarioTaskSums // ordered by task
}

// ScenarioTaskSums are the sums over the trials of one scenario in one task. Sum is in
// micro-points.
type ScenarioTaskSums struct {
	Task     string
	Episodes int64
	Passes   int64
	Sum      int64
}

// Episode is the end of an episode as the grader sees it.
type Episode struct {
	Outcome Outcome
	// Score is in micro-points, from 0 to One.
	Score int64
	// Wrong is set if the episode doesn't pass, whatever its score: a decision, a change or a fact
	// is wrong or missing.
	Wrong      bool
	Dimensions []Dimension
	// Category, Difficulty and Language are the scenario's.
	Category   string
	Difficulty string
	Language   string
}

// passes reports whether the episode was right and its score is at least the pass score.
func (e *Episode) passes(passScore int64) bool { return !e.Wrong && e.Score >= passScore }

// Add adds an episode that ended scored or failed. The caller must not add an episode twice (see
// Replayed), and counts Opened.
func (l *Ledger) Add(ep PlannedEpisode, e Episode) error {
	if e.Score < 0 || e.Score > One {
		return fmt.Errorf("counting episode %d: score %d is not within 0 and %d micro-points", ep.Index, e.Score, One)
	}
	switch e.Outcome {
	case Scored:
		l.Scored++
	case Failed:
		l.Failed++
	default:
		return fmt.Errorf("counting episode %d: an episode with outcome %q is in no figure", ep.Index, e.Outcome)
	}
	l.Digest.Add(ep)
	row := ScenarioTaskSums{Task: ep.Task, Episodes: 1, Sum: e.Score}
	if e.passes(l.PassScore) {
		row.Passes = 1
	}
	l.addTask(ep.Task).add(row, e)
	s := l.addScenario(ScenarioSums{ID: ep.Scenario, Category: e.Category, Difficulty: e.Difficulty,
		Language: e.Language})
	s.merge(row)
	return nil
}

// addTask returns the sums of a task, added on first use.
func (l *Ledger) addTask(name string) *TaskSums {
	return findOrInsert(&l.Tasks, TaskSums{Name: name, Min: One}, func(t *TaskSums) string { return t.Name })
}

// addScenario returns the sums of a scenario, added on first use with the attributes given.
func (l *Ledger) addScenario(attributes ScenarioSums) *ScenarioSums {
	attributes.Tasks = nil
	return findOrInsert(&l.Scenarios, attributes, func(s *ScenarioSums) string { return s.ID })
}

// findOrInsert returns the item of a sorted list that has the same name as the given one, which is
// inserted if there is none.
func findOrInsert[T any](list *[]T, item T, name func(*T) string) *T {
	at, found := sort.Find(len(*list), func(i int) int { return strings.Compare(name(&item), name(&(*list)[i])) })
	if !found {
		*list = slices.Insert(*list, at, item)
	}
	return &(*list)[at]
}

func (t *TaskSums) add(row ScenarioTaskSums, e Episode) {
	one := TaskSums{Episodes: 1, Passes: row.Passes, Sum: e.Score, Min: e.Score, Max: e.Score, Dimensions: e.Dimensions}
	one.Hist[binIndex(e.Score)] = 1
	t.merge(one)
}

// binIndex is the histogram's bin of a score.
func binIndex(score int64) int { return int(min(score*Bins/One, Bins-1)) }

func (t *TaskSums) merge(o TaskSums) {
	t.Episodes += o.Episodes
	t.Passes += o.Passes
	t.Sum += o.Sum
	t.Min = min(t.Min, o.Min)
	t.Max = max(t.Max, o.Max)
	for i, n := range o.Hist {
		t.Hist[i] += n
	}
	for _, d := range o.Dimensions {
		sum := findOrInsert(&t.Dimensions, Dimension{Name: d.Name}, func(d *Dimension) string { return d.Name })
		sum.Earned += d.Earned
		sum.Offered += d.Offered
	}
}

func (s *ScenarioSums) merge(row ScenarioTaskSums) {
	findOrInsert(&s.Tasks, ScenarioTaskSums{Task: row.Task},
		func(r *ScenarioTaskSums) string { return r.Task }).add(row)
}

// add adds the sums of other episodes.
func (r *ScenarioTaskSums) add(o ScenarioTaskSums) {
	r.Episodes += o.Episodes
	r.Passes += o.Passes
	r.Sum += o.Sum
}

// grading is how episodes were graded: only episodes that were graded alike are added up.
type grading struct {
	scenarioDigest, graderVersion, judge string
	passScore                            int64
}

func (g grading) String() string {
	return fmt.Sprintf("scenarios %s, grader %s, judge %s, pass score %s", g.scenarioDigest, g.graderVersion, g.judge,
		FormatDecimal(g.passScore))
}

func (l *Ledger) grading() grading {
	return grading{l.ScenarioDigest, l.GraderVersion, l.Judge, l.PassScore}
}
