package offline

// form is one way to state a value: the claims that it makes or, when it makes none, its words.
type form struct {
	claims []claim
	words  []term
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
	f := form{claims: d.claims}
	for i, t := range d.tokens {
		switch {
		case t.kind == wordToken && t.is(Negators):
			f.negated = true
		case t.kind == punctToken, t.kind == currencyToken, t.is(Stopwords), d.claimed(i):
		default:
			f.words = append(f.words, termOf(d.tokens[i:i+1]))
		}
	}
	return f
}

// in returns the place in the span at which the form is stated, the last token of it, or -1. All of
// its claims must be there; a form without claims needs its words close together, in any order,
// with a quarter of them spared.
func (f *form) in(d *document, s span) int {
	if len(f.claims) == 0 {
		return f.wordsIn(d, s)
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

func (f *form) wordsIn(d *document, s span) int {
	if len(f.words) == 0 {
		return -1
	}
	if len(f.words) == 1 {
		return d.find(f.words, s, false)
	}
	if !d.mayHold(f.words, s, len(f.words)-len(f.words)/4) {
		return -1
	}
	window := 3*len(f.words) - 2
	for lo := s.lo; lo < s.hi; lo++ {
		if d.find(f.words, span{lo, lo + 1}, true) < 0 {
			continue
		}
		if last, ok := f.enough(d, span{lo, min(lo+window, s.hi)}); ok {
			return last
		}
	}
	return -1
}

// enough tells whether the span holds what a paraphrase has to keep: three quarters of the form's
// words, a third of them at most by synonyms. It returns the place of the last one.
func (f *form) enough(d *document, s span) (last int, ok bool) {
	n, kept := len(f.words), 0
	spare := n / 3
	for k := range f.words {
		i := d.find(f.words[k:k+1], s, false)
		if i < 0 && spare > 0 {
			i = d.find(f.words[k:k+1], s, true)
			spare--
		}
		if i >= 0 {
			last = max(last, i)
			kept++
		}
	}
	return last, kept >= n-n/4
}
