package prose

import (
	"strings"

	"github.com/csenv/csenv/envserver/grader/text"
)

// remedy is a forbidden promise: a known remedy with all of its words, or the scenario's own verb.
type remedy struct {
	name string
	term text.Term
}

// promise is a clause that commits the company to a remedy.
type promise struct {
	clause, sentence text.Span
	name             string // the remedy's name, "" if only the scenario names it
}

// promiseReader finds the promises of a text: by the grammar of its clauses, or by patterns.
type promiseReader struct {
	*text.Document
	patterns map[string][]*commitPattern
}

// promises returns the commitments to any known remedy, in order.
func (d *promiseReader) promises() []promise {
	out := make([]promise, 0, 4)
	clauses := d.Clauses()
	for i := range clauses {
		if !clauses[i].Withheld {
			out = d.promisesIn(out, &clauses[i])
		}
	}
	return out
}

// promisesIn appends a clause's commitments by its grammar, or else one by a pattern.
func (d *promiseReader) promisesIn(out []promise, v *text.Clause) []promise {
	before := len(out)
	for i := v.Lo; i < v.Hi; i++ {
		if !d.Tokens[i].Remedial() {
			continue
		}
		if name := d.remedyAt(v, i); name != "" && d.committed(v, text.NewSpan(i, i+1)) {
			if name == "refund" && d.asCredit(text.NewSpan(i+1, v.Sentence.Hi)) {
				name = "credit"
			}
			out = append(out, promise{clause: v.Span, sentence: v.Sentence, name: name})
		}
	}
	if len(out) == before {
		if name := d.commitment(v); name != "" {
			out = append(out, promise{clause: v.Span, sentence: v.Sentence, name: name})
		}
	}
	return out
}

// asCredit reports whether the rest of a sentence up to an "and" says that what was promised is
// given as store credit: "we refund the difference, $10.26, as store credit".
func (d *promiseReader) asCredit(rest text.Span) bool {
	for i := rest.Lo; i < rest.Hi && !d.Tokens[i].Is(text.NumberJoins); i++ {
		if d.PhraseAt(text.AsCredit, i) > 0 {
			return true
		}
	}
	return false
}

// remedyAt returns the remedy that token i is about, or "". Money that comes back counts as a
// refund in any wording.
func (d *promiseReader) remedyAt(v *text.Clause, i int) string {
	t := &d.Tokens[i]
	// A chargeback is an act of the customer's bank unless the company claims it.
	bank := t.IsWord("chargeback", "chargebacks") && d.AnyWord(text.FirstPerson, v.Span) < 0
	reversed := (t.Is(text.Back) || t.StemIs(text.Returns|text.Reversals)) && d.byBank(v, i)
	if bank || reversed || d.otherSense(i) {
		return ""
	}
	if name := t.Remedy(); name != "" {
		return name
	}
	if (t.Is(text.Back) || t.StemIs(text.Returns)) && v.Money && !d.takenBack(v, i) {
		return "refund"
	}
	return ""
}

// byBank reports whether the customer's bank undoes a payment at token i: "your bank has charged
// the payment back", "the charge has been reversed by your bank". A writer who says "we" does it.
func (d *promiseReader) byBank(v *text.Clause, i int) bool {
	if d.AnyWord(text.FirstPerson, v.Span) >= 0 {
		return false
	}
	for j := v.Lo; j < v.Hi; j++ {
		if d.PhraseAt(text.Banks, j) == 0 {
			continue
		}
		from := j
		if j > v.Lo && d.Tokens[j-1].IsWord("by", "von", "durch", "por", "par") {
			from = v.Lo
		}
		if from = max(from, i-maxReach); from <= i && d.AnyStem(text.Reversals, text.NewSpan(from, i+1)) >= 0 {
			return true
		}
	}
	return false
}

