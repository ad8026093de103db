package offline

import (
	"slices"
	"sort"
	"strings"
)

// clause is a clause as all detectors read it: what decides whether it commits its writer to
// anything.
type clause struct {
	span
	sentence span
	// money reports whether the clause speaks of money.
	money bool
	// withheld clauses commit to nothing: they deny, ask, suppose, or name what is beyond the
	// writer's authority.
	withheld bool
	// hedge is the first token that leaves the matter open, or the clause's end.
	hedge int
	// selective clauses say of whom they leave it open: "customers who qualify".
	selective bool
	// loose clauses assert something, as far as that shows in a language whose word order isn't
	// known. They are not marked in English.
	loose bool
}

// hedged reports whether a word before the token leaves the matter open.
func (c *clause) hedged(before int) bool {
	return c.hedge < min(before, c.hi)
}

// allClauses returns the clauses of the text. They are read once, at the first call.
func (d *document) allClauses() []clause {
	if d.read == nil {
		d.read = make([]clause, len(d.clauses))
		for i, s := range d.clauses {
			d.read[i] = d.readClause(s)
		}
	}
	return d.read
}

// clauseAt returns the clause that holds the token.
func (d *document) clauseAt(at int) *clause {
	all := d.allClauses()
	i := sort.Search(len(all), func(i int) bool { return all[i].hi > at })
	return &all[i]
}

func (d *document) readClause(s span) clause {
	c := clause{span: s, sentence: d.wholeSentenceOf(s.lo), money: d.speaksOfMoney(s), hedge: s.hi}
	if c.withheld = d.negatorIn(s) >= 0; c.withheld {
		return c
	}
	if m := d.moodOf(c.sentence, d.statement(c.sentence, s)); m.asks || m.supposes &&
		(!m.wagers || !d.undertakes(s)) || d.beyond(s) {
		c.withheld = true
	}
	who := s.hi
	for i := s.lo; i < s.hi; {
		if n := d.phraseAt(EmptyConditions, i); n > 0 {
			i += n
			continue
		}
		if d.tokens[i].word("who", "whose") {
			who = min(who, i)
		}
		if d.hedges(s, i) {
			c.hedge = min(c.hedge, i)
			c.selective = c.selective || who < i
		}
		i++
	}
	c.loose = d.lex.language != "en" && d.assertedLoosely(s)
	return c
}

// speaksOfMoney reports whether the span speaks of money.
func (d *document) speaksOfMoney(c span) bool {
	if d.anyStem(Money, c) >= 0 {
		return true
	}
	return slices.ContainsFunc(d.claimsWithin(c), func(cl claim) bool { return cl.kind == moneyClaim })
}

// asks tells whether a sentence is a question in its form too: "you will get a refund, okay?" is
// none.
func (d *document) asks(s span) bool {
	return d.question(s) && d.tokens[s.lo].is(Aux)
}

// hedges tells whether token i leaves open what its clause says. A word that only gives the ground
// for it doesn't: "as I said", "per our policy".
func (d *document) hedges(c span, i int) bool {
	t := &d.tokens[i]
	if t.stemIs(Teams) && d.anyWord(Toward, span{max(c.lo, i-2), i}) >= 0 {
		// Something goes to a team.
		return true
	}
	return t.kind == wordToken && (t.is(Hedges) || t.stemIs(Handover)) && !d.grounded(c, i) &&
		!d.settled(c, i)
}

// settled tells whether the word says that the company itself has made up its mind: "we have
// decided to".
func (d *document) settled(c span, i int) bool {
	return d.tokens[i].is(Enablers) && d.anyWord(FirstPerson, span{max(c.lo, i-2), i}) >= 0
}

// maxGround is how many tokens a ground may begin before the word that it makes harmless.
const maxGround = 4

// grounded tells whether the word belongs to a phrase that gives a ground. Only small words and
// remedies stand within one, so that "as finance decides" is none.
func (d *document) grounded(c span, i int) bool {
	for j := i - 1; j >= max(c.lo, i-maxGround); j-- {
		t := &d.tokens[j]
		switch {
		case t.is(Grounds):
			return true
		case !t.is(Stopwords) && !t.is(FirstPerson) && !t.is(SecondPerson) && t.remedy() == "":
			return false
		}
	}
	return false
}

// supposes tells whether the sentence holds a condition that can fail, or waits for something other
// than the calendar: not "if you like", nor "before Friday".
func (d *document) supposes(s span) bool {
	for i := s.lo; i < s.hi; {
		if n := d.phraseAt(EmptyConditions, i); n > 0 {
			i += n
			continue
		}
		t := &d.tokens[i]
		if t.kind == wordToken && (t.is(Conditions) || t.is(Times) && !d.dated(s, i)) ||
			d.phraseAt(OpenPhrases, i) > 0 || i == s.lo && d.inverted(s) {
			return true
		}
		i++
	}
	return false
}

