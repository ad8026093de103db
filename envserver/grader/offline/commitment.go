package offline

import (
	"strings"

	"github.com/csenv/csenv/envserver/grader/text"
)

// commitPattern is a way to commit the company that grammar alone doesn't show: "consider it
// refunded", "you can count on a refund". A line of a lexicon is a row of steps as in patterns of
// what is aimed at graders; "@" stands for a word of a remedy, "$" in front for a clause that
// speaks of money, and "=name" at the end names a remedy that the steps don't; "=it" is the one
// that the customer was just said to ask for.
type commitPattern struct {
	steps  []patternStep
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
				p.steps = append(p.steps, newPatternStep(step))
			}
		}
		for w := range p.steps[0].words {
			index[w] = append(index[w], p)
		}
	}
	return index
}

// commitment returns the remedy that one of the patterns commits to in the clause, "" for none.
func (d *promiseReader) commitment(v *text.Clause) string {
	for i := v.Lo; i < v.Hi && !v.Hedged(i); i++ {
		t := &d.Tokens[i]
		if t.Kind != text.WordToken {
			continue
		}
		for _, p := range d.patterns[t.Text] {
			if name := d.commitsTo(v, p, i); name != "" {
				return name
			}
		}
		if !t.Remedial() {
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
func (d *promiseReader) commitsTo(v *text.Clause, p *commitPattern, i int) string {
	if p.money && !d.SpeaksOfMoney(v.Sentence) {
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

// follows reports whether the steps follow one another from token i, and names the remedy among them.
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

// demanded returns the remedy that the clause before this one, or the sentence before that, says
// the customer asks for.
func (d *promiseReader) demanded(v *text.Clause) string {
	from := d.sentenceBefore(v.Sentence).Lo
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

// sentenceBefore returns the sentence before one, or the same if it is the first.
func (d *promiseReader) sentenceBefore(s text.Span) text.Span {
	if s.Lo == 0 {
		return s
	}
	return d.SentenceOf(s.Lo - 1)
}
