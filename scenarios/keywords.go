package scenarios

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"
)

//go:embed keywords.txt
var keywordsFile string

// lexicons returns the beginnings of words that indicate a category, by language and category.
var lexicons = sync.OnceValue(func() map[string]map[string][]string {
	all := map[string]map[string][]string{}
	for line := range strings.Lines(keywordsFile) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		heading, words, _ := strings.Cut(strings.TrimSpace(line), ": ")
		language, category, _ := strings.Cut(heading, " ")
		if all[language] == nil {
			all[language] = map[string][]string{}
		}
		all[language][category] = strings.Split(words, ", ")
	}
	return all
})

// ReadKeywords returns the category most of whose keywords occur in the subject and the description
// of a ticket. A word of the subject counts twice. Ties go to the first category.
func ReadKeywords(t *Ticket) string {
	words := lexicons()[t.Language[:2]]
	counts := make([]int, len(Categories))
	for i, c := range Categories {
		counts[i] = 2*countHits(t.Subject, words[c]) + countHits(t.Description, words[c])
	}
	best := slices.Max(counts)
	if best == 0 {
		return "general"
	}
	return Categories[slices.Index(counts, best)]
}

// countHits counts the words of a text that begin with a keyword. Keywords of up to three letters
// match only themselves and their plural.
func countHits(text string, keywords []string) int {
	n := 0
	separates := func(r rune) bool { return !unicode.IsLetter(r) && r != '-' }
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), separates) {
		if slices.ContainsFunc(keywords, func(k string) bool {
			return strings.HasPrefix(word, k) && (len(k) > 3 || len(word) <= len(k)+1)
		}) {
			n++
		}
	}
	return n
}
