package offline

import (
	"slices"

	"github.com/csenv/csenv/envserver/grader/text"
)

// gramSize is the number of words of a run. It is long enough that people don't repeat one by
// accident.
const gramSize = 8

// grams are the hashes of a text's runs of gramSize words. Values don't count as words, so quoting
// an id or an amount isn't copying.
type grams []uint64

// addGrams appends the hashes of the tokens' runs.
func addGrams(g grams, tokens []text.Token) grams {
	var window [gramSize]uint64
	n := 0
	for i := range tokens {
		if tokens[i].Kind != text.WordToken {
			continue
		}
		copy(window[:], window[1:])
		window[gramSize-1] = tokens[i].Hash()
		if n++; n >= gramSize {
			g = append(g, hashWindow(&window))
		}
	}
	return g
}

// gramsOf returns the runs of words, given the words' hashes.
func gramsOf(words []uint64) hashSet {
	set := newHashSet(max(len(words)-gramSize+1, 0))
	set.addRuns(words)
	return set
}

// addRuns adds the runs of words, given the words' hashes.
func (s *hashSet) addRuns(words []uint64) {
	for i := gramSize; i <= len(words); i++ {
		s.add(hashWindow((*[gramSize]uint64)(words[i-gramSize : i])))
	}
}

func hashWindow(window *[gramSize]uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, w := range window {
		h = (h ^ w) * 1099511628211
		h ^= h >> 29
	}
	return h
}

// mostOf reports whether the sets contain more than half of the grams.
func mostOf(others grams, sets ...hashSet) bool {
	same := 0
	for _, x := range others {
		if slices.ContainsFunc(sets, func(s hashSet) bool { return s.has(x) }) {
			same++
		}
	}
	return 2*same > len(others)
}

// copied reports whether more than half of the reply's runs are in the ticket, an article or the
// rubric. Sentences that are neither copied nor relevant don't count, so that courtesies can't
// dilute a copy.
func copied(d *text.Document, p *prepared) bool {
	all := make(grams, 0, len(d.Tokens))
	for _, s := range d.Sentences {
		from := len(all)
		all = addGrams(all, d.Tokens[s.Lo:s.Hi])
		if !mostOf(all[from:], p.sources...) && !relevant(d, s, p) {
			all = all[:from]
		}
	}
	return mostOf(all, p.sources...)
}

// dropEchoes sets aside the sentences that repeat the customer's words.
func dropEchoes(d *text.Document, p *prepared) {
	own := make(grams, 0, len(d.Tokens))
	d.SetAside(func(s text.Span) bool {
		tokens := d.Tokens[s.Lo:s.Hi]
		own = addGrams(own[:0], tokens)
		return p.servedSentences.has(hashTokens(tokens)) || mostOf(own, p.served)
	})
}
