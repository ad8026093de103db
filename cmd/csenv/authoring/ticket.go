package authoring

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/scenarios"
)

// TicketView is a ticket as it is shown.
type TicketView struct {
	ID      string       `json:"id"`
	Kind    string       `json:"kind"`
	Version int          `json:"version"`
	Seed    int64        `json:"seed"`
	File    string       `json:"file"`
	Served  ticketServed `json:"served"`
	Gold    *ticketGold  `json:"gold,omitempty"`
}

// ticketServed is what the agent is served, and the articles that its searches can find.
type ticketServed struct {
	Now           time.Time    `json:"now"`
	Language      string       `json:"language"`
	Customer      customerView `json:"customer"`
	Subject       string       `json:"subject"`
	Description   string       `json:"description"`
	History       []message    `json:"history,omitempty"`
	Attachments   []attachment `json:"attachments,omitempty"`
	KnowledgeBase []article    `json:"knowledge_base"`
}

type customerView struct {
	Name         string `json:"name"`
	Company      string `json:"company,omitempty"`
	AccountLevel string `json:"account_level"`
	Since        string `json:"since,omitempty"`
}

type message struct {
	Role string    `json:"role"`
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

type attachment struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

type article struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Body  string `json:"body"`
}

// ticketGold is what is right, and what the judge is held to.
type ticketGold struct {
	Category    label      `json:"category"`
	Priority    label      `json:"priority"`
	Escalation  escalation `json:"escalation"`
	SLAMinutes  int        `json:"first_response_minutes"`
	Tone        string     `json:"tone"`
	Cue         string     `json:"cue,omitempty"`
	Facts       []fact     `json:"facts"`
	Outcome     outcome    `json:"outcome"`
	Questions   []question `json:"questions,omitempty"`
	Gates       []gate     `json:"gates,omitempty"`
	Words       [2]int     `json:"length_words"`
	UserSim     *userSim   `json:"user_sim,omitempty"`
	GoodReplies []string   `json:"good_replies"`
	BadReplies  []badReply `json:"bad_replies,omitempty"`
}

type label struct {
	Value      string      `json:"value"`
	Alternates []alternate `json:"alternates,omitempty"`
}

type alternate struct {
	Value  string `json:"value"`
	Credit int64  `json:"credit"`
}

type escalation struct {
	Required       bool     `json:"required"`
	Team           string   `json:"team,omitempty"`
	TeamAlternates []string `json:"team_alternates,omitempty"`
	ReasonCode     string   `json:"reason_code,omitempty"`
	Policy         string   `json:"policy,omitempty"`
}

type fact struct {
	ID       string   `json:"id"`
	Slot     string   `json:"slot"`
	Value    string   `json:"value"`
	Accept   []string `json:"accept,omitempty"`
	Context  []string `json:"context"`
	Negative bool     `json:"negative,omitempty"`
	Optional bool     `json:"optional,omitempty"`
}

type outcome struct {
	Value  string   `json:"value"`
	Accept []string `json:"accept,omitempty"`
	Facts  []string `json:"facts,omitempty"`
}

type question struct {
	ID         string   `json:"id"`
	Text       string   `json:"text"`
	AnsweredBy []string `json:"answered_by"`
}

type gate struct {
	ID     string   `json:"id"`
	Kind   string   `json:"kind"`
	Verbs  []string `json:"verbs,omitempty"`
	Values []string `json:"values,omitempty"`
	Cap    int64    `json:"cap"`
}

type userSim struct {
	Persona  string              `json:"persona"`
	MaxTurns int                 `json:"max_turns"`
	Answers  []simAnswer         `json:"answers,omitempty"`
	Lines    map[string][]string `json:"lines"`
	StopWhen []string            `json:"stop_when,omitempty"`
}

type simAnswer struct {
	ID    string   `json:"id"`
	Ask   []string `json:"ask"`
	Text  string   `json:"text"`
	Known bool     `json:"known"`
	Told  bool     `json:"told,omitempty"`
}

