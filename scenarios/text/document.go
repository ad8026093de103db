// Package text reads the values that a text states, with the [Lexicon] of its language: a
// [Document] has the tokens and the values of a text.
package text

import "strings"

// Span is a half-open range of token indexes.
type Span struct{ Lo, Hi int }

// Document is a parsed text.
type Document struct {
	Lexicon *Lexicon
	Tokens  []Token
	Values  []Value
}

// Parse reads a folded text in the language of the lexicon.
func Parse(text string, lex *Lexicon) *Document {
	d := &Document{Lexicon: lex, Tokens: make([]Token, 0, len(text)/4+8)}
	s := scanner{text: text, lex: lex}
	for s.next() {
		d.Tokens = append(d.Tokens, s.tok)
	}
	d.Values = (&valueReader{d.Tokens, lex}).readAll()
	return d
}

// CountSentences counts the sentences. A sentence ends at a full stop, a question or exclamation
// mark, a blank line or a list item.
func (d *Document) CountSentences() (n int) {
	from := 0
	for i := range d.Tokens {
		if d.endsSentence(i) {
			if i > from {
				n++
			}
			from = i + 1
		}
	}
	if from < len(d.Tokens) {
		n++
	}
	return n
}

// endsSentence reports whether token i ends a sentence. A full stop doesn't if it follows an
// abbreviation, is inside "e.g." or in the German "14. März".
func (d *Document) endsSentence(i int) bool {
	t := &d.Tokens[i]
	if t.Kind != PunctToken || !t.among(".!?\n") {
		return false
	}
	if t.Text != "." || i == 0 || i+1 == len(d.Tokens) {
		return true
	}
	before, after := &d.Tokens[i-1], &d.Tokens[i+1]
	return (!after.glued || after.Kind == PunctToken) && !before.Is(Abbreviations) &&
		(before.Kind != NumberToken || d.Lexicon.months[after.Text] == 0)
}

// CountWords counts the words, numbers and ids.
func (d *Document) CountWords() int {
	n := 0
	for _, t := range d.Tokens {
		if t.Kind != PunctToken && t.Kind != CurrencyToken {
			n++
		}
	}
	return n
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

// PhraseAt returns the meaning of the longest phrase at token i and the number of its tokens, or 0.
func (d *Document) PhraseAt(i int) (meaning string, n int) {
	first := d.Tokens[i].Text
	if first == "" {
		return "", 0
	}
	for _, p := range d.Lexicon.phrases[first[0]] {
		if len(p.words) > n && i+len(p.words) <= len(d.Tokens) && p.matches(d.Tokens[i:]) {
			meaning, n = p.meaning, len(p.words)
		}
	}
	return meaning, n
}

func (p *phrase) matches(tokens []Token) bool {
	for i, w := range p.words {
		if start, open := strings.CutSuffix(w, "*"); !open && tokens[i].Text != w ||
			!strings.HasPrefix(tokens[i].Text, start) {
			return false
		}
	}
	return true
}
