package episode

import (
	"iter"
	"slices"
	"strings"
)

// sentences yields the texts up to the ends of sentences and lines.
func sentences(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text = strings.TrimLeft(text, ".!?\n"); text != ""; text = strings.TrimLeft(text, ".!?\n") {
			end := strings.IndexAny(text, ".!?\n")
			switch {
			case end < 0:
				end = len(text)
			case text[end] != '\n':
				end++
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// HasQuestionAbout reports whether a sentence of the message asks about one of the words; without
// words, whether it is a question. askWords are the beginnings of words that make a sentence
// without a question mark a question.
func HasQuestionAbout(message string, about, askWords []string) bool {
	for s := range sentences(strings.ToLower(message)) {
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
		return hasAfterSpace(text, strings.Map(letterOrSpace, strings.ToLower(w)))
	})
}

func hasAfterSpace(text, word string) bool {
	for from := 1; from <= len(text); from++ {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		if from += i; text[from-1] == ' ' {
			return true
		}
	}
	return false
}

func letterOrSpace(r rune) rune {
	switch r {
	case '.', ',', ';', ':', '!', '?', '¿', '¡', '«', '»', '„', '“', '”', '(', ')', '"', '\'', '’', '/', '-', '\t':
		return ' '
	}
	return r
}
