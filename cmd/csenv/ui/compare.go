package ui

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
)

// comparedRows is the number of scenarios on a page that doesn't ask for all.
const comparedRows = 200

// comparePage is the data of the template compare.html.
type comparePage struct {
	// Runs are all runs, to choose two from.
	Runs []comparedRun
	A, B comparedRun
	// Force compares runs that differ in what they must share.
	Force bool
	// Refused are the reasons why the runs can't be compared. Problem is any other reason.
	Refused []string
	Problem string
	Result  *figures.Comparison
	// Trust says what scores of the runs' judge are good for, "" for tasks without replies.
	Trust string
	// Trouble says what happened to the answers of each run that has trouble.
	Trouble []string
	Rows    []changeRow
	// More is the number of rows that are left out, and All the path of all rows.
	More int
	All  string
	Live string
}

// comparedRun is a run that can be chosen. ID is NAMESPACE/FOLDER, as in the path of its page.
// About are its tasks, its seed and when it began.
type comparedRun struct{ ID, Path, Name, Agent, About string }

// changeRow is the change of a scenario, with the paths of its episodes in both runs.
type changeRow struct {
	Task, Scenario, A, B, Delta string
	// Title is what the scenario is about, "" if it is unknown.
	Title string
	Chart chart.Interval
	// Both is the path of the transcripts side by side.
	EpisodesA, EpisodesB, Both string
}

func newComparedRun(r *source.LoadedRun) comparedRun {
	namespace, folder := runPlace(r)
	return comparedRun{namespace + "/" + folder, runPath(r), r.Name, source.AgentName(r.EvaluationRun), aboutRun(r)}
}

// aboutRun tells runs of the same name apart.
func aboutRun(r *source.LoadedRun) string {
	parts := []string{taskNames(r.EvaluationRun)}
	if seed := r.Spec.Seed; seed != nil {
		parts = append(parts, fmt.Sprintf("seed %d", *seed))
	}
	if at := r.CreationTimestamp.Time; !at.IsZero() {
		parts = append(parts, at.UTC().Format("2006-01-02 15:04"))
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

func (s *site) compare(r *http.Request) (shown, error) {
	runs, err := s.sources.runs(r.Context())
	if err != nil {
		return shown{}, err
	}
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b *source.LoadedRun) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	q := r.URL.Query()
	if ticked := q["run"]; len(ticked) == 2 {
		q.Set("a", ticked[0])
		q.Set("b", ticked[1])
		q.Del("run")
	} else if len(ticked) > 0 {
		return shown{}, badRequest("%d runs are ticked: tick the two runs to compare.", len(ticked))
	}
	p := comparePage{Runs: view.MapItems(runs, newComparedRun), Force: q.Get("force") != ""}
	found := shown{"compare", "Compare", "compare", &p}
	if q.Get("a") == "" || q.Get("b") == "" {
		return found, nil
	}
	var chosen [2]*source.LoadedRun
	for i, id := range []string{q.Get("a"), q.Get("b")} {
		namespace, folder, _ := strings.Cut(id, "/")
		if chosen[i], err = s.sources.run(r.Context(), namespace, folder); err != nil {
			return shown{}, err
		}
	}
	p.A, p.B = newComparedRun(chosen[0]), newComparedRun(chosen[1])
	p.Live = "/compare/live?" + q.Encode()
	if !p.Force {
		p.Refused = listRefusals(figures.MayCompare(chosen[0], chosen[1]))
	}
	if len(p.Refused) > 0 {
		return found, nil
	}
	c, err := figures.CompareRuns(r.Context(), chosen[0], chosen[1])
	if err != nil {
		p.Problem = err.Error()
		return found, nil //nolint:nilerr // the page says why
	}
	p.Result, p.Trust = &c, figures.TrustIn(&chosen[0].Status)
	for i, name := range []string{c.A, c.B} {
		if trouble := c.Trouble[i].TroubleText(); trouble != "" {
			p.Trouble = append(p.Trouble, fmt.Sprintf("Answers of %s: %s.", name, trouble))
		}
	}
	p.addRows(q, func(c score.Change) string {
		return figures.PlannedTitle(s.catalog, chosen[0], c.Task, c.Scenario)
	})
	return found, nil
}

// listRefusals are the reasons of an error of figures.MayCompare.
func listRefusals(err error) []string {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*score.IncomparableError](err); ok {
		return refused.Reasons
	}
	return []string{err.Error()}
}

// addRows lists the scenarios that changed, the largest differences first, with their titles.
func (p *comparePage) addRows(q url.Values, title func(score.Change) string) {
	changes := slices.SortedStableFunc(slices.Values(p.Result.Changes), func(x, y score.Change) int {
		return cmp.Or(cmp.Compare(max(y.Delta, -y.Delta), max(x.Delta, -x.Delta)), cmp.Compare(y.Delta, x.Delta))
	})
	if p.More = len(changes) - comparedRows; p.More > 0 && q.Get("all") == "" {
		changes = changes[:comparedRows]
		q.Set("all", "1")
		p.All = "/compare?" + q.Encode()
	}
	p.Rows = view.MapItems(changes, func(c score.Change) changeRow {
		query := "/episodes?" + url.Values{"task": {c.Task}, "scenario": {c.Scenario}}.Encode()
		delta := score.FormatDecimal(c.Delta)
		both := url.Values{"a": {p.A.ID}, "b": {p.B.ID}, "task": {c.Task}, "scenario": {c.Scenario}}
		return changeRow{
			c.Task,
			c.Scenario,
			score.FormatDecimal(c.A),
			score.FormatDecimal(c.B),
			figures.FormatSigned(delta),
			title(c),
			chart.Interval{Middle: delta, Difference: true},
			p.A.Path + query,
			p.B.Path + query,
			"/compare/episodes?" + both.Encode(),
		}
	})
}
