package offline

import "strings"

// term is a word or a phrase to look for: a fact's context, a verb that must not be promised.
type term struct {
	// text is a single word's text, "" for a phrase.
	text   string
	stems  []string
	groups uint64
	marks  marks
}

// marks tell quickly what can't match: a bit each for the first three bytes of a word's stem and of
// its text, and for the last three of its text. A token holds those that it has, a term those that
// one of its matches has to have.
type marks struct{ heads, tails uint64 }

// marksOf are a token's marks.
func marksOf(text, stem string) marks {
	return marks{headMark(text) | headMark(stem), tailMark(text)}
}

// marks are those that what matches the term has at least one of.
func termMarks(text, stem string) marks {
	if len(text) < minPrefix {
		return marks{headMark(stem), 0}
	}
	return marksOf(text, stem)
}

func headMark(s string) uint64 {
	return markOf(s[:min(len(s), 3)])
}

func tailMark(s string) uint64 {
	return markOf(s[max(len(s)-3, 0):])
}

func markOf(s string) uint64 {
	h := uint64(0)
	for i := range len(s) {
		h = h*131 + uint64(s[i])
	}
	return 1 << (h * 0x9e3779b97f4a7c15 >> 58)
}

// meet tells whether two sets of marks have one in common.
func (m marks) meet(o marks) bool {
	return m.heads&o.heads|m.tails&o.tails != 0
}

// termOf makes a term of a text's tokens.
func termOf(tokens []token) term {
	var t term
	for _, tok := range tokens {
		if tok.kind == punctToken {
			continue
		}
		t.stems = append(t.stems, tok.key())
		t.text, t.groups = tok.text, tok.groups()
	}
	switch len(t.stems) {
	case 0:
		return t
	case 1:
		t.marks = termMarks(t.text, t.stems[0])
	default:
		t.text, t.groups, t.marks = "", 0, marks{heads: headMark(t.stems[0])}
	}
	return t
}

// key is what a token is compared by: the stem of a word, the text of anything else.
func (t *token) key() string {
	if t.kind == wordToken {
		return t.stem
	}
	return t.text
}

// minPrefix is how long a term must be to match the words that it begins: "escalat" matches
// "escalation", but "pass" doesn't match "password".
const minPrefix = 5

// at tells whether the term starts at token i, within the span. Words of one meaning count where
// synonyms are wanted.
func (t *term) at(tokens []token, i int, synonyms bool) bool {
	if len(t.stems) == 1 {
		return t.matches(&tokens[i], synonyms)
	}
	if !tokens[i].marks.meet(t.marks) {
		return false
	}
	for k, stem := range t.stems {
		if i+k >= len(tokens) || tokens[i+k].key() != stem {
			return false
		}
	}
	return true
}

func (t *term) matches(tok *token, synonyms bool) bool {
	if !tok.marks.meet(t.marks) {
		return synonyms && tok.groups()&t.groups != 0
	}
	switch {
	case tok.kind == punctToken:
		return false
	case tok.key() == t.stems[0], synonyms && tok.groups()&t.groups != 0:
		return true
	case tok.kind != wordToken || len(t.text) < minPrefix || len(tok.text) < len(t.text):
		return false
	}
	return tok.text[0] == t.text[0] && strings.HasPrefix(tok.text, t.text) || strings.HasSuffix(tok.text, t.text)
}

// find returns the first token of the span at which one of the terms starts, or -1.
func find(terms []term, tokens []token, s span, synonyms bool) int {
	for i := s.lo; i < s.hi; i++ {
		for k := range terms {
			if terms[k].at(tokens, i, synonyms) {
				return i
			}
		}
	}
	return -1
}

// form is one way to state a value: the claims that it makes or, when it makes none, its words.
type form struct {
	claims []claim
	stems  []term
	// negated forms hold a negator themselves: "do not charge it".
	negated bool
	// distinct forms make claims that neither the ticket nor another fact makes.
	distinct bool
	// derived forms follow from the value and the time of the ticket.
	derived bool
}

// newForm reads a value as a reply would state it.
func (l *library) newForm(text string) form {
	d := l.read(text)
	lex := l.lexicon
	f := form{claims: d.claims}
	for i, t := range d.tokens {
		switch {
		case t.kind == wordToken && t.is(lex.negators):
			f.negated = true
		case t.kind == punctToken, t.kind == currencyToken, t.is(lex.stopwords), d.claimed(i):
		default:
			f.stems = append(f.stems, term{text: t.text, stems: []string{t.key()}, groups: t.groups(),
				marks: termMarks(t.text, t.key())})
		}
	}
	return f
}

// claimed tells whether token i is part of a claim.
func (d *document) claimed(i int) bool {
	return d.claimAt(i) != nil
}

