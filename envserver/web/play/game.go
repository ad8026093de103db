package play

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/web/transcript"
)

// options are the options of a reset.
type options struct {
	Seed       int64  `json:"seed"`
	Task       string `json:"task,omitempty"`
	Scenario   string `json:"scenario,omitempty"`
	RewardMode string `json:"reward_mode,omitempty"`
	Pressure   bool   `json:"pressure,omitempty"`
}

// game is an episode that a person plays.
type game struct {
	id, token string
	target    Target
	options   options
	actions   []action
	// timer ends the game when its player is idle.
	timer *time.Timer

	mu     sync.Mutex
	server Server
	conn   *client.Client
	seen   client.Observation
	turns  []turn
	total  float64
	// ended is true once the session is closed; lost says why if the episode had not ended.
	ended bool
	lost  string
	// refused says why the last form was not played, and form has its values.
	refused string
	form    url.Values
	// sent is the number of forms that were sent.
	sent int
	// articles are all that searches have found.
	articles []article
	// gold is the ended episode beside what was right, nil if that isn't shown.
	gold *transcript.Excerpt
}

// turn is an action that was played.
type turn struct {
	Action json.RawMessage
	Reward float64
	Total  float64
}

const (
	// beginTime bounds the begin of a game. A server may wait for a free slot.
	beginTime = 20 * time.Second
	// stepTime bounds an action. A judge may need minutes.
	stepTime = 3 * time.Minute
)

// newGame opens a session and begins an episode. It uses the context of the visitor's request.
func newGame(r *http.Request, token string, target Target, o options) (*game, error) {
	ctx, cancel := context.WithTimeout(r.Context(), beginTime)
	defer cancel()
	server, err := target.Open(r, token)
	if err != nil {
		return nil, err
	}
	g := &game{id: rand.Text(), token: token, target: target, options: o, server: server}
	if err := g.begin(ctx); err != nil {
		g.close()
		return nil, inWords(err)
	}
	return g, nil
}

func (g *game) begin(ctx context.Context) error {
	var err error
	if g.conn, err = client.Dial(ctx, g.server.URL, g.server.Options); err != nil {
		return err
	}
	if g.seen, err = g.conn.Reset(ctx, g.options); err != nil {
		return err
	}
	g.keepArticles()
	var p progress
	_ = json.Unmarshal(g.seen.Observation, &p) // another environment's observation may have no task
	schemas, err := client.FetchSchema(ctx, g.server.URL, p.Task, g.server.Options)
	if err != nil {
		return err
	}
	g.actions, err = actionsOf(schemas.Action)
	return err
}

// inWords leaves the code out of a server's refusal.
func inWords(err error) error {
	if refused, ok := errors.AsType[*client.ServerError](err); ok {
		return errors.New(refused.Message)
	}
	return err
}

// close releases the session.
func (g *game) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closeLocked()
}

func (g *game) closeLocked() {
	if g.ended {
		return
	}
	g.ended = true
	if g.conn != nil {
		_ = g.conn.Close() // the server may have gone
	}
	g.server.close()
}

// play plays the action of a form. A form that was not sent from the game's current state isn't
// played, so that a click that was sent twice counts once.
func (g *game) play(ctx context.Context, form url.Values) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused, g.form = "", nil
	g.sent++
	if g.ended {
		return
	}
	if form.Get("turn") != strconv.Itoa(len(g.turns)) {
		g.refused = "This form was sent before the last action was played, so it wasn't played: send it again."
		g.form = form
		return
	}
	action, err := g.encode(form)
	if err != nil {
		g.refused, g.form = formatError(err), form
		return
	}
	// The action is played to its end even if the browser goes, because the session would be lost.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTime)
	defer cancel()
	seen, err := g.conn.Step(ctx, action)
	if err != nil {
		g.fail(err, form)
		return
	}
	g.seen = seen
	if seen.HasReward {
		g.total += seen.Reward
	}
	g.turns = append(g.turns, turn{Action: action, Reward: seen.Reward, Total: g.total})
	g.keepArticles()
	if seen.Done {
		g.closeLocked()
		g.review(ctx)
	}
}

