package offline

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

// promiseReader finds the promises of a text: by the grammar of its clauses, or else by patterns.
type promiseReader struct {
	*document
	patterns map[string][]*commitPattern
}

// promises returns the commitments to any known remedy, in order.
func (d *promiseReader) promises() []promise {
	out := make([]promise, 0, 4)
	clauses := d.allClauses()
	for i := range clauses {
		if !clauses[i].withheld {
			out = d.promisesIn(out, &clauses[i])
		}
	}
	return out
}

// promisesIn appends a clause's commitments by its grammar, or else one by a pattern.
func (d *promiseReader) promisesIn(out []promise, v *clause) []promise {
	before := len(out)
	for i := v.lo; i < v.hi; i++ {
		if !d.tokens[i].remedial() {
			continue
		}
		if name := d.remedyAt(v, i); name != "" && d.committed(v, span{i, i + 1}) {
			out = append(out, promise{clause: v.span, sentence: v.sentence, name: name})
		}
	}
	if len(out) == before {
		if name := d.commitment(v); name != "" {
			out = append(out, promise{clause: v.span, sentence: v.sentence, name: name})
		}
	}
	return out
}

// promised reports whether a clause commits the company to what the term names.
func (d *promiseReader) promised(t *term) bool {
	clauses := d.allClauses()
	for k := range clauses {
		v := &clauses[k]
		for i := v.lo; i < v.hi; i++ {
			if t.at(d.tokens, i, false) && d.committed(v, span{i, i + len(t.stems)}) {
				return true
			}
		}
	}
	return false
}

// remedial tells whether a word may speak of a remedy.
func (t *token) remedial() bool {
	return t.kind == wordToken && (t.remedy() != "" || t.is(Back) || t.stemIs(Returns))
}

// remedyAt names the remedy that token i speaks of, "" for none. Money that comes back is a refund,
// whatever the words.
func (d *promiseReader) remedyAt(v *clause, i int) string {
	t := &d.tokens[i]
	if d.otherSense(i) || d.bankAct(v, i) {
		return ""
	}
	if name := t.remedy(); name != "" {
		return name
	}
	if (t.is(Back) || t.stemIs(Returns)) && v.money {
		return "refund"
	}
	return ""
}

// bankAct tells whether a chargeback is only spoken of as something that somebody else's bank does.
func (d *promiseReader) bankAct(v *clause, i int) bool {
	return d.tokens[i].word("chargeback", "chargebacks") && d.anyWord(FirstPerson, v.span) < 0
}

// maxSense is how many tokens before a word a phrase may begin that gives it another sense.
const maxSense = 3

// otherSense tells whether token i is part of a phrase in which it stands for no remedy: "credit
// card", "get back to you".
func (d *promiseReader) otherSense(i int) bool {
	for j := max(0, i-maxSense); j <= i; j++ {
		if n := d.phraseAt(Senses, j); j+n > i {
			return true
		}
	}
	return false
}

// committed tells whether a clause asserts the remedy at the span: not as a question, a condition,
// a possibility, a request or a denial.
func (d *promiseReader) committed(v *clause, at span) bool {
	switch {
	case v.withheld:
		return false
	case d.lex.language != "en":
		return !v.hedged(v.hi) && v.loose
	case d.active(v.span, at.lo):
		// Once "we will refund" is said, what follows can't take it back, save that it speaks of
		// something else: "refund requests".
		return !v.hedged(at.hi+1) && !v.selective
	}
	return !v.hedged(v.hi) && d.asserted(v.span, at)
}

// asserted tells whether the clause says that the remedy comes or came: as what somebody gives or
// gets ("you will receive a refund"), or as what something happens to ("your refund has been
// issued"). That it is the clause's own verb is for active to tell.
func (d *promiseReader) asserted(c, at span) bool {
	back := d.tokens[at.lo].is(Back) && d.anyWord(Aux, span{c.lo, at.lo}) >= 0
	return back || d.given(c, at.lo) || d.completed(c, at.hi)
}

// active tells whether the verb at token i is said of the present, the past or the future, rather
// than being an infinitive or a name.
func (d *promiseReader) active(c span, i int) bool {
	j := i - 1
	for j >= c.lo && (d.tokens[j].is(Skip) || d.tokens[j].kind == punctToken || d.claimed(j) &&
		!d.tokens[j].is(Aux)) {
		j--
	}
	if j < c.lo {
		return d.continued(c, i)
	}
	t := d.tokens[j]
	switch {
	case t.is(Aux):
		return true
	case t.is(FirstPerson):
		return true
	case t.word("can") && j > c.lo && d.tokens[j-1].is(FirstPerson):
		return true
	case t.word("to"):
		return j > c.lo && d.tokens[j-1].is(Enablers)
	}
	return d.continued(c, i) && j == c.lo && t.is(Conjunctions)
}

// continued tells whether the clause goes on with the subject of the one before it: "I have checked
// the charge and refunded it".
func (d *promiseReader) continued(c span, i int) bool {
	text := d.tokens[i].text
	return len(text) >= 5 && text[len(text)-2:] == "ed" && d.sharesSubject(c) &&
		d.anyWord(Hedges, d.clauseOf(c.lo-1)) < 0
}

// maxReach is how many tokens may stand between a verb and the remedy that it speaks of.
const maxReach = 8

// given tells whether a verb of giving or getting before the remedy is itself asserted: "you will
// get", "I have arranged", "expect your".
func (d *promiseReader) given(c span, i int) bool {
	for j := i - 1; j >= c.lo && j >= i-maxReach; j-- {
		t := d.tokens[j]
		if t.kind != wordToken {
			continue
		}
		if t.word("have") && j > c.lo && d.tokens[j-1].word("will", "should") {
			return true
		}
		if !t.stemIs(Givers) {
			continue
		}
		if j == c.lo && t.word("expect", "enjoy", "consider") {
			return true
		}
		if d.active(c, j) || j > c.lo && d.tokens[j-1].is(SecondPerson) && !d.tokens[c.lo].is(Conditions) {
			return true
		}
	}
	return false
}

// completed tells whether what follows the remedy says that it happened or comes: "has been
// issued", "is on its way", "approved".
func (d *promiseReader) completed(c span, from int) bool {
	for j := from; j < c.hi && j < from+maxReach; j++ {
		t := d.tokens[j]
		if t.kind != wordToken || !t.stemIs(Completions) {
			continue
		}
		if j == from || d.anyWord(Aux, span{from, j}) >= 0 {
			return true
		}
	}
	return false
}
