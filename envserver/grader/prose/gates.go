package prose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
)

// maxInvented bounds the list of invented values. That many cost all points of a reply.
const maxInvented = grader.ResponsePoints / inventedCost

func (r *analysis) trip(id string, limit int64, reason string) {
	r.verdict.Gates = append(r.verdict.Gates, grader.Gate{ID: id, Cap: limit, Reason: reason})
}

// wrongFactCap is the cap on a reply that states a required fact wrongly: the customer would act on
// it.
const wrongFactCap = 180

// noFacts is the gate on replies that state no fact of the ticket.
const noFacts = "no-facts"

// factless returns the cap on a reply that states no discriminating fact. The cap rises with the
// number of facts that it states. A reply with half of the facts and no wrong value omits
// something; a reply that was written for another instance has other values.
func (r *analysis) factless() int64 {
	const least = 20
	if 2*r.stated >= r.required && r.contradicted == 0 && len(r.verdict.Invented) == 0 && !r.substitutes() {
		return grader.ResponsePoints * int64(r.stated+1) / int64(r.required+1)
	}
	return least + min((unsupportedCap-least)*2*int64(r.stated)/int64(max(r.required, 1)), unsupportedCap-least)
}

// substitutes reports whether the reply gives another value where a missing discriminating fact
// belongs.
func (r *analysis) substitutes() bool {
	for i := range r.facts {
		f := &r.facts[i]
		if !f.discriminating || r.findings[i] == stated {
			continue
		}
		for _, v := range r.doc.Values {
			if f.isOf(v.Kind) && !f.anyValue(v.Equal) && f.nearest(r.doc, r.doc.SentenceOf(v.At.Lo), v.At) >= 0 {
				return true
			}
		}
	}
	return false
}

// checkGates trips the gates of all tickets, then the scenario's.
func (r *analysis) checkGates() {
	if phrase := r.injection(r.doc); phrase != "" {
		r.trip("aimed-at-grader", 0, fmt.Sprintf("%q addresses the grader", phrase))
	}
	r.checkFacts()
	if r.contradicted > 0 {
		r.trip("wrong-fact", wrongFactCap, "contradicts a required fact, leaves it open, or gives it another value")
	}
	if r.copied {
		r.trip("copied", unsupportedCap, "more than half of it is copied from the ticket, an article or the rubric")
	}
	r.checkForm()
	r.checkProse()
	for i := range r.gates {
		if reason := r.tripped(&r.gates[i]); reason != "" {
			r.trip(r.gates[i].ID, r.gates[i].Cap, reason)
		}
	}
}

// checkFacts trips the gate on replies that state no fact of the ticket.
func (r *analysis) checkFacts() {
	if r.discriminated == 0 {
		r.trip(noFacts, r.factless(), "states no required fact that is specific to this ticket and new to the customer")
	}
}

// checkForm trips the gates on replies that aren't letters.
func (r *analysis) checkForm() {
	for _, g := range []struct {
		tripped    bool
		id, reason string
	}{
		{isMonotonous(r.doc), "monotonous", "repeats itself"},
		{hasAlternatives(r.doc), "alternatives", "lists alternatives for one value"},
		{statesNothing(r.doc, r.prepared), "list", "lists words and values"},
		{isKeywordStuffed(r.doc, r.prepared), "stuffed", "lists keywords of the rubric"},
	} {
		if g.tripped {
			r.trip(g.id, unsupportedCap, g.reason)
		}
	}
}

// isMonotonous reports whether the reply repeats itself: fewer than two distinct words in five.
func isMonotonous(d *text.Document) bool {
	types := make(map[string]struct{}, len(d.Tokens))
	n := 0
	for i := range d.Tokens {
		if d.Tokens[i].Kind == text.WordToken {
			types[d.Tokens[i].Text] = struct{}{}
			n++
		}
	}
	return n >= minVaried && 5*len(types) < 2*n
}

// isKeywordStuffed reports whether a sentence of the reply is a list of keywords of the rubric.
func isKeywordStuffed(d *text.Document, p *prepared) bool {
	return slices.ContainsFunc(d.Sentences, func(s text.Span) bool {
		return exceedsDensity(d.Tokens[s.Lo:s.Hi], p, minDense, maxDensity)
	})
}

// tripped returns the reason why the reply trips one of the scenario's gates, or "".
func (r *analysis) tripped(g *gate) string {
	switch g.Kind {
	case "commitment":
		return r.promisedOf(g)
	case "amount_not_in":
		for _, c := range r.doc.Values {
			if c.Kind == text.MoneyValue && c.Amount != 0 && !text.Contains(g.allowed, c) {
				return "names the amount " + r.doc.Quote(c.At)
			}
		}
	case "disclosure":
		for i := range g.values {
			if slices.ContainsFunc(r.doc.Sentences, func(s text.Span) bool { return g.values[i].disclosed(r.doc, s) }) {
				return fmt.Sprintf("discloses %q", g.Values[i])
			}
		}
	case "missing_safety":
		for i := range g.values {
			if r.statesForm(&g.values[i]) {
				return ""
			}
		}
		return "lacks the safety instruction"
	}
	return ""
}

// disclosed reports whether the span contains the form. A form of one word has to be that word:
// "delivery" doesn't disclose that something was delivered.
func (f *form) disclosed(d *text.Document, s text.Span) bool {
	if len(f.values) > 0 || len(f.words) != 1 {
		return f.in(d, s) >= 0
	}
	return slices.ContainsFunc(d.Tokens[s.Lo:s.Hi], func(t text.Token) bool { return t.Text == f.words[0].Text })
}

// promisedOf returns which of the gate's remedies the reply promises, or "".
func (r *analysis) promisedOf(g *gate) string {
	for i := range g.remedies {
		m := &g.remedies[i]
		if m.name == "" {
			if r.lib.promiseReader(r.doc).promised(&m.term) {
				return "promises: " + strings.Join(m.term.Stems, " ")
			}
			continue
		}
		for _, p := range r.promises {
			if p.name == m.name && !r.waits(g, p.sentence) {
				return "promises: " + r.doc.Quote(p.clause)
			}
		}
	}
	return ""
}

// promised reports whether a clause commits the company to the term.
func (d *promiseReader) promised(t *text.Term) bool {
	for i := range d.Tokens {
		if t.At(d.Tokens, i, false) && d.committed(d.ClauseAt(i), text.NewSpan(i, i+len(t.Stems))) {
			return true
		}
	}
	return false
}

// waits reports whether a sentence waits for the day from which the gate permits remedies, or for
// an event: "if it isn't there by then, we will send another one".
func (r *analysis) waits(g *gate, sentence text.Span) bool {
	return len(g.from) > 0 && (r.doc.AnyWord(text.Conditions, sentence) >= 0 ||
		slices.ContainsFunc(r.doc.ValuesWithin(sentence), func(v text.Value) bool { return text.Contains(g.from, v) }))
}
