package ui

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
)

// comparedRows is the number of scenarios on a page that doesn't ask for all.
const comparedRows = 200

// maxCompared is the number of runs that are compared at once.
const maxCompared = 6

// comparePage is the data of the template compare.html.
type comparePage struct {
	// Runs are all runs, to choose from. Chosen are those that are compared: the first with each of
	// the others. Choices are their ids, and "" for each further choice.
	Runs, Chosen []comparedRun
	Choices      []string
	// Force compares runs that differ in what they must share.
	Force bool
	// Refused are the reasons why the runs can't be compared. Problem is any other reason.
	Refused []string
	Problem string
	Results []figures.Comparison
	// Trust says what scores of the runs' judge are good for, "" for tasks without replies.
	Trust string
	// Trouble says what happened to the answers of each run that has trouble.
	Trouble []string
	Figures []figuresRow
	// Costs draws the scores against the costs, nil if fewer than two are known.
	Costs *chart.Scatter
	Rows  []changeRow
	// More is the number of rows that are left out, and All the path of all rows.
	More int
	All  string
	Live string
}

// comparedRun is a run that can be chosen. ID is NAMESPACE/FOLDER, as in the path of its page.
// About tells runs of the same name apart.
type comparedRun struct{ ID, Path, Name, About string }

// figuresRow is a figure of each compared run, "" for those without it.
type figuresRow struct {
	Name  string
	Cells []string
}

// changeRow has a scenario's scores in the compared runs, with the paths of its episodes.
type changeRow struct {
	Task, Scenario string
	// Title is what the scenario is about, "" if it is unknown.
	Title string
	Cells []changeCell
	// Spread is the greatest score minus the least. Path is the path of the transcripts side by
	// side.
	Spread, Path string
	spread       int64
}

// changeCell is "" for a run that didn't play the scenario.
type changeCell struct{ Name, Points, Path string }

func newComparedRun(r *source.LoadedRun) comparedRun {
	namespace, folder := runPlace(r)
	return comparedRun{namespace + "/" + folder, runPath(r), r.Name,
		strings.Join(figures.DescribeRun(r.EvaluationRun), ", ")}
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
	q["run"] = slices.DeleteFunc(q["run"], func(id string) bool { return id == "" })
	p := comparePage{Runs: view.MapItems(runs, newComparedRun), Force: q.Get("force") != "", Choices: q["run"]}
	found := shown{"compare", "Compare", "compare", &p}
	if len(p.Choices) > maxCompared {
		return shown{}, badRequest("%d runs are chosen: choose 2 to %d to compare.", len(p.Choices), maxCompared)
	}
	for len(p.Choices) < 2 || len(p.Choices) == len(q["run"]) && len(p.Choices) < maxCompared {
		p.Choices = append(slices.Clip(p.Choices), "")
	}
	if len(q["run"]) < 2 {
		return found, nil
	}
	chosen := make([]*source.LoadedRun, len(q["run"]))
	for i, id := range q["run"] {
		namespace, folder, _ := strings.Cut(id, "/")
		if chosen[i], err = s.sources.run(r.Context(), namespace, folder); err != nil {
			return shown{}, err
		}
		if i > 0 && !p.Force {
			p.Refused = append(p.Refused, listRefusals(figures.MayCompare(chosen[0], chosen[i]))...)
		}
	}
	p.Chosen, p.Live = view.MapItems(chosen, newComparedRun), "/compare/live?"+q.Encode()
	if len(p.Refused) > 0 {
		slices.Sort(p.Refused)
		p.Refused = slices.Compact(p.Refused)
		return found, nil
	}
	results, scores, err := figures.CompareRuns(r.Context(), chosen[0], chosen[1:]...)
	if err != nil {
		p.Problem = err.Error()
		return found, nil //nolint:nilerr // the page says why
	}
	p.Results, p.Trust = results, figures.TrustIn(&chosen[0].Status)
	for _, run := range chosen {
		if trouble := figures.TroubleOf(run.EvaluationRun).TroubleText(); trouble != "" {
			p.Trouble = append(p.Trouble, fmt.Sprintf("Answers of %s: %s.", run.Name, trouble))
		}
	}
	p.Figures, p.Costs = listFigures(chosen, results), drawCosts(chosen)
	p.addRows(q, scores, func(task, scenario string) string {
		return figures.PlannedTitle(s.catalog, chosen[0], task, scenario)
	})
	return found, nil
}

