// Package ui shows pools, runs and episodes in a browser.
//
// Each page has a file with its handler, which returns the data of a template of
// envserver/web/page. Pages read runs from the cluster, from result stores, or from both; see
// sources.
package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/scenarios"
)

// site serves the pages.
type site struct {
	pages   *page.Set
	sources *sources
	catalog *scenarios.Catalog
	// scenarios are the catalogue's, by id, and packs the folders of its additional packs.
	scenarios map[string]score.Scenario
	packs     []string
	log       *slog.Logger
	// bundleEpisodes is the maximum number of episodes of a run in a bundle.
	bundleEpisodes int
	// public leaves out everything that could reveal gold or texts of scenarios: episodes,
	// comparisons by scenario and the playground.
	public bool
	// games serves the playground, nil for none.
	games http.Handler

	// making bounds the pages that are being made, in all and for a visitor.
	making *fairness.Budget
	feeds  *feeds
}

// maxMade bounds the pages that are being made at a time, and maxMadeFor those for one visitor,
// whose others wait.
const maxMade, maxMadeFor = 64, 4

// shown is what a handler returns: the template of a page and its data.
type shown struct {
	template, title, place string
	main                   any
}

// newCrumbs are the steps of the way to a page, from names and paths. The last has no path.
func newCrumbs(pairs ...string) []page.Link {
	var out []page.Link
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, page.Link{Name: pairs[i], Path: pairs[i+1]})
	}
	return out
}

// buildQuery are the parameters that have a value.
func buildQuery(parameters map[string]string) url.Values {
	values := url.Values{}
	for name, value := range parameters {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// addQuery is a path with parameters.
func addQuery(path string, query url.Values) string {
	if encoded := query.Encode(); encoded != "" {
		return path + "?" + encoded
	}
	return path
}

// statusError is an error with an HTTP status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

func notFound(format string, args ...any) error {
	return &statusError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// handler serves all pages.
func (s *site) handler() http.Handler {
	s.making, s.feeds = fairness.NewBudget(maxMade, maxMadeFor), &feeds{byPage: map[string]*feed{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{digest}/{name}", page.ServeStatic)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	s.live(mux, "/{$}", s.overview)
	mux.HandleFunc("GET /leaderboard", s.exports(s.serve(s.leaderboard)))
	mux.HandleFunc("GET "+livePath("/leaderboard"), s.updates(s.leaderboard))
	s.live(mux, "/runs/{namespace}/{run}", s.run)
	s.live(mux, "/runs/{namespace}/{run}/episodes", s.private(s.episodes))
	mux.HandleFunc("GET "+searchPath, s.serve(s.private(s.search(sync.OnceValue(s.titles)))))
	s.live(mux, "/compare", s.private(s.compare))
	mux.HandleFunc("GET /runs/{namespace}/{run}/episodes/{episode}", s.serve(s.private(s.episode)))
	mux.HandleFunc("GET /compare/episodes", s.serve(s.private(s.sideBySide)))
	if !s.public {
		mux.HandleFunc("GET /runs/{namespace}/{run}/episodes/{episode}/raw", s.answerInTurn(s.rawEpisode))
		mux.HandleFunc("POST /runs/{namespace}/{run}/episodes/{episode}/objection", s.answerInTurn(s.object))
	}
	if s.games != nil {
		mux.HandleFunc("GET "+playPath+"/", s.answerInTurn(s.games.ServeHTTP))
		mux.HandleFunc("POST "+playPath+"/", s.answerInTurn(s.games.ServeHTTP))
	}
	mux.HandleFunc("GET /", s.serve(func(r *http.Request) (shown, error) {
		return shown{}, notFound("There is no page %s.", r.URL.Path)
	}))
	return page.ProtectHandler(mux)
}

// private replaces a page that public mode leaves out.
func (s *site) private(show func(*http.Request) (shown, error)) func(*http.Request) (shown, error) {
	if !s.public {
		return show
	}
	return func(*http.Request) (shown, error) {
		return shown{}, &statusError{http.StatusForbidden, "This site is public: it shows aggregated figures only."}
	}
}

// live serves a page and, at PATH/live, updates of its template "live" as server-sent events.
func (s *site) live(mux *http.ServeMux, path string, show func(*http.Request) (shown, error)) {
	mux.HandleFunc("GET "+path, s.serve(show))
	mux.HandleFunc("GET "+livePath(path), s.updates(show))
}

// titleOf is what a scenario is about with a seed's values, "" if that is unknown.
func (s *site) titleOf(scenario string, seed int64) string {
	return figures.TitleOf(s.catalog, scenario, seed)
}

// serve answers with a page.
func (s *site) serve(show func(*http.Request) (shown, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		html, err := s.inTurn(r, func() ([]byte, error) {
			found, err := show(r)
			if err != nil {
				found, status = s.failed(r, err)
			}
			return s.pages.Page(found.template, s.layout(r.Context(), found))
		})
		if r.Context().Err() != nil {
			return // the visitor has gone
		}
		if err != nil {
			s.log.Error("A page can't be rendered", "path", r.URL.Path, "error", err)
			http.Error(w, "The page can't be rendered: see the log of csenv ui.", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write(html) // the browser may have gone
	}
}

// inTurn makes a page or a part of one in a turn of its visitor.
func (s *site) inTurn(r *http.Request, render func() ([]byte, error)) ([]byte, error) {
	release, err := s.making.Take(r.Context(), fairness.ClientAt(r.RemoteAddr))
	if err != nil {
		return nil, err
	}
	defer release()
	return render()
}

// answerInTurn answers requests in turns of their visitors.
func (s *site) answerInTurn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = s.inTurn(r, func() ([]byte, error) { // the only error is that the visitor has gone
			next(w, r)
			return nil, nil
		})
	}
}

// layout returns the page of a handler's result.
func (s *site) layout(ctx context.Context, found shown) page.Page {
	p := page.Page{Title: found.title, Place: found.place, Version: cli.Version, Main: found.main,
		Nav: []page.Link{{Place: "overview", Name: "Overview", Path: "/"},
			{Place: "leaderboard", Name: "Leaderboard", Path: "/leaderboard"}}}
	if !s.public && !s.pages.Static {
		p.Nav = append(p.Nav, page.Link{Place: "compare", Name: "Compare", Path: "/compare"},
			page.Link{Place: "play", Name: "Playground", Path: playPath + "/"})
		if s.sources.stored != nil {
			p.Search = searchPath
		}
	}
	// The overview itself shows the problems of all sources.
	if found.template != "overview" && !s.pages.Static {
		for _, n := range s.notices(clusterProblem(s.sources.snapshot(ctx))) {
			p.Notices = append(p.Notices, n.String())
		}
	}
	return p
}

// failed returns the page of an error and its status.
func (s *site) failed(r *http.Request, err error) (shown, int) {
	status, title, text := http.StatusBadGateway, "This can't be shown", err.Error()
	if known, ok := errors.AsType[*statusError](err); ok {
		status, title = known.status, cmp.Or(http.StatusText(known.status), title)
	} else {
		s.log.Warn("A page can't be shown", "path", r.URL.Path, "error", err)
		if s.public {
			text = "A source of this site can't be read at present."
		}
	}
	return shown{"error", title, "", struct{ Title, Message string }{title, text}}, status
}
