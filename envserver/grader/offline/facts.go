package offline

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios"
)

// fact is a scenario's fact made ready for matching.
type fact struct {
	id       string
	slot     string
	forms    []form
	context  []term
	negative bool
	optional bool
	// shown facts have their value in what the agent was served: stating them shows only that the
	// ticket was read.
	shown bool
	// drawn facts differ from seed to seed.
	drawn bool
	// key facts are those that lift the cap on replies without facts.
	key bool
}

func (l *library) fact(f scenarios.Fact) fact {
	out := fact{id: f.ID, slot: strings.ToLower(f.Slot), context: l.terms(f.Context), negative: f.Negative,
		optional: f.Optional, drawn: f.Drawn}
	for _, text := range append([]string{f.Value}, f.Accept...) {
		form := l.form(text)
		if len(form.claims) > 0 {
			// "12 seats" is the number 12 where seats are spoken of.
			out.context = append(out.context, form.words...)
		}
		out.forms = append(out.forms, form)
	}
	return out
}

// finding says what a reply does with a fact. The worst of several findings is the greatest one.
type finding uint8

const (
	missing finding = iota
	stated
	// contradicted facts are stated and denied, left open between alternatives, or stated with two
	// values: no reader knows which one holds.
	contradicted
)

func (f finding) String() string {
	return [...]string{"missing", "stated", "contradicted"}[f]
}

// find tells what the reply does with the fact. It is stated by a sentence that holds one of the
// value's forms and a context word with the right polarity, unless another sentence takes it back.
func (f *fact) find(d *document, p *prepared) finding {
	result := missing
	var saying []span
	rivalled := false
	for i, s := range d.sentences {
		got := f.findIn(d, s, d.subject(i), p)
		if got == stated {
			saying = append(saying, s)
		}
		result = max(result, got)
		rivalled = rivalled || got == missing && f.rival(d, s, p) != nil
	}
	if !rivalled || result == contradicted {
		return result
	}
	if result == missing {
		return contradicted
	}
	for _, s := range d.sentences {
		if c := f.rival(d, s, p); c != nil && !slices.Contains(saying, s) && f.competes(d, s, c, saying, p) {
			return contradicted
		}
	}
	return result
}

// competes tells whether a rival in one sentence speaks of what the others state: of the very thing
// that stands nearest to it, and, where an article tells of it, in the same unit. The other desk's
// three days and the postman's two are no rivals of the fact's.
func (f *fact) competes(d *document, s span, c *claim, saying []span, p *prepared) bool {
	if p.supports(*c) && !f.counts(c.unit) {
		return false
	}
	k := f.nearest(d, s, c.at)
	return k >= 0 && slices.ContainsFunc(saying, func(s span) bool {
		return d.find(f.context[k:k+1], s,
			false) >= 0
	})
}

// counts tells whether the fact's value is in the unit.
func (f *fact) counts(u unit) bool {
	return slices.ContainsFunc(f.forms, func(form form) bool {
		return slices.ContainsFunc(form.claims, func(c claim) bool { return c.kind == durationClaim && c.unit == u })
	})
}

// nearest returns the place of the context word that is nearest to a claim, -1 where none stands
// near.
func (f *fact) nearest(d *document, s, at span) int {
	for reach := 1; reach <= maxReach; reach++ {
		for _, i := range []int{at.lo - reach, at.hi + reach - 1} {
			if i < s.lo || i >= s.hi {
				continue
			}
			for k := range f.context {
				if f.context[k].at(d.tokens, i, false) {
					return k
				}
			}
		}
	}
	return -1
}

// maxEllipsis is how many words a sentence may have that leaves its subject out.
const maxEllipsis = 4

// subject returns the sentence that tells what sentence i goes on about: the one before it where it
// begins with a pronoun or is hardly one, and for an item of a list what introduces the list.
func (d *document) subject(i int) span {
	s := d.sentences[i]
	item := d.listed(s)
	if !item && !d.anyPhrase(Pronouns, span{s.lo, min(s.lo+3, s.hi)}) && d.words(s) > maxEllipsis {
		return span{}
	}
	for i--; i >= 0; i-- {
		if s := d.sentences[i]; !item || !d.listed(s) && d.words(s) > 0 {
			return s
		}
	}
	return span{}
}

