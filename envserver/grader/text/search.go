package text

// InValue reports whether token i is part of a value.
func (d *Document) InValue(i int) bool { return d.ValueAt(i) != nil }

// NegatorIn returns the first token of the span that negates, or -1. Idioms such as "no doubt"
// don't negate.
func (d *Document) NegatorIn(s Span) int {
	for i := s.Lo; i < s.Hi; i++ {
		if d.Tokens[i].Is(Negators) && (i+1 == len(d.Tokens) || !d.Tokens[i+1].Is(Idioms)) {
			return i
		}
	}
	return -1
}

// conditional reports whether the span contains a condition or a time in the future.
func (d *Document) conditional(s Span) bool {
	return d.AnyWord(Conditions|Times, s) >= 0 || d.AnyPhrase(OpenPhrases, s)
}

// AnyWord returns the first token of the span that is of one of the classes, or -1.
func (d *Document) AnyWord(c WordClass, s Span) int {
	for i := s.Lo; i < s.Hi; i++ {
		if d.Tokens[i].Is(c) {
			return i
		}
	}
	return -1
}

// AnyStem returns the first token of the span whose stem is of one of the classes, or -1.
func (d *Document) AnyStem(c StemClass, s Span) int {
	for i := s.Lo; i < s.Hi; i++ {
		if d.Tokens[i].StemIs(c) {
			return i
		}
	}
	return -1
}

// AnyPhrase reports whether one of the phrases is in the span.
func (d *Document) AnyPhrase(p Phrases, s Span) bool {
	for i := s.Lo; i < s.Hi; i++ {
		if n := d.PhraseAt(p, i); n > 0 && i+n <= s.Hi {
			return true
		}
	}
	return false
}

// PhraseAt returns the length of the longest of the phrases that starts at token i, or 0.
func (d *Document) PhraseAt(p Phrases, i int) int {
	if d.Tokens[i].heads&p == 0 {
		return 0
	}
	longest := 0
	for _, words := range d.Lexicon.phrases[p] {
		if len(words) > longest && d.holdsAt(words, i) {
			longest = len(words)
		}
	}
	return longest
}

func (d *Document) holdsAt(words []string, i int) bool {
	for k, w := range words {
		if i+k >= len(d.Tokens) || d.Tokens[i+k].Text != w {
			return false
		}
	}
	return true
}
