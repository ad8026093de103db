// Package words finds words in texts, for the search of the knowledge base and for the linter.
package words

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Contains reports whether text contains word, in the same case, without a letter or digit on
// either side. No text contains the empty word.
func Contains(text, word string) bool {
	for from := 0; word != ""; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:start]) // RuneError at the ends of text
		after, _ := utf8.DecodeRuneInString(text[end:])
		if !IsPart(before) && !IsPart(after) {
			return true
		}
		from = start + 1
	}
	return false
}

// ContainsFold is like Contains, but ignores case.
func ContainsFold(text, word string) bool {
	return Contains(strings.ToLower(text), strings.ToLower(word))
}

// IsPart reports whether r is part of a word: a letter or a digit.
func IsPart(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// SplitText yields the words of a text in lower case.
func SplitText(text string) iter.Seq[string] {
	return strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !IsPart(r) })
}
