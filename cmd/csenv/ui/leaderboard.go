package ui

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/web/chart"
)

// boardPage is the data of the template leaderboard.html.
type boardPage struct {
	// Pools, Tasks and Agents are what all runs have, to choose from.
	Pools, Tasks, Agents []string
	Filter               boardFilter
	// Problem is what is wrong with the filter.
	Problem string
	Boards  []boardTable
	Left    []boardRun
	// Live and Exports are paths with the filter. Static pages have neither, nor a form.
	Live, Markdown, CSV string
}

// boardFilter selects runs. Each of its texts may be "". Builtin is "" to leave out built-in
// agents.
type boardFilter struct{ Pool, Task, Agent, Labels, Builtin string }

// boardTable is a board with the paths of its runs. Priced means that a cost is shown, Counted that
// the pool has counted the runs, and Troubled that answers of a run were lost.
type boardTable struct {
	figures.Board
	Rows                      []boardRow
	Priced, Counted, Troubled bool
	// Costs draws the scores against the costs, nil if fewer than two are known.
	Costs *chart.Scatter
}

type boardRow struct {
	figures.Entry
	usage
	Path string
	// Short are the figures with the digits that the interval supports.
	Short struct{ Mean, Low, High, PassRate string }
}

// boardRun is a run that has no place.
type boardRun struct{ Name, Path, Reason string }

func (s *site) leaderboard(r *http.Request) (shown, error) {
	runs, err := s.sources.runs(r.Context())
	if err != nil {
		return shown{}, err
	}
	p := boardPage{Filter: newBoardFilter(r)}
	p.Pools, p.Tasks, p.Agents = listChoices(runs)
	if !s.pages.Static {
		p.Live = "/leaderboard/live?" + p.Filter.query("")
		p.Markdown, p.CSV = "/leaderboard?"+p.Filter.query("markdown"), "/leaderboard?"+p.Filter.query("csv")
	}
	runs, err = p.Filter.choose(runs)
	if err != nil {
		p.Problem = err.Error()
	}
	boards, left := figures.RankRuns(r.Context(), runs)
	for _, b := range boards {
		rows := view.MapItems(b.Entries, func(e figures.Entry) boardRow {
			row, ci := boardRow{Entry: e, usage: usageOf(e.Loaded().EvaluationRun), Path: runPath(e.Loaded())},
				v1alpha1.Interval{Low: e.Low, High: e.High}
			for short, figure := range map[*string]string{&row.Short.Mean: e.Score, &row.Short.Low: e.Low,
				&row.Short.High: e.High, &row.Short.PassRate: e.PassRate} {
				*short = figures.RoundToInterval(figure, ci)
			}
			return row
		})
		p.Boards = append(p.Boards, boardTable{Board: b, Rows: rows,
			Costs:    drawCosts(view.MapItems(b.Entries, figures.Entry.Loaded)),
			Priced:   slices.ContainsFunc(rows, func(r boardRow) bool { return r.Cost != "" }),
			Counted:  slices.ContainsFunc(rows, func(r boardRow) bool { return r.Begun > 0 }),
			Troubled: slices.ContainsFunc(rows, func(r boardRow) bool { return r.TroubleText() != "" })})
	}
	p.Left = view.MapItems(left, func(u figures.Unranked) boardRun {
		return boardRun{u.Run, runPath(u.Loaded()), u.Reason}
	})
	return shown{"leaderboard", "Leaderboard", "leaderboard", p}, nil
}

func newBoardFilter(r *http.Request) boardFilter {
	q := r.URL.Query()
	return boardFilter{q.Get("pool"), q.Get("task"), q.Get("agent"), q.Get("labels"), q.Get("builtin")}
}

// query encodes the filter and a format.
func (f boardFilter) query(format string) string {
	return buildQuery(map[string]string{"pool": f.Pool, "task": f.Task, "agent": f.Agent, "labels": f.Labels,
		"builtin": f.Builtin, "format": format}).Encode()
}

// choose returns the runs that match. A pool is given as NAMESPACE/NAME. Stored runs have no
// pool.
func (f boardFilter) choose(runs []*source.LoadedRun) ([]*source.LoadedRun, error) {
	selector, err := labels.Parse(f.Labels)
	if err != nil {
		return nil, fmt.Errorf("%q doesn't select labels (%w): write, for example, team=support", f.Labels, err)
	}
	if f.Builtin == "" && f.Agent == "" {
		runs = figures.WithoutBuiltin(runs)
	}
	is := func(wanted, value string) bool { return wanted == "" || wanted == value }
	return slices.DeleteFunc(slices.Clone(runs), func(r *source.LoadedRun) bool {
		return !is(f.Pool, r.PoolName()) || !is(f.Agent, source.AgentName(r.EvaluationRun)) ||
			f.Task != "" && !slices.Contains(tasksOf(r), f.Task) || !selector.Matches(labels.Set(r.Labels))
	}), nil
}

// tasksOf are the names of the tasks that a run plays, or that trainers have played.
func tasksOf(r *source.LoadedRun) []string {
	b, err := r.Basis()
	if err != nil {
		return nil
	}
	return b.Tasks
}

// listChoices are the pools, tasks and agents of runs, in order.
func listChoices(runs []*source.LoadedRun) (pools, tasks, agents []string) {
	sets := [3]map[string]bool{{}, {}, {}}
	for _, r := range runs {
		sets[0][r.PoolName()], sets[2][source.AgentName(r.EvaluationRun)] = true, true
		for _, task := range tasksOf(r) {
			sets[1][task] = true
		}
	}
	for _, set := range sets {
		delete(set, "")
	}
	return slices.Sorted(maps.Keys(sets[0])), slices.Sorted(maps.Keys(sets[1])), slices.Sorted(maps.Keys(sets[2]))
}

// exports answers ?format=markdown and ?format=csv with the output of csenv leaderboard, and other
// requests with the page.
func (s *site) exports(page http.HandlerFunc) http.HandlerFunc {
	kinds := map[string][2]string{
		"markdown": {"text/markdown", "leaderboard.md"}, "csv": {"text/csv", "leaderboard.csv"},
	}
	return func(w http.ResponseWriter, r *http.Request) {
		kind, known := kinds[r.FormValue("format")]
		if !known {
			page(w, r)
			return
		}
		if err := s.export(w, r, kind); err != nil {
			s.log.Warn("An export failed", "path", r.URL.Path, "error", err)
			http.Error(w, "The leaderboard can't be exported: "+err.Error(), http.StatusBadGateway)
		}
	}
}

func (s *site) export(w http.ResponseWriter, r *http.Request, kind [2]string) error {
	runs, err := s.sources.runs(r.Context())
	if err != nil {
		return err
	}
	if runs, err = newBoardFilter(r).choose(runs); err != nil {
		return err
	}
	boards, left := figures.RankRuns(r.Context(), runs)
	w.Header().Set("Content-Type", kind[0]+"; charset=utf-8")
	w.Header().Set("Content-Disposition", "attachment; filename="+kind[1])
	format := &view.Format{Name: r.FormValue("format")}
	if err := format.Print(w, figures.BoardResult(boards, left)); err != nil {
		s.log.Debug("An export was not read to its end", "error", err)
	}
	return nil
}
