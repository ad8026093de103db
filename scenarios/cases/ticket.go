package cases

import (
	"slices"
	"time"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/source"
	"github.com/csenv/csenv/scenarios/triage"
)

// Ticket is what a case has that is shown as a ticket.
type Ticket struct {
	Subject string
	// Answers are what the customer says about the topics that the policy may require.
	Answers []string
	// Situation follows from the records, the requests and what the customer says.
	Situation triage.Situation
	Category  string
	// Alternates are other categories that an expert accepts, with their credit in thousandths.
	Alternates source.Ordered[int64]
}

// worriedVoice is the voice of customers who want to be understood.
const worriedVoice = "worried"

// ticketParts are the compiled parts of a family's tickets.
type ticketParts struct {
	situations []*modifier
	subjects   map[string]*subjects // by language
}

// subjects go with the voices for training and with the others.
type subjects struct{ train, test []*expr.Text }

func (s *Set) ticketParts(c *compiler, f *familyFile) *ticketParts {
	out := &ticketParts{situations: s.findModifiers(c, f, f.Ticket.Situations, true), subjects: map[string]*subjects{}}
	for _, topic := range f.Ticket.Answers {
		if s.answers[topic] == nil {
			c.failf(f.Metadata.Pos, "ticket.answers: there is no answer about %q", topic)
		}
	}
	for _, language := range f.Ticket.Subjects {
		out.subjects[language.Name] = &subjects{c.compileAll(language.Name, language.Value.Train),
			c.compileAll(language.Name, language.Value.Test)}
		if len(language.Value.Train) == 0 || len(language.Value.Test) == 0 {
			c.failf(f.Metadata.Pos, "ticket.subjects needs at least one text under train and one under test")
		}
	}
	return out
}

func (c *compiler) compileAll(language string, raw []source.Raw) []*expr.Text {
	out := make([]*expr.Text, len(raw))
	for i, r := range raw {
		out[i] = c.compileText(language, r)
	}
	return out
}

// Category is the category of all tickets of the composition's family.
func (c *Composition) Category() string { return c.family.Ticket.Category }

// makeTicket writes what only a ticket has.
func (c *Composition) makeTicket(out *Case, w *world, texts *scope) *Ticket {
	f := c.family.Ticket
	t := &Ticket{Situation: c.makeSituation(out), Category: f.Category, Alternates: f.Alternates}
	from := c.family.ticket.subjects[c.Language].test
	if slices.Contains(c.set.train, out.Voice) {
		from = c.family.ticket.subjects[c.Language].train
	}
	t.Subject = texts.say(pickItem(w, "subject", from))
	for _, topic := range f.Answers {
		t.Answers = append(t.Answers, c.renderAnswer(topic, out.Voice, texts))
	}
	return t
}

// makeSituation joins the situations of the requests with what the message says.
func (c *Composition) makeSituation(out *Case) triage.Situation {
	var s triage.Situation
	for _, r := range out.Requests {
		of := desk.AssessSituation(desk.Desk{Now: out.Now, Policy: out.Policy, Records: &out.Records}, r)
		s.Compromise, s.CoreUnusable = s.Compromise || of.Compromise, s.CoreUnusable || of.CoreUnusable
		s.Degraded, s.Delay = s.Degraded || of.Degraded, s.Delay || of.Delay
		s.WronglyTaken, s.Disputed = max(s.WronglyTaken, of.WronglyTaken), max(s.Disputed, of.Disputed)
	}
	for _, m := range c.modifiers {
		if m.Situation == nil {
			continue
		}
		s.BusinessStop, s.Irreversible, s.MoneyHarm = m.Situation.BusinessStop, m.Situation.Irreversible,
			m.Situation.MoneyHarm
		s.CoreUnusable = s.CoreUnusable || m.Situation.CoreUnusable
		if m.Situation.Deadline != nil {
			s.Deadline = m.Situation.Deadline.after(out.Now)
		}
	}
	return s
}

// after returns the time that is left.
func (d *deadlineFile) after(now time.Time) time.Duration {
	if d.Days == 0 {
		return time.Duration(d.Hours) * time.Hour
	}
	y, m, n := now.Date()
	return time.Date(y, m, n+int(d.Days), int(d.Hour), 0, 0, 0, time.UTC).Sub(now)
}
