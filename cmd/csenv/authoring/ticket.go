package authoring

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/scenarios"
)

// ticket is an instance of a ticket to show.
type ticket struct {
	*scenarios.Ticket
	scenario *scenarios.TicketScenario
}

func (t ticket) encode(gold bool) object {
	s := t.scenario
	out := object{"id", s.ID, "kind", kindTicket, "version", s.Version, "seed", t.Seed, "file", s.File,
		"served", t.served()}
	if gold {
		out = append(out, "gold", t.gold())
	}
	return out
}

// served is what the agent is served, and the articles that its searches can find.
func (t ticket) served() object {
	return object{
		"now", t.Now, "language", t.Language, "customer", encodeCustomer(t.Customer),
		"subject", t.Subject, "description", t.Description,
		"history,omitempty", view.MapItems(t.History, func(m scenarios.Message) object {
			return object{"role", m.Role, "at", m.At, "text", m.Text}
		}),
		"attachments,omitempty", view.MapItems(t.Attachments, func(a scenarios.Attachment) object {
			return object{"name", a.Name, "content", a.Content}
		}),
		"knowledge_base", view.MapItems(t.Articles, func(a scenarios.Article) object {
			return object{"id", a.ID, "title", a.Title, "body", a.Body}
		}),
	}
}

func encodeCustomer(c scenarios.Customer) object {
	return object{"name", c.Name, "company,omitempty", c.Company, "account_level", c.AccountLevel,
		"since,omitempty", formatSince(c)}
}

// formatSince is the first day of the customer, or "".
func formatSince(c scenarios.Customer) string {
	if c.Since.IsZero() {
		return ""
	}
	return c.Since.Format(time.DateOnly)
}

// gold is the right handling of the ticket and the rules by which replies are judged.
func (t ticket) gold() object {
	g, r := t.Gold, t.Reply
	return object{
		"category", encodeLabel(g.Category, g.CategoryAlternates),
		"priority", encodeLabel(g.Priority, g.PriorityAlternates),
		"escalation", object{"required", g.Escalate, "team,omitempty", g.Team,
			"team_alternates,omitempty", g.TeamAlternates, "reason_code,omitempty", g.ReasonCode,
			"policy,omitempty", g.Policy},
		"first_response_minutes", t.SLAMinutes, "tone", t.Tone, "cue,omitempty", t.scenario.Cue,
		"facts", view.MapItems(r.Facts, encodeFact),
		"next_step,omitempty", r.NextSteps,
		"questions,omitempty", view.MapItems(r.Questions, func(q scenarios.Question) object {
			return object{"id", q.ID, "text", q.Text, "answered_by", q.AnsweredBy}
		}),
		"harm,omitempty", view.MapItems(r.Harm, encodeHarm),
		"length_words", [2]int{r.MinWords, r.MaxWords}, "user_sim,omitempty", encodeUserSim(t.UserSim),
		"good_replies", t.References.Good,
		"bad_replies,omitempty", view.MapItems(t.References.Bad, func(b scenarios.BadReference) object {
			return object{"text", b.Text, "max", b.Max, "why", b.Why}
		}),
	}
}

func encodeLabel(value string, alternates []scenarios.Alternate) object {
	return object{"value", value, "alternates,omitempty", view.MapItems(alternates, func(a scenarios.Alternate) object {
		return object{"value", a.Value, "credit", a.Credit}
	})}
}

func encodeFact(f scenarios.Fact) object {
	return object{"id", f.ID, "slot", f.Slot, "what,omitempty", f.What, "stated,omitempty", f.Stated,
		"also,omitempty", f.Also, "judged,omitempty", f.Judged, "value", f.Value,
		"negative,omitempty", f.Negative, "optional,omitempty", f.Optional}
}

func encodeHarm(h scenarios.Harm) object {
	return object{"id", h.ID, "severity", h.Severity, "why", h.Why}
}

func encodeUserSim(u *scenarios.UserSim) object {
	if u == nil {
		return nil
	}
	return object{
		"persona", u.Persona, "max_turns", u.MaxTurns,
		"answers,omitempty", view.MapItems(u.Answers, func(a scenarios.SimAnswer) object {
			return object{"id", a.ID, "ask", a.Ask, "text", a.Text, "known", a.Known, "told,omitempty", a.Told}
		}),
		"lines", u.Lines, "stop_when,omitempty", u.StopWhen,
	}
}