// listFigures are the figures of runs side by side: of all episodes, by task and by dimension.
func listFigures(runs []*source.LoadedRun, results []figures.Comparison) []figuresRow {
	var rows []figuresRow
	for i, run := range runs {
		set := func(name, value string) {
			at := slices.IndexFunc(rows, func(r figuresRow) bool { return r.Name == name })
			if at < 0 {
				at, rows = len(rows), append(rows, figuresRow{name, make([]string, len(runs))})
			}
			rows[at].Cells[i] = value
		}
		ci := ptr.Deref(ptr.Deref(run.Status.Score, v1alpha1.Score{}).CI95, v1alpha1.Interval{})
		set("score", describeScore(run.Status.Score))
		set("pass rate", figures.RoundToInterval(run.Status.PassRate, ci))
		lead, counts := "", ""
		if i > 0 {
			c := results[i-1]
			lead, counts = c.Lead(), fmt.Sprintf("%d, %d, %d", c.Worse, c.Better, c.Same)
		}
		set("minus "+runs[0].Name, lead)
		set("scenarios better, worse, the same", counts)
		for _, task := range run.Status.Tasks {
			if len(run.Status.Tasks) > 1 {
				set("task "+task.Name, describeScore(task.Score))
			}
			for _, d := range task.Dimensions {
				mean, most := figures.RoundToInterval(d.Mean, ci), figures.RoundToInterval(d.Max, ci)
				set(task.Name+", "+d.Name, mean+" of "+most)
			}
		}
		used := usageOf(run.EvaluationRun)
		set("tokens", used.Tokens)
		set("cost", used.Cost)
		set("median duration of an episode", used.Episode)
	}
	return slices.DeleteFunc(rows, func(r figuresRow) bool { return strings.Join(r.Cells, "") == "" })
}

// describeScore is a score with its interval, "" for none.
func describeScore(s *v1alpha1.Score) string {
	if s == nil || s.CI95 == nil {
		return ptr.Deref(s, v1alpha1.Score{}).Mean
	}
	return fmt.Sprintf("%s (%s to %s)", figures.RoundToInterval(s.Mean, *s.CI95),
		figures.RoundToInterval(s.CI95.Low, *s.CI95), figures.RoundToInterval(s.CI95.High, *s.CI95))
}

// drawCosts draws the scores of runs against their costs or, without prices, their tokens. It
// returns nil unless two runs have one.
func drawCosts(runs []*source.LoadedRun) *chart.Scatter {
	for _, of := range []struct {
		name string
		cost func(usage) (number float64, text string)
	}{{"cost", func(u usage) (float64, string) { return chart.ParseDecimal(u.Cost), u.Cost }},
		{"tokens", func(u usage) (float64, string) { return float64(u.tokens), u.Tokens }}} {
		drawn, most := &chart.Scatter{Name: "Score against " + of.name, Low: "0"}, 0.0
		for _, run := range runs {
			cost, text := of.cost(usageOf(run.EvaluationRun))
			if cost <= 0 || run.Status.Score == nil {
				continue
			}
			if cost > most {
				most, drawn.High = cost, of.name+" "+text
			}
			drawn.Points = append(drawn.Points,
				chart.Point{Name: run.Name, X: cost, Y: run.Status.Score.Mean, At: text})
		}
		for i := range drawn.Points {
			drawn.Points[i].X /= most
		}
		if len(drawn.Points) > 1 {
			return drawn
		}
	}
	return nil
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

// addRows lists the scenarios whose scores differ, the largest differences first, with titles.
func (p *comparePage) addRows(q url.Values, scores [][]score.ScenarioScore, title func(task, scenario string) string) {
	type pair struct{ task, scenario string }
	found := map[pair][]*int64{}
	for i, run := range scores {
		for _, s := range run {
			key := pair{s.Task, s.Scenario}
			if found[key] == nil {
				found[key] = make([]*int64, len(scores))
			}
			found[key][i] = &s.Mean
		}
	}
	for of, means := range found {
		row := changeRow{Task: of.task, Scenario: of.scenario, Path: addQuery("/compare/episodes",
			url.Values{"run": q["run"], "task": {of.task}, "scenario": {of.scenario}})}
		episodes := "/episodes?" + url.Values{"task": {of.task}, "scenario": {of.scenario}}.Encode()
		least, most := int64(math.MaxInt64), int64(math.MinInt64)
		for i, mean := range means {
			cell := changeCell{Name: p.Chosen[i].Name}
			if mean != nil {
				least, most = min(least, *mean), max(most, *mean)
				cell.Points, cell.Path = score.FormatDecimal(*mean), p.Chosen[i].Path+episodes
			}
			row.Cells = append(row.Cells, cell)
		}
		if row.spread = most - least; row.spread > 0 {
			row.Spread = score.FormatDecimal(row.spread)
			p.Rows = append(p.Rows, row)
		}
	}
	slices.SortFunc(p.Rows, func(x, y changeRow) int {
		return cmp.Or(cmp.Compare(y.spread, x.spread), cmp.Compare(x.Task, y.Task), cmp.Compare(x.Scenario, y.Scenario))
	})
	if p.More = len(p.Rows) - comparedRows; p.More > 0 && q.Get("all") == "" {
		p.Rows = p.Rows[:comparedRows]
		q.Set("all", "1")
		p.All = "/compare?" + q.Encode()
	}
	for i, row := range p.Rows {
		p.Rows[i].Title = title(row.Task, row.Scenario)
	}
}