// review replays the ended episode for its gold, where that is shown.
func (g *game) review(ctx context.Context) {
	if !g.seen.Done || g.target.Review == nil {
		return
	}
	m := g.seen.Metadata
	e := record.Episode{Task: g.options.Task, Scenario: g.options.Scenario, Seed: g.options.Seed,
		RewardMode: episode.RewardMode(g.options.RewardMode), Pressure: g.options.Pressure, Customer: m.Customer,
		Grade: record.Grade{Outcome: m.Outcome, Score: m.EpisodeScore, Judge: m.Judge, Verdicts: m.Verdicts}}
	for _, t := range g.turns {
		e.Turns = append(e.Turns, record.Turn{Action: t.Action, Reward: t.Reward})
	}
	t, err := g.target.Review(ctx, e)
	if err != nil {
		return // the grade is shown without it
	}
	for _, r := range t.Reviews {
		for i := range r.Rows {
			r.Rows[i].Mark = nil // the page marks no sentences
		}
	}
	shown := t.Excerpt(0)
	shown.Prefix = "gold-"
	g.gold = &shown
}

// fail keeps the reason why an action was not played. Every error ends the session, except an error
// of the action itself.
func (g *game) fail(err error, form url.Values) {
	refused, ok := errors.AsType[*client.ServerError](err)
	ending := []string{protocol.CodeCapacity, protocol.CodeFactory, protocol.CodeSession}
	if ok && !slices.Contains(ending, refused.Code) {
		g.refused, g.form = formatError(inWords(err)), form
		return
	}
	g.lost = "The session with the server was lost, so this episode has no score: " + inWords(err).Error() + "."
	g.closeLocked()
}

// encode returns the action of a form.
func (g *game) encode(form url.Values) (json.RawMessage, error) {
	if form.Has("raw") {
		return encodeRaw(form.Get("raw"))
	}
	at := slices.IndexFunc(g.actions, func(a action) bool { return a.Type == form.Get("action") })
	if at < 0 {
		return nil, fmt.Errorf("the server has no action %q: choose a listed one", form.Get("action"))
	}
	return g.actions[at].encode(form)
}

// encodeRaw checks an action that was written as JSON.
func encodeRaw(text string) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return nil, errors.New(`the action is not a JSON object: write it like {"action_type": "..."}`)
	}
	return json.RawMessage(strings.TrimSpace(text)), nil
}

// games are the current games by their ids.
type games struct {
	limit int
	idle  time.Duration

	mu   sync.Mutex
	byID map[string]*game
	// beginning is the number of games that are not in byID yet.
	beginning int
}

func newGames(limit int, idle time.Duration) *games {
	return &games{limit: limit, idle: idle, byID: map[string]*game{}}
}

// begin begins a game, unless there are too many. A game whose session has ended gives way.
func (s *games) begin(r *http.Request, token string, target Target, o options) (*game, error) {
	if err := s.reserve(); err != nil {
		return nil, err
	}
	g, err := newGame(r, token, target, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginning--
	if err != nil {
		return nil, err
	}
	s.byID[g.id] = g
	g.timer = time.AfterFunc(s.idle, func() { s.remove(g) })
	return g, nil
}

func (s *games) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID)+s.beginning >= s.limit && !s.makeRoom() {
		return fmt.Errorf("all %d places of the playground are taken: try again later", s.limit)
	}
	s.beginning++
	return nil
}

// makeRoom forgets a game that has ended.
func (s *games) makeRoom() bool {
	for id, g := range s.byID {
		if !g.mu.TryLock() {
			continue // it is being played
		}
		ended := g.ended
		g.mu.Unlock()
		if ended {
			g.timer.Stop()
			delete(s.byID, id)
			return true
		}
	}
	return false
}

// find returns a game, nil for none, and restarts its idle timeout.
func (s *games) find(id string) *game {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.byID[id]
	if g == nil {
		return nil
	}
	g.timer.Reset(s.idle)
	return g
}

// remove ends a game.
func (s *games) remove(g *game) {
	s.mu.Lock()
	delete(s.byID, g.id)
	g.timer.Stop()
	s.mu.Unlock()
	g.close()
}
