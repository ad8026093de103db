package text

import (
	"slices"
	"strings"
)

// maxEllipsis is the maximum number of words of a sentence that may omit its subject.
const maxEllipsis = 4

// Subject returns the sentence that sentence i continues: the one before it if it begins with a
// pronoun or is very short, and for a list item the introduction of the list.
func (d *Document) Subject(i int) Span {
	s := d.Sentences[i]
	item := d.listed(s)
	if !item && !d.AnyPhrase(Pronouns, Span{s.Lo, min(s.Lo+3, s.Hi)}) && d.CountWords(s) > maxEllipsis {
		return Span{}
	}
	if item {
		i = d.introduction(i) + 1
	}
	if i == 0 {
		return Span{}
	}
	return d.Sentences[i-1]
}

// introduction returns the last sentence with words before sentence i that isn't an item of a list,
// or -1. It looks at each sentence once.
func (d *Document) introduction(i int) int {
	if len(d.introductions) == 0 {
		last := -1
		for k, s := range d.Sentences {
			d.introductions = append(d.introductions, last)
			if !d.listed(s) && d.CountWords(s) > 0 {
				last = k
			}
		}
	}
	return d.introductions[i]
}

// listed reports whether a sentence is an item of a list.
func (d *Document) listed(s Span) bool {
	first := &d.Tokens[s.Lo]
	return first.Kind == NumberToken && s.Hi-s.Lo == 2 ||
		first.Kind == PunctToken && first.among("-*•")
}

// PartOf returns the beginning of the part of a sentence between semicolons that holds token i.
func (d *Document) PartOf(s Span, i int) int {
	for i > s.Lo && d.Tokens[i-1].Text != ";" {
		i--
	}
	return i
}

// RunOf returns the beginning of the words without punctuation that lead to token i: "no form or
// other team involved" denies both.
func (d *Document) RunOf(s Span, i int) int {
	for i > s.Lo && d.Tokens[i-1].Kind != PunctToken {
		i--
	}
	return i
}

// CountUnvalued counts the words of a span outside values.
func (d *Document) CountUnvalued(s Span) int {
	n := 0
	for i := s.Lo; i < s.Hi; i++ {
		if d.Tokens[i].Kind == WordToken && !d.InValue(i) {
			n++
		}
	}
	return n
}

// Words returns the words and numbers of the text without punctuation.
func (d *Document) Words() []string {
	words := make([]string, 0, len(d.Tokens))
	for i := range d.Tokens {
		if t := &d.Tokens[i]; t.Kind != PunctToken && t.Kind != CurrencyToken {
			words = append(words, t.Text)
		}
	}
	return words
}

// Quote returns the text of a span, with contractions written out.
func (d *Document) Quote(s Span) string {
	var b strings.Builder
	for i, t := range d.Tokens[s.Lo:s.Hi] {
		if i > 0 && (!t.glued || t.Kind == WordToken && d.Tokens[s.Lo+i-1].Kind == WordToken) {
			b.WriteByte(' ')
		}
		b.WriteString(t.Text)
	}
	return b.String()
}

// InLanguage reports whether the text is in the lexicon's language, by its commonest words. Short
// texts pass.
func (d *Document) InLanguage() bool {
	own, most := 0, 0
	for i, language := range Languages() {
		n := 0
		for k := range d.Tokens {
			if d.Tokens[k].Is(identify << i) {
				n++
			}
		}
		if language == d.Lexicon.Language {
			own = n
		}
		most = max(most, n)
	}
	return most <= own+2
}

// SetAside removes the sentences for which the function returns true from Sentences, but not from
// the text.
func (d *Document) SetAside(aside func(s Span) bool) {
	d.introductions = d.introductions[:0]
	d.Sentences = slices.DeleteFunc(d.Sentences, func(s Span) bool {
		if !aside(s) {
			return false
		}
		d.echoes = append(d.echoes, s)
		return true
	})
}
