// Package play is the playground: pages on which a person plays episodes by hand.
//
// The pages play over the OpenEnv protocol, as every other client does, so they work with any
// server and know no more than an agent. A game is one session with a server. It is kept here
// between two requests, under an id that can't be guessed, and is closed at the end of its episode
// or when its player is idle.
package play

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/envserver/web/transcript"
)

// Server is where a game is played.
type Server struct {
	// URL is the base URL of an OpenEnv server.
	URL     string
	Options client.Options
	// Close, if not nil, releases the connection after the session.
	Close func()
}

func (s Server) close() {
	if s.Close != nil {
		s.Close()
	}
}

// Target is a server or a pool that a visitor may choose.
type Target struct {
	// ID names the target in URLs, Name to people, who also read the Note.
	ID, Name, Note string
	// Open returns the target's server. Token is the visitor's, "" without a login.
	Open func(r *http.Request, token string) (Server, error)
	// Review replays an ended episode beside its gold. It is nil where players mustn't learn that.
	Review func(ctx context.Context, e record.Episode) (transcript.Transcript, error)
}

// Config configures a playground. Path, Targets and Layout are required.
type Config struct {
	// Base is the path below which static files are served, and Path is the path of the playground.
	Base, Path string
	Targets    func(r *http.Request) ([]Target, error)
	// Layout returns the page around the data of a template.
	Layout func(r *http.Request, title string, main any) page.Page
	// Title says what a scenario is about, "" if that is unknown. It may be nil.
	Title func(scenario string) string
	// Closed says why playing is not possible, "" if it is.
	Closed string
	// Accepts, if not nil, reports whether a token is valid. Visitors must then enter one.
	Accepts func(token string) bool
	// MaxGames is the number of games at a time, 0 for 64. IdleTimeout ends a game after this time
	// without a request, 0 for 15 minutes.
	MaxGames    int
	IdleTimeout time.Duration
	// Log is slog.Default() when nil.
	Log *slog.Logger
}

const (
	defaultGames = 64
	defaultIdle  = 15 * time.Minute
	// maxForm bounds a form, in bytes: several times the longest action.
	maxForm = 256 << 10
	// maxSeed is the largest seed that every JSON reader keeps exactly.
	maxSeed = 1<<53 - 1
	// drawnSeeds bounds the seeds that the start form suggests, so that they are easy to note.
	drawnSeeds = 10000
)

// Playground serves the pages. Close ends its games.
type Playground struct {
	cfg    Config
	pages  *page.Set
	games  *games
	logins *logins
	mux    *http.ServeMux
}

// New makes a playground, which serves all paths below Path. Its pages must be protected by
// page.ProtectHandler.
func New(cfg Config) (*Playground, error) {
	pages, err := page.New(cfg.Base, "play", "play-game", "play-message", "episode")
	if err != nil {
		return nil, err
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	p := &Playground{cfg: cfg, pages: pages, logins: newLogins(),
		games: newGames(cmp.Or(cfg.MaxGames, defaultGames), cmp.Or(cfg.IdleTimeout, defaultIdle)),
		mux:   http.NewServeMux()}
	if cfg.Closed != "" {
		p.mux.HandleFunc(cfg.Path+"/", func(w http.ResponseWriter, r *http.Request) {
			p.say(w, r, http.StatusForbidden, "Playing is not possible here", cfg.Closed)
		})
		return p, nil
	}
	p.mux.HandleFunc("POST "+cfg.Path+"/login", p.login)
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request, string){
		"GET %s/{$}": p.start, "POST %s/start": p.begin, "GET %s/games/{id}": p.show,
		"POST %s/games/{id}/step": p.step, "POST %s/games/{id}/end": p.end, "POST %s/logout": p.logout,
	} {
		p.mux.HandleFunc(fmt.Sprintf(pattern, cfg.Path), p.entered(handle))
	}
	p.mux.HandleFunc(cfg.Path+"/", func(w http.ResponseWriter, r *http.Request) {
		p.say(w, r, http.StatusNotFound, "There is no such page", "There is no page "+r.URL.Path+" to "+r.Method+".")
	})
	return p, nil
}

