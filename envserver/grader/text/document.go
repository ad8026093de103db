// Package text parses replies into a [Document] of tokens, sentences, clauses and values, with the
// [Lexicon] of their language.
package text

import (
	"iter"
	"sort"
)

// Span is a half-open range of token indexes.
type Span struct{ Lo, Hi int }

// NewSpan returns the span from token lo up to hi.
func NewSpan(lo, hi int) Span { return Span{lo, hi} }

// Document is a parsed text. One goroutine at a time may use it.
type Document struct {
	Lexicon   *Lexicon
	Text      string
	Tokens    []Token
	Sentences []Span
	echoes    []Span // the sentences set aside
	spans     []Span
	clauses   []Clause // in the order of their spans, empty until the first call of Clauses
	Values    []Value
	// introductions are those of the sentences, empty until one is asked for.
	introductions []int
	mood          mood // the mood of the last sentence that was read
	parts         parts
}

// Parse reads a folded text in the language of the lexicon.
func Parse(text string, lex *Lexicon) *Document {
	d := &Document{Tokens: make([]Token, 0, len(text)/4+8)}
	d.Parse(text, lex)
	return d
}

// Parse reads another text into the document. It uses the memory of all but the values again.
func (d *Document) Parse(text string, lex *Lexicon) {
	*d = Document{Lexicon: lex, Text: text, Tokens: d.Tokens[:0], Sentences: d.Sentences[:0], spans: d.spans[:0],
		clauses: d.clauses[:0], introductions: d.introductions[:0]}
	s := scanner{text: text, lex: lex}
	for s.next() {
		d.Tokens = append(d.Tokens, s.tok)
	}
	d.Values = (&valueReader{d.Tokens, lex}).readAll()
	d.segment()
}

// Tokens iterates over the tokens of a folded text. A token is valid until the next one.
func Tokens(text string, lex *Lexicon) iter.Seq[*Token] {
	return func(yield func(*Token) bool) {
		s := scanner{text: text, lex: lex}
		for s.next() && yield(&s.tok) {
			continue
		}
	}
}

// Whole returns the span of all tokens.
func (d *Document) Whole() Span { return Span{0, len(d.Tokens)} }

// segment finds sentences and clauses. A sentence ends at a full stop, a question or exclamation
// mark, a blank line or a list item; a clause also at other punctuation and before a conjunction.
func (d *Document) segment() {
	sentence, clause := 0, 0
	endClause := func(at int) {
		if at > clause {
			d.spans = append(d.spans, Span{clause, at})
		}
		clause = at
	}
	for i := range d.Tokens {
		switch t := &d.Tokens[i]; {
		case d.endsSentence(i):
			endClause(i + 1)
			if i > sentence {
				d.Sentences = append(d.Sentences, Span{sentence, i + 1})
			}
			sentence = i + 1
		case t.Kind == PunctToken && (t.among(",;:()\"—") || t.Text == "-" && !t.glued):
			endClause(i + 1)
		case t.Kind == WordToken && t.Is(Conjunctions):
			endClause(i)
		}
	}
	endClause(len(d.Tokens))
	if sentence < len(d.Tokens) {
		d.Sentences = append(d.Sentences, Span{sentence, len(d.Tokens)})
	}
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

// ClauseOf returns the clause that holds the token.
func (d *Document) ClauseOf(at int) Span { return spanOf(d.spans, at) }

// SentenceOf returns the sentence that holds the token.
func (d *Document) SentenceOf(at int) Span { return spanOf(d.Sentences, at) }

// Next returns the sentence after this one, or an empty span.
func (d *Document) Next(s Span) Span {
	if s.Hi >= len(d.Tokens) {
		return Span{}
	}
	return d.SentenceOf(s.Hi)
}

// spanOf returns the one of the ordered spans that contains the token, or the token alone.
func spanOf(spans []Span, at int) Span {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].Hi > at })
	if i < len(spans) && at >= spans[i].Lo {
		return spans[i]
	}
	return Span{at, at + 1}
}

// ValuesWithin returns the values within the span.
func (d *Document) ValuesWithin(s Span) []Value {
	lo := sort.Search(len(d.Values), func(i int) bool { return d.Values[i].At.Lo >= s.Lo })
	hi := lo
	for hi < len(d.Values) && d.Values[hi].At.Hi <= s.Hi {
		hi++
	}
	return d.Values[lo:hi]
}

// ValueAt returns the value that token i is part of, or nil.
func (d *Document) ValueAt(i int) *Value {
	k := sort.Search(len(d.Values), func(k int) bool { return d.Values[k].At.Hi > i })
	if k < len(d.Values) && d.Values[k].At.Lo <= i {
		return &d.Values[k]
	}
	return nil
}

// CountWords counts the words, numbers and ids of a span.
func (d *Document) CountWords(s Span) int {
	n := 0
	for _, t := range d.Tokens[s.Lo:s.Hi] {
		if t.Kind != PunctToken && t.Kind != CurrencyToken {
			n++
		}
	}
	return n
}

// IsQuestion reports whether a sentence ends in a question mark.
func (d *Document) IsQuestion(s Span) bool { return d.Tokens[s.Hi-1].Text == "?" }
