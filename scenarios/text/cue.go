package text

import (
	"slices"
	"strings"
)

// Cue is a run of words that shows what a clause does, or what it is about.
type Cue struct {
	// Name is the key of the lexicon's line.
	Name string
	At   Span
}

// cueKeys begin the keys of lines with cues.
var cueKeys = []string{"does ", "about ", "not "}

// loadCues reads the lines of cues. A cue may stand in several of them.
func (lex *Lexicon) loadCues(lines map[string][]string) {
	for key, of := range lines {
		if !slices.ContainsFunc(cueKeys, func(start string) bool { return strings.HasPrefix(key, start) }) {
			continue
		}
		for _, p := range splitFields(of) {
			lex.cues[p[0]] = append(lex.cues[p[0]], phrase{key, strings.Split(p, "_")})
		}
	}
}

// Cues returns the longest cues at each place, in order. Those of what is done, what it is about
// and what is denied overlap, as in "don't refund me".
func (d *Document) Cues() []Cue {
	var cues []Cue
	for _, start := range cueKeys {
		for i := 0; i < len(d.Tokens); {
			names, n := d.cuesAt(i, start)
			for _, name := range names {
				cues = append(cues, Cue{name, Span{i, i + n}})
			}
			i += max(n, 1)
		}
	}
	slices.SortStableFunc(cues, func(a, b Cue) int { return a.At.Lo - b.At.Lo })
	return cues
}

// cuesAt returns the longest cues at token i whose names start so, in order, and their length.
func (d *Document) cuesAt(i int, start string) (names []string, n int) {
	first := d.Tokens[i].Text
	if first == "" {
		return nil, 0
	}
	for _, p := range d.Lexicon.cues[first[0]] {
		if len(p.words) < n || i+len(p.words) > len(d.Tokens) || !strings.HasPrefix(p.meaning, start) ||
			!p.matches(d.Tokens[i:]) {
			continue
		}
		if len(p.words) > n {
			names, n = nil, len(p.words)
		}
		names = append(names, p.meaning)
	}
	slices.Sort(names)
	return slices.Compact(names), n
}

// IsKnown reports whether the lexicon has token i as a word of its own language, or in a cue.
func (d *Document) IsKnown(i int) bool {
	t := &d.Tokens[i]
	own := ^(identify * 15)
	for k, language := range Languages() {
		if language == d.Lexicon.Language {
			own |= identify << k
		}
	}
	_, n := d.cuesAt(i, "")
	return t.Is(own) || t.Value > 0 || n > 0
}

// StartsSentence reports whether token i is the first one of a sentence.
func (d *Document) StartsSentence(i int) bool { return i == 0 || d.endsSentence(i-1) }

// CountKnown counts the words of a span that IsKnown.
func (d *Document) CountKnown(at Span) (n int) {
	for i := at.Lo; i < min(at.Hi, len(d.Tokens)); i++ {
		if d.Tokens[i].Kind == WordToken && d.IsKnown(i) {
			n++
		}
	}
	return n
}
