package offline

import (
	"slices"
	"strings"
)

// rightLanguage tells whether the reply is in the lexicon's language, by the share of its commonest
// words. A short reply is given the benefit of the doubt.
func rightLanguage(d *document) bool {
	own, most := 0, 0
	for i, language := range languages() {
		n := countWords(d, identify<<i)
		if language == d.lex.language {
			own = n
		}
		most = max(most, n)
	}
	return most <= own+2
}

func countWords(d *document, c WordClass) int {
	n := 0
	for i := range d.tokens {
		if d.tokens[i].is(c) {
			n++
		}
	}
	return n
}

// greeting is within how many tokens the customer has to be addressed. A name further down may be
// the customer's own signature, quoted.
const greeting = 12

// addressed tells whether the reply begins by calling the customer by a name.
func addressed(d *document, names wordSet) bool {
	return slices.ContainsFunc(d.tokens[:min(greeting, len(d.tokens))],
		func(t token) bool { return t.kind == wordToken && names.has(t.text) })
}

// placeholder tells whether a template's gap was left in the text: {name}, [NAME], <order id>,
// XXXX.
func placeholder(text string) bool {
	if strings.Contains(text, "{{") || strings.Contains(text, "xxxx") || strings.Contains(text, "____") {
		return true
	}
	for _, pair := range []string{"{}", "[]", "<>"} {
		if bracketed(text, pair[0], pair[1]) {
			return true
		}
	}
	return false
}

// maxGap is how long the text of a placeholder may be.
const maxGap = 40

// bracketed tells whether a short text that starts with a letter stands between the marks.
func bracketed(text string, left, right byte) bool {
	for {
		i := strings.IndexByte(text, left)
		if i < 0 {
			return false
		}
		text = text[i+1:]
		j := strings.IndexByte(text, right)
		if j > 0 && j <= maxGap && letters(text) > 0 && !strings.Contains(text[:j], "@") &&
			!strings.HasPrefix(text, "http") {
			return true
		}
	}
}

// acknowledges tells whether a sentence of the reply takes up the customer's situation: an apology
// or a word of empathy for an angry or worried customer, thanks will do for others, and it has to
// be about the ticket's matter. A courtesy that fits every ticket acknowledges nothing.
func acknowledges(d *document, p *prepared) bool {
	for _, s := range d.sentences {
		empathy := d.anyStem(Empathy, s) >= 0
		sorry := d.anyStem(Apology, s) >= 0
		thanks := d.anyStem(Thanks, s) >= 0
		recognised := d.anyPhrase(Recognise, s)
		if !empathy && !recognised && !sorry && (!thanks || p.upset) {
			continue
		}
		if empathy || recognised || !stock(d, s, p) {
			return true
		}
	}
	return false
}

// stock tells whether a sentence is made of nothing but courtesies.
func stock(d *document, s span, p *prepared) bool {
	for _, t := range d.tokens[s.lo:s.hi] {
		switch {
		case t.kind == punctToken, t.is(Stopwords), p.names.has(t.text):
		case t.stemIs(Courtesy), t.stemIs(Apology), t.stemIs(Thanks), t.stemIs(Empathy):
		default:
			return false
		}
	}
	return true
}

// relevantWords counts the words of the distinct sentences that speak of the ticket's matter or
// state a value.
func relevantWords(d *document, p *prepared) int {
	n := 0
	seen := map[uint64]bool{}
	for _, s := range d.sentences {
		if !topical(d, s, p) && !d.claimsIn(s) {
			continue
		}
		if h := hashTokens(d.tokens[s.lo:s.hi]); !seen[h] {
			seen[h] = true
			n += d.words(s)
		}
	}
	return n
}

// topical tells whether two words of the span are about the ticket's matter.
func topical(d *document, s span, p *prepared) bool {
	n := 0
	for i := s.lo; i < s.hi && n < 2; i++ {
		if d.tokens[i].kind == wordToken && p.topic.has(d.tokens[i].stem) {
			n++
		}
	}
	return n == 2
}

// claimsIn tells whether the span states a value.
func (d *document) claimsIn(s span) bool {
	return len(d.claimsWithin(s)) > 0
}

func hashTokens(tokens []token) uint64 {
	h := uint64(0)
	for i := range tokens {
		if tokens[i].kind != punctToken {
			h = h*1099511628211 ^ tokens[i].hashed()
		}
	}
	return h
}

// handedOver tells whether the reply says that the ticket went or goes to a team. Naming the right
// team is a hint of it, a verb of handing over makes it plain.
func handedOver(d *document, p *prepared, plain bool) bool {
	for _, c := range d.clauses {
		named := d.find(p.teams, c, false) >= 0
		given := d.anyStem(Handover, c) >= 0 && (named || d.anyStem(Teams, c) >= 0)
		given = given || d.anyPhrase(Handed, c) && p.namesTeam(d)
		if !given && (plain || !named) {
			continue
		}
		s := d.sentenceOf(c.lo)
		if d.negatorIn(span{d.runOf(s, c.lo), c.hi}) < 0 &&
			d.anyWord(Conditions, span{d.partOf(s, c.lo), c.hi}) < 0 && !open(d, s) {
			return true
		}
	}
	return false
}

// partOf returns where the part of a sentence begins that token i stands in: what is said after a
// semicolon holds on its own.
func (d *document) partOf(s span, i int) int {
	for i > s.lo && d.tokens[i-1].text != ";" {
		i--
	}
	return i
}

// runOf returns where the words begin that lead up to token i without a mark between them: "no form
// or other team involved" denies both.
func (d *document) runOf(s span, i int) int {
	for i > s.lo && d.tokens[i-1].kind != punctToken {
		i--
	}
	return i
}

// namesTeam tells whether the reply names a team that the ticket may go to: what "them" stands for.
func (p *prepared) namesTeam(d *document) bool {
	whole := span{0, len(d.tokens)}
	return d.find(p.teams, whole, false) >= 0 || d.anyStem(Teams, whole) >= 0
}
