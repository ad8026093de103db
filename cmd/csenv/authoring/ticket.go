package authoring

import (
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
