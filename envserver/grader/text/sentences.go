package text

import (
	"slices"
	"strings"
)

// maxEllipsis is how many words a sentence may have that leaves its subject out.
const maxEllipsis = 4

// Subject returns the sentence that tells what sentence i goes on about: the one before it where it
// begins with a pronoun or is hardly one, and for an item of a list what introduces the list.
func (d *Document) Subject(i int) Span {
	s := d.Sentences[i]
	item := d.listed(s)
	if !item && !d.AnyPhrase(Pronouns, Span{s.Lo, min(s.Lo+3, s.Hi)}) && d.CountWords(s) > maxEllipsis {
		return Span{}
	}
	for i--; i >= 0; i-- {
		if s := d.Sentences[i]; !item || !d.listed(s) && d.CountWords(s) > 0 {
			return s
		}
	}
	return Span{}
}

// listed reports whether a sentence is an item of a list.
func (d *Document) listed(s Span) bool {
	first := &d.Tokens[s.Lo]
	if first.Kind == NumberToken {
		return s.Hi-s.Lo == 2
	}
	return first.Kind == PunctToken && first.among("-*•")
}

// PartOf returns where the part of a sentence begins that token i stands in: what is said after a
// semicolon holds on its own.
func (d *Document) PartOf(s Span, i int) int {
	for i > s.Lo && d.Tokens[i-1].Text != ";" {
		i--
	}
	return i
}

// RunOf returns where the words begin that lead up to token i without a mark between them: "no form
// or other team involved" denies both.
func (d *Document) RunOf(s Span, i int) int {
	for i > s.Lo && d.Tokens[i-1].Kind != PunctToken {
		i--
	}
	return i
}

// CountUnvalued counts the words of a span that are no part of a value.
func (d *Document) CountUnvalued(s Span) int {
	n := 0
	for i := s.Lo; i < s.Hi; i++ {
		if d.Tokens[i].Kind == WordToken && !d.InValue(i) {
			n++
		}
	}
	return n
}

// Words are the text's words and numbers without what stands between them.
func (d *Document) Words() []string {
	words := make([]string, 0, len(d.Tokens))
	for i := range d.Tokens {
		if t := &d.Tokens[i]; t.Kind != PunctToken && t.Kind != CurrencyToken {
			words = append(words, t.Text)
		}
	}
	return words
}

// Quote spells a span out.
func (d *Document) Quote(s Span) string {
	var b strings.Builder
	for i, t := range d.Tokens[s.Lo:s.Hi] {
		if i > 0 && !t.glued {
			b.WriteByte(' ')
		}
		b.WriteString(t.Text)
	}
	return b.String()
}

// StatesValue reports whether the span states a value.
func (d *Document) StatesValue(s Span) bool { return len(d.ValuesWithin(s)) > 0 }

// InLanguage reports whether the reply is in the lexicon's language, by the share of its commonest
// words. A short reply is given the benefit of the doubt.
func (d *Document) InLanguage() bool {
	own, most := 0, 0
	for i, language := range Languages() {
		n := d.countClass(identify << i)
		if language == d.Lexicon.Language {
			own = n
		}
		most = max(most, n)
	}
	return most <= own+2
}

func (d *Document) countClass(c WordClass) int {
	n := 0
	for i := range d.Tokens {
		if d.Tokens[i].Is(c) {
			n++
		}
	}
	return n
}

// SetAside takes the sentences for which the function returns true out of Sentences. They state
// nothing, but stay part of the text.
func (d *Document) SetAside(aside func(s Span) bool) {
	d.Sentences = slices.DeleteFunc(d.Sentences, func(s Span) bool {
		if !aside(s) {
			return false
		}
		d.echoes = append(d.echoes, s)
		return true
	})
}
