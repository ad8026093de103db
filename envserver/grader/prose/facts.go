package prose

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// fact is a scenario's fact made ready for matching.
type fact struct {
	id       string
	slot     string
	forms    []form
	context  []text.Term
	negative bool
	optional bool
	// visible facts have their value in a text that the agent was given: stating them shows only
	// that the ticket was read.
	visible        bool
	seeded         bool // the value differs from seed to seed
	discriminating bool // stating it lifts the cap on replies without facts
}

func (l *library) fact(f scenarios.Fact) fact {
	out := fact{id: f.ID, slot: strings.ToLower(f.Slot), context: l.terms(f.Context...), negative: f.Negative,
		optional: f.Optional, seeded: f.Seeded}
	out.forms = append([]form{l.form(f.Value)}, l.listForms(f.Accept...)...)
	for _, form := range out.forms {
		if len(form.values) > 0 {
			// "12 seats" is the number 12 in the context of seats.
			out.context = append(out.context, form.words...)
		}
	}
	return out
}

const (
	missing      = grader.Missing
	stated       = grader.Stated
	contradicted = grader.Contradicted
)

// find looks for the fact. A sentence states it if it contains one of the value's forms and a
// context word with the right polarity, unless another sentence contradicts it.
func (f *fact) find(d *text.Document, p *prepared) grader.Finding {
	result := missing
	var saying []text.Span
	rivalled := false
	for i, s := range d.Sentences {
		got := f.findIn(d, s, d.Subject(i), p)
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
	for _, s := range d.Sentences {
		if c := f.rival(d, s, p); c != nil && !slices.Contains(saying, s) && f.competes(d, s, c, saying, p) {
			return contradicted
		}
	}
	return result
}

// competes reports whether a rival value is about the same thing as the sentences that state the
// fact: it is nearest to the same context word and, if an article supports it, has the same unit.
func (f *fact) competes(d *text.Document, s text.Span, c *text.Value, saying []text.Span, p *prepared) bool {
	if p.supports(*c) && !f.counts(c.Unit) {
		return false
	}
	k := f.nearest(d, s, c.At)
	return k >= 0 &&
		slices.ContainsFunc(saying, func(s text.Span) bool { return d.Find(f.context[k:k+1], s, false) >= 0 })
}

// anyValue reports whether a value of one of the fact's forms matches.
func (f *fact) anyValue(matches func(text.Value) bool) bool {
	return slices.ContainsFunc(f.forms, func(form form) bool { return slices.ContainsFunc(form.values, matches) })
}

// counts reports whether the fact's value is in the unit.
func (f *fact) counts(u text.Unit) bool {
	return f.anyValue(func(c text.Value) bool { return c.Kind == text.DurationValue && c.Unit == u })
}

// nearest returns the index of the context word that is nearest to a value, or -1.
func (f *fact) nearest(d *text.Document, s, at text.Span) int {
	for reach := 1; reach <= maxReach; reach++ {
		for _, i := range []int{at.Lo - reach, at.Hi + reach - 1} {
			if i < s.Lo || i >= s.Hi {
				continue
			}
			for k := range f.context {
				if f.context[k].At(d.Tokens, i, false) {
					return k
				}
			}
		}
	}
	return -1
}

// carries reports whether a neighbour of a sentence is about the fact, and neither asks nor denies.
func (f *fact) carries(d *text.Document, neighbour text.Span) bool {
	return neighbour.Hi > 0 && !d.IsQuestion(neighbour) && d.NegatorIn(neighbour) < 0 &&
		d.Find(f.context, neighbour, false) >= 0
}

// findIn is find for one sentence. The context of a distinct value may be in the sentence's
// subject, or in the sentence after it.
func (f *fact) findIn(d *text.Document, s, subject text.Span, p *prepared) grader.Finding {
	if d.IsQuestion(s) {
		return missing
	}
	result, about := missing, len(f.context) == 0
	for i := range f.forms {
		at := f.forms[i].in(d, s)
		if at < 0 || p.generated && isList(d, s, p) {
			continue
		}
		// Values are fewer than words, so look for them first.
		if !about && d.Find(f.context, s, true) < 0 {
			if f.forms[i].distinct && (f.carries(d, subject) || f.carries(d, d.Next(s))) &&
				f.polarity(d, s, at, f.forms[i].negated) == stated {
				return stated
			}
			continue
		}
		about = true
		switch {
		case isInKeywordList(d, s, at, p), f.misplaced(d, at, p):
		case f.among(d, at, p.known): // values of the ticket may explain the fact: "26 times $57, or $1,482"
			return contradicted
		default:
			result = max(result, f.polarity(d, s, at, f.forms[i].negated))
		}
	}
	return result
}

// polarity returns whether a sentence that contains the value at a token states or contradicts the
// fact.
func (f *fact) polarity(d *text.Document, s text.Span, at int, negated bool) grader.Finding {
	if d.LeavesOpenAt(s, at) {
		return contradicted
	}
	denied := d.DeniedAt(s, at, f.context)
	switch {
	case f.negative && (denied || negated || d.NegatorIn(s) >= 0):
		return stated
	case f.negative:
		return missing
	case negated && (denied || d.NegatorIn(d.ClauseOf(at)) >= 0):
		return stated
	case negated: // A form with a negator requires one in the reply as well.
		return missing
	case !denied:
		return stated
	case d.Excused(at), f.visible:
		return missing // "Two cameras are no incident" denies nothing about the two cameras.
	}
	return contradicted
}

// rival returns another value than the fact's in a sentence about the fact: an answer within two
// days where four hours are right.
func (f *fact) rival(d *text.Document, s text.Span, p *prepared) *text.Value {
	if d.IsQuestion(s) {
		return nil
	}
	claims := d.ValuesWithin(s)
	for i := range claims {
		c := claims[i]
		if !c.Loose && f.isOf(c.Kind) && !f.anyValue(c.Equal) && f.comparable(d, c) && p.foreign(c) {
			if len(f.context) == 0 || d.Find(f.context, s, false) < 0 {
				return nil
			}
			return &claims[i]
		}
	}
	return nil
}

// comparable reports whether a value of the fact's kind measures the same: a duration in similar
// units, or a number of the same things.
func (f *fact) comparable(d *text.Document, c text.Value) bool {
	switch c.Kind {
	case text.DurationValue:
		return c.Unit != text.Months || f.counts(text.Months)
	case text.NumberValue:
		return d.Find(f.context, text.NewSpan(c.At.Hi, min(c.At.Hi+2, len(d.Tokens))), false) >= 0
	case text.MoneyValue, text.DateValue, text.ClockValue, text.PercentValue, text.IDValue:
	}
	return true
}

// foreign reports whether a value has another origin than the ticket and its facts. An article may
// state other times than this ticket's, and other amounts that concern it.
func (p *prepared) foreign(c text.Value) bool {
	switch c.Kind {
	case text.DurationValue:
		return !text.Contains(p.known, c)
	case text.DateValue:
		return !text.Contains(p.known, c) && !p.follows(c)
	case text.NumberValue, text.MoneyValue, text.PercentValue, text.ClockValue:
		return !p.supports(c)
	case text.IDValue:
	}
	return false
}

// isOf reports whether the fact's value is of the kind.
func (f *fact) isOf(kind text.ValueKind) bool {
	for i := range f.forms {
		for k := range f.forms[i].values {
			if f.forms[i].values[k].Kind == kind {
				return true
			}
		}
	}
	return false
}

// timed reports whether the fact states a time or an owner, as Q4 requires.
func (f *fact) timed() bool {
	for _, slot := range []string{"time", "when", "date", "deadline", "sla", "until", "window", "eta", "team", "owner",
		"desk", "hours", "days", "answer"} {
		if strings.Contains(f.slot, slot) {
			return true
		}
	}
	return f.isOf(text.DurationValue) || f.isOf(text.DateValue) || f.isOf(text.ClockValue)
}

// misplaced reports whether the fact's value is in the place of another fact's: "it arrives within
// 6 years and is kept for 5 minutes" contains the right values and is wrong.
func (f *fact) misplaced(d *text.Document, at int, p *prepared) bool {
	c := d.ValueAt(at)
	if c == nil {
		return false
	}
	for i := range p.facts {
		g := &p.facts[i]
		if g.id == f.id || g.states(*c) {
			continue
		}
		for k := range d.Values {
			if o := &d.Values[k]; o.Kind == c.Kind && g.states(*o) && !f.states(*o) && f.crossed(g, d, c.At, o.At) {
				return true
			}
		}
	}
	return false
}

// states reports whether a form of the fact contains only that value.
func (f *fact) states(c text.Value) bool {
	for i := range f.forms {
		if len(f.forms[i].values) == 1 && f.forms[i].values[0].Equal(c) {
			return true
		}
	}
	return false
}

// crossed reports whether the words of g are nearer to f's value at own than those of f, and those
// of f nearer to g's value at other.
func (f *fact) crossed(g *fact, d *text.Document, own, other text.Span) bool {
	mine, theirs := f.reach(g, d, own)
	if theirs >= mine {
		return false
	}
	mine, theirs = f.reach(g, d, other)
	return mine < theirs
}

// reach returns the distances from a value to the nearest words that are context of f alone and of
// g alone, more than maxReach if there are none.
func (f *fact) reach(g *fact, d *text.Document, at text.Span) (mine, theirs int) {
	s := d.SentenceOf(at.Lo)
	mine, theirs = maxReach+1, maxReach+1
	for i := max(s.Lo, at.Lo-maxReach); i < min(s.Hi, at.Hi+maxReach); i++ {
		if i >= at.Lo && i < at.Hi || d.Tokens[i].Kind != text.WordToken {
			continue
		}
		far := max(at.Lo-i, i-at.Hi+1)
		if far >= mine && far >= theirs {
			continue
		}
		one := text.NewSpan(i, i+1)
		switch a, b := d.Find(f.context, one, false) >= 0, d.Find(g.context, one, false) >= 0; {
		case a && !b:
			mine = min(mine, far)
		case b && !a:
			theirs = min(theirs, far)
		}
	}
	return mine, theirs
}
