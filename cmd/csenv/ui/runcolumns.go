package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/web/chart"
)

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
		parts = append(parts, view.FormatCount(scenarios, "scenario"))
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
		u.Tokens = formatThousands(int(u.tokens))
	}
	if d := run.Status.Durations; d != nil {
		u.Episode = d.EpisodeP50 + " s"
	}
	return u
}

// runSorts compare runs by a column.
var runSorts = map[string]func(a, b runRow) int{
	"run":      func(a, b runRow) int { return cmp.Compare(a.Name, b.Name) },
	"state":    func(a, b runRow) int { return cmp.Compare(a.State.Text, b.State.Text) },
	"agent":    func(a, b runRow) int { return cmp.Compare(a.Agent, b.Agent) },
	"task":     func(a, b runRow) int { return cmp.Compare(a.Task, b.Task) },
	"episodes": func(a, b runRow) int { return cmp.Compare(a.Total, b.Total) },
	"score":    func(a, b runRow) int { return cmp.Compare(chart.ParseDecimal(a.Score), chart.ParseDecimal(b.Score)) },
	"passed": func(a, b runRow) int {
		return cmp.Compare(chart.ParseDecimal(a.PassRate), chart.ParseDecimal(b.PassRate))
	},
	"tokens":   func(a, b runRow) int { return cmp.Compare(a.tokens, b.tokens) },
	"cost":     func(a, b runRow) int { return cmp.Compare(chart.ParseDecimal(a.Cost), chart.ParseDecimal(b.Cost)) },
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

// runColumn is a column of the table of runs. Its name is its name in the address and, if runSorts
// has it, the name of its sort.
type runColumn struct {
	name, label string
	number      bool
	// optional means that the table has it only by choice, so that the usual ones fit, or because
	// answers of a run were in trouble.
	optional bool
}

// runColumns are all columns. The first one is always shown.
var runColumns = []runColumn{{"run", "Run", false, false}, {"state", "State", false, false},
	{"agent", "Agent", false, false}, {"task", "Task", false, false}, {"episodes", "Episodes", false, false},
	{"score", "Score", true, false}, {"interval", "95 % interval", true, false}, {"passed", "Pass rate", true, false},
	{"answers", "Answers", false, true}, {"tokens", "Tokens", true, true}, {"cost", "Cost", true, true},
	{"duration", "Duration", true, true}, {"created", "Created", false, false}}

// shows reports whether the table has a column.
func (f runFilter) shows(c runColumn) bool {
	if f.Columns == nil {
		return !c.optional || c.name == "answers" && f.troubled
	}
	return slices.Contains(f.Columns, c.name)
}

// pointsColumn begins the name of a column of the points of a dimension.
const pointsColumn = "points:"

// listRunColumns are all columns of a table of runs: the dimensions of the runs are the last.
func listRunColumns(runs []*source.LoadedRun) []runColumn {
	all, names := slices.Clone(runColumns), map[string]bool{}
	for _, r := range runs {
		for name := range pointsOf(r.EvaluationRun) {
			names[name] = true
		}
	}
	for _, name := range view.SortedKeys(names) {
		all = append(all, runColumn{pointsColumn + name, "Points: " + name, true, true})
	}
	return all
}

// pointsOf are the shares of the points that a run earned by dimension, of the last task that has
// it.
func pointsOf(run *v1alpha1.EvaluationRun) map[string]string {
	points := map[string]string{}
	for _, task := range run.Status.Tasks {
		for _, d := range task.Dimensions {
			points[d.Name] = d.Mean + " of " + d.Max
		}
	}
	return points
}

// choices are the columns to choose from.
func (f runFilter) choices(all []runColumn) []option {
	return view.MapItems(all[1:], func(c runColumn) option { return option{c.name, c.label, f.shows(c)} })
}

// columns are those that are shown. The first click on a number sorts the greatest first.
func (f runFilter) columns(all []runColumn) []column {
	var shown []column
	for _, of := range all {
		if f.shows(of) {
			shown = append(shown, f.column(of))
		}
	}
	return shown
}

func (f runFilter) column(of runColumn) column {
	c := column{Label: of.label, Number: of.number}
	if runSorts[of.name] == nil {
		return c
	}
	up, down := f, f
	up.Sort, down.Sort = of.name, "-"+of.name
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
}
