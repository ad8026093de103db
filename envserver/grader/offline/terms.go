package offline

import "strings"

// term is a word or a phrase to look for: a fact's context, a verb that must not be promised.
type term struct {
	// text is a single word's text, "" for a phrase.
	text      string
	stems     []string
	groups    uint64
	prefilter prefilter
}

// marks tell quickly what can't match: a bit each for the first three bytes of a word's stem and of
// its text, and for the last three of its text. A token holds those that it has, a term those that
// one of its matches has to have.
type prefilter struct{ heads, tails uint64 }

// prefilterOf are a token's marks.
func prefilterOf(text, stem string) prefilter {
	return prefilter{headBit(text) | headBit(stem), tailBit(text)}
}

// marks are those that what matches the term has at least one of.
func termPrefilter(text, stem string) prefilter {
	if len(text) < minPrefix {
		return prefilter{headBit(stem), 0}
	}
	return prefilterOf(text, stem)
}

func headBit(s string) uint64 {
	return bitOf(s[:min(len(s), 3)])
}

func tailBit(s string) uint64 {
	return bitOf(s[max(len(s)-3, 0):])
}

func bitOf(s string) uint64 {
	h := uint64(0)
	for i := range len(s) {
		h = h*131 + uint64(s[i])
	}
	return 1 << (h * 0x9e3779b97f4a7c15 >> 58)
}

// meet tells whether two sets of marks have one in common.
func (p prefilter) meets(o prefilter) bool {
	return p.heads&o.heads|p.tails&o.tails != 0
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
		t.prefilter = termPrefilter(t.text, t.stems[0])
	default:
		t.text, t.groups, t.prefilter = "", 0, prefilter{heads: headBit(t.stems[0])}
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
	if !tokens[i].prefilter.meets(t.prefilter) {
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
	if !tok.prefilter.meets(t.prefilter) {
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
func (d *document) find(terms []term, s span, synonyms bool) int {
	for i := s.lo; i < s.hi; i++ {
		for k := range terms {
			if terms[k].at(d.tokens, i, synonyms) {
				return i
			}
		}
	}
	return -1
}

// mayHold reports whether the span may hold at least so many of the terms, going by the prefilters
// and the groups of its tokens.
func (d *document) mayHold(terms []term, s span, least int) bool {
	var all prefilter
	var groups uint64
	for i := s.lo; i < s.hi; i++ {
		t := &d.tokens[i]
		all.heads |= t.prefilter.heads
		all.tails |= t.prefilter.tails
		groups |= t.groups()
	}
	for k := range terms {
		if terms[k].prefilter.meets(all) || terms[k].groups&groups != 0 {
			least--
		}
	}
	return least <= 0
}
