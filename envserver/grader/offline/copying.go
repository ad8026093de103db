package offline

import "slices"

// gramSize is how many words in a row make a copy: long enough that people don't write them by
// accident.
const gramSize = 8

// grams are the hashes of a text's runs of gramSize words. Values are left out of the runs, so that
// quoting an id or an amount copies nothing.
type grams []uint64

// gramSet is a set of such hashes.
type gramSet map[uint64]struct{}

// addGrams appends the hashes of the tokens' runs.
func addGrams(g grams, tokens []token) grams {
	var window [gramSize]uint64
	n := 0
	for i := range tokens {
		if tokens[i].kind != wordToken {
			continue
		}
		copy(window[:], window[1:])
		window[gramSize-1] = tokens[i].hash
		if n++; n >= gramSize {
			g = append(g, hashWindow(&window))
		}
	}
	return g
}

// add adds the hashes of the tokens' runs.
func (g gramSet) add(tokens []token) {
	for _, x := range addGrams(make(grams, 0, len(tokens)), tokens) {
		g[x] = struct{}{}
	}
}

// addHashes adds the hashes of the runs of words that are given by their own hashes.
func (g gramSet) addHashes(words []uint64) {
	for i := gramSize; i <= len(words); i++ {
		g[hashWindow((*[gramSize]uint64)(words[i-gramSize:i]))] = struct{}{}
	}
}

// hashed is the hash of a token's text.
func (t *token) hashed() uint64 {
	if t.kind == wordToken {
		return t.hash
	}
	return hashWord(t.text)
}