// listed tells whether a sentence is an item of a list.
func (d *document) listed(s span) bool {
	first := &d.tokens[s.lo]
	if first.kind == numberToken {
		return s.hi-s.lo == 2
	}
	return first.kind == punctToken && first.among("-*•")
}

// carries tells whether the subject of a sentence is the fact's: it speaks of it, and neither asks
// nor denies.
func (f *fact) carries(d *document, subject span) bool {
	return subject.hi > 0 && !d.question(subject) && d.negatorIn(subject) < 0 &&
		d.find(f.context, subject, false) >= 0
}

// findIn is find for one sentence that goes on about a subject. A value that no other fact has, nor
// the ticket, may have its context there.
func (f *fact) findIn(d *document, s, subject span, p *prepared) finding {
	if d.question(s) {
		return missing
	}
	result, about := missing, len(f.context) == 0
	for i := range f.forms {
		at := f.forms[i].in(d, s)
		if at < 0 {
			continue
		}
		// Values are fewer than words, so they are looked for first.
		if !about && d.find(f.context, s, true) < 0 {
			if f.forms[i].distinct && f.carries(d, subject) && f.polarity(d, s, at, f.forms[i].negated) == stated {
				return stated
			}
			continue
		}
		about = true
		if !crammed(d, s, at, p) && !f.misplaced(d, at, p) {
			result = max(result, f.polarity(d, s, at, f.forms[i].negated))
		}
	}
	return result
}

// polarity tells what a sentence that holds the value at a token says of it.
func (f *fact) polarity(d *document, s span, at int, negated bool) finding {
	if open(d, s) {
		return contradicted
	}
	denied := deniedAt(d, s, at, f.context)
	if f.negative {
		if denied || negated || d.negatorIn(s) >= 0 {
			return stated
		}
		return missing
	}
	if negated {
		// A form that holds a negator wants one in the reply as well.
		if denied || d.negatorIn(d.clauseOf(at)) >= 0 {
			return stated
		}
		return missing
	}
	switch {
	case denied && excused(d, at):
		return missing
	case denied:
		return contradicted
	}
	return stated
}

// open tells whether a sentence leaves its statement open: "either … or …", "or not".
func open(d *document, s span) bool {
	if d.tokens[s.lo].is(Either) || d.greeted(s) && d.tokens[d.clauseOf(s.lo).hi].is(Either) {
		return true
	}
	for i := s.lo; i+1 < s.hi; i++ {
		if !d.tokens[i].word("or", "oder", "o", "ou") {
			continue
		}
		if d.tokens[i+1].is(Negators) && !d.echoed(s, i) || d.tokens[i+1].is(Guesses) || i+2 < s.hi &&
			d.tokens[i+1].word("auch") && d.tokens[i+2].is(Negators) {
			return true
		}
	}
	return false
}

// greeted tells whether a sentence begins with a greeting, a few words and a comma.
func (d *document) greeted(s span) bool {
	c := d.clauseOf(s.lo)
	return s.lo == 0 && c.hi < s.hi && c.hi-c.lo <= maxEllipsis+1 && d.tokens[c.hi-1].text == ","
}

// echoed tells whether the "or no" at token i leaves nothing open: "yes or no", "card or no card".
func (d *document) echoed(s span, i int) bool {
	if i == s.lo {
		return false
	}
	before := &d.tokens[i-1]
	if i-1 == s.lo || d.tokens[i-2].kind == punctToken {
		// "Update or not, it opens": whichever of the two it is doesn't matter.
		return true
	}
	return before.word("yes", "ja", "si", "oui") || i+2 < s.hi && before.kind == wordToken &&
		d.tokens[i+2].text == before.text && !before.is(Stopwords)
}