type badReply struct {
	Text string `json:"text"`
	Max  int64  `json:"max"`
	Why  string `json:"why"`
}

func newTicketView(s *scenarios.TicketScenario, t *scenarios.Ticket) *TicketView {
	return &TicketView{
		ID: s.ID, Kind: kindTicket, Version: s.Version, Seed: t.Seed, File: s.File,
		Served: ticketServed{
			Now: t.Now, Language: t.Language, Customer: newCustomerView(t.Customer), Subject: t.Subject,
			Description:   t.Description,
			History:       view.Each(t.History, func(m scenarios.Message) message { return message(m) }),
			Attachments:   view.Each(t.Attachments, func(a scenarios.Attachment) attachment { return attachment(a) }),
			KnowledgeBase: view.Each(t.Articles, func(a scenarios.Article) article { return article(a) }),
		},
		Gold: newTicketGold(s, t),
	}
}

func newCustomerView(c scenarios.Customer) customerView {
	v := customerView{Name: c.Name, Company: c.Company, AccountLevel: c.AccountLevel}
	if !c.Since.IsZero() {
		v.Since = c.Since.Format(time.DateOnly)
	}
	return v
}

func newTicketGold(s *scenarios.TicketScenario, t *scenarios.Ticket) *ticketGold {
	g, r := t.Gold, t.Reply
	return &ticketGold{
		Category: newLabel(g.Category, g.CategoryAlternates), Priority: newLabel(g.Priority, g.PriorityAlternates),
		Escalation: escalation{g.Escalate, g.Team, g.TeamAlternates, g.ReasonCode, g.Policy},
		SLAMinutes: t.SLAMinutes, Tone: t.Tone, Cue: s.Cue,
		Facts:     view.Each(r.Facts, newFact),
		Outcome:   outcome(r.Outcome),
		Questions: view.Each(r.Questions, func(q scenarios.Question) question { return question(q) }),
		Gates:     view.Each(r.Forbidden, func(f scenarios.Forbidden) gate { return gate(f) }),
		Words:     [2]int{r.MinWords, r.MaxWords},
		UserSim:   newUserSim(t.UserSim),

		GoodReplies: t.References.Good, BadReplies: view.Each(t.References.Bad,
			func(b scenarios.BadReference) badReply { return badReply(b) }),
	}
}

func newLabel(value string, alternates []scenarios.Alternate) label {
	return label{value, view.Each(alternates, func(a scenarios.Alternate) alternate { return alternate(a) })}
}

func newFact(f scenarios.Fact) fact {
	return fact{ID: f.ID, Slot: f.Slot, Value: f.Value, Accept: f.Accept, Context: f.Context, Negative: f.Negative,
		Optional: f.Optional}
}

func newUserSim(u *scenarios.UserSim) *userSim {
	if u == nil {
		return nil
	}
	return &userSim{u.Persona, u.MaxTurns, view.Each(u.Answers,
		func(a scenarios.SimAnswer) simAnswer { return simAnswer(a) }), u.Lines, u.StopWhen}
}

func (v *TicketView) hideGold() { v.Gold = nil }

func (v *TicketView) print(w io.Writer) {
	fmt.Fprintf(w, "%s, ticket, version %d, seed %d (%s)\n", v.ID, v.Version, v.Seed, v.File)
	view.Heading(w, "what the agent is served")
	v.Served.print(w)
	if v.Gold == nil {
		return
	}
	view.Heading(w, "what is right (never served)")
	v.Gold.Print(w)
}