func (t ticket) print(w io.Writer) {
	view.WriteParagraph(w, "", fmt.Sprintf("%s, ticket, version %d, seed %d (%s)", t.scenario.ID, t.Version, t.Seed,
		t.scenario.File))
	view.WriteHeading(w, "what the agent is served")
	printCustomer(w, t.Customer)
	view.WriteField(w, "now", t.Now.Format(view.ClockTime))
	view.WriteField(w, "language", t.Language)
	view.WriteField(w, "subject", t.Subject)
	fmt.Fprintln(w)
	view.WriteParagraph(w, "  ", t.Description)
	for _, m := range t.History {
		view.WriteTitledText(w, m.Role+", "+m.At.Format(view.ClockTime), m.Text)
	}
	for _, a := range t.Attachments {
		view.WriteTitledText(w, "attachment "+a.Name, a.Content)
	}
	for _, a := range t.Articles {
		view.WriteTitledText(w, "article "+a.ID+", "+a.Title, a.Body)
	}
}

func printCustomer(w io.Writer, c scenarios.Customer) {
	view.WriteField(w, "customer", view.FormatCustomer(c.Name, c.Company, formatSince(c)))
	view.WriteField(w, "account level", c.AccountLevel)
}

// printGold writes the labels, the rules for replies and the good replies.
func (t ticket) printGold(w io.Writer) {
	g, r := t.Gold, t.Reply
	view.WriteField(w, "category", labelText(g.Category, g.CategoryAlternates))
	view.WriteField(w, "priority", labelText(g.Priority, g.PriorityAlternates))
	view.WriteField(w, "escalate", escalationText(g))
	view.WriteField(w, "first reply", fmt.Sprintf("within %d minutes", t.SLAMinutes))
	view.WriteField(w, "tone", t.Tone)
	view.WriteField(w, "cue", t.scenario.Cue)
	view.WriteField(w, "words", fmt.Sprintf("%d to %d", r.MinWords, r.MaxWords))
	printFacts(w, r.Facts)
	if len(r.NextSteps) > 0 && !g.Escalate {
		view.WriteField(w, "next step", strings.Join(r.NextSteps, " | "))
	}
	for _, q := range r.Questions {
		view.WriteField(w, "question "+q.ID, q.Text+" -> "+strings.Join(q.AnsweredBy, ", "))
	}
	for _, h := range r.Harm {
		view.WriteField(w, "harm "+h.ID, h.Severity+": "+h.Why)
	}
	if t.UserSim != nil {
		printUserSim(w, t.UserSim)
	}
	printReplies(w, t.References.Good)
}

func labelText(value string, alternates []scenarios.Alternate) string {
	for _, a := range alternates {
		value += fmt.Sprintf("; %s earns %d of 1000", a.Value, a.Credit)
	}
	return value
}

func escalationText(g scenarios.TicketGold) string {
	if !g.Escalate {
		return "no"
	}
	teams := strings.Join(append([]string{g.Team}, g.TeamAlternates...), " or ")
	return fmt.Sprintf("to %s (%s, %s)", teams, g.ReasonCode, g.Policy)
}

func printFacts(w io.Writer, facts []scenarios.Fact) {
	for _, f := range facts {
		text := strings.TrimSpace(f.What + " " + strings.Join(f.Right(), " | "))
		if f.Negative {
			text = "denied: " + text
		}
		if f.Optional {
			text = "optional: " + text
		}
		if f.Judged {
			text = "left to a model: " + text
		}
		view.WriteField(w, "fact "+f.ID, f.Slot+": "+text)
	}
}

func printUserSim(w io.Writer, u *scenarios.UserSim) {
	view.WriteField(w, "customer", fmt.Sprintf("writes back, %s, at most %d times, until %s", u.Persona, u.MaxTurns,
		strings.Join(u.StopWhen, " or ")))
	for _, a := range u.Answers {
		known := ""
		if a.Told {
			known = " (stated already)"
		}
		view.WriteField(w, "answer "+a.ID, strings.Join(a.Ask, " | ")+" -> "+a.Text+known)
	}
	for _, mood := range []string{"calm", "uneasy", "annoyed", "angry"} {
		view.WriteField(w, mood, strings.Join(u.Lines[mood], "\n"))
	}
}

func printReplies(w io.Writer, good []string) {
	for i, reply := range good {
		view.WriteHeading(w, fmt.Sprintf("good reply %d of %d", i+1, len(good)))
		view.WriteParagraph(w, "  ", reply)
	}
}
