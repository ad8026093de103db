package ui

import (
	"net/http"
	"slices"
	"time"

	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/web/chart"
	"github.com/csenv/csenv/envserver/web/page"
)

// runPage is the data of the template run.html.
type runPage struct {
	Crumbs []page.Link
	View   figures.RunView
	// Live is the path of the page's updates, "" if there are none.
	Live   string
	Events []event
	// History draws the scores of the agent's comparable runs over time, nil without others.
	History *chart.Scatter
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
	p := runPage{Crumbs: newCrumbs("Overview", "/", run.Name, ""), View: figures.NewRunView(run.EvaluationRun, o),
		History: drawHistory(run, o.Others)}
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

// drawHistory draws the scores of a run and of other comparable runs of its agent over time, nil
// for fewer than two.
func drawHistory(run *source.LoadedRun, others []*source.LoadedRun) *chart.Scatter {
	agent := source.AgentName(run.EvaluationRun)
	runs := slices.DeleteFunc(slices.Clone(others), func(other *source.LoadedRun) bool {
		return other.Status.Score == nil || source.AgentName(other.EvaluationRun) != agent ||
			figures.MayCompare(run, other) != nil
	})
	slices.SortStableFunc(runs, func(a, b *source.LoadedRun) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	if len(runs) < 2 {
		return nil
	}
	first, last := runs[0].CreationTimestamp.Time, runs[len(runs)-1].CreationTimestamp.Time
	drawn := &chart.Scatter{Name: "Scores of this agent over time", Low: view.FormatUTC(first),
		High: view.FormatUTC(last), Joined: true}
	for _, r := range runs {
		at := float64(r.CreationTimestamp.Sub(first)) / max(float64(last.Sub(first)), 1)
		drawn.Points = append(drawn.Points, chart.Point{Name: r.Name, X: at, Y: r.Status.Score.Mean,
			At: view.FormatUTC(r.CreationTimestamp.Time)})
	}
	return drawn
}
