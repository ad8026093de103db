package text

import (
	"slices"
	"sort"
	"strings"
)

// Clause is a clause with the properties that detectors need: whether it commits its writer to
// anything.
type Clause struct {
	Span
	Sentence Span
	// Money reports whether the clause speaks of money.
	Money bool
	// Withheld clauses commit to nothing: they deny, ask, suppose, or name what is beyond the
	// writer's authority.
	Withheld bool
	// hedge is the first token that leaves the matter open, or the clause's end.
	hedge int
	// Selective clauses say of whom they leave it open: "customers who qualify".
	Selective bool
	// Loose clauses assert something, as far as that shows in a language whose word order isn't
	// known. They are not marked in English.
	Loose bool
}

// Hedged reports whether a word before the token leaves the matter open.
func (c *Clause) Hedged(before int) bool { return c.hedge < min(before, c.Hi) }

// Clauses returns the clauses of the text. They are read once, at the first call.
func (d *Document) Clauses() []Clause {
	if d.clauses == nil {
		d.clauses = make([]Clause, len(d.spans))
		for i, s := range d.spans {
			d.clauses[i] = d.readClause(s)
		}
	}
	return d.clauses
}

// ClauseAt returns the clause that holds the token.
func (d *Document) ClauseAt(at int) *Clause {
	all := d.Clauses()
	i := sort.Search(len(all), func(i int) bool { return all[i].Hi > at })
	return &all[i]
}

func (d *Document) readClause(s Span) Clause {
	c := Clause{Span: s, Sentence: d.wholeSentenceOf(s.Lo), Money: d.SpeaksOfMoney(s), hedge: s.Hi}
	if c.Withheld = d.NegatorIn(s) >= 0; c.Withheld {
		return c
	}
	if m := d.moodOf(c.Sentence, d.statement(c.Sentence, s)); m.asks || m.supposes &&
		(!m.wagers || !d.undertakes(s)) || d.beyond(s) {
		c.Withheld = true
	}
	who := s.Hi
	for i := s.Lo; i < s.Hi; {
		if n := d.PhraseAt(EmptyConditions, i); n > 0 {
			i += n
			continue
		}
		if d.Tokens[i].IsWord("who", "whose") {
			who = min(who, i)
		}
		if d.hedges(s, i) {
			c.hedge = min(c.hedge, i)
			c.Selective = c.Selective || who < i
		}
		i++
	}
	c.Loose = d.Lexicon.Language != "en" && d.assertedLoosely(s)
	return c
}

// SpeaksOfMoney reports whether the span speaks of money.
func (d *Document) SpeaksOfMoney(c Span) bool {
	if d.AnyStem(Money, c) >= 0 {
		return true
	}
	return slices.ContainsFunc(d.ValuesWithin(c), func(cl Value) bool { return cl.Kind == MoneyValue })
}

// asks reports whether a sentence has the word order of a question. "You will get a refund, okay?"
// hasn't.
func (d *Document) asks(s Span) bool { return d.IsQuestion(s) && d.Tokens[s.Lo].Is(Aux) }

// hedges reports whether token i leaves the clause open. A word within a ground doesn't: "as I
// said", "per our policy".
func (d *Document) hedges(c Span, i int) bool {
	t := &d.Tokens[i]
	if t.StemIs(Teams) && d.AnyWord(Toward, Span{max(c.Lo, i-2), i}) >= 0 {
		// Something goes to a team.
		return true
	}
	return t.Kind == WordToken && (t.Is(Hedges) || t.StemIs(Handover)) && !d.grounded(c, i) &&
		!d.settled(c, i)
}

// settled reports whether the word states that the company has decided: "we have decided to".
func (d *Document) settled(c Span, i int) bool {
	return d.Tokens[i].Is(Enablers) && d.AnyWord(FirstPerson, Span{max(c.Lo, i-2), i}) >= 0
}

// maxGround is how many tokens a ground may begin before the word that it makes harmless.
const maxGround = 4

// grounded reports whether the word belongs to a phrase that gives a ground. Only stopwords,
// persons and remedies may stand within one, so "as finance decides" isn't one.
func (d *Document) grounded(c Span, i int) bool {
	for j := i - 1; j >= max(c.Lo, i-maxGround); j-- {
		t := &d.Tokens[j]
		switch {
		case t.Is(Grounds):
			return true
		case !t.Is(Stopwords) && !t.Is(FirstPerson) && !t.Is(SecondPerson) && t.Remedy() == "":
			return false
		}
	}
	return false
}

// supposes reports whether the sentence contains a condition that can fail, or waits for something
// other than a date: not "if you like", nor "before Friday".
func (d *Document) supposes(s Span) bool {
	for i := s.Lo; i < s.Hi; {
		if n := d.PhraseAt(EmptyConditions, i); n > 0 {
			i += n
			continue
		}
		t := &d.Tokens[i]
		if t.Kind == WordToken && (t.Is(Conditions) || t.Is(Times) && !d.dated(s, i)) ||
			d.PhraseAt(OpenPhrases, i) > 0 || i == s.Lo && d.inverted(s) {
			return true
		}
		i++
	}
	return false
}

