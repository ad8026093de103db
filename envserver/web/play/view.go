package play

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/web/transcript"
	"github.com/csenv/csenv/scenarios/facts"
)

// view is the data of a game's page.
type view struct {
	Path, ID, Title string
	Target          Target
	Options         options
	Turn            int
	// Group names the actions' forms, of which one is open at a time. It differs between two pages,
	// because the script has both for a moment.
	Group string
	// Facts are the status line.
	Facts    []fact
	Feedback string
	Ticket   *ticketView
	Case     *caseView
	// Other is the observation of another environment, as YAML.
	Other    string
	Articles []article
	Actions  []shownAction
	Queue    []queued
	Turns    []shownTurn
	Refused  string
	RawInput string
	Lost     string
	Ended    bool
	Grade    *gradeView
	// Again and Next begin this episode again, and with the next seed.
	Again, Next int64
	JSON        string
}

// fact is a name and its value.
type fact struct{ Name, Value string }

// ticketView has the fields of the ticket environment's observation.
type ticketView struct {
	TicketID      string    `json:"ticket_id"`
	Now           time.Time `json:"now"`
	CustomerName  string    `json:"customer_name"`
	Company       string    `json:"company"`
	CustomerSince string    `json:"customer_since"`
	AccountLevel  string    `json:"account_level"`
	Language      string    `json:"language"`
	Subject       string    `json:"subject"`
	Description   string    `json:"description"`
	Attachments   []struct {
		Name, Content string
	} `json:"attachments"`
	Conversation []struct {
		Role, Content string
		Facts         []facts.Fact
	} `json:"conversation_history"`
	Status          string    `json:"status"`
	Score           *float64  `json:"score"`
	AllowedActions  []string  `json:"allowed_actions"`
	KnowledgeBase   []article `json:"knowledge_base"`
	CustomerMood    string    `json:"customer_mood"`
	ClockMinutes    *int      `json:"clock_minutes"`
	Queue           []queued  `json:"queue"`
	MinutesLeft     int       `json:"minutes_left"`
	EscalationsLeft int       `json:"escalations_left"`
}

// queued is a ticket of a queue.
type queued struct {
	TicketID       string `json:"ticket_id"`
	Subject        string `json:"subject"`
	AccountLevel   string `json:"account_level"`
	Status         string `json:"status"`
	WaitingMinutes int    `json:"waiting_minutes"`
	MinutesToSLA   *int   `json:"minutes_to_sla"`
	Selected       bool   `json:"-"`
}

// Open reports whether the ticket still needs work.
func (q queued) Open() bool { return q.Status != "resolved" && q.Status != "escalated" }

// article is an article of the knowledge base.
type article struct{ ID, Title, Body string }

// caseView has the fields of the workflow environment's observation.
type caseView struct {
	Now           time.Time `json:"now"`
	CustomerName  string    `json:"customer_name"`
	AccountLevel  string    `json:"account_level"`
	Language      string    `json:"language"`
	UserQuery     string    `json:"user_query"`
	OrderStatus   *string   `json:"order_status"`
	PaymentStatus *string   `json:"payment_status"`
	History       []entry   `json:"history"`
	MinutesUsed   int       `json:"minutes_used"`
}

// entry is an action on a case and its result.
type entry struct {
	Step       int             `json:"step"`
	ActionType string          `json:"action_type"`
	Payload    json.RawMessage `json:"payload"`
	Result     json.RawMessage `json:"result"`
	// Last is true for the newest one.
	Last bool `json:"-"`
}

// Title is the action's name for people.
func (e entry) Title() string { return action{Type: e.ActionType}.Title() }

// Given is the payload as YAML.
func (e entry) Given() string { return formatYAML(e.Payload) }

// Answer is the result as YAML.
func (e entry) Answer() string { return formatYAML(e.Result) }

// progress has the fields that both environments have.
type progress struct {
	Task     string `json:"task"`
	Step     int    `json:"step"`
	MaxSteps int    `json:"max_steps"`
	Feedback string `json:"feedback"`
}

// shownAction is an action's form with its values.
type shownAction struct {
	action
	Open   bool
	Inputs []shownField
}

type shownField struct {
	field
	ID, Value string
	// Chosen are the values of a list of choices.
	Chosen map[string]bool
	// Label names a field of a list's row.
	Label string
	// Table are the rows of a list. Details are the lines of the descriptions of its members that
	// say more than their name.
	Table   [][]shownField
	Details []detail
}

