package offline

import (
	"github.com/csenv/csenv/envserver/grader/text"
)

// relevantWords counts the words of the distinct sentences that speak of the ticket's matter or
// state a value.
func relevantWords(d *text.Document, p *prepared) int {
	n := 0
	seen := map[uint64]bool{}
	for _, s := range d.Sentences {
		if !topical(d, s, p) && !d.StatesValue(s) {
			continue
		}
		if h := hashTokens(d.Tokens[s.Lo:s.Hi]); !seen[h] {
			seen[h] = true
			n += d.CountWords(s)
		}
	}
	return n
}

// topical reports whether two words of the span are about the ticket's matter.
func topical(d *text.Document, s text.Span, p *prepared) bool {
	n := 0
	for i := s.Lo; i < s.Hi && n < 2; i++ {
		if d.Tokens[i].Kind == text.WordToken && p.topic.has(d.Tokens[i].Stem) {
			n++
		}
	}
	return n == 2
}

func hashTokens(tokens []text.Token) uint64 {
	h := uint64(0)
	for i := range tokens {
		if tokens[i].Kind != text.PunctToken {
			h = h*1099511628211 ^ tokens[i].Hash()
		}
	}
	return h
}