// statement is the part of a sentence that a clause belongs to: a condition with a statement of its
// own begins another, as in "I will refund it today, and if you need more, write to us".
func (d *document) statement(s, c span) span {
	for i := s.lo + 1; i < s.hi; i++ {
		if !d.tokens[i].is(Simple) || !d.begins(s, i) ||
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
func (d *document) begins(s span, i int) bool {
	return d.tokens[i-1].text == ";" || i-2 >= s.lo && d.tokens[i-1].is(NumberJoins) &&
		(d.tokens[i-2].text == "," || d.tokens[i-2].text == ";")
}

// mood is what a statement says of the clauses within it.
type mood struct {
	statement              span
	asks, supposes, wagers bool
}

// moodOf reads the mood of a sentence's statement, once for all of its clauses: a long one has
// many.
func (d *document) moodOf(sentence, s span) mood {
	if d.mood.statement != s {
		d.mood = mood{statement: s, asks: d.asks(sentence), supposes: d.supposes(s)}
		d.mood.wagers = d.mood.supposes && d.wagers(s)
	}
	return d.mood
}

// wagers tells whether the sentence's condition is something that happens and that nobody has to
// decide: "if they don't drop off, we will refund all three".
func (d *document) wagers(s span) bool {
	if d.anyWord(Times, s) >= 0 || d.anyPhrase(OpenPhrases, s) {
		return false
	}
	for i := s.lo; i < s.hi; i++ {
		t := &d.tokens[i]
		if t.is(Deciding) || t.stemIs(Teams) || t.is(Hedges) && !t.word("should", "sollte", "sollten") ||
			t.is(Conditions) && !t.is(Simple) {
			return false
		}
	}
	return true
}

// undertakes tells whether a clause says what the company will do.
func (d *document) undertakes(c span) bool {
	if d.lex.language != "en" {
		return d.anyWord(FirstPerson, c) >= 0 || d.inflected(c)
	}
	i := d.anyWord(FirstPerson, c)
	return i >= 0 && i+1 < c.hi && d.tokens[i+1].word("will", "shall")
}

// inverted tells whether a sentence begins with a condition by its word order: "should finance
// agree". What the customer may wish is none.
func (d *document) inverted(s span) bool {
	return d.tokens[s.lo].word("should", "sollte", "sollten") && s.lo+1 < s.hi && !d.tokens[s.lo+1].is(SecondPerson)
}

// dated tells whether what follows token i is a day or a time: "before the end of the week".
func (d *document) dated(s span, i int) bool {
	for j := i + 1; j < min(i+4, s.hi); j++ {
		t := &d.tokens[j]
		if d.claimed(j) || t.is(Calendar) {
			return true
		}
		if !t.is(Stopwords) {
			return false
		}
	}
	return false
}

// beyond tells whether the clause names the limit of what the writer can do: "more than I can
// refund". "What I can do is" begins an offer.
func (d *document) beyond(c span) bool {
	from := c.hi
	for i := c.lo; i < c.hi; i++ {
		if i < from && d.phraseAt(Beyond, i) > 0 {
			from = i
		}
		if i > from && d.tokens[i].is(Abilities) && (i+1 == c.hi || !d.tokens[i+1].is(Doing)) {
			return true
		}
	}
	return false
}

// assertedLoosely is asserted for languages whose word order the judge doesn't know: any sign of a
// finished or coming action will do.
func (d *document) assertedLoosely(c span) bool {
	return d.anyWord(Aux, c) >= 0 || d.anyWord(FirstPerson, c) >= 0 ||
		d.sharesSubject(c) ||
		d.anyStem(Givers, c) >= 0 || d.anyStem(Completions, c) >= 0 || d.inflected(c)
}

// inflected tells whether a verb's ending alone says "we".
func (d *document) inflected(c span) bool {
	for _, t := range d.tokens[c.lo:c.hi] {
		for _, ending := range d.lex.endings {
			if t.kind == wordToken && len(t.text) > len(ending)+2 && strings.HasSuffix(t.text, ending) {
				return true
			}
		}
	}
	return false
}

// sharesSubject tells whether the clause before this one, in the same sentence, says what the
// company does.
func (d *document) sharesSubject(c span) bool {
	if c.lo == d.sentenceOf(c.lo).lo || !d.tokens[c.lo].is(Conjunctions) && d.lex.language != "en" {
		return false
	}
	before := d.clauseOf(c.lo - 1)
	return d.anyWord(FirstPerson, before) >= 0 && d.negatorIn(before) < 0
}
