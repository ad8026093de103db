package prose

import "github.com/csenv/csenv/envserver/grader/text"

// gramSize is the number of words of a run. It is long enough that people don't repeat one by
// accident.
const gramSize = 8

// source is a text that a reply must not be copied from: its words, and its runs of gramSize words.
// Values don't count as words, so quoting an id or an amount isn't copying.
type source struct{ words, runs hashSet }

// newSource makes a source with room for n words.
func newSource(n int) source { return source{newHashSet(n / 2), newHashSet(max(n-gramSize+1, 0))} }

// add adds a text, given the hashes of its words.
func (s *source) add(words []uint64) {
	s.words.add(words...)
	for i := gramSize; i <= len(words); i++ {
		s.runs.add(hashWindow((*[gramSize]uint64)(words[i-gramSize : i])))
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

// copies are the words of a reply, by their hashes, and whether each is copied.
type copies struct {
	words  []uint64
	copied []bool
	kept   []int // a buffer
}

func readCopies(d *text.Document) copies {
	c := copies{words: make([]uint64, 0, len(d.Tokens)), kept: make([]int, 0, len(d.Tokens))}
	for i := range d.Tokens {
		if d.Tokens[i].Kind == text.WordToken {
			c.words = append(c.words, d.Tokens[i].Hash())
		}
	}
	c.copied = make([]bool, len(c.words))
	return c
}

// mark marks the words that are in runs of the source. Words that the source lacks are passed over,
// so that fillers between the words of a copy don't hide it.
func (c *copies) mark(s *source) {
	c.kept = c.kept[:0]
	for i, w := range c.words {
		if s.words.has(w) {
			c.kept = append(c.kept, i)
		}
	}
	var window [gramSize]uint64
	for i, at := range c.kept {
		copy(window[:], window[1:])
		window[gramSize-1] = c.words[at]
		if i+1 < gramSize || !s.runs.has(hashWindow(&window)) {
			continue
		}
		for _, k := range c.kept[i+1-gramSize : i+1] {
			c.copied[k] = true
		}
	}
}

// isMostlyCopied reports whether more than half of the reply's words are copied from the ticket,
// the articles or the rubric. Sentences that are neither copied nor relevant don't count, so that
// courtesies can't dilute a copy.
func isMostlyCopied(d *text.Document, p *prepared) bool {
	c := readCopies(d)
	for i := range p.sources {
		c.mark(&p.sources[i])
	}
	same, all, at := 0, 0, 0
	for _, s := range d.Sentences {
		own, n := 0, 0
		for i := s.Lo; i < s.Hi; i++ {
			if d.Tokens[i].Kind != text.WordToken {
				continue
			}
			if n++; c.copied[at] {
				own++
			}
			at++
		}
		if 2*own > n || isRelevant(d, s, p) {
			same, all = same+own, all+n
		}
	}
	return 2*same > all
}