// takenBack reports whether "back" at token i belongs to a taking, which gives the customer
// nothing: "your bank has taken the sum back".
func (d *promiseReader) takenBack(v *text.Clause, i int) bool {
	return d.AnyStem(text.Takings, text.NewSpan(max(v.Lo, i-maxReach), min(v.Hi, i+2))) >= 0
}

// maxSense is the maximum distance to the beginning of a phrase that gives a word another sense.
const maxSense = 3

// otherSense reports whether token i is part of a phrase in which it is no remedy: "credit card",
// "get back to you".
func (d *promiseReader) otherSense(i int) bool {
	for j := max(0, i-maxSense); j <= i; j++ {
		if n := d.PhraseAt(text.Senses, j); j+n > i {
			return true
		}
	}
	return false
}

// committed reports whether a clause asserts the remedy at the span: not as a question, a
// condition, a possibility, a request or a denial.
func (d *promiseReader) committed(v *text.Clause, at text.Span) bool {
	switch {
	case v.Withheld:
		return false
	case d.Lexicon.Language != "en":
		return !v.Hedged(v.Hi) && v.Loose
	case d.active(v.Span, at.Lo):
		// Text after "we will refund" can't withdraw it, unless it changes the meaning: "refund
		// requests".
		return !v.Hedged(at.Hi+1) && !v.Selective
	}
	return !v.Hedged(v.Hi) && d.asserted(v.Span, at)
}

// asserted reports whether the clause states that the remedy comes or came: something given or
// received ("you will receive a refund"), or something completed ("your refund has been issued").
func (d *promiseReader) asserted(c, at text.Span) bool {
	back := d.Tokens[at.Lo].Is(text.Back) && d.AnyWord(text.Aux, text.NewSpan(c.Lo, at.Lo)) >= 0
	return back || d.given(c, at.Lo) || d.completed(c, at.Hi)
}

// active reports whether the verb at token i is finite, rather than an infinitive or a noun.
func (d *promiseReader) active(c text.Span, i int) bool {
	j := i - 1
	for j >= c.Lo && (d.Tokens[j].Is(text.Skip) || d.Tokens[j].Kind == text.PunctToken ||
		d.InValue(j) && !d.Tokens[j].Is(text.Aux)) {
		j--
	}
	if j < c.Lo {
		return d.continued(c, i)
	}
	t := &d.Tokens[j]
	switch {
	case t.Is(text.Aux | text.FirstPerson), t.IsWord("can") && j > c.Lo && d.Tokens[j-1].Is(text.FirstPerson):
		return true
	case t.IsWord("to"):
		return j > c.Lo && d.Tokens[j-1].Is(text.Enablers)
	}
	return d.continued(c, i) && j == c.Lo && t.Is(text.Conjunctions)
}

// continued reports whether the clause goes on with the subject of the one before it: "I have
// checked the charge and refunded it".
func (d *promiseReader) continued(c text.Span, i int) bool {
	word := d.Tokens[i].Text
	return len(word) >= 5 && strings.HasSuffix(word, "ed") && d.SharesSubject(c) &&
		d.AnyWord(text.Hedges, d.ClauseOf(c.Lo-1)) < 0
}

// maxReach is the maximum distance in tokens between a verb and the remedy that it concerns.
const maxReach = 8

// given reports whether a verb of giving or getting before the remedy is itself asserted: "you will
// get", "I have arranged", "expect your".
func (d *promiseReader) given(c text.Span, i int) bool {
	for j := i - 1; j >= c.Lo && j >= i-maxReach; j-- {
		t := &d.Tokens[j]
		if t.Kind != text.WordToken || !t.StemIs(text.Givers) {
			continue
		}
		if j == c.Lo && t.IsWord("expect", "enjoy", "consider") || d.active(c, j) ||
			j > c.Lo && d.Tokens[j-1].Is(text.SecondPerson) && !d.Tokens[c.Lo].Is(text.Conditions) {
			return true
		}
	}
	return false
}

