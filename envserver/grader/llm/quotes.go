package llm

import (
	"slices"
	"strings"
	"unicode"

	"github.com/csenv/csenv/scenarios/text"
)

// markdown removes the marks of Markdown, which models leave out of their quotes or add to them.
var markdown = strings.NewReplacer("**", "", "__", "", "~~", "", "`", "", "*", "", "#", "")

// foldMarkdown folds a normalised text, so that quotes match regardless of case, diacritics, white
// space and Markdown.
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

const (
	// minQuote is the minimum number of letters and digits of a quote.
	minQuote = 4
	// maxSentences and maxQuoteWords bound a quote, so that it shows where the reply says it.
	maxSentences, maxQuoteWords = 2, 80
)

// refuse returns the reason why a quote is no evidence of a claim, or "".
func (a *assessment) refuse(c claim, quote string) string {
	if c.Claim == letterClaim {
		return ""
	}
	folded := foldMarkdown(text.Normalise(quote))
	letters := 0
	for _, char := range folded {
		if unicode.IsLetter(char) || unicode.IsDigit(char) {
			letters++
		}
	}
	if letters < minQuote || !strings.Contains(a.folded, folded) {
		return "the quote isn't in the reply"
	}
	read := a.Message.Quote(quote)
	switch {
	case read.Sentences() > maxSentences || read.Words() > maxQuoteWords:
		return "the quote is longer than two sentences"
	case c.Fact != nil && !a.Gold.StandsIn(c.Fact.ID, read):
		return "the quote doesn't state the value"
	case c.Kind == invention && !a.Gold.Invents(read):
		return "the texts that the agent could read support the quote's values"
	}
	return ""
}
