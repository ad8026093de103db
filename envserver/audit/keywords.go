package audit

import (
	_ "embed"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/csenv/csenv/scenarios"
)

//go:embed keywords.txt
var keywordsFile string

// lexicons returns the beginnings of words that indicate a category, by language and category.
var lexicons = sync.OnceValue(func() map[string]map[string][]string {
	all := map[string]map[string][]string{}
	for heading, words := range entries(keywordsFile) {
		language, category, _ := strings.Cut(heading, " ")
		if all[language] == nil {
			all[language] = map[string][]string{}
		}
		all[language][category] = strings.Split(words, ", ")
	}
	return all
})

// entries yields the lines "heading: text" of a file.
func entries(file string) iter.Seq2[string, string] {
	return func(yield func(heading, text string) bool) {
		for line := range strings.Lines(file) {
			heading, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if !strings.HasPrefix(line, "#") && !yield(heading, text) {
				return
			}
		}
	}
}

// Keywords returns the category most of whose keywords occur in the subject and the description of
// a ticket. A word of the subject counts twice. Ties go to the first category.
func Keywords(t *scenarios.Ticket) string {
	words := lexicons()[t.Language[:2]]
	counts := make([]int, len(scenarios.Categories()))
	for i, c := range scenarios.Categories() {
		counts[i] = 2*hits(t.Subject, words[c]) + hits(t.Description, words[c])
	}
	best := slices.Max(counts)
	if best == 0 {
		return "general"
	}
	return scenarios.Categories()[slices.Index(counts, best)]
}

// hits counts the words of a text that begin with a keyword. Keywords of up to three letters match
// only themselves and their plural.
func hits(text string, keywords []string) int {
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
