package text

import (
	"slices"
	"sort"
	"strings"
)

// Clause is a clause with the properties that decide whether it commits its writer.
type Clause struct {
	Span
	Sentence Span
	Money    bool // the clause is about money
	// Withheld clauses commit to nothing: they deny, ask, suppose, or state a limit of the writer's
	// authority.
	Withheld  bool
	hedge     int  // the first token that leaves the matter open, or the clause's end
	Selective bool // the matter is left open for some people: "customers who qualify"
	// Loose clauses seem to assert something, in a language other than English.
	Loose bool
}

// Hedged reports whether a word before the token leaves the matter open.
func (c *Clause) Hedged(before int) bool { return c.hedge < min(before, c.Hi) }

// Clauses returns the clauses of the text, which are read at the first call.
func (d *Document) Clauses() []Clause {
	if len(d.clauses) == 0 {
		d.clauses = slices.Grow(d.clauses, len(d.spans))[:len(d.spans)]
		clear(d.clauses)
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
	c := Clause{Span: s, Sentence: d.wholeSentenceOf(s.Lo), Money: d.speaksOfMoney(s), hedge: s.Hi}
	if c.Withheld = d.NegatorIn(s) >= 0; c.Withheld {
		return c
	}
	m := d.moodOf(c.Sentence, d.statement(c.Sentence, s))
	c.Withheld = m.asks || m.supposes && (!m.wagers || !d.undertakes(s)) || d.beyond(s)
	who := s.Hi
	for i := s.Lo; i < s.Hi; i++ {
		if d.Tokens[i].IsWord("who", "whose") {
			who = min(who, i)
		}
		if d.hedges(s, i) {
			c.hedge = min(c.hedge, i)
			c.Selective = c.Selective || who < i
		}
	}
	c.Loose = d.Lexicon.Language != "en" && d.assertedLoosely(s)
	return c
}

// wholeSentenceOf returns the sentence that contains the token, even if it was set aside.
func (d *Document) wholeSentenceOf(at int) Span {
	if s := spanOf(d.echoes, at); s.Hi > at+1 || s.Lo < at {
		return s
	}
	return d.SentenceOf(at)
}

// speaksOfMoney reports whether the span is about money.
func (d *Document) speaksOfMoney(c Span) bool {
	return d.AnyStem(Money, c) >= 0 ||
		slices.ContainsFunc(d.ValuesWithin(c), func(v Value) bool { return v.Kind == MoneyValue })
}

// asks reports whether a sentence is worded as a question, unlike "You get it, okay?": it begins
// with an auxiliary verb, or with a question word among its first tokens.
func (d *Document) asks(s Span) bool {
	if !d.IsQuestion(s) {
		return false
	}
	return d.Tokens[s.Lo].Is(Aux) || d.AnyWord(Questions, Span{s.Lo, min(s.Lo+maxLead, s.Hi)}) >= 0
}

// maxLead is the number of tokens among which a question word stands.
const maxLead = 4

// hedges reports whether token i leaves the clause open. A word within a ground doesn't: "as I
// said", "per our policy".
func (d *Document) hedges(c Span, i int) bool {
	t := &d.Tokens[i]
	if t.Kind != WordToken || !t.Is(Hedges) && !t.StemIs(Handover) || d.grounded(c, i) {
		return false
	}
	// "we have decided to"
	decided := t.Is(Enablers) && d.AnyWord(FirstPerson, Span{max(c.Lo, i-2), i}) >= 0
	return !decided
}

// maxGround is the maximum distance of a ground from the word that it makes harmless.
const maxGround = 4

// grounded reports whether the word belongs to a phrase that gives a ground. A ground contains only
// stopwords, persons and remedies, so "as finance decides" isn't one.
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

// supposes reports whether the sentence contains a condition that can fail, or waits for an event
// other than a date. "If you like" and "before Friday" don't count.
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
	if d.parts.sentence != s {
		d.parts = parts{s, d.partsOf(s)}
	}
	next := sort.SearchInts(d.parts.begin, c.Hi)
	if next > 0 {
		s.Lo = d.parts.begin[next-1]
	}
	if next < len(d.parts.begin) {
		s.Hi = d.parts.begin[next]
	}
	return s
}

// parts are the first tokens of a sentence's parts but the first one. The last sentence is kept,
// because a long sentence has many clauses.
type parts struct {
	sentence Span
	begin    []int
}

func (d *Document) partsOf(s Span) []int {
	comma := s.Hi - 1
	for comma > s.Lo && d.Tokens[comma].Text != "," {
		comma--
	}
	var begin []int
	for i := s.Lo + 1; i <= comma; i++ {
		if d.Tokens[i].Is(Simple) && d.begins(s, i) {
			begin, s.Lo = append(begin, i), i
		}
	}
	return begin
}

// begins reports whether a semicolon or a joining word precedes token i.
func (d *Document) begins(s Span, i int) bool {
	return d.Tokens[i-1].Text == ";" || i-2 >= s.Lo && d.Tokens[i-1].Is(NumberJoins) &&
		(d.Tokens[i-2].Text == "," || d.Tokens[i-2].Text == ";")
}

// mood is the mood that all clauses of a statement share.
type mood struct {
	statement              Span
	asks, supposes, wagers bool
}

// moodOf returns the mood of a sentence's statement. It keeps the last one, because a long sentence
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
	i := d.AnyWord(FirstPerson, c)
	if d.Lexicon.Language != "en" {
		return i >= 0 || d.inflected(c)
	}
	return i >= 0 && i+1 < c.Hi && d.Tokens[i+1].IsWord("will", "shall")
}

// inverted reports whether a sentence begins with an inverted condition: "should finance agree". A
// wish of the customer isn't one.
func (d *Document) inverted(s Span) bool {
	return d.Tokens[s.Lo].IsWord("should", "sollte", "sollten") && s.Lo+1 < s.Hi && !d.Tokens[s.Lo+1].Is(SecondPerson)
}

// dated reports whether a day or a time follows token i: "before the end of the week".
func (d *Document) dated(s Span, i int) bool {
	j := i + 1
	for j < min(i+3, s.Hi) && d.Tokens[j].Is(Stopwords) && !d.Tokens[j].Is(Calendar) && !d.InValue(j) {
		j++
	}
	return j < s.Hi && (d.Tokens[j].Is(Calendar) || d.InValue(j))
}

// beyond reports whether the clause states a limit of the writer's authority: "more than I can
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

// assertedLoosely reports whether the clause shows a sign of a completed or coming action, for
// languages whose word order isn't known.
func (d *Document) assertedLoosely(c Span) bool {
	return d.AnyWord(Aux|FirstPerson, c) >= 0 || d.AnyStem(Givers|Completions, c) >= 0 || d.SharesSubject(c) ||
		d.inflected(c)
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
