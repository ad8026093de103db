package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/web/chart"
)

// taskNames lists the tasks of a run.
func taskNames(run *v1alpha1.EvaluationRun) string {
	return strings.Join(view.Each(run.Spec.Tasks, func(t v1alpha1.TaskSelection) string { return t.Name }), ", ")
}

// selectionOf says which scenarios of its tasks a run plays, and how often.
func selectionOf(run *v1alpha1.EvaluationRun) string {
	scenarios, trials := 0, int32(0)
	for _, t := range run.Spec.Tasks {
		if t.Scenarios != nil {
			scenarios += len(t.Scenarios.IDs)
		}
		trials = max(trials, t.Trials)
	}
	var parts []string
	if scenarios > 0 {
		parts = append(parts, view.Count(scenarios, "scenario"))
	}
	if trials > 1 {
		parts = append(parts, fmt.Sprintf("up to %d trials", trials))
	}
	return strings.Join(parts, ", ")
}

// usage is what a run used, each "" if it is unknown.
type usage struct {
	Tokens, Cost string
	// Episode is the median duration of an episode.
	Episode string
	tokens  int64
}

// usageOf is what a run used. It has a cost only by the prices that the run names.
func usageOf(run *v1alpha1.EvaluationRun) usage {
	u := usage{Cost: run.Status.Cost}
	if t := run.Status.Tokens; t != nil && t.Prompt+t.Completion > 0 {
		u.tokens = t.Prompt + t.Completion
		u.Tokens = thousands(int(u.tokens))
	}
	if d := run.Status.Durations; d != nil {
		u.Episode = d.EpisodeP50 + " s"
	}
	return u
}

// describe adds what a run plays and used, and its figures in short.
func (row *runRow) describe(run *v1alpha1.EvaluationRun) {
	row.Task, row.Selection = taskNames(run), selectionOf(run)
	if run.Spec.Seed != nil {
		row.Seed = fmt.Sprint(*run.Spec.Seed)
	}
	row.usage = usageOf(run)
	if start, end := run.Status.StartTime, run.Status.CompletionTime; start != nil && end != nil {
		row.took = end.Sub(start.Time)
		row.Duration = row.took.Round(time.Second).String()
	}
	ci := ptr.Deref(ptr.Deref(run.Status.Score, v1alpha1.Score{}).CI95, v1alpha1.Interval{})
	row.Short = [3]string{figures.Short(row.Score, ci), "", figures.Short(row.PassRate, ci)}
	if row.Interval != "" {
		row.Short[1] = figures.Short(ci.Low, ci) + " to " + figures.Short(ci.High, ci)
	}
}

// runSorts compare runs by a column.
var runSorts = map[string]func(a, b runRow) int{
	"run":      func(a, b runRow) int { return cmp.Compare(a.Name, b.Name) },
	"state":    func(a, b runRow) int { return cmp.Compare(a.State.Text, b.State.Text) },
	"agent":    func(a, b runRow) int { return cmp.Compare(a.Agent, b.Agent) },
	"task":     func(a, b runRow) int { return cmp.Compare(a.Task, b.Task) },
	"episodes": func(a, b runRow) int { return cmp.Compare(a.Total, b.Total) },
	"score":    func(a, b runRow) int { return cmp.Compare(chart.Decimal(a.Score), chart.Decimal(b.Score)) },
	"passed":   func(a, b runRow) int { return cmp.Compare(chart.Decimal(a.PassRate), chart.Decimal(b.PassRate)) },
	"tokens":   func(a, b runRow) int { return cmp.Compare(a.tokens, b.tokens) },
	"cost":     func(a, b runRow) int { return cmp.Compare(chart.Decimal(a.Cost), chart.Decimal(b.Cost)) },
	"duration": func(a, b runRow) int { return cmp.Compare(a.took, b.took) },
}

// order sorts the rows as the filter says. Rows that are equal stay in their order.
func (f runFilter) order(rows []runRow) {
	name, descending := strings.CutPrefix(f.Sort, "-")
	compare := runSorts[name]
	if compare == nil {
		return
	}
	slices.SortStableFunc(rows, func(a, b runRow) int {
		if descending {
			return compare(b, a)
		}
		return compare(a, b)
	})
}

// columns are those of the table of runs. The first click on a number sorts the greatest first.
func (f runFilter) columns() []column {
	all := []struct {
		label, sort string
		number      bool
	}{{"Run", "run", false}, {"State", "state", false}, {"Agent", "agent", false}, {"Task", "task", false},
		{"Episodes", "episodes", false}, {"Score", "score", true}, {"95 % interval", "", true},
		{"Pass rate", "passed", true},
		{"Tokens", "tokens", true}, {"Cost", "cost", true}, {"Duration", "duration", true}, {"Created", "", false}}
	return view.Each(all, func(of struct {
		label, sort string
		number      bool
	}) column {
		c := column{Label: of.label, Number: of.number}
		if of.sort == "" {
			return c
		}
		up, down := f, f
		up.Sort, down.Sort = of.sort, "-"+of.sort
		first, second := up, down
		if of.number {
			first, second = down, up
		}
		switch f.Sort {
		case up.Sort:
			c.Sorted = "ascending"
		case down.Sort:
			c.Sorted = "descending"
		}
		if c.Query = "/" + first.query(1); f.Sort == first.Sort {
			c.Query = "/" + second.query(1)
		}
		return c
	})
}
