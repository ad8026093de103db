package ui

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/index"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/envserver/web/template"
)

// pageEpisodes is the number of episodes on a page.
const pageEpisodes = 100

// listFields are the fields of the form of the list of episodes. A link to an episode carries them
// too, so that its neighbours are its neighbours in the list.
var listFields = []string{"task", "scenario", "category", "difficulty", "outcome", "result", "class", "min", "max",
	"text", "lost", "sort", "order"}

// listValues returns the fields of a list in a request's query that are set.
func listValues(r *http.Request) url.Values {
	form, values := r.URL.Query(), map[string]string{}
	for _, name := range listFields {
		values[name] = form.Get(name)
	}
	return buildQuery(values)
}

// listQuery returns the query of a list's fields.
func (s *site) listQuery(run string, values url.Values) (index.Query, error) {
	q := index.Query{Run: run, Class: values.Get("class"), Text: values.Get("text"), Lost: values.Get("lost"),
		Sort: index.Sort(values.Get("sort")), Descending: values.Get("order") == "desc", Limit: pageEpisodes}
	for name, list := range map[string]*[]string{"task": &q.Tasks, "outcome": &q.Outcomes} {
		if v := values.Get(name); v != "" {
			*list = []string{v}
		}
	}
	if q.Sort != "" && !slices.Contains(index.Sorts, q.Sort) {
		return q, badRequest("Episodes can't be sorted by %.40q: choose one of %v.", q.Sort, index.Sorts)
	}
	if s.pages.Static {
		q.Sort = index.ByScore // a bundle has the episodes with the lowest scores
	}
	for name, bound := range map[string]**int64{"min": &q.Least, "max": &q.Most} {
		text := values.Get(name)
		if text == "" {
			continue
		}
		points, err := score.ParseDecimal(text)
		if err != nil {
			return q, badRequest("The %s score %.40q is not a number from 0 to 1.", name, text)
		}
		*bound = &points
	}
	switch result := values.Get("result"); result {
	case "":
	case "passed", "missed":
		q.Passed = new(result == "passed")
	default:
		return q, badRequest("The result %.40q is unknown: choose passed or missed.", result)
	}
	if q.Scenarios = s.scenariosOf(values.Get("category"), values.Get("difficulty")); values.Get("scenario") != "" {
		q.Scenarios = []string{values.Get("scenario")}
	}
	return q, nil
}

// scenariosOf lists the catalogue's scenarios of a category and a difficulty, nil for all.
func (s *site) scenariosOf(category, difficulty string) []string {
	if category == "" && difficulty == "" {
		return nil
	}
	found := []string{""} // no scenario has this name
	for id, scenario := range s.scenarios {
		if (category == "" || scenario.Category == category) &&
			(difficulty == "" || scenario.Difficulty == difficulty) {
			found = append(found, id)
		}
	}
	slices.Sort(found)
	return found
}

// episodeList is the data of the page.
type episodeList struct {
	Crumbs    []page.Link
	Run, Path string
	Values    url.Values
	Selects   []choice
	Columns   []column
	Rows      []episodeRow
	Shown     string
	Pages     []pageLink
	Histogram template.HTML
	Indexing  string
	// Live is the path of the list's updates, "" if there are none.
	Live string
}

// choice is a select of the form.
type choice struct {
	Name, Label string
	Options     []option
}

// column is a column of the list. Query is "" if the list can't be sorted by it.
type column struct {
	Label, Query, Sorted string
	Number               bool
}

type episodeRow struct {
	index.Episode
	Category, Points, Seconds, Path string
	// Title is what the scenario is about, "" if it is unknown.
	Title string
	State stateView
}

// pageLink is a link to a page of the list; Key is the key that follows it.
type pageLink struct{ Label, Query, Key string }

func (s *site) episodes(r *http.Request) (shown, error) {
	run, err := s.sources.run(r.Context(), r.PathValue("namespace"), r.PathValue("run"))
	if err != nil {
		return shown{}, err
	}
	values := listValues(r)
	x, id, err := s.sources.episodes(run)
	if err != nil {
		return shown{}, err
	}
	q, err := s.listQuery(id, values)
	if err != nil {
		return shown{}, err
	}
	at, err := pageNumber(r)
	if err != nil {
		return shown{}, err
	}
	q.Offset = at * pageEpisodes
	found, err := x.Episodes(r.Context(), q)
	if err != nil {
		return shown{}, err
	}
	if s.pages.Static && found.Total > s.bundleEpisodes {
		found.Total = s.bundleEpisodes
		found.Episodes = found.Episodes[:min(len(found.Episodes), max(found.Total-q.Offset, 0))]
	}
	path := runPath(run)
	list := &episodeList{
		Crumbs: newCrumbs("Overview", "/", run.Name, path, "Episodes", ""),
		Run:    run.Name, Path: path + "/episodes", Values: values, Selects: s.choices(run, values, found),
		Columns: listColumns(
			values,
		), Histogram: s.listHistogram(path, values, found), Indexing: s.sources.stored.reading(),
		Pages: pageLinks(values, at, found.Total),
		Shown: fmt.Sprintf("%d to %d of %s episodes", min(q.Offset+1, found.Total), q.Offset+len(found.Episodes),
			formatThousands(found.Total)),
	}
	if !s.pages.Static {
		list.Live = path + "/episodes/live?" + r.URL.RawQuery
	}
	if found.Total < found.All {
		list.Shown += fmt.Sprintf(" (of %s in the run)", formatThousands(found.All))
	}
	for _, e := range found.Episodes {
		list.Rows = append(list.Rows, s.episodeRow(path, values, e))
	}
	return shown{"episodes", "Episodes of " + run.Name, "", list}, nil
}

