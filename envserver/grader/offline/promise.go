package offline

import "strings"

// remedy is something that a reply may not promise: a known remedy in any of its words, or a verb
// as the scenario spells it.
type remedy struct {
	name string
	term term
}

// remedyOf reads a forbidden verb. English names of remedies hold in every language.
func (l *library) remedyOf(verb string) remedy {
	t := l.extract(verb).term
	if len(t.stems) == 1 {
		if root := l.roots[t.stems[0]]; root != nil && root.remedy != "" {
			return remedy{name: root.remedy}
		}
		if remedyNames().has(t.text) {
			return remedy{name: t.text}
		}
	}
	return remedy{term: t}
}

// remedyNames are the remedies that every lexicon knows words for.
func remedyNames() wordSet {
	return newWordSet([]string{"refund credit replace waive compensate discount guarantee"})
}

// promise is a clause that commits the company to a remedy.
type promise struct {
	clause, sentence span
	// name is the remedy's, "" for one that only the scenario names.
	name string
}

// promises finds the commitments to any known remedy, in order.
func (d *document) promises(lex *lexicon) []promise {
	out := make([]promise, 0, 4)
	for _, c := range d.clauses {
		out = append(out, d.promisesIn(c, lex)...)
	}
	return out
}

// promisesIn finds a clause's commitments by its grammar, or else one by a pattern.
func (d *document) promisesIn(c span, lex *lexicon) []promise {
	v := d.view(c, lex)
	if v.withheld {
		return nil
	}
	var out []promise
	for i := c.lo; i < c.hi; i++ {
		if !lex.remedial(&d.tokens[i]) {
			continue
		}
		if name := d.remedyAt(v, i, lex); name != "" && d.committed(v, span{i, i + 1}, lex) {
			out = append(out, promise{clause: c, sentence: v.sentence, name: name})
		}
	}
	if len(out) == 0 {
		if name := d.commitment(v, lex); name != "" {
			out = append(out, promise{clause: c, sentence: v.sentence, name: name})
		}
	}
	return out
}

// promised tells whether a clause commits the company to what the term names.
func (d *document) promised(t *term, lex *lexicon) bool {
	for _, c := range d.clauses {
		var v *clauseView
		for i := c.lo; i < c.hi; i++ {
			if !t.at(d.tokens, i, false) {
				continue
			}
			if v == nil {
				v = d.view(c, lex)
			}
			if d.committed(v, span{i, i + len(t.stems)}, lex) {
				return true
			}
		}
	}
	return false
}

// remedial tells whether a word may speak of a remedy.
func (lex *lexicon) remedial(t *token) bool {
	return t.kind == wordToken && (t.remedy() != "" || t.is(lex.back) || t.stemIs(lex.returns))
}

// remedyAt names the remedy that token i speaks of, "" for none. Money that comes back is a refund,
// whatever the words.
func (d *document) remedyAt(v *clauseView, i int, lex *lexicon) string {
	t := &d.tokens[i]
	if d.otherSense(i, lex) || d.bankAct(v, i, lex) {
		return ""
	}
	if name := t.remedy(); name != "" {
		return name
	}
	if (t.is(lex.back) || t.stemIs(lex.returns)) && v.money {
		return "refund"
	}
	return ""
}

// bankAct tells whether a chargeback is only spoken of as something that somebody else's bank does.
func (d *document) bankAct(v *clauseView, i int, lex *lexicon) bool {
	return d.tokens[i].word("chargeback", "chargebacks") && anyWord(lex.firstPerson, d.tokens, v.span) < 0
}

// maxSense is how many tokens before a word a phrase may begin that gives it another sense.
const maxSense = 3

// otherSense tells whether token i is part of a phrase in which it stands for no remedy: "credit
// card", "get back to you".
func (d *document) otherSense(i int, lex *lexicon) bool {
	for j := max(0, i-maxSense); j <= i; j++ {
		if n := lex.senses.starts(d.tokens, j); j+n > i {
			return true
		}
	}
	return false
}

// committed tells whether a clause asserts the remedy at the span: not as a question, a condition,
// a possibility, a request or a denial.
func (d *document) committed(v *clauseView, at span, lex *lexicon) bool {
	switch {
	case v.withheld:
		return false
	case lex.language != "en":
		return !v.hedged(v.hi) && v.loose
	case d.active(v.span, at.lo, lex):
		// Once "we will refund" is said, what follows can't take it back, save that it speaks of
		// something else: "refund requests".
		return !v.hedged(at.hi+1) && !v.selective
	}
	return !v.hedged(v.hi) && d.asserted(v.span, at, lex)
}

