package scenarios

import (
	"slices"
	"sync"

	"github.com/csenv/csenv/scenarios/expr"
)

// renderRest renders the parts for the judge.
func (b *ticketBuild) renderRest() error {
	b.ticket.Reply = b.renderReply()
	b.ticket.References = b.renderReferences(&b.s.file.References)
	return b.Err
}

// completeLater returns the ticket, which is completed when that is needed.
func (b *ticketBuild) completeLater() *DrawnTicket {
	return &DrawnTicket{b.ticket.Served, sync.OnceValues(func() (*Ticket, error) {
		if err := b.renderRest(); err != nil {
			return nil, err
		}
		whole := b.ticket // so that the values are garbage
		return &whole, nil
	})}
}

func (b *ticketBuild) renderReply() ReplySpec {
	f := &b.s.file.Reply
	r := ReplySpec{Facts: b.renderFacts(f.Facts), Points: f.points(), MinWords: 40, MaxWords: 180}
	if len(f.Words) == 2 {
		r.MinWords, r.MaxWords = f.Words[0], f.Words[1]
	}
	for _, step := range f.NextStep {
		r.NextSteps = append(r.NextSteps, b.canonicalValue(f.Pos, nextStep, step))
	}
	r.Questions = expr.FilterMap(&b.Scope, f.Questions, func(q questionFile) Question {
		return Question{ID: q.ID, Text: b.Text(q.Text), AnsweredBy: filterFactIDs(q.AnsweredBy, r.Facts)}
	})
	r.Harm = b.s.harm
	r.AllowedValues = b.allowedValues(&r)
	return r
}

func (in *instance) renderFacts(files []factFile) []Fact {
	return expr.FilterMap(&in.Scope, files, func(f factFile) Fact {
		out := Fact{
			ID: f.ID, Slot: f.Slot, What: in.Text(f.What), Judged: f.Judged, Value: in.Text(f.Value),
			Negative: f.Polarity == "neg", Optional: f.Optional, Seeded: !f.Value.Literal(),
		}
		if !f.Judged {
			out.Stated, out.Also = in.canonicalValue(f.Pos, out.What, f.Value), nil
			for _, also := range f.Also {
				out.Also = append(out.Also, in.canonicalValue(f.Pos, out.What, also))
			}
		}
		return out
	})
}

// filterFactIDs returns the ids of facts that the instance has.
func filterFactIDs(ids []string, facts []Fact) []string {
	var out []string
	for _, id := range ids {
		if slices.ContainsFunc(facts, func(f Fact) bool { return f.ID == id }) {
			out = append(out, id)
		}
	}
	return out
}

// allowedValues lists the texts whose amounts, dates, durations and ids a reply may state.
func (b *ticketBuild) allowedValues(r *ReplySpec) []string {
	t := &b.ticket
	out := make([]string, 0, 64)
	for _, f := range r.Facts {
		out = append(out, f.Value)
	}
	out = b.TimeForms(t.Now, b.listEvidence(&b.s.file.State, out))
	out = append(out, t.Subject, t.Description)
	for _, m := range t.History {
		out = append(out, m.Text)
	}
	for _, a := range t.Attachments {
		out = append(out, a.Name, a.Content)
	}
	for _, a := range t.Articles {
		out = append(out, a.Body)
	}
	if t.UserSim != nil {
		for _, a := range t.UserSim.Answers {
			out = append(out, a.Text)
		}
	}
	return out
}

func (in *instance) renderReferences(f *referencesFile) References {
	r := References{
		Good: expr.FilterMap(&in.Scope, f.Good, func(g goodFile) string { return in.Text(g.Text) }),
		Bad: expr.FilterMap(&in.Scope, f.Bad, func(g badFile) BadReference {
			return BadReference{Text: in.Text(g.Text), Max: g.Max,
				Why: g.Why}
		}),
	}
	if len(r.Good) == 0 {
		in.Fail(f.Pos.Errorf("no good reference is left: every branch needs one"))
	}
	return r
}
