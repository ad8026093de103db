package ui

import (
	"net/http"
	"time"

	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/web/page"
)

// runPage is the data of the template run.html.
type runPage struct {
	Crumbs []page.Link
	View   figures.RunView
	// Live is the path of the page's updates, "" if there are none.
	Live   string
	Events []event
	// Unread says how much of the run is read while its store is being read, "" otherwise.
	Unread string
}

func (s *site) run(r *http.Request) (shown, error) {
	run, err := s.sources.run(r.Context(), r.PathValue("namespace"), r.PathValue("run"))
	if err != nil {
		return shown{}, err
	}
	path := runPath(run)
	o := figures.ViewOptions{Now: time.Now(), Public: s.public, Lost: run.Lost, Doubt: run.Doubt(),
		Others: s.sources.state(r.Context()).runs}
	if !s.public {
		o.Episodes = path + "/episodes"
	}
	p := runPage{Crumbs: newCrumbs("Overview", "/", run.Name, ""), View: figures.NewRunView(run.EvaluationRun, o)}
	if state, message := s.sources.stateOf(run); source.IsUnfinished(run.EvaluationRun) {
		p.View.States[0].Text, p.View.States[0].Kind = state.Text, state.Kind
		if !s.public {
			p.View.States[0].Message = message
		}
		if state.Text != local.ReasonInterrupted {
			p.View.Advice = ""
		}
	}
	if !s.pages.Static {
		p.Live = livePath(path)
	}
	events, err := s.events(r.Context(), run)
	if err != nil {
		return shown{}, err
	}
	p.Events, p.Unread = events, s.sources.unread(run)
	return shown{"run", run.Name, "run", p}, nil
}