// completed reports whether the words after the remedy state that it happened or will: "has been
// issued", "is on its way", "approved".
func (d *promiseReader) completed(c text.Span, from int) bool {
	for j := from; j < c.Hi && j < from+maxReach; j++ {
		if t := &d.Tokens[j]; t.Kind == text.WordToken && t.StemIs(text.Completions) &&
			(j == from || d.AnyWord(text.Aux, text.NewSpan(from, j)) >= 0) {
			return true
		}
	}
	return false
}

// commitPattern is a commitment that grammar alone doesn't reveal: "consider it refunded". It is a
// line of a lexicon: steps as in patterns of injections, "@" for a word of a remedy, and "=name"
// for a remedy that the steps don't name; "=it" is the remedy that the customer requested.
type commitPattern struct {
	steps  []patternStep
	remedy string
}

// remedyStep stands for a word of a remedy in a pattern.
const remedyStep = "@"

// antecedent is the name of the remedy that a pronoun refers to.
const antecedent = "it"

// loadCommits indexes the patterns by their first words, or by remedyStep.
func loadCommits(lines []string) map[string][]*commitPattern {
	index := map[string][]*commitPattern{}
	for _, line := range lines {
		p := &commitPattern{}
		for step := range strings.FieldsSeq(line) {
			if remedy, named := strings.CutPrefix(step, "="); named {
				p.remedy = remedy
			} else {
				p.steps = append(p.steps, newPatternStep(step))
			}
		}
		for w := range p.steps[0].words {
			index[w] = append(index[w], p)
		}
	}
	return index
}

// commitment returns the remedy to which one of the patterns commits in the clause, or "".
func (d *promiseReader) commitment(v *text.Clause) string {
	for i := v.Lo; i < v.Hi && !v.Hedged(i); i++ {
		t := &d.Tokens[i]
		if t.Kind != text.WordToken {
			continue
		}
		name := d.commitsTo(v, d.patterns[t.Text], i)
		if name == "" && t.Remedial() {
			name = d.commitsTo(v, d.patterns[remedyStep], i)
		}
		if name != "" {
			return name
		}
	}
	return ""
}

// commitsTo returns the remedy to which the first matching pattern commits at token i, or "".
func (d *promiseReader) commitsTo(v *text.Clause, patterns []*commitPattern, i int) string {
	for _, p := range patterns {
		name := p.remedy
		if !d.follows(v, p.steps, i, &name) {
			continue
		}
		if name == antecedent {
			name = d.demanded(v)
		}
		if name != "" {
			return name
		}
	}
	return ""
}

// follows reports whether the steps follow one another from token i, and names the remedy among
// them.
func (d *promiseReader) follows(v *text.Clause, steps []patternStep, i int, name *string) bool {
	if len(steps) == 0 {
		return true
	}
	s := &steps[0]
	for j := i; j < min(i+s.reach, v.Hi); j++ {
		t := &d.Tokens[j]
		if s.words.has(remedyStep) {
			if remedy := d.remedyAt(v, j); remedy != "" && d.follows(v, steps[1:], j+1, name) {
				*name = remedy
				return true
			}
		}
		if t.Kind == text.WordToken && s.matches(t.Text) && d.follows(v, steps[1:], j+1, name) {
			return true
		}
	}
	return false
}

// demanded returns the remedy that the customer requests in the previous sentence or earlier in
// this one.
func (d *promiseReader) demanded(v *text.Clause) string {
	from := v.Sentence.Lo
	if from > 0 {
		from = d.SentenceOf(from - 1).Lo
	}
	for c := v.Lo; c > from; {
		before := d.ClauseOf(c - 1)
		if before.Lo >= c {
			break
		}
		c = before.Lo
		if d.AnyWord(text.Demands, before) < 0 || d.AnyStem(text.Handover, before) >= 0 {
			continue
		}
		for i := before.Lo; i < before.Hi; i++ {
			if name := d.remedyAt(d.ClauseAt(i), i); name != "" {
				return name
			}
		}
	}
	return ""
}
