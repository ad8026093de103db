package prose

import (
	"github.com/csenv/csenv/envserver/grader/text"
)

// form is one way to state a value: the values in it or, if there are none, its words.
type form struct {
	values   []text.Value
	words    []text.Term
	negated  bool // the form itself contains a negator: "do not charge it"
	distinct bool // neither the ticket nor another fact states its values
	derived  bool // it follows from the value and the time of the ticket
}

// in returns the last token at which the span states the form, or -1. The span must contain all
// values of the form or, if it has none, three quarters of its words close together, in any order.
func (f *form) in(d *text.Document, s text.Span) int {
	if len(f.values) == 0 {
		return f.wordsIn(d, s)
	}
	at := -1
	for _, want := range f.values {
		i := claimIn(d, want, s)
		if i < 0 {
			return -1
		}
		at = max(at, i)
	}
	return at
}

func claimIn(d *text.Document, want text.Value, s text.Span) int {
	for _, c := range d.ValuesWithin(s) {
		if c.Equal(want) {
			return c.At.Lo
		}
	}
	return -1
}

func (f *form) wordsIn(d *text.Document, s text.Span) int {
	if len(f.words) == 0 {
		return -1
	}
	if len(f.words) == 1 {
		return d.Find(f.words, s, false)
	}
	if !d.SieveOf(s).MayHold(f.words, len(f.words)-len(f.words)/4) {
		return -1
	}
	window := 3*len(f.words) - 2
	for lo := s.Lo; lo < s.Hi; lo++ {
		if d.Find(f.words, text.NewSpan(lo, lo+1), true) < 0 {
			continue
		}
		if last, ok := f.enough(d, text.NewSpan(lo, min(lo+window, s.Hi))); ok {
			return last
		}
	}
	return -1
}

// enough reports whether the span contains three quarters of the form's words, at most a third of
// them as synonyms. It returns the last one.
func (f *form) enough(d *text.Document, s text.Span) (last int, ok bool) {
	n, kept := len(f.words), 0
	spare := n / 3
	for k := range f.words {
		i := d.Find(f.words[k:k+1], s, false)
		if i < 0 && spare > 0 {
			i = d.Find(f.words[k:k+1], s, true)
			spare--
		}
		if i >= 0 {
			last = max(last, i)
			kept++
		}
	}
	return last, kept >= n-n/4
}
