package score

import (
	"math"

	"github.com/csenv/csenv/envserver/score/stats"
)

// Figures are the results of a run. Scores, rates and errors are in micro-points; [Decimal] formats
// them.
type Figures struct {
	Episodes int64
	Scored   int64
	Failed   int64
	Errored  int64
	Retried  int64
	stats.Estimate
	// Min, P50 and Max are 0 without episodes. P50 is read off the histogram and so within 1/Bins
	// of the median.
	Min, P50, Max int64
	// PassHatK has an entry for each k up to MaxK for which some scenario has k trials.
	PassHatK []stats.PassHatK
	Tasks    []TaskFigures
	// Categories, Difficulties and Languages are the scenarios', ordered by name. Beyond as
	// many as a status lists, the last are added up as stats.OtherGroup.
	Categories   []GroupFigures
	Difficulties []GroupFigures
	Languages    []GroupFigures
	// Errors are ordered by class.
	Errors []ErrorFigures
	Tokens Tokens
	Counts Counts
	// Stored has the error of the first shard with one.
	Stored Stored
	// EpisodeP50 and EpisodeP99 are durations in milliseconds as reported by runners, 0 without
	// any.
	EpisodeP50, EpisodeP99 int64
}

// TaskFigures are a task's figures.
type TaskFigures struct {
	Name     string
	Episodes int64
	stats.Estimate
	Min, P50, Max int64
	PassHatK      []stats.PassHatK
	Dimensions    []DimensionFigures
}

// DimensionFigures are the mean points per episode, earned and offered, of one dimension in
// micro-points.
type DimensionFigures struct {
	Name string
	Mean int64
	Max  int64
}

// ErrorFigures count the attempts that were repeated and the episodes that errored with one class.
type ErrorFigures struct {
	Class            string
	Retried, Errored int64
}

// GroupFigures are the figures of the scenarios that share a category, a difficulty or a language.
type GroupFigures struct {
	Name     string
	Episodes int64
	stats.Estimate
}

// Figures computes the figures from the accumulator's sums, which it doesn't change.
func (a *Accumulator) Figures() Figures {
	all := a.allTasks()
	f := Figures{
		Episodes: a.overall.Episodes, Scored: a.Scored, Failed: a.Failed, Errored: a.Errored, Retried: a.Retried,
		Estimate: a.overall.Estimate(), P50: all.median(), Max: all.Max, PassHatK: all.passHatK.Figures(),
		EpisodeP50: a.durations.Quantile(0.5), EpisodeP99: a.durations.Quantile(0.99),
		Categories: groupFigures(a.categories), Difficulties: groupFigures(a.difficulties),
		Languages: groupFigures(a.languages),
		Tokens:    a.Tokens, Counts: a.Counts, Stored: Stored{Episodes: a.Stored, Error: a.storeError.text},
	}
	for _, c := range a.classes {
		f.Errors = append(f.Errors, ErrorFigures{Class: c.Name, Retried: c.Sums.retried, Errored: c.Sums.errored})
	}
	if a.overall.Episodes > 0 {
		f.Min = all.Min
	}
	for i := range a.tasks {
		f.Tasks = append(f.Tasks, a.tasks[i].figures())
	}
	return f
}

// allTasks merges what is kept by task alone.
func (a *Accumulator) allTasks() *taskFold {
	all := &taskFold{TaskSums: TaskSums{Min: One}}
	for i := range a.tasks {
		all.merge(&a.tasks[i])
	}
	return all
}

func groupFigures(groups stats.Groups[stats.Clusters]) []GroupFigures {
	if len(groups) == 0 {
		return nil
	}
	figures := make([]GroupFigures, len(groups))
	for i := range groups {
		figures[i] = GroupFigures{Name: groups[i].Name, Episodes: groups[i].Sums.Episodes,
			Estimate: groups[i].Sums.Estimate()}
	}
	return figures
}

func (t *taskFold) figures() TaskFigures {
	f := TaskFigures{
		Name: t.Name, Episodes: t.Episodes, Estimate: t.clusters.Estimate(),
		Min: t.Min, P50: t.median(), Max: t.Max, PassHatK: t.passHatK.Figures(),
	}
	for _, d := range t.Dimensions {
		f.Dimensions = append(f.Dimensions, DimensionFigures{Name: d.Name, Mean: stats.Mean(d.Earned*1000, t.Episodes),
			Max: stats.Mean(d.Offered*1000, t.Episodes)})
	}
	return f
}

// median interpolates within the histogram's bin that holds the middle, and stays within the least
// and the greatest score.
func (t *TaskSums) median() int64 {
	var below int64
	for i, n := range t.Hist {
		if n > 0 && 2*(below+n) >= t.Episodes {
			inside := float64(t.Episodes-2*below) / float64(2*n)
			value := (float64(i) + inside) * One / Bins
			return min(max(int64(math.Round(value)), t.Min), t.Max)
		}
		below += n
	}
	return 0
}

// Histogram counts the episodes in the figures by score: bin i holds the scores from i/Bins up to
// (i+1)/Bins, the last one also the full score.
func (a *Accumulator) Histogram() [Bins]int64 { return a.allTasks().Hist }
