package score

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/score/stats"
)

// Comparison is run a minus run b, over the (task, scenario) pairs that both played. Scores are in
// micro-points.
type Comparison struct {
	// Pairs are the (task, scenario) pairs that both runs played, Scenarios the scenarios among
	// them. OnlyA and OnlyB count pairs that one of them played.
	Pairs, Scenarios, OnlyA, OnlyB int64
	// Delta is the mean over the pairs of a's mean score minus b's: positive where a is better.
	// Each pair counts once, however many trials it has.
	Delta int64
	// StandardError is Delta's, clustered by scenario, and CI95 its t-interval with one
	// degree of freedom less than there are scenarios, within -One and One. Both are nil with fewer
	// than two scenarios.
	StandardError *int64
	CI95          *stats.Interval
	// Better, Worse and Same count pairs by the sign of their difference.
	Better, Worse, Same int64
	// Changes are the pairs whose means differ, the largest change first; equal changes by task and
	// scenario.
	Changes []Change
}

// Change is the mean of one scenario in one task in a and in b, and the difference.
type Change struct {
	Task, Scenario string
	A, B, Delta    int64
}

// Compare compares two runs paired by scenario, so that the difficulty of the scenarios cancels out
// of the difference and of its error. Neither list may have a pair of task and scenario twice.
// Compare(b, a) is the negative of Compare(a, b).
//
// With one task this is the estimate of the paired t-test: the mean of the differences d, with the
// standard error s_d/√n. A scenario in several tasks is one cluster of differences, as in the
// figures of a run (Miller, arXiv:2411.00640, sections 2.2 and 4).
func Compare(a, b []ScenarioScore) Comparison {
	other := make(map[pair]ScenarioScore, len(b))
	for _, row := range b {
		other[pair{row.Task, row.Scenario}] = row
	}
	c := Comparison{OnlyB: int64(len(b))}
	clusters := map[string]ScenarioTaskSums{}
	for _, row := range a {
		from, both := other[pair{row.Task, row.Scenario}]
		if !both {
			c.OnlyA++
			continue
		}
		c.OnlyB--
		c.add(Change{Task: row.Task, Scenario: row.Scenario, A: row.Mean, B: from.Mean, Delta: row.Mean - from.Mean})
		cluster := clusters[row.Scenario]
		cluster.Episodes++
		cluster.Sum += row.Mean - from.Mean
		clusters[row.Scenario] = cluster
	}
	var sums stats.Clusters
	for _, cluster := range clusters {
		sums.Add(cluster.Episodes, 0, cluster.Sum)
	}
	c.Pairs, c.Scenarios, c.Delta = sums.Episodes, sums.Count, stats.Mean(sums.Score, sums.Episodes)
	c.StandardError, c.CI95 = sums.Interval(-One)
	slices.SortFunc(c.Changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(max(y.Delta, -y.Delta), max(x.Delta, -x.Delta)), cmp.Compare(x.Task, y.Task),
			cmp.Compare(x.Scenario, y.Scenario))
	})
	return c
}

func (c *Comparison) add(change Change) {
	switch {
	case change.Delta > 0:
		c.Better++
	case change.Delta < 0:
		c.Worse++
	default:
		c.Same++
		return
	}
	c.Changes = append(c.Changes, change)
}

// Basis is what two runs must have in common for their scores to be comparable.
type Basis struct {
	ScenarioDigest, GraderVersion, Judge string
	// PassScore is in micro-points.
	PassScore int64
	// Pressure reports whether the episodes were played under simulated time.
	Pressure bool
	// Tasks are the names of the tasks, in any order.
	Tasks []string
}

// Basis is the basis of the plan's scores.
func (p Plan) Basis() Basis {
	b := Basis{ScenarioDigest: p.ScenarioDigest, GraderVersion: p.GraderVersion, Judge: p.Judge, PassScore: p.PassScore,
		Pressure: p.Pressure}
	for _, t := range p.Tasks {
		b.Tasks = append(b.Tasks, t.Name)
	}
	return b
}

// IncomparableError means that two runs can't be compared.
type IncomparableError struct {
	// Reasons name each difference, with both values.
	Reasons []string
}

func (e *IncomparableError) Error() string {
	return "the runs can't be compared: " + strings.Join(e.Reasons, "; ")
}

// CheckComparable reports whether the scores of two runs may be compared. An error is an
// *IncomparableError. Seeds, trials and the selected scenarios may differ, because runs are
// compared by pairs.
func CheckComparable(a, b Basis) error {
	var reasons []string
	differs := func(what string, x, y any) {
		if x != y {
			reasons = append(reasons, fmt.Sprintf("%s %v and %v", what, x, y))
		}
	}
	differs("their scenarios differ:", a.ScenarioDigest, b.ScenarioDigest)
	differs("their graders differ:", a.GraderVersion, b.GraderVersion)
	differs("their judges differ:", a.Judge, b.Judge)
	differs("their pass scores differ:", FormatDecimal(a.PassScore), FormatDecimal(b.PassScore))
	differs("one is played under pressure:", a.Pressure, b.Pressure)
	differs("their tasks differ:", joinTasks(a), joinTasks(b))
	if len(reasons) > 0 {
		return &IncomparableError{Reasons: reasons}
	}
	return nil
}

func joinTasks(b Basis) string { return strings.Join(slices.Sorted(slices.Values(b.Tasks)), ", ") }
