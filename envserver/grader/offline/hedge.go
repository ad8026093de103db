package offline

import "slices"

// clauseView is a clause with what decides whether it commits the company to a remedy, whichever it
// speaks of.
type clauseView struct {
	span
	sentence span
	// money tells that the clause speaks of money.
	money bool
	// withheld clauses commit to nothing: they deny, ask, suppose, or name what is beyond the
	// writer's authority.
	withheld bool
	// hedge is the first token that leaves the matter open, or the clause's end.
	hedge int
	// selective clauses say of whom they leave it open: "customers who qualify".
	selective bool
	// loose tells that the clause asserts something, as far as that shows in a language whose word
	// order the judge doesn't know.
	loose bool
}

// hedged tells whether a word before the token leaves the matter open.
func (v *clauseView) hedged(before int) bool {
	return v.hedge < min(before, v.hi)
}

// view reads a clause.
func (d *document) view(c span, lex *lexicon) *clauseView {
	v := &clauseView{span: c, sentence: d.wholeSentenceOf(c.lo), money: d.money(c, lex), hedge: c.hi}
	if v.withheld = lex.negatorIn(d.tokens, c) >= 0; v.withheld {
		return v
	}
	if m := d.moodOf(v.sentence, d.statement(v.sentence, c, lex), lex); m.asks || m.supposes &&
		(!m.wagers || !d.undertakes(c, lex)) || d.beyond(c, lex) {
		v.withheld = true
	}
	who := c.hi
	for i := c.lo; i < c.hi; {
		if n := lex.emptyAt(d.tokens, i); n > 0 {
			i += n
			continue
		}
		if d.tokens[i].word("who", "whose") {
			who = min(who, i)
		}
		if d.hedges(c, i, lex) {
			v.hedge = min(v.hedge, i)
			v.selective = v.selective || who < i
		}
		i++
	}
	v.loose = lex.language != "en" && d.assertedLoosely(c, lex)
	return v
}

// money tells whether the clause speaks of money.
func (d *document) money(c span, lex *lexicon) bool {
	if anyStem(lex.money, d.tokens, c) >= 0 {
		return true
	}
	return slices.ContainsFunc(d.claimsWithin(c), func(cl claim) bool { return cl.kind == moneyClaim })
}

// asks tells whether a sentence is a question in its form too: "you will get a refund, okay?" is
// none.
func (d *document) asks(s span, lex *lexicon) bool {
	return d.question(s) && d.tokens[s.lo].is(lex.aux)
}

// hedges tells whether token i leaves open what its clause says. A word that only gives the ground
// for it doesn't: "as I said", "per our policy".
func (d *document) hedges(c span, i int, lex *lexicon) bool {
	t := &d.tokens[i]
	if t.stemIs(lex.teams) && anyWord(lex.toward, d.tokens, span{max(c.lo, i-2), i}) >= 0 {
		// Something goes to a team.
		return true
	}
	return t.kind == wordToken && (t.is(lex.hedges) || t.stemIs(lex.handover)) && !d.grounded(c, i, lex) &&
		!d.settled(c, i, lex)
}

// settled tells whether the word says that the company itself has made up its mind: "we have
// decided to".
func (d *document) settled(c span, i int, lex *lexicon) bool {
	return d.tokens[i].is(lex.enablers) && anyWord(lex.firstPerson, d.tokens, span{max(c.lo, i-2), i}) >= 0
}

// maxGround is how many tokens a ground may begin before the word that it makes harmless.
const maxGround = 4

// grounded tells whether the word belongs to a phrase that gives a ground. Only small words and
// remedies stand within one, so that "as finance decides" is none.
func (d *document) grounded(c span, i int, lex *lexicon) bool {
	for j := i - 1; j >= max(c.lo, i-maxGround); j-- {
		t := &d.tokens[j]
		switch {
		case t.is(lex.grounds):
			return true
		case !t.is(lex.stopwords) && !t.is(lex.firstPerson) && !t.is(lex.secondPerson) && t.remedy() == "":
			return false
		}
	}
	return false
}

// supposes tells whether the sentence holds a condition that can fail, or waits for something other
// than the calendar: not "if you like", nor "before Friday".
func (d *document) supposes(s span, lex *lexicon) bool {
	for i := s.lo; i < s.hi; {
		if n := lex.emptyAt(d.tokens, i); n > 0 {
			i += n
			continue
		}
		t := &d.tokens[i]
		if t.kind == wordToken && (t.is(lex.conditions) || t.is(lex.times) && !d.dated(s, i, lex)) ||
			lex.opensAt(d.tokens, i) || i == s.lo && d.inverted(s, lex) {
			return true
		}
		i++
	}
	return false
}

