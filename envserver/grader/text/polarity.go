package text

// narrowScope is the number of tokens that a word like "without" negates.
const narrowScope = 3

// LeavesOpen reports whether a sentence leaves its statement open: "either … or …", "or not".
func (d *Document) LeavesOpen(s Span) bool { return d.LeavesOpenAt(s, s.Lo) }

// LeavesOpenAt reports whether a sentence leaves open what it states at a token. An "or not" in a
// clause before it is a concession: "low impact or not, it goes to them".
func (d *Document) LeavesOpenAt(s Span, at int) bool {
	if d.Tokens[s.Lo].Is(Either) || d.greeted(s) && d.Tokens[d.ClauseOf(s.Lo).Hi].Is(Either) {
		return true
	}
	for i := max(s.Lo, d.ClauseOf(at).Lo); i+1 < s.Hi; i++ {
		if !d.Tokens[i].IsWord("or", "oder", "o", "ou") {
			continue
		}
		next := &d.Tokens[i+1]
		if next.Is(Negators) && !d.echoed(s, i) || next.Is(Guesses) ||
			i+2 < s.Hi && next.IsWord("auch") && d.Tokens[i+2].Is(Negators) {
			return true
		}
	}
	return false
}

// greeted reports whether a sentence begins with a greeting, a few words and a comma.
func (d *Document) greeted(s Span) bool {
	c := d.ClauseOf(s.Lo)
	return s.Lo == 0 && c.Hi < s.Hi && c.Hi-c.Lo <= maxEllipsis+1 && d.Tokens[c.Hi-1].Text == ","
}

// echoed reports whether the "or no" at token i leaves nothing open: "yes or no", "card or no
// card", "update or not, it opens".
func (d *Document) echoed(s Span, i int) bool {
	if i < s.Lo+2 {
		return i > s.Lo
	}
	before := &d.Tokens[i-1]
	return d.Tokens[i-2].Kind == PunctToken || before.IsWord("yes", "ja", "si", "oui") || i+2 < s.Hi &&
		before.Kind == WordToken && d.Tokens[i+2].Text == before.Text && !before.Is(Stopwords)
}

// relative reports whether the negator at a token belongs to a clause that describes a noun: "a
// signature that isn't yours goes to".
func (d *Document) relative(s Span, neg int) bool {
	for i := neg - 1; i > max(s.Lo, neg-3); i-- {
		if d.Tokens[i].Is(Relatives) {
			noun := &d.Tokens[i-1]
			return noun.Kind == WordToken && !noun.Is(Stopwords) && !noun.Is(Conjunctions)
		}
	}
	return false
}

// Excused reports whether the clause around a value only denies a duty, which neither states a fact
// nor denies it.
func (d *Document) Excused(at int) bool {
	c := d.ClauseOf(at)
	neg := d.NegatorIn(Span{c.Lo, at})
	return neg >= 0 && d.AnyPhrase(Duties, Span{max(neg-2, c.Lo), min(neg+3, at)})
}

// lasting reports whether the value is a duration for which something holds: "don't touch it for 15
// minutes" states the 15 minutes.
func (d *Document) lasting(at int) bool {
	c := d.ValueAt(at)
	return c != nil && c.At.Lo == at && c.Kind == DurationValue && d.AnyWord(Lasting, Span{max(at-3, 0), at}) >= 0
}

// DeniedAt reports whether the clause around a value negates it: a negator is in front of the
// value, or between the value and all of its context. Exceptions are values after "until" or "more
// than", negated losses, and negators of a condition: "write if you haven't heard by then".
func (d *Document) DeniedAt(s Span, at int, context []Term) bool {
	c := d.ClauseOf(at)
	if d.conditional(Span{c.Lo, min(c.Lo+2, c.Hi)}) || d.Tokens[c.Lo].IsWord("should", "sollte", "sollten") {
		return false
	}
	if neg := d.NegatorIn(Span{c.Lo, at}); neg >= 0 && !d.lasting(at) {
		if d.conditional(Span{c.Lo, neg}) {
			return false
		}
		return !d.relative(s, neg) && d.AnyWord(Untils, Span{neg, at}) < 0 && d.AnyWord(Losses, Span{neg, c.Hi}) < 0 &&
			(at-neg <= narrowScope || !d.Tokens[neg].Is(Narrow))
	}
	neg := d.NegatorIn(Span{at, c.Hi})
	if neg < 0 || neg > at+6 || d.AnyWord(Untils, Span{neg, c.Hi}) >= 0 || d.conditional(Span{at, neg}) {
		return false
	}
	before := d.Find(context, Span{s.Lo, neg}, true)
	return before < 0 && d.Find(context, Span{neg, c.Hi}, true) >= 0
}