// in returns the place in the span at which the form is stated, the last token of it, or -1. All of
// its claims must be there; a form without claims needs its words close together, in any order,
// with a quarter of them spared.
func (f *form) in(d *document, s span) int {
	if len(f.claims) == 0 {
		return f.wordsIn(d.tokens, s)
	}
	at := -1
	for _, want := range f.claims {
		i := claimIn(d, want, s)
		if i < 0 {
			return -1
		}
		at = max(at, i)
	}
	return at
}

func claimIn(d *document, want claim, s span) int {
	for _, c := range d.claimsWithin(s) {
		if c.equal(want) {
			return c.at.lo
		}
	}
	return -1
}

func (f *form) wordsIn(tokens []token, s span) int {
	if len(f.stems) == 0 {
		return -1
	}
	if len(f.stems) == 1 {
		return find(f.stems, tokens, s, false)
	}
	if !f.possible(tokens, s) {
		return -1
	}
	window := 3*len(f.stems) - 2
	for lo := s.lo; lo < s.hi; lo++ {
		if find(f.stems, tokens, span{lo, lo + 1}, true) < 0 {
			continue
		}
		if last, ok := f.enough(tokens, span{lo, min(lo+window, s.hi)}); ok {
			return last
		}
	}
	return -1
}

// possible tells whether the span may hold enough of the form's words, going by their marks.
func (f *form) possible(tokens []token, s span) bool {
	var all marks
	var groups uint64
	for i := s.lo; i < s.hi; i++ {
		t := &tokens[i]
		all.heads |= t.marks.heads
		all.tails |= t.marks.tails
		groups |= t.groups()
	}
	n := 0
	for k := range f.stems {
		if f.stems[k].marks.meet(all) || f.stems[k].groups&groups != 0 {
			n++
		}
	}
	return n >= len(f.stems)-len(f.stems)/4
}

// enough tells whether the span holds what a paraphrase has to keep: three quarters of the form's
// words, a third of them at most by synonyms. It returns the place of the last one.
func (f *form) enough(tokens []token, s span) (last int, ok bool) {
	n, kept := len(f.stems), 0
	spare := n / 3
	for k := range f.stems {
		i := find(f.stems[k:k+1], tokens, s, false)
		if i < 0 && spare > 0 {
			i = find(f.stems[k:k+1], tokens, s, true)
			spare--
		}
		if i >= 0 {
			last = max(last, i)
			kept++
		}
	}
	return last, kept >= n-n/4
}

// negatorIn returns the first token of the span that negates, or -1. Idioms ("no doubt", "not
// only") don't.
func (lex *lexicon) negatorIn(tokens []token, s span) int {
	for i := s.lo; i < s.hi; i++ {
		if tokens[i].kind != wordToken || !tokens[i].is(lex.negators) {
			continue
		}
		if i+1 < len(tokens) && tokens[i+1].is(lex.idioms) {
			continue
		}
		return i
	}
	return -1
}

// conditional tells whether the span holds a condition, or a time that has still to come.
func (lex *lexicon) conditional(tokens []token, s span) bool {
	return anyWord(lex.conditions, tokens, s) >= 0 || anyWord(lex.times, tokens, s) >= 0 ||
		anyPhrase(&lex.openPhrases, tokens, s)
}

// anyWord returns the first token of the span that is of the class, or -1.
func anyWord(c wordClass, tokens []token, s span) int {
	for i := s.lo; i < s.hi; i++ {
		if tokens[i].is(c) {
			return i
		}
	}
	return -1
}

// anyStem is anyWord for a class of stems.
func anyStem(c stemClass, tokens []token, s span) int {
	for i := s.lo; i < s.hi; i++ {
		if tokens[i].stemIs(c) {
			return i
		}
	}
	return -1
}

// phraseSet are phrases with the class of the words that begin them.
type phraseSet struct {
	heads   wordClass
	phrases [][]string
}

// anyPhrase tells whether one of the phrases stands in the span.
func anyPhrase(set *phraseSet, tokens []token, s span) bool {
	for i := s.lo; i < s.hi; i++ {
		if n := set.starts(tokens, i); n > 0 && i+n <= s.hi {
			return true
		}
	}
	return false
}

// starts returns the length of the longest of the phrases that starts at token i, or 0.
func (s *phraseSet) starts(tokens []token, i int) int {
	if !tokens[i].is(s.heads) {
		return 0
	}
	longest := 0
	for _, p := range s.phrases {
		if len(p) > longest && phraseAt(p, tokens, i) {
			longest = len(p)
		}
	}
	return longest
}

func phraseAt(phrase []string, tokens []token, i int) bool {
	for k, w := range phrase {
		if i+k >= len(tokens) || tokens[i+k].text != w {
			return false
		}
	}
	return true
}