// statement returns the part of a sentence that a clause belongs to. A condition with its own
// statement begins another part: "I will refund it today, and if you need more, write to us".
func (d *Document) statement(s, c Span) Span {
	for i := s.Lo + 1; i < s.Hi; i++ {
		if !d.Tokens[i].Is(Simple) || !d.begins(s, i) ||
			!slices.ContainsFunc(d.Tokens[i:s.Hi], func(t Token) bool { return t.Text == "," }) {
			continue
		}
		if c.Lo < i && c.Hi <= i {
			s.Hi = i
			return s
		}
		s.Lo = i
	}
	return s
}

// begins reports whether a semicolon or a joining word stands before token i.
func (d *Document) begins(s Span, i int) bool {
	return d.Tokens[i-1].Text == ";" || i-2 >= s.Lo && d.Tokens[i-1].Is(NumberJoins) &&
		(d.Tokens[i-2].Text == "," || d.Tokens[i-2].Text == ";")
}

// mood is the mood of a statement, which all clauses within it share.
type mood struct {
	statement              Span
	asks, supposes, wagers bool
}

// moodOf returns the mood of a sentence's statement. The last one is kept, because a long sentence
// has many clauses.
func (d *Document) moodOf(sentence, s Span) mood {
	if d.mood.statement != s {
		d.mood = mood{statement: s, asks: d.asks(sentence), supposes: d.supposes(s)}
		d.mood.wagers = d.mood.supposes && d.wagers(s)
	}
	return d.mood
}

// wagers reports whether the sentence's condition is an event that needs no decision: "if they
// don't drop off, we will refund all three".
func (d *Document) wagers(s Span) bool {
	if d.AnyWord(Times, s) >= 0 || d.AnyPhrase(OpenPhrases, s) {
		return false
	}
	for i := s.Lo; i < s.Hi; i++ {
		t := &d.Tokens[i]
		if t.Is(Deciding) || t.StemIs(Teams) || t.Is(Hedges) && !t.IsWord("should", "sollte", "sollten") ||
			t.Is(Conditions) && !t.Is(Simple) {
			return false
		}
	}
	return true
}

// undertakes reports whether a clause states an action of the company in the future.
func (d *Document) undertakes(c Span) bool {
	if d.Lexicon.Language != "en" {
		return d.AnyWord(FirstPerson, c) >= 0 || d.inflected(c)
	}
	i := d.AnyWord(FirstPerson, c)
	return i >= 0 && i+1 < c.Hi && d.Tokens[i+1].IsWord("will", "shall")
}

// inverted reports whether a sentence begins with a condition by its word order: "should finance
// agree". A wish of the customer isn't one.
func (d *Document) inverted(s Span) bool {
	return d.Tokens[s.Lo].IsWord("should", "sollte", "sollten") && s.Lo+1 < s.Hi && !d.Tokens[s.Lo+1].Is(SecondPerson)
}

// dated reports whether what follows token i is a day or a time: "before the end of the week".
func (d *Document) dated(s Span, i int) bool {
	for j := i + 1; j < min(i+4, s.Hi); j++ {
		t := &d.Tokens[j]
		if d.InValue(j) || t.Is(Calendar) {
			return true
		}
		if !t.Is(Stopwords) {
			return false
		}
	}
	return false
}

// beyond reports whether the clause names a limit of the writer's authority: "more than I can
// refund". "What I can do is" begins an offer instead.
func (d *Document) beyond(c Span) bool {
	from := c.Hi
	for i := c.Lo; i < c.Hi; i++ {
		if i < from && d.PhraseAt(Beyond, i) > 0 {
			from = i
		}
		if i > from && d.Tokens[i].Is(Abilities) && (i+1 == c.Hi || !d.Tokens[i+1].Is(Doing)) {
			return true
		}
	}
	return false
}

// assertedLoosely reports whether the clause shows any sign of a completed or coming action, for
// languages whose word order isn't known.
func (d *Document) assertedLoosely(c Span) bool {
	return d.AnyWord(Aux, c) >= 0 || d.AnyWord(FirstPerson, c) >= 0 ||
		d.SharesSubject(c) ||
		d.AnyStem(Givers, c) >= 0 || d.AnyStem(Completions, c) >= 0 || d.inflected(c)
}

// inflected reports whether a verb's ending implies "we".
func (d *Document) inflected(c Span) bool {
	for _, t := range d.Tokens[c.Lo:c.Hi] {
		for _, ending := range d.Lexicon.endings {
			if t.Kind == WordToken && len(t.Text) > len(ending)+2 && strings.HasSuffix(t.Text, ending) {
				return true
			}
		}
	}
	return false
}

// SharesSubject reports whether the clause before this one, in the same sentence, states an action
// of the company.
func (d *Document) SharesSubject(c Span) bool {
	if c.Lo == d.SentenceOf(c.Lo).Lo || !d.Tokens[c.Lo].Is(Conjunctions) && d.Lexicon.Language != "en" {
		return false
	}
	before := d.ClauseOf(c.Lo - 1)
	return d.AnyWord(FirstPerson, before) >= 0 && d.NegatorIn(before) < 0
}