// detail is a line "name: text" of a description.
type detail struct{ Name, Text string }

// shownTurn is a played action.
type shownTurn struct {
	Number              int
	Action, Given       string
	Reward, TotalReward string
}

// view makes the data of the game's page.
func (g *game) view(path string) view {
	g.mu.Lock()
	defer g.mu.Unlock()
	var p progress
	raw := g.seen.Observation
	_ = json.Unmarshal(raw, &p) // another environment's observation may have other types
	v := view{Path: path, ID: g.id, Target: g.target, Options: g.options, Turn: len(g.turns), Articles: g.articles,
		Group: fmt.Sprintf("action-%d", g.sent), Refused: g.refused, Lost: g.lost, Ended: g.ended,
		Feedback: p.Feedback, Again: g.options.Seed,
		Next: min(g.options.Seed+1, maxSeed), JSON: indentJSON(raw), Title: "Episode"}
	if p.MaxSteps > 0 {
		v.Facts = append(v.Facts, fact{"Step", fmt.Sprintf("%d of %d", p.Step, p.MaxSteps)})
	}
	allowed := v.observe(raw)
	if g.seen.HasReward && len(g.turns) > 0 {
		v.Facts = append(v.Facts, fact{"Last reward", formatReward(g.seen.Reward)},
			fact{"Rewards so far", formatReward(g.total)})
	}
	for i, t := range g.turns {
		v.Turns = append(v.Turns, turnView(i, t))
	}
	if !g.ended {
		v.RawInput = g.form.Get("raw")
		v.Actions = g.forms(allowed, v.Queue)
	}
	if g.seen.Done {
		v.Grade = newGrade(g.seen)
		if g.gold != nil {
			v.Grade.Reviews, v.Grade.Dimensions = *g.gold, nil
		}
	}
	return v
}

// observe reads the observation of a ticket or a case, or shows it as YAML. It returns the allowed
// actions, nil for all.
func (v *view) observe(raw json.RawMessage) (allowed []string) {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(raw, &members) // an observation that is no object has no members
	t, c := ticketView{}, caseView{}
	switch {
	case members["ticket_id"] != nil && json.Unmarshal(raw, &t) == nil:
		v.Ticket, v.Title = &t, t.Subject
		for i := range t.Queue {
			t.Queue[i].Selected = t.Queue[i].TicketID == t.TicketID
		}
		v.Queue = t.Queue
		v.Facts = append(v.Facts, t.facts()...)
		return t.AllowedActions
	case members["user_query"] != nil && json.Unmarshal(raw, &c) == nil:
		v.Case, v.Title = &c, "Case of "+c.CustomerName
		for _, known := range []struct {
			name  string
			value *string
		}{{"Order", c.OrderStatus}, {"Payment", c.PaymentStatus}} {
			if known.value != nil {
				v.Facts = append(v.Facts, fact{known.name, *known.value})
			}
		}
		if n := len(c.History); n > 0 {
			c.History[n-1].Last = true
		}
		v.Facts = append(v.Facts, fact{"Minutes used", strconv.Itoa(c.MinutesUsed)})
	default:
		v.Other = formatYAML(raw)
	}
	return nil
}

func (t *ticketView) facts() []fact {
	facts := []fact{{"Status", t.Status}}
	if t.CustomerMood != "" {
		facts = append(facts, fact{"Customer's mood", t.CustomerMood})
	}
	if t.ClockMinutes != nil {
		facts = append(facts, fact{"Clock", fmt.Sprintf("minute %d", *t.ClockMinutes)})
	}
	if len(t.Queue) > 0 {
		facts = append(facts, fact{"Minutes left", strconv.Itoa(t.MinutesLeft)},
			fact{"Escalations left", strconv.Itoa(t.EscalationsLeft)})
	}
	if t.Score != nil {
		facts = append(facts, fact{"Score so far", formatDecimal(*t.Score)})
	}
	return facts
}

// forms returns the forms of the allowed actions, with the values of a refused one.
func (g *game) forms(allowed []string, queue []queued) []shownAction {
	var shown []shownAction
	for i, a := range g.actions {
		// A ticket can also be handled by the one action submit, which isn't listed.
		if len(allowed) > 0 && a.Type != "submit" && !slices.Contains(allowed, a.Type) {
			continue
		}
		tried := g.form != nil && !g.form.Has("raw") && g.form.Get("action") == a.Type
		s := shownAction{action: a, Open: tried || len(g.actions) == 1}
		form := url.Values{}
		if tried {
			form = g.form
		}
		for _, f := range a.Fields {
			if f.Name == "ticket_id" && len(queue) > 0 {
				f.Kind, f.Choices = choiceField, nil
				for _, q := range queue {
					f.Choices = append(f.Choices, q.TicketID)
				}
			}
			s.Inputs = append(s.Inputs, f.show(fmt.Sprintf("a%d-", i), form))
		}
		shown = append(shown, s)
	}
	return shown
}