func (s *ticketServed) print(w io.Writer) {
	s.Customer.print(w)
	view.Field(w, "now", s.Now.Format(view.ClockTime))
	view.Field(w, "language", s.Language)
	view.Field(w, "subject", s.Subject)
	fmt.Fprintln(w)
	view.Paragraph(w, "  ", s.Description)
	for _, m := range s.History {
		fmt.Fprintf(w, "\n  %s, %s:\n", m.Role, m.At.Format(view.ClockTime))
		view.Paragraph(w, "    ", m.Text)
	}
	for _, a := range s.Attachments {
		fmt.Fprintf(w, "\n  attachment %s:\n", a.Name)
		view.Paragraph(w, "    ", a.Content)
	}
	for _, a := range s.KnowledgeBase {
		fmt.Fprintf(w, "\n  article %s, %s:\n", a.ID, a.Title)
		view.Paragraph(w, "    ", a.Body)
	}
}

func (c customerView) print(w io.Writer) {
	name := c.Name
	if c.Company != "" {
		name += ", " + c.Company
	}
	if c.Since != "" {
		name += ", customer since " + c.Since
	}
	view.Field(w, "customer", name)
	view.Field(w, "account level", c.AccountLevel)
}

func (g *ticketGold) Print(w io.Writer) {
	view.Field(w, "category", g.Category.String())
	view.Field(w, "priority", g.Priority.String())
	view.Field(w, "escalate", g.Escalation.String())
	view.Field(w, "first reply", fmt.Sprintf("within %d minutes", g.SLAMinutes))
	view.Field(w, "tone", g.Tone)
	view.Field(w, "cue", g.Cue)
	view.Field(w, "words", fmt.Sprintf("%d to %d", g.Words[0], g.Words[1]))
	printFacts(w, g.Facts)
	view.Field(w, "outcome", g.Outcome.Value+"; "+strings.Join(g.Outcome.Accept, " | ")+"; with one of "+strings.Join(
		g.Outcome.Facts, ", "))
	for _, q := range g.Questions {
		view.Field(w, "question "+q.ID, q.Text+" -> "+strings.Join(q.AnsweredBy, ", "))
	}
	for _, f := range g.Gates {
		view.Field(w, "gate "+f.ID, fmt.Sprintf("%s: %s (at most %d)", f.Kind, strings.Join(append(f.Verbs, f.Values...),
			", "), f.Cap))
	}
	if g.UserSim != nil {
		g.UserSim.print(w)
	}
	printReplies(w, g.GoodReplies)
}

func (l label) String() string {
	var b strings.Builder
	b.WriteString(l.Value)
	for _, a := range l.Alternates {
		fmt.Fprintf(&b, "; %s earns %d of 1000", a.Value, a.Credit)
	}
	return b.String()
}

func (e escalation) String() string {
	if !e.Required {
		return "no"
	}
	return fmt.Sprintf("to %s (%s, %s)", strings.Join(append([]string{e.Team}, e.TeamAlternates...), " or "),
		e.ReasonCode, e.Policy)
}

func printFacts(w io.Writer, facts []fact) {
	for _, f := range facts {
		text := strings.Join(append([]string{f.Value}, f.Accept...), " | ") + "; near " + strings.Join(f.Context, ", ")
		if f.Negative {
			text = "denied: " + text
		}
		if f.Optional {
			text = "optional: " + text
		}
		view.Field(w, "fact "+f.ID, f.Slot+": "+text)
	}
}

func (u *userSim) print(w io.Writer) {
	view.Field(w, "customer", fmt.Sprintf("writes back, %s, at most %d times, until %s", u.Persona, u.MaxTurns,
		strings.Join(u.StopWhen, " or ")))
	for _, a := range u.Answers {
		known := ""
		if a.Told {
			known = " (told already)"
		}
		view.Field(w, "answer "+a.ID, strings.Join(a.Ask, " | ")+" -> "+a.Text+known)
	}
	for _, mood := range []string{"calm", "uneasy", "annoyed", "angry"} {
		view.Field(w, mood, strings.Join(u.Lines[mood], "\n"))
	}
}

func printReplies(w io.Writer, good []string) {
	for i, reply := range good {
		view.Heading(w, fmt.Sprintf("good reply %d of %d", i+1, len(good)))
		view.Paragraph(w, "  ", reply)
	}
}