// pageNumber is the number of a request's page, from 0.
func pageNumber(r *http.Request) (int, error) {
	text := r.URL.Query().Get("page")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000_000/pageEpisodes {
		return 0, badRequest("There is no page %.40q: pages are numbered from 1.", text)
	}
	return n - 1, nil
}

func (s *site) episodeRow(path string, values url.Values, e index.Episode) episodeRow {
	row := episodeRow{Episode: e, Title: s.titleOf(e.Scenario, e.Seed),
		Category: s.scenarios[e.Scenario].Category, Points: "–", State: wordOf(e.Outcome, e.Class, e.Passed),
		Seconds: fmt.Sprintf("%.1f", float64(e.DurationMS)/1000), Path: addQuery(fmt.Sprintf("%s/episodes/%d", path,
			e.Index), values)}
	if e.Score != nil {
		row.Points = score.FormatDecimal(*e.Score)
	}
	return row
}

// outcomeWords are the words of wordOf for values of the form.
var outcomeWords = map[string]string{"passed": wordOf(score.Scored, "", true).Text,
	"missed": wordOf(score.Scored, "", false).Text, string(score.Scored): "Scored",
	string(score.Failed):   wordOf(score.Failed, "", false).Text,
	string(score.Errored):  wordOf(score.Errored, "", false).Text,
	string(score.Withheld): wordOf(score.Withheld, "", false).Text}

// choices are the selects of the form: what the run and the selected episodes have.
func (s *site) choices(run *source.LoadedRun, values url.Values, found index.Page) []choice {
	counted := func(counts []index.Count) []option {
		return view.MapItems(counts, func(c index.Count) option {
			return option{Value: c.Name, Name: fmt.Sprintf("%s (%s)", cmp.Or(outcomeWords[c.Name], c.Name),
				formatThousands(c.Episodes))}
		})
	}
	named := func(names []string) []option {
		return view.MapItems(names, func(name string) option {
			return option{Value: name, Name: cmp.Or(outcomeWords[name], name)}
		})
	}
	groups := func(results []v1alpha1.CategoryResult) []option {
		return named(view.MapItems(results, func(r v1alpha1.CategoryResult) string { return r.Name }))
	}
	classes := view.MapItems(run.Status.Errors, func(e v1alpha1.ErrorCount) string { return e.Class })
	all := []choice{
		{"task", "Task", counted(found.Tasks)}, {"outcome", "Outcome", counted(found.Outcomes)},
		{"result", "Result", named([]string{"passed", "missed"})},
		{"category", "Category", groups(run.Status.Categories)},
		{"difficulty", "Difficulty", groups(run.Status.Difficulties)}, {"class", "Error", named(classes)},
	}
	return slices.DeleteFunc(all, func(c choice) bool {
		value := values.Get(c.Name)
		for i := range c.Options {
			c.Options[i].Selected = c.Options[i].Value == value
		}
		return len(c.Options) < 2 && value == ""
	})
}

// listColumns are the columns of the list. A click on the one by which it is sorted reverses the
// order.
func listColumns(values url.Values) []column {
	list := []struct {
		label  string
		by     index.Sort
		number bool
	}{
		{"episode", index.ByIndex, true}, {"scenario", index.ByScenario, false}, {"category", "", false},
		{"task", index.ByTask, false}, {"trial", "", true}, {"result", index.ByOutcome, false},
		{"score", index.ByScore, true}, {"steps", index.ByTurns, true}, {"seconds", index.ByDuration, true},
	}
	out := make([]column, 0, len(list))
	for _, c := range list {
		made := column{Label: c.label, Number: c.number}
		if c.by != "" {
			current := values.Get("sort") == string(c.by) || values.Get("sort") == "" && c.by == index.ByIndex
			order := ""
			if current {
				made.Sorted = "ascending"
				if values.Get("order") == "desc" {
					made.Sorted = "descending"
				} else {
					order = "desc"
				}
			}
			made.Query = changeQuery(values, "sort", string(c.by), "order", order)
		}
		out = append(out, made)
	}
	return out
}

// listHistogram draws the scores of the selected episodes. A bar leads to its episodes.
func (s *site) listHistogram(path string, values url.Values, found index.Page) template.HTML {
	h := chart.Histogram{Counts: found.Scores}
	if !s.pages.Static {
		h.Link = func(low, high string) string {
			return path + "/episodes" + changeQuery(values, "min", low, "max", high)
		}
	}
	return h.SVG()
}

// pageLinks lead to the other pages of a list.
func pageLinks(values url.Values, at, total int) []pageLink {
	last := max((total-1)/pageEpisodes, 0)
	to := func(page int) string { return changeQuery(values, "page", strconv.Itoa(page+1)) }
	var links []pageLink
	if at > 0 {
		links = append(links, pageLink{"First", to(0), ""}, pageLink{"Previous", to(min(at-1, last)), "ArrowLeft"})
	}
	if at < last {
		links = append(links, pageLink{"Next", to(at + 1), "ArrowRight"}, pageLink{"Last", to(last), ""})
	}
	return links
}

// changeQuery is a query with other values for some fields. A field without a value is left out.
func changeQuery(values url.Values, pairs ...string) string {
	out := maps.Clone(values)
	for i := 0; i+1 < len(pairs); i += 2 {
		if out.Del(pairs[i]); pairs[i+1] != "" {
			out.Set(pairs[i], pairs[i+1])
		}
	}
	if len(out) == 0 {
		return "?"
	}
	return "?" + out.Encode()
}

// formatThousands writes a number with separators, for example 1,234,567.
func formatThousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
