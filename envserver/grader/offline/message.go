package offline

import (
	"slices"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// Interpret reads a message to the ticket's customer as the judge reads replies.
func (o *Judge) Interpret(t *scenarios.Ticket, message string) grader.Interpretation {
	p := o.prepared(t)
	plain, _ := text.NormaliseReply(message)
	d := p.lib.document()
	defer p.lib.documents.Put(d)
	d.Parse(text.Fold(plain), p.lex)
	h := grader.Interpretation{Blames: d.AnyPhrase(text.Blame, d.Whole()), Acknowledges: hasAcknowledgement(d, p)}
	if t.UserSim == nil {
		return h
	}
	for i := range t.UserSim.Answers {
		if p.lib.asks(d, t.UserSim.Answers[i].Ask) {
			h.Asked = append(h.Asked, i)
		}
	}
	covered := 0
	for _, q := range t.Reply.Questions {
		if p.covers(d, q.AnsweredBy) {
			covered++
		}
	}
	if questions := len(t.Reply.Questions); questions > 0 {
		h.Covers = covered == questions
		h.Evades = covered == 0 && len(h.Asked) == 0 && !h.Acknowledges
	}
	return h
}

// covers reports whether a message states something in the place of one of the facts: a value of
// the fact's kind, or words about a fact without a value.
func (p *prepared) covers(d *text.Document, facts []string) bool {
	for i := range p.facts {
		f := &p.facts[i]
		if !slices.Contains(facts, f.id) {
			continue
		}
		for _, s := range d.Sentences {
			if !d.IsQuestion(s) && d.Find(f.context, s, false) >= 0 && (!f.valued() || slices.ContainsFunc(
				d.ValuesWithin(s), func(c text.Value) bool { return f.isOf(c.Kind) })) {
				return true
			}
		}
	}
	return false
}

// valued reports whether the fact is a value.
func (f *fact) valued() bool { return f.anyValue(func(text.Value) bool { return true }) }

// Settled reads all messages to the ticket's customer together, as the judge does.
func (o *Judge) Settled(t *scenarios.Ticket, messages string) grader.Settled {
	p := o.prepared(t)
	d := p.lib.document()
	defer p.lib.documents.Put(d)
	r := p.readReply(d, messages, grader.Actions{})
	if r.findings == nil {
		return grader.Settled{}
	}
	outcome, offered, _ := r.gradeOutcome()
	return grader.Settled{Facts: r.stated == r.required, Outcome: outcome == offered}
}

// asks reports whether a question or a request of the message contains one of the phrases.
func (l *library) asks(d *text.Document, phrases []string) bool {
	for _, s := range d.Sentences {
		if !d.IsQuestion(s) && !isRequest(d, s) {
			continue
		}
		for _, phrase := range phrases {
			if hasPhrase(d.Tokens[s.Lo:s.Hi], loadOrCompute(l.questions, phrase, l.tokens)) {
				return true
			}
		}
	}
	return false
}

// isRequest reports whether a sentence requests something: it begins with an imperative or contains
// "please".
func isRequest(d *text.Document, s text.Span) bool {
	return d.Tokens[s.Lo].Is(text.Imperatives) || d.AnyPhrase(text.Please, s)
}

// hasPhrase reports whether the sentence contains the words of the phrase in a row, in any
// inflection.
func hasPhrase(sentence, phrase []text.Token) bool {
	for at := 0; len(phrase) > 0 && at+len(phrase) <= len(sentence); at++ {
		same := true
		for k := range phrase {
			same = same && sameWord(&sentence[at+k], &phrase[k])
		}
		if same {
			return true
		}
	}
	return false
}

func sameWord(a, b *text.Token) bool { return a.Kind == b.Kind && a.Key() == b.Key() }