// assertedLoosely is asserted for languages whose word order the judge doesn't know: any sign of a
// finished or coming action will do.
func (d *document) assertedLoosely(c span, lex *lexicon) bool {
	return anyWord(lex.aux, d.tokens, c) >= 0 || anyWord(lex.firstPerson, d.tokens, c) >= 0 ||
		d.sharesSubject(c, lex) ||
		anyStem(lex.givers, d.tokens, c) >= 0 || anyStem(lex.completions, d.tokens, c) >= 0 || d.inflected(c, lex)
}

// inflected tells whether a verb's ending alone says "we".
func (d *document) inflected(c span, lex *lexicon) bool {
	for _, t := range d.tokens[c.lo:c.hi] {
		for _, ending := range lex.endings {
			if t.kind == wordToken && len(t.text) > len(ending)+2 && strings.HasSuffix(t.text, ending) {
				return true
			}
		}
	}
	return false
}

// asserted tells whether the clause says that the remedy comes or came: as what somebody gives or
// gets ("you will receive a refund"), or as what something happens to ("your refund has been
// issued"). That it is the clause's own verb is for active to tell.
func (d *document) asserted(c, at span, lex *lexicon) bool {
	back := d.tokens[at.lo].is(lex.back) && anyWord(lex.aux, d.tokens, span{c.lo, at.lo}) >= 0
	return back || d.given(c, at.lo, lex) || d.completed(c, at.hi, lex)
}

// active tells whether the verb at token i is said of the present, the past or the future, rather
// than being an infinitive or a name.
func (d *document) active(c span, i int, lex *lexicon) bool {
	j := i - 1
	for j >= c.lo && (d.tokens[j].is(lex.skip) || d.tokens[j].kind == punctToken || d.claimed(j) &&
		!d.tokens[j].is(lex.aux)) {
		j--
	}
	if j < c.lo {
		return d.continued(c, i, lex)
	}
	t := d.tokens[j]
	switch {
	case t.is(lex.aux):
		return true
	case t.is(lex.firstPerson):
		return true
	case t.word("can") && j > c.lo && d.tokens[j-1].is(lex.firstPerson):
		return true
	case t.word("to"):
		return j > c.lo && d.tokens[j-1].is(lex.enablers)
	}
	return d.continued(c, i, lex) && j == c.lo && t.is(lex.conjunctions)
}

// continued tells whether the clause goes on with the subject of the one before it: "I have checked
// the charge and refunded it".
func (d *document) continued(c span, i int, lex *lexicon) bool {
	text := d.tokens[i].text
	return len(text) >= 5 && text[len(text)-2:] == "ed" && d.sharesSubject(c, lex) &&
		anyWord(lex.hedges, d.tokens, d.clauseOf(c.lo-1)) < 0
}

// sharesSubject tells whether the clause before this one, in the same sentence, says what the
// company does.
func (d *document) sharesSubject(c span, lex *lexicon) bool {
	if c.lo == d.sentenceOf(c.lo).lo || !d.tokens[c.lo].is(lex.conjunctions) && lex.language != "en" {
		return false
	}
	before := d.clauseOf(c.lo - 1)
	return anyWord(lex.firstPerson, d.tokens, before) >= 0 && lex.negatorIn(d.tokens, before) < 0
}

// maxReach is how many tokens may stand between a verb and the remedy that it speaks of.
const maxReach = 8

// given tells whether a verb of giving or getting before the remedy is itself asserted: "you will
// get", "I have arranged", "expect your".
func (d *document) given(c span, i int, lex *lexicon) bool {
	for j := i - 1; j >= c.lo && j >= i-maxReach; j-- {
		t := d.tokens[j]
		if t.kind != wordToken {
			continue
		}
		if t.word("have") && j > c.lo && d.tokens[j-1].word("will", "should") {
			return true
		}
		if !t.stemIs(lex.givers) {
			continue
		}
		if j == c.lo && t.word("expect", "enjoy", "consider") {
			return true
		}
		if d.active(c, j, lex) || j > c.lo && d.tokens[j-1].is(lex.secondPerson) && !d.tokens[c.lo].is(lex.conditions) {
			return true
		}
	}
	return false
}

// completed tells whether what follows the remedy says that it happened or comes: "has been
// issued", "is on its way", "approved".
func (d *document) completed(c span, from int, lex *lexicon) bool {
	for j := from; j < c.hi && j < from+maxReach; j++ {
		t := d.tokens[j]
		if t.kind != wordToken || !t.stemIs(lex.completions) {
			continue
		}
		if j == from || anyWord(lex.aux, d.tokens, span{from, j}) >= 0 {
			return true
		}
	}
	return false
}