func (p *Playground) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		p.say(w, r, http.StatusBadRequest, "The form can't be read", fmt.Sprintf("%v: go back and send it again, with "+
			"at most %d KiB.", err, maxForm>>10))
		return
	}
	p.mux.ServeHTTP(w, r)
}

// Close ends all games.
func (p *Playground) Close() { p.games.closeAll() }

func (s *games) closeAll() {
	s.mu.Lock()
	all := make([]*game, 0, len(s.byID))
	for _, g := range s.byID {
		all = append(all, g)
	}
	s.mu.Unlock()
	for _, g := range all {
		s.remove(g)
	}
}

// startPage is the data of the start form.
type startPage struct {
	Path, Message string
	Login         bool
	Targets       []Target
	Chosen        *Target
	Tasks         []string
	Scenarios     []suggestion
	// Choose shows the scenarios as a list to choose from.
	Choose bool
	Form   url.Values
}

// maxChoices bounds the scenarios of a list to choose from.
const maxChoices = 1000

// suggestion is a scenario of the server.
type suggestion struct{ ID, Title, About string }

// start shows the form that begins a game.
func (p *Playground) start(w http.ResponseWriter, r *http.Request, token string) {
	p.startForm(w, r, token, http.StatusOK, "")
}

func (p *Playground) startForm(w http.ResponseWriter, r *http.Request, token string, status int, message string) {
	data := startPage{Path: p.cfg.Path, Message: message, Login: p.cfg.Accepts != nil, Form: r.Form}
	targets, err := p.cfg.Targets(r)
	if err != nil {
		data.Message = strings.TrimSpace(data.Message + "\n" + formatError(err))
	}
	data.Targets = targets
	if data.Form.Get("seed") == "" {
		data.Form.Set("seed", strconv.Itoa(rand.IntN(drawnSeeds))) //nolint:gosec // a suggestion
	}
	id := r.Form.Get("target")
	if id == "" && len(targets) > 0 {
		id = targets[0].ID
	}
	if at := slices.IndexFunc(targets, func(t Target) bool { return t.ID == id }); at >= 0 {
		data.Chosen = &targets[at]
		tasks, err := p.tasks(r, token, targets[at])
		if err != nil {
			data.Chosen, data.Message = nil, formatError(err)
		}
		data.Tasks, data.Scenarios = listChoices(tasks)
		for i := range data.Scenarios {
			if of := &data.Scenarios[i]; p.cfg.Title != nil {
				of.Title = p.cfg.Title(of.ID)
			}
		}
		data.Choose = len(data.Scenarios) > 0 && len(data.Scenarios) <= maxChoices
		// A link may name a scenario alone.
		of := func(t client.Task) bool { return t.Scenario == data.Form.Get("scenario") }
		if at := slices.IndexFunc(tasks, of); at >= 0 && data.Form.Get("task") == "" {
			data.Form.Set("task", tasks[at].Task)
		}
	} else if data.Message == "" {
		data.Message = "There is no place to play with that name: choose one of the listed ones."
	}
	p.render(w, r, status, "play", "Playground", data)
}

// tasks asks the target for its tasks, nil if its server lists none.
func (p *Playground) tasks(r *http.Request, token string, target Target) ([]client.Task, error) {
	server, err := target.Open(r, token)
	if err != nil {
		return nil, err
	}
	defer server.close()
	tasks, err := client.FetchTasks(r.Context(), server.URL, server.Options)
	if refused, ok := errors.AsType[*client.StatusError](err); ok && refused.Status == http.StatusNotFound {
		return nil, nil
	}
	return tasks, err
}

// listChoices lists the tasks and the scenarios, each once.
func listChoices(listed []client.Task) (tasks []string, scenarios []suggestion) {
	place := map[string]int{}
	for _, t := range listed {
		if !slices.Contains(tasks, t.Task) {
			tasks = append(tasks, t.Task)
		}
		at, known := place[t.Scenario]
		if !known {
			place[t.Scenario] = len(scenarios)
			scenarios = append(scenarios, suggestion{t.Scenario, "", strings.TrimSpace(
				t.Task + " " + t.Difficulty + " " + t.Language)})
			continue
		}
		scenarios[at].About = t.Task + ", " + scenarios[at].About
	}
	slices.SortFunc(scenarios, func(a, b suggestion) int { return strings.Compare(a.ID, b.ID) })
	return tasks, scenarios
}

