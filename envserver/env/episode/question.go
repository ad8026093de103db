package episode

import (
	"regexp"
	"slices"
	"strings"
)

// sentence matches text up to the end of a sentence or a line.
var sentence = regexp.MustCompile(`[^.!?\n]+[.!?]?`)

// HasQuestionAbout reports whether a sentence of the message asks about one of the words; without
// words, whether it is a question. askWords are the beginnings of words that make a sentence
// without a question mark a question.
func HasQuestionAbout(message string, about, askWords []string) bool {
	for _, s := range sentence.FindAllString(strings.ToLower(message), -1) {
		question := strings.HasSuffix(s, "?")
		if len(about) == 0 && question || (question || holdsWord(s, askWords)) && holdsWord(s, about) {
			return true
		}
	}
	return false
}

// holdsWord reports whether the lower-case text contains a word that begins with one of the words
// or phrases.
func holdsWord(text string, words []string) bool {
	text = " " + strings.Map(letterOrSpace, text)
	return slices.ContainsFunc(words, func(w string) bool {
		return strings.Contains(text, " "+strings.Map(letterOrSpace, strings.ToLower(w)))
	})
}

func letterOrSpace(r rune) rune {
	if strings.ContainsRune(".,;:!?¿¡«»„“”()\"'’/-\t", r) {
		return ' '
	}
	return r
}