// hashWord is FNV-1a.
func hashWord(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

func hashWindow(window *[gramSize]uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, w := range window {
		h = (h ^ w) * 1099511628211
		h ^= h >> 29
	}
	return h
}

// mostOf tells whether the sets hold more than half of the grams.
func mostOf(others grams, sets ...gramSet) bool {
	same := 0
	for _, x := range others {
		for _, g := range sets {
			if _, ok := g[x]; ok {
				same++
				break
			}
		}
	}
	return 2*same > len(others)
}

// copied tells whether more than half of the reply's runs stand in the ticket, an article or the
// rubric. Sentences that are neither copied nor about the matter don't count, so that courtesies
// can't dilute a copy.
func copied(d *document, p *prepared) bool {
	all := make(grams, 0, len(d.tokens))
	for _, s := range d.sentences {
		from := len(all)
		all = addGrams(all, d.tokens[s.lo:s.hi])
		if !mostOf(all[from:], p.sources...) && !topical(d, s, p) && !d.claimsIn(s) {
			all = all[:from]
		}
	}
	return mostOf(all, p.sources...)
}

// dropEchoes sets the sentences apart that repeat the customer's own words: they state nothing and
// acknowledge nothing.
func dropEchoes(d *document, p *prepared) {
	own := make(grams, 0, len(d.tokens))
	d.sentences = slices.DeleteFunc(d.sentences, func(s span) bool {
		tokens := d.tokens[s.lo:s.hi]
		own = addGrams(own[:0], tokens)
		echo := p.servedSentences[hashTokens(tokens)] || mostOf(own, p.served)
		if echo {
			d.echoes = append(d.echoes, s)
		}
		return echo
	})
}

const (
	// minVaried is how many words a reply needs before its variety says anything.
	minVaried = 60
	// maxDensity is the share of a reply's words, in percent, that may come from the rubric's own
	// lists.
	maxDensity = 60
	// maxSentenceDensity is the same for a single sentence, which may well be all about a fact.
	maxSentenceDensity = 70
	// nearby is how many tokens on each side of a value are looked at, and maxNearby the share of
	// them that may be the rubric's.
	nearby, maxNearby = 5, 85
	// minSmall is the share of small words, in percent, that shows a sentence of at most maxBrief
	// words rather than a list, and looseDensity the density up to which it does.
	minSmall, maxBrief, looseDensity = 15, 25, 90
	// minRun is how many words no plain sentence has, and runDensity the share of its words other
	// than small ones, in percent, that may then be the rubric's.
	minRun, runDensity = 60, 80
	// minDense is how many words a sentence needs before its density says anything. A reply needs
	// twice as many.
	minDense = 10
)

// monotonous tells whether the reply repeats itself: fewer than two distinct words in five.
func monotonous(d *document) bool {
	types := make(map[string]struct{}, len(d.tokens))
	n := 0
	for i := range d.tokens {
		if d.tokens[i].kind == wordToken {
			types[d.tokens[i].text] = struct{}{}
			n++
		}
	}
	return n >= minVaried && 5*len(types) < 2*n
}

// dense tells whether the reply strings together what the rubric looks for, over its length or
// within one sentence.
func dense(d *document, p *prepared) bool {
	if denser(d.tokens, p, 2*minDense, maxDensity) {
		return true
	}
	for _, s := range d.sentences {
		if denser(d.tokens[s.lo:s.hi], p, minDense, maxSentenceDensity) {
			return true
		}
	}
	return false
}

// crammed tells whether the tokens around a value are a list of keywords rather than a statement. A
// label of a word or two before the value, as in "Estimated delivery: March 26, 2026", is how
// people write lists.
func crammed(d *document, s span, at int, p *prepared) bool {
	around := span{max(at-nearby, s.lo), min(at+nearby+1, s.hi)}
	return d.unclaimed(around) > maxLabel && denser(d.tokens[around.lo:around.hi], p, nearby, maxNearby)
}

// maxLabel is how many words a label has.
const maxLabel = 2

// unclaimed counts the words of a span that are no part of a value.
func (d *document) unclaimed(s span) int {
	n := 0
	for i := s.lo; i < s.hi; i++ {
		if d.tokens[i].kind == wordToken && !d.claimed(i) {
			n++
		}
	}
	return n
}

// denser tells whether more than the given share of the words, in percent, are the rubric's, among
// at least so many. Small words show a sentence.
func denser(tokens []token, p *prepared, least, percent int) bool {
	hits, small, n := 0, 0, 0
	for i := range tokens {
		t := &tokens[i]
		if t.kind == punctToken || t.kind == currencyToken {
			continue
		}
		n++
		if t.is(Stopwords) {
			small++
		} else if _, ok := p.rubric[t.key()]; ok {
			hits++
		}
	}
	if least == minDense && n >= minRun && 100*hits > runDensity*(n-small) {
		return true
	}
	if n <= maxBrief && 100*small >= minSmall*n {
		percent = max(percent, looseDensity)
	}
	return n >= least && 100*hits > percent*n
}

// minSentence is how many words make a sentence that needs a verb. Greetings and list heads are
// shorter.
const minSentence = 5

// verbless tells whether fewer than three in five of the reply's sentences have a finite verb: a
// pile of words isn't an answer. Two sentences say too little to tell, and courtesies don't count.
// Of a reply that states much, one in four will do: people answer in labels and bullets.
func verbless(d *document, p *prepared, statesMuch bool) bool {
	sentences, finite := 0, 0
	for _, s := range d.sentences {
		if d.words(s) < minSentence || !topical(d, s, p) && !d.claimsIn(s) {
			continue
		}
		sentences++
		if hasVerb(d, s) {
			finite++
		}
	}
	if statesMuch {
		return sentences > 2 && 4*finite < sentences
	}
	return sentences > 2 && 5*finite < 3*sentences
}

// hasVerb tells whether a sentence seems to have a finite verb: one of the common ones, a personal
// pronoun, or a word with an object ("accepts a trace").
func hasVerb(d *document, s span) bool {
	if d.anyStem(Finite, s) >= 0 || d.anyWord(FirstPerson|SecondPerson, s) >= 0 {
		return true
	}
	for i := s.lo; i+1 < s.hi; i++ {
		if d.tokens[i].kind == wordToken && !d.tokens[i].is(Stopwords) && d.tokens[i+1].is(Determiners) {
			return true
		}
	}
	return false
}
