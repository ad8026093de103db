package offline

import (
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

// Hear reads a message to the ticket's customer as the judge reads replies.
func (o *Judge) Interpret(t *scenarios.Ticket, message string) grader.Interpretation {
	p := o.prepared(t)
	text, _ := bounded(message)
	d := parse(fold(text), p.lex)
	h := grader.Interpretation{Blames: d.anyPhrase(Blame, span{0, len(d.tokens)}), Acknowledges: acknowledges(d, p)}
	if t.UserSim == nil {
		return h
	}
	for i := range t.UserSim.Answers {
		if asks(d, t.UserSim.Answers[i].Ask) {
			h.Asked = append(h.Asked, i)
		}
	}
	return h
}

// Settled reads all messages to the ticket's customer together, as the judge does.
func (o *Judge) Settled(t *scenarios.Ticket, messages string) grader.Settled {
	r := o.prepared(t).readReply(messages, grader.Actions{})
	if r.findings == nil {
		return grader.Settled{}
	}
	outcome, offered, _ := r.gradeOutcome()
	return grader.Settled{Facts: r.stated == r.required, Outcome: outcome == offered}
}

// asks tells whether a question or a request of the message holds one of the phrases.
func asks(d *document, phrases []string) bool {
	for _, s := range d.sentences {
		if !d.question(s) && !requests(d, s) {
			continue
		}
		for _, phrase := range phrases {
			if holds(d.tokens[s.lo:s.hi], parse(fold(phrase), d.lex).tokens) {
				return true
			}
		}
	}
	return false
}

// requests tells whether a sentence begins with an imperative or says please.
func requests(d *document, s span) bool {
	return d.tokens[s.lo].is(Imperatives) || d.anyPhrase(Please, s)
}

// holds tells whether the words of the phrase follow each other in the sentence, whatever their
// endings.
func holds(sentence, phrase []token) bool {
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

func sameWord(a, b *token) bool {
	return a.kind == b.kind && a.key() == b.key()
}
