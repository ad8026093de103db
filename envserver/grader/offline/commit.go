package offline

import "strings"

// commitPattern is a way to commit the company that grammar alone doesn't show: "consider it
// refunded", "you can count on a refund". A line of a lexicon is a row of steps as in patterns of
// what is aimed at graders; "@" stands for a word of a remedy, "$" in front for a clause that
// speaks of money, and "=name" at the end names a remedy that the steps don't; "=it" is the one
// that the customer was just said to ask for.
type commitPattern struct {
	steps  []aimedStep
	money  bool
	remedy string
}

// remedyStep is how a pattern writes a word of a remedy.
const remedyStep = "@"

// antecedent is how a pattern names the remedy that a pronoun stands for.
const antecedent = "it"

// loadCommits reads the patterns, by the words that they begin with; those that begin with a remedy
// are under remedyStep.
func loadCommits(lines []string) map[string][]*commitPattern {
	index := map[string][]*commitPattern{}
	for _, line := range lines {
		p := &commitPattern{}
		for step := range strings.FieldsSeq(line) {
			switch {
			case step == "$":
				p.money = true
			case step[0] == '=':
				p.remedy = step[1:]
			default:
				p.steps = append(p.steps, newAimedStep(step))
			}
		}
		for w := range p.steps[0].words {
			index[w] = append(index[w], p)
		}
	}
	return index
}

// commitment returns the remedy that one of the patterns commits to in the clause, "" for none.
func (d *promiseReader) commitment(v *clause) string {
	for i := v.lo; i < v.hi && !v.hedged(i); i++ {
		t := &d.tokens[i]
		if t.kind != wordToken {
			continue
		}
		for _, p := range d.patterns[t.text] {
			if name := d.commitsTo(v, p, i); name != "" {
				return name
			}
		}
		if !t.remedial() {
			continue
		}
		for _, p := range d.patterns[remedyStep] {
			if name := d.commitsTo(v, p, i); name != "" {
				return name
			}
		}
	}
	return ""
}

// commitsTo returns the remedy that the pattern commits to at token i, "" for none.
func (d *promiseReader) commitsTo(v *clause, p *commitPattern, i int) string {
	if p.money && !d.speaksOfMoney(v.sentence) {
		return ""
	}
	name := p.remedy
	if !d.follows(v, p.steps, i, &name) {
		return ""
	}
	if name == antecedent {
		return d.demanded(v)
	}
	return name
}

// follows tells whether the steps follow one another from token i, and names the remedy among them.
func (d *promiseReader) follows(v *clause, steps []aimedStep, i int, name *string) bool {
	if len(steps) == 0 {
		return true
	}
	s := &steps[0]
	for j := i; j < min(i+s.reach, v.hi); j++ {
		t := &d.tokens[j]
		if s.words.has(remedyStep) {
			if remedy := d.remedyAt(v, j); remedy != "" && d.follows(v, steps[1:], j+1, name) {
				*name = remedy
				return true
			}
		}
		if t.kind == wordToken && s.matches(t.text) && d.follows(v, steps[1:], j+1, name) {
			return true
		}
	}
	return false
}

// demanded returns the remedy that the clause before this one, or the sentence before that, says
// the customer asks for.
func (d *promiseReader) demanded(v *clause) string {
	from := d.sentenceBefore(v.sentence).lo
	for c := v.lo; c > from; {
		before := d.clauseOf(c - 1)
		if before.lo >= c {
			break
		}
		c = before.lo
		if d.anyWord(Demands, before) < 0 || d.anyStem(Handover, before) >= 0 {
			continue
		}
		for i := before.lo; i < before.hi; i++ {
			if name := d.remedyAt(d.clauseAt(i), i); name != "" {
				return name
			}
		}
	}
	return ""
}

// sentenceBefore returns the sentence before one, or the same if it is the first.
func (d *promiseReader) sentenceBefore(s span) span {
	if s.lo == 0 {
		return s
	}
	return d.sentenceOf(s.lo - 1)
}
