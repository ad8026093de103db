package offline

// claimed tells whether token i is part of a claim.
func (d *document) claimed(i int) bool {
	return d.claimAt(i) != nil
}

// negatorIn returns the first token of the span that negates, or -1. Idioms ("no doubt", "not
// only") don't.
func (d *document) negatorIn(s span) int {
	for i := s.lo; i < s.hi; i++ {
		if d.tokens[i].is(Negators) && (i+1 == len(d.tokens) || !d.tokens[i+1].is(Idioms)) {
			return i
		}
	}
	return -1
}

// conditional reports whether the span holds a condition, or a time that has still to come.
func (d *document) conditional(s span) bool {
	return d.anyWord(Conditions|Times, s) >= 0 || d.anyPhrase(OpenPhrases, s)
}

// anyWord returns the first token of the span that is of one of the classes, or -1.
func (d *document) anyWord(c WordClass, s span) int {
	for i := s.lo; i < s.hi; i++ {
		if d.tokens[i].is(c) {
			return i
		}
	}
	return -1
}

// anyStem returns the first token of the span whose stem is of one of the classes, or -1.
func (d *document) anyStem(c StemClass, s span) int {
	for i := s.lo; i < s.hi; i++ {
		if d.tokens[i].stemIs(c) {
			return i
		}
	}
	return -1
}

// anyPhrase reports whether one of the phrases stands in the span.
func (d *document) anyPhrase(p Phrases, s span) bool {
	for i := s.lo; i < s.hi; i++ {
		if n := d.phraseAt(p, i); n > 0 && i+n <= s.hi {
			return true
		}
	}
	return false
}

// phraseAt returns the length of the longest of the phrases that starts at token i, or 0.
func (d *document) phraseAt(p Phrases, i int) int {
	if d.tokens[i].heads&p == 0 {
		return 0
	}
	longest := 0
	for _, words := range d.lex.phrases[p] {
		if len(words) > longest && d.holdsAt(words, i) {
			longest = len(words)
		}
	}
	return longest
}

func (d *document) holdsAt(words []string, i int) bool {
	for k, w := range words {
		if i+k >= len(d.tokens) || d.tokens[i+k].text != w {
			return false
		}
	}
	return true
}
