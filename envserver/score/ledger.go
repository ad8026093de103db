package score

import (
	"cmp"
	"fmt"
	"slices"
)

// Bins is the number of bins of a score histogram: bin i holds the scores from i/Bins up to
// (i+1)/Bins, and the last one the full score too.
const Bins = 50

// Ledger is what an environment pod adds up for one shard of a run: exact, and of a size that
// doesn't depend on the number of episodes. It is not safe for concurrent use.
type Ledger struct {
	// Run is the UID of the EvaluationRun, or what SegmentRun makes of it; Shard counts from 0.
	Run   string
	Shard int
	// PassScore is the least score, in micro-points, with which an episode passes.
	PassScore int64
	// ScenarioDigest, GraderVersion and Judge are those of the pod that graded.
	ScenarioDigest string
	GraderVersion  string
	Judge          string
	// Opened counts episodes begun, restarts included: more than have ended means that some were
	// retried, abandoned or errored.
	Opened int64
	// Replayed counts episodes that ended once more after having ended. Only the first end is
	// counted in the figures.
	Replayed int64
	// Scored and Failed count the episodes in the figures by outcome.
	Scored int64
	Failed int64
	// Digest is the fingerprint of the episodes in the figures.
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
	Score      int64
	Dimensions []Dimension
	// Category, Difficulty and Language are those of the scenario.
	Category   string
	Difficulty string
	Language   string
}

// Add counts an episode that ended scored or failed. The caller sees to it that no episode is added
// twice (see Replayed), and counts Opened.
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
	if e.Score >= l.PassScore {
		row.Passes = 1
	}
	l.task(ep.Task).add(row, e)
	s := l.scenario(ScenarioSums{ID: ep.Scenario, Category: e.Category, Difficulty: e.Difficulty, Language: e.Language})
	s.merge(row)
	return nil
}

// task finds the sums of a task, made on first use.
func (l *Ledger) task(name string) *TaskSums {
	at, found := slices.BinarySearchFunc(l.Tasks, name,
		func(t TaskSums, name string) int { return cmp.Compare(t.Name, name) })
	if !found {
		l.Tasks = slices.Insert(l.Tasks, at, TaskSums{Name: name, Min: One})
	}
	return &l.Tasks[at]
}

// scenario finds the sums of a scenario, made on first use with the attributes given.
func (l *Ledger) scenario(attributes ScenarioSums) *ScenarioSums {
	at, found := slices.BinarySearchFunc(l.Scenarios, attributes.ID,
		func(s ScenarioSums, id string) int { return cmp.Compare(s.ID, id) })
	if !found {
		attributes.Tasks = nil
		l.Scenarios = slices.Insert(l.Scenarios, at, attributes)
	}
	return &l.Scenarios[at]
}

func (t *TaskSums) add(row ScenarioTaskSums, e Episode) {
	t.Episodes++
	t.Passes += row.Passes
	t.Sum += e.Score
	t.Min = min(t.Min, e.Score)
	t.Max = max(t.Max, e.Score)
	t.Hist[bin(e.Score)]++
	for _, d := range e.Dimensions {
		t.dimension(d)
	}
}

// bin is the histogram's bin of a score.
func bin(score int64) int { return int(min(score*Bins/One, Bins-1)) }

func (t *TaskSums) dimension(d Dimension) {
	at, found := slices.BinarySearchFunc(t.Dimensions, d.Name,
		func(d Dimension, name string) int { return cmp.Compare(d.Name, name) })
	if !found {
		t.Dimensions = slices.Insert(t.Dimensions, at, d)
		return
	}
	t.Dimensions[at].Earned += d.Earned
	t.Dimensions[at].Offered += d.Offered
}

func (s *ScenarioSums) merge(row ScenarioTaskSums) {
	at, found := slices.BinarySearchFunc(s.Tasks, row.Task,
		func(r ScenarioTaskSums, task string) int { return cmp.Compare(r.Task, task) })
	if !found {
		s.Tasks = slices.Insert(s.Tasks, at, row)
		return
	}
	s.Tasks[at].Episodes += row.Episodes
	s.Tasks[at].Passes += row.Passes
	s.Tasks[at].Sum += row.Sum
}

// identity is what a ledger must share with the plan of its shard.
type identity struct {
	run, scenarioDigest, graderVersion, judge string
	shard                                     int
	passScore                                 int64
}

func (l *Ledger) identity() identity {
	return identity{l.Run, l.ScenarioDigest, l.GraderVersion, l.Judge, l.Shard, l.PassScore}
}

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
		t.dimension(d)
	}
}
