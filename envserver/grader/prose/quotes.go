package prose

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/grader/text"
)

// markdown removes the marks of Markdown, which models leave out of their quotes or add to them.
var markdown = strings.NewReplacer("**", "", "__", "", "~~", "", "`", "", "*", "", "#", "")

// foldMarkdown folds a text, so that quotes match regardless of case, diacritics, white space and
// Markdown.
func foldMarkdown(s string) string {
	var words []string
	for line := range strings.Lines(markdown.Replace(text.Fold(s))) {
		fields := strings.Fields(line)
		if len(fields) > 0 && slices.Contains([]string{"-", "+", "•", ">"}, fields[0]) {
			fields = fields[1:]
		}
		words = append(words, fields...)
	}
	return strings.Join(words, " ")
}

// minQuote is the minimum number of letters and digits of a quote.
const minQuote = 4

// Refuse returns the reason why a quote is no evidence of a claim, or "".
func (r *Assessment) Refuse(c Claim, quote string) string {
	if c.ID == LetterClaim {
		return ""
	}
	folded := foldMarkdown(text.Normalise(quote))
	letters := 0
	for _, char := range folded {
		if unicode.IsLetter(char) || unicode.IsDigit(char) {
			letters++
		}
	}
	switch {
	case utf8.RuneCountInString(folded) > text.MaxMessageRunes, letters < minQuote, !strings.Contains(r.folded, folded):
		return "the quote isn't in the reply"
	case c.Fact != nil && !r.analysis.supportsFact(c.Fact.ID, folded):
		return "the quote doesn't state the value"
	case c.ID == invention && !r.analysis.invents(folded):
		return "the texts that the agent could read contain the quote's words and values"
	}
	return ""
}

// invents reports whether a quote contains a value or a word that is in no text that the writer
// could read, and doesn't follow from one.
func (r *analysis) invents(quote string) bool {
	d := text.Parse(quote, r.lex)
	for i := range d.Tokens {
		t := &d.Tokens[i]
		v := d.ValueAt(i)
		switch {
		case v == nil:
			if t.Kind == text.WordToken && !t.Is(text.Stopwords|text.Calendar) && !r.reads(t) {
				return true
			}
		case !r.supports(*v) && !r.between(r.doc, *v) && (v.Kind != text.MoneyValue || !r.sums(*v)):
			return true
		}
	}
	return false
}

// supportsFact reports whether a quote can be evidence of a fact: it doesn't leave open which of
// two things is true. If the fact is a value, which has no other words, the quote has to contain
// it, and a sentence of the reply has to assert it.
func (r *analysis) supportsFact(id, quote string) bool {
	i := slices.IndexFunc(r.facts, func(f fact) bool { return f.id == id })
	if i < 0 {
		return false
	}
	f, d := &r.facts[i], text.Parse(quote, r.lex)
	if len(f.forms) == 0 || len(f.forms[0].values) == 0 {
		return !slices.ContainsFunc(d.Sentences, d.LeavesOpen)
	}
	return (r.findings[i] == stated || f.said(r)) &&
		slices.ContainsFunc(f.forms, func(form form) bool { return form.in(d, d.Whole()) >= 0 })
}

// said reports whether a sentence asserts the fact's value, and no other value beside it, in any
// context.
func (f *fact) said(r *analysis) bool {
	for _, s := range r.doc.Sentences {
		if r.doc.IsQuestion(s) {
			continue
		}
		for i := range f.forms {
			at := f.forms[i].in(r.doc, s)
			if at >= 0 && !isInKeywordList(r.doc, s, at, r.prepared) && !f.among(r.doc, at, nil) &&
				f.polarity(r.doc, s, at, f.forms[i].negated) == stated {
				return true
			}
		}
	}
	return false
}
