package text

import "strings"

// Term is a word or a phrase to search for: a fact's context, or a verb that must not be promised.
type Term struct {
	Text      string // a single word's text, "" for a phrase
	Stems     []string
	groups    uint64
	prefilter prefilter
}

// prefilter excludes most tokens quickly: it has a bit for each of the first three bytes of a
// word's stem and of its text, and of the last three of its text. A token and a term that match
// share a bit.
type prefilter struct{ heads, tails uint64 }

// prefilterOf returns a token's bits.
func prefilterOf(text, stem string) prefilter {
	return prefilter{headBit(text) | headBit(stem), tailBit(text)}
}

func headBit(s string) uint64 { return bitOf(s[:min(len(s), 3)]) }

func tailBit(s string) uint64 { return bitOf(s[max(len(s)-3, 0):]) }

func bitOf(s string) uint64 {
	h := uint64(0)
	for i := range len(s) {
		h = h*131 + uint64(s[i])
	}
	return 1 << (h * 0x9e3779b97f4a7c15 >> 58)
}

func (p prefilter) meets(o prefilter) bool { return p.heads&o.heads|p.tails&o.tails != 0 }

// NewTerm makes a term of a text's tokens.
func NewTerm(tokens []Token) Term {
	var t Term
	for _, tok := range tokens {
		if tok.Kind == PunctToken {
			continue
		}
		t.Stems = append(t.Stems, tok.Key())
		t.Text, t.groups = tok.Text, tok.groups()
	}
	switch {
	case len(t.Stems) == 1 && len(t.Text) >= minPrefix:
		t.prefilter = prefilterOf(t.Text, t.Stems[0])
	case len(t.Stems) > 0:
		t.prefilter.heads = headBit(t.Stems[0])
	}
	if len(t.Stems) > 1 {
		t.Text, t.groups = "", 0
	}
	return t
}

// Key returns the stem of a word, or the text of any other token, for comparisons.
func (t *Token) Key() string {
	if t.Kind == WordToken {
		return t.Stem
	}
	return t.Text
}

// minPrefix is the minimum length of a term that matches the words that it begins or ends:
// "escalat" matches "escalation", but "pass" doesn't match "password".
const minPrefix = 5

// At reports whether the term starts at token i. With synonyms set, a synonym matches too.
func (t *Term) At(tokens []Token, i int, synonyms bool) bool {
	if len(t.Stems) == 1 {
		return t.Matches(&tokens[i], synonyms)
	}
	if !tokens[i].prefilter.meets(t.prefilter) {
		return false
	}
	for k, stem := range t.Stems {
		if i+k >= len(tokens) || tokens[i+k].Key() != stem {
			return false
		}
	}
	return true
}

// Matches reports whether a token matches the term of a single word.
func (t *Term) Matches(tok *Token, synonyms bool) bool {
	if !tok.prefilter.meets(t.prefilter) {
		return synonyms && tok.groups()&t.groups != 0
	}
	switch {
	case tok.Kind == PunctToken:
		return false
	case tok.Key() == t.Stems[0], synonyms && tok.groups()&t.groups != 0:
		return true
	case tok.Kind != WordToken || len(t.Text) < minPrefix || len(tok.Text) < len(t.Text):
		return false
	}
	return tok.Text[0] == t.Text[0] && strings.HasPrefix(tok.Text, t.Text) || strings.HasSuffix(tok.Text, t.Text)
}

// Find returns the first token of the span at which one of the terms starts, or -1.
func (d *Document) Find(terms []Term, s Span, synonyms bool) int {
	var all Sieve
	for k := range terms {
		all.heads |= terms[k].prefilter.heads
		all.tails |= terms[k].prefilter.tails
		all.groups |= terms[k].groups
	}
	for i := s.Lo; i < s.Hi; i++ {
		t := &d.Tokens[i]
		if !t.prefilter.meets(all.prefilter) && (!synonyms || t.groups()&all.groups == 0) {
			continue
		}
		for k := range terms {
			if terms[k].At(d.Tokens, i, synonyms) {
				return i
			}
		}
	}
	return -1
}

// Sieve excludes most terms that a span doesn't contain quickly, or most tokens that match no term.
type Sieve struct {
	prefilter
	groups uint64
}

// SieveOf returns the sieve of a span.
func (d *Document) SieveOf(s Span) Sieve {
	var all Sieve
	for i := s.Lo; i < s.Hi; i++ {
		t := &d.Tokens[i]
		all.heads |= t.prefilter.heads
		all.tails |= t.prefilter.tails
		all.groups |= t.groups()
	}
	return all
}

// MayHold reports whether the span may contain at least that many of the terms.
func (s Sieve) MayHold(terms []Term, least int) bool {
	for k := range terms {
		if terms[k].prefilter.meets(s.prefilter) || terms[k].groups&s.groups != 0 {
			least--
		}
	}
	return least <= 0
}