// statement is the part of a sentence that a clause belongs to: a condition with a statement of its
// own begins another, as in "I will refund it today, and if you need more, write to us".
func (d *document) statement(s, c span, lex *lexicon) span {
	for i := s.lo + 1; i < s.hi; i++ {
		if !d.tokens[i].is(lex.simple) || !d.begins(s, i, lex) ||
			!slices.ContainsFunc(d.tokens[i:s.hi], func(t token) bool { return t.text == "," }) {
			continue
		}
		if c.lo < i && c.hi <= i {
			s.hi = i
			return s
		}
		s.lo = i
	}
	return s
}

// begins tells whether a semicolon or a joining word stands before token i.
func (d *document) begins(s span, i int, lex *lexicon) bool {
	return d.tokens[i-1].text == ";" || i-2 >= s.lo && d.tokens[i-1].is(lex.numberJoins) &&
		(d.tokens[i-2].text == "," || d.tokens[i-2].text == ";")
}

// mood is what a statement says of the clauses within it.
type mood struct {
	statement              span
	asks, supposes, wagers bool
}

// moodOf reads the mood of a sentence's statement, once for all of its clauses: a long one has
// many.
func (d *document) moodOf(sentence, s span, lex *lexicon) mood {
	if d.mood.statement != s {
		d.mood = mood{statement: s, asks: d.asks(sentence, lex), supposes: d.supposes(s, lex)}
		d.mood.wagers = d.mood.supposes && d.wagers(s, lex)
	}
	return d.mood
}

// wagers tells whether the sentence's condition is something that happens and that nobody has to
// decide: "if they don't drop off, we will refund all three".
func (d *document) wagers(s span, lex *lexicon) bool {
	if anyWord(lex.times, d.tokens, s) >= 0 || anyPhrase(&lex.openPhrases, d.tokens, s) {
		return false
	}
	for i := s.lo; i < s.hi; i++ {
		t := &d.tokens[i]
		if t.is(lex.deciding) || t.stemIs(lex.teams) || t.is(lex.hedges) && !t.word("should", "sollte", "sollten") ||
			t.is(lex.conditions) && !t.is(lex.simple) {
			return false
		}
	}
	return true
}

// undertakes tells whether a clause says what the company will do.
func (d *document) undertakes(c span, lex *lexicon) bool {
	if lex.language != "en" {
		return anyWord(lex.firstPerson, d.tokens, c) >= 0 || d.inflected(c, lex)
	}
	i := anyWord(lex.firstPerson, d.tokens, c)
	return i >= 0 && i+1 < c.hi && d.tokens[i+1].word("will", "shall")
}

// inverted tells whether a sentence begins with a condition by its word order: "should finance
// agree". What the customer may wish is none.
func (d *document) inverted(s span, lex *lexicon) bool {
	return d.tokens[s.lo].word("should", "sollte", "sollten") && s.lo+1 < s.hi && !d.tokens[s.lo+1].is(lex.secondPerson)
}

// dated tells whether what follows token i is a day or a time: "before the end of the week".
func (d *document) dated(s span, i int, lex *lexicon) bool {
	for j := i + 1; j < min(i+4, s.hi); j++ {
		t := &d.tokens[j]
		if d.claimed(j) || t.is(lex.calendar) {
			return true
		}
		if !t.is(lex.stopwords) {
			return false
		}
	}
	return false
}

// beyond tells whether the clause names the limit of what the writer can do: "more than I can
// refund". "What I can do is" begins an offer.
func (d *document) beyond(c span, lex *lexicon) bool {
	from := c.hi
	for i := c.lo; i < c.hi; i++ {
		if i < from && lex.beyond.starts(d.tokens, i) > 0 {
			from = i
		}
		if i > from && d.tokens[i].is(lex.abilities) && (i+1 == c.hi || !d.tokens[i+1].is(lex.doing)) {
			return true
		}
	}
	return false
}

// emptyAt returns the length of the condition that starts at token i and can't fail, or 0.
func (lex *lexicon) emptyAt(tokens []token, i int) int {
	return lex.emptyConditions.starts(tokens, i)
}

// opensAt tells whether a phrase that leaves the matter open starts at token i.
func (lex *lexicon) opensAt(tokens []token, i int) bool {
	return lex.openPhrases.starts(tokens, i) > 0
}