// begin begins a game with the start form's values.
func (p *Playground) begin(w http.ResponseWriter, r *http.Request, token string) {
	options, err := readOptions(r.PostForm)
	if err != nil {
		p.startForm(w, r, token, http.StatusUnprocessableEntity, formatError(err))
		return
	}
	targets, err := p.cfg.Targets(r)
	at := slices.IndexFunc(targets, func(t Target) bool { return t.ID == r.PostForm.Get("target") })
	if at < 0 {
		p.startForm(w, r, token, http.StatusNotFound, formatError(err))
		return
	}
	g, err := p.games.begin(r, token, targets[at], options)
	if err != nil {
		p.startForm(w, r, token, http.StatusBadGateway, formatError(err))
		return
	}
	http.Redirect(w, r, p.cfg.Path+"/games/"+g.id, http.StatusSeeOther)
}

func readOptions(form url.Values) (options, error) {
	o := options{Task: strings.TrimSpace(form.Get("task")), Scenario: strings.TrimSpace(form.Get("scenario")),
		RewardMode: form.Get("reward_mode"), Pressure: form.Get("pressure") != ""}
	var err error
	if o.Seed, err = strconv.ParseInt(strings.TrimSpace(form.Get("seed")), 10, 64); err != nil || o.Seed < 0 ||
		o.Seed > maxSeed {
		return o, fmt.Errorf("the seed is not a whole number from 0 to %d: correct it", int64(maxSeed))
	}
	return o, nil
}

// show shows a game.
func (p *Playground) show(w http.ResponseWriter, r *http.Request, token string) {
	if g := p.find(w, r, token); g != nil {
		v := g.view(p.cfg.Path)
		p.render(w, r, http.StatusOK, "play-game", v.Title, v)
	}
}

// step plays the action of a form. The answer is the page of the game, for browsers with and
// without the script.
func (p *Playground) step(w http.ResponseWriter, r *http.Request, token string) {
	if g := p.find(w, r, token); g != nil {
		g.play(r.Context(), r.PostForm)
		http.Redirect(w, r, p.cfg.Path+"/games/"+g.id, http.StatusSeeOther)
	}
}

// end ends a game before its episode's end.
func (p *Playground) end(w http.ResponseWriter, r *http.Request, token string) {
	if g := p.find(w, r, token); g != nil {
		p.games.remove(g)
		again := p.cfg.Path + "/?" + g.query(g.options.Seed).Encode()
		http.Redirect(w, r, again, http.StatusSeeOther) //nolint:gosec // own path
	}
}

// query is the start form of this game, with another seed.
func (g *game) query(seed int64) url.Values {
	o, q := g.options, url.Values{}
	for name, value := range map[string]string{"target": g.target.ID, "task": o.Task, "scenario": o.Scenario,
		"reward_mode": o.RewardMode, "seed": strconv.FormatInt(seed, 10)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if o.Pressure {
		q.Set("pressure", "on")
	}
	return q
}

// find returns the game of the path, or answers that there is none. A game belongs to the token
// that began it.
func (p *Playground) find(w http.ResponseWriter, r *http.Request, token string) *game {
	g := p.games.find(r.PathValue("id"))
	if g == nil || g.token != token {
		p.say(w, r, http.StatusNotFound, "This game has ended",
			fmt.Sprintf("There is no such game: it was ended, or nobody played for %v. Begin another one.",
				p.games.idle))
		return nil
	}
	return g
}

// message is the data of a page without a game.
type message struct {
	Path, Title, Text string
	Login             bool
}

func (p *Playground) say(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	p.render(w, r, status, "play-message", title, message{Path: p.cfg.Path, Title: title, Text: text})
}

func (p *Playground) render(w http.ResponseWriter, r *http.Request, status int, name, title string,
	data any) {
	html, err := p.pages.Page(name, p.cfg.Layout(r, title, data))
	if err != nil {
		p.cfg.Log.Error("A page of the playground can't be rendered", "error", err)
		http.Error(w, "The page can't be rendered: see the server's log.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(html) // the browser may have gone
}

// formatError writes an error as a sentence, "" for nil.
func formatError(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