// relative tells whether the negator at a token belongs to a clause that describes a noun: "a
// signature that isn't yours goes to".
func (d *document) relative(s span, neg int) bool {
	for i := neg - 1; i > max(s.lo, neg-3); i-- {
		if d.tokens[i].is(Relatives) {
			noun := &d.tokens[i-1]
			return noun.kind == wordToken && !noun.is(Stopwords) && !noun.is(Conjunctions)
		}
	}
	return false
}

// narrowScope is how many tokens after it a word like "without" negates.
const narrowScope = 3

// excused tells whether the clause only says what nobody has to do, which neither states a fact nor
// denies it.
func excused(d *document, at int) bool {
	c := d.clauseOf(at)
	neg := d.negatorIn(span{c.lo, at})
	return neg >= 0 && d.anyPhrase(Duties, span{max(neg-2, c.lo), min(neg+3, at)})
}

// lasting tells whether the value is a duration for which something holds: "don't touch it for 15
// minutes" states the 15 minutes.
func lasting(d *document, at int) bool {
	c := d.claimAt(at)
	return c != nil && c.at.lo == at && c.kind == durationClaim &&
		d.anyWord(Lasting, span{max(at-3, 0), at}) >= 0
}

// deniedAt tells whether the clause around a value negates it: a negator stands before the value,
// or between the value and all of its context. What follows "until" or "more than" is not negated
// by what stands before it, what isn't lost is there, and what a condition supposes is not said.
func deniedAt(d *document, s span, at int, context []term) bool {
	c := d.clauseOf(at)
	if d.conditional(span{c.lo, min(c.lo+2, c.hi)}) || d.inverted(c) {
		return false
	}
	if neg := d.negatorIn(span{c.lo, at}); neg >= 0 && !lasting(d, at) {
		return !d.relative(s, neg) && d.anyWord(Untils, span{neg, at}) < 0 && d.anyWord(Losses, span{neg, c.hi}) < 0 && (at-neg <= narrowScope || !d.tokens[neg].is(Narrow))
	}
	neg := d.negatorIn(span{at, c.hi})
	if neg < 0 || neg > at+6 || d.anyWord(Untils, span{neg, c.hi}) >= 0 {
		return false
	}
	before := d.find(context, span{s.lo, neg}, true)
	return before < 0 && d.find(context, span{neg, c.hi}, true) >= 0
}

// rival returns what a sentence about the fact gives as another time than the fact's: an answer
// within four hours, and within two days.
func (f *fact) rival(d *document, s span, p *prepared) *claim {
	if d.question(s) {
		return nil
	}
	claims := d.claimsWithin(s)
	for i := range claims {
		c := claims[i]
		if (c.kind == durationClaim || c.kind == dateClaim) && !c.soft() && f.states(c.kind) &&
			!containsClaim(p.told, c) && !p.follows(c) && !f.near(c) {
			if len(f.context) == 0 || d.find(f.context, s, false) < 0 {
				return nil
			}
			return &claims[i]
		}
	}
	return nil
}

// near tells whether the claim is the fact's duration in round words: "an hour and a quarter or so"
// for 73 minutes.
func (f *fact) near(c claim) bool {
	for i := range f.forms {
		for _, own := range f.forms[i].claims {
			if own.kind == c.kind && own.unit == c.unit && 20*max(own.value-c.value, c.value-own.value) <= own.value {
				return true
			}
		}
	}
	return false
}

// states tells whether the fact's value is of the kind.
func (f *fact) states(kind claimKind) bool {
	for i := range f.forms {
		for _, c := range f.forms[i].claims {
			if c.kind == kind {
				return true
			}
		}
	}
	return false
}

// timed tells whether the fact says when or who: what the time frame criterion wants.
func (f *fact) timed() bool {
	for _, slot := range []string{"time", "when", "date", "deadline", "sla", "until", "window", "eta", "team", "owner",
		"desk", "hours", "days", "answer"} {
		if strings.Contains(f.slot, slot) {
			return true
		}
	}
	return f.states(durationClaim) || f.states(dateClaim) || f.states(clockClaim)
}
