package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/index"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/envserver/web/transcript"
)

// sidePage shows the transcripts of a scenario in several runs.
type sidePage struct {
	Crumbs         []page.Link
	Task, Scenario string
	// Title is what the scenario is about, "" if it is unknown.
	Title string
	Sides []side
	// Trials are the trials that any of the runs played.
	Trials []tab
}

// side is the episode of one run. Missing is why there is none.
type side struct {
	Name, Path, Points, Missing string
	Excerpt                     transcript.Excerpt
}

// sideBySide shows the episodes of a task, a scenario and a trial in several runs.
func (s *site) sideBySide(r *http.Request) (shown, error) {
	q := r.URL.Query()
	trial, err := strconv.Atoi(q.Get("trial"))
	if q.Get("trial") == "" {
		trial, err = 0, nil
	}
	runs := len(q["run"])
	if err != nil || q.Get("scenario") == "" || q.Get("task") == "" || runs < 2 || runs > maxCompared {
		return shown{}, badRequest("Name two to six runs, a task, a scenario and the number of a trial: choose a " +
			"scenario on the page Compare.")
	}
	p := &sidePage{Task: q.Get("task"), Scenario: q.Get("scenario")}
	trials := 0
	names := make([]string, len(q["run"]))
	for i, id := range q["run"] {
		namespace, folder, _ := strings.Cut(id, "/")
		run, err := s.sources.run(r.Context(), namespace, folder)
		if err != nil {
			return shown{}, err
		}
		made, played, err := s.side(r, run, p, trial)
		if err != nil {
			return shown{}, err
		}
		made.Excerpt.Prefix = fmt.Sprintf("%c-", 'a'+i)
		p.Sides, trials, names[i] = append(p.Sides, made), max(trials, played), run.Name
	}
	p.Crumbs = newCrumbs("Compare", "/compare?"+url.Values{"run": q["run"]}.Encode(), p.Scenario, "")
	for n := range trials {
		q.Set("trial", strconv.Itoa(n))
		p.Trials = append(p.Trials, tab{"Trial " + strconv.Itoa(n), "/compare/episodes?" + q.Encode(), n == trial})
	}
	title := p.Scenario + " in " + strings.Join(names, ", ")
	return shown{"side-by-side", title, "compare", p}, nil
}

// side reads the episode of a run, and returns how many trials the run has of the scenario.
func (s *site) side(r *http.Request, run *source.LoadedRun, p *sidePage, trial int) (side, int, error) {
	made := side{Name: run.Name, Missing: "This run has no stored episode of the scenario and trial."}
	x, id, err := s.sources.episodes(run)
	if err != nil {
		made.Missing = err.Error()
		return made, 0, nil //nolint:nilerr // the page shows the other run
	}
	found, err := x.Episodes(r.Context(), index.Query{Run: id, Tasks: []string{p.Task}, Scenarios: []string{p.Scenario},
		Limit: index.MaxLimit})
	if err != nil {
		return made, 0, err
	}
	trials := 0
	for _, e := range found.Episodes {
		if trials = max(trials, e.Trial+1); e.Trial != trial {
			continue
		}
		played, err := x.Episode(r.Context(), id, e.Index)
		if err != nil {
			return made, 0, err
		}
		t, err := transcript.ReplayEpisode(r.Context(), s.catalog, played)
		if err != nil {
			return made, 0, err
		}
		made.Missing, made.Excerpt, p.Title = "", t.Excerpt(0), s.titleOf(p.Scenario, e.Seed)
		made.Path = fmt.Sprintf("%s/episodes/%d", runPath(run), e.Index)
		made.Excerpt.Path, made.Excerpt.Raw = made.Path, made.Path+"/raw"
		if e.Score != nil {
			made.Points = score.FormatDecimal(*e.Score)
		}
	}
	return made, trials, nil
}