// show returns the field with its values in a form.
func (f field) show(prefix string, form url.Values) shownField {
	s := shownField{field: f, ID: prefix + f.Name, Value: form.Get(f.Input()), Chosen: map[string]bool{}}
	for _, value := range form[f.Input()] {
		s.Chosen[value] = true
	}
	for i := range f.Rows {
		var row []shownField
		for k, member := range f.row(i) {
			shown := member.show(prefix, form)
			shown.Label = fmt.Sprintf("%s %d: %s", f.Title(), i+1, f.Members[k].Title())
			row = append(row, shown)
		}
		s.Table = append(s.Table, row)
	}
	for _, member := range f.Members {
		_, lines, _ := strings.Cut(member.Description, "\n")
		for line := range strings.Lines(lines) {
			name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			s.Details = append(s.Details, detail{name, text})
		}
	}
	return s
}

// maxArticles bounds the articles that a game keeps.
const maxArticles = 50

// keepArticles adds the articles of the observation that are new.
func (g *game) keepArticles() {
	var found struct {
		KnowledgeBase []article `json:"knowledge_base"`
	}
	_ = json.Unmarshal(g.seen.Observation, &found) // other environments have no articles
	for _, a := range found.KnowledgeBase {
		if len(g.articles) < maxArticles && !slices.Contains(g.articles, a) {
			g.articles = append(g.articles, a)
		}
	}
}

func turnView(i int, t turn) shownTurn {
	s := shownTurn{Number: i + 1, Action: "Act", Reward: formatReward(t.Reward), TotalReward: formatReward(t.Total)}
	var members map[string]any
	if json.Unmarshal(t.Action, &members) != nil {
		return s
	}
	if name, ok := members[typeField].(string); ok {
		s.Action = action{Type: name}.Title()
		delete(members, typeField)
	}
	for _, only := range members {
		if object, ok := only.(map[string]any); ok && len(members) == 1 {
			members = object
		}
	}
	if len(members) > 0 {
		if text, err := json.Marshal(members); err == nil {
			s.Given = formatYAML(text)
		}
	}
	return s
}

// formatYAML writes JSON as YAML, "" for nothing.
func formatYAML(raw json.RawMessage) string {
	if text := strings.TrimSpace(string(raw)); text == "" || text == "null" || text == "{}" {
		return ""
	}
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return string(raw)
	}
	return strings.TrimSpace(string(text))
}

func indentJSON(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

func formatDecimal(share float64) string { return strconv.FormatFloat(share, 'f', 3, 64) }

// formatReward writes a reward without the sign of a zero.
func formatReward(reward float64) string { return formatDecimal(math.Round(reward*1000)/1000 + 0) }

// gradeView is the grade of an episode.
type gradeView struct {
	Score, Outcome, Why, Judge string
	Dimensions                 []dimension
	// Reviews show what was right or, where that isn't shown, the judge's verdicts alone.
	Reviews transcript.Excerpt
}

type dimension struct {
	Name, Earned, Offered string
	Share                 float64
}

// newGrade reads the metadata of an ended episode.
func newGrade(o client.Observation) *gradeView {
	m := o.Metadata
	g := &gradeView{Outcome: string(m.Outcome), Judge: m.Judge,
		Reviews: transcript.Excerpt{Transcript: transcript.Transcript{Reviews: transcript.ReviewVerdicts(m.Verdicts)}},
		Why:     strings.TrimPrefix(m.Cause+": "+m.CauseDetail, ": ")}
	g.Why = strings.TrimSuffix(g.Why, ": ")
	if m.EpisodeScore != nil {
		g.Score = formatDecimal(*m.EpisodeScore)
	}
	for _, p := range m.ScoreBreakdown {
		d := dimension{Name: p.Name, Earned: formatDecimal(p.Earned), Offered: formatDecimal(p.Offered)}
		if p.Offered > 0 {
			d.Share = max(0, min(p.Earned/p.Offered, 1))
		}
		g.Dimensions = append(g.Dimensions, d)
	}
	return g
}
