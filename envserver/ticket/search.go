package ticket

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/csenv/csenv/scenarios"
)

// maxFound is the number of articles that a search returns at most.
const maxFound = 3

// minTerm is the shortest word that a search looks for, in bytes: shorter ones are in every text.
const minTerm = 3

// findArticles ranks the articles by how many different words of the query they hold, a word of the title counting twice, and returns the best. Articles
// that hold none are left out; equal ones keep their order.
func findArticles(articles []scenarios.Article, query string) []scenarios.Article {
	terms := words(query)
	type hit struct{ article, weight int }
	var hits []hit
	for i, a := range articles {
		if w := 2*overlap(terms, words(a.Title)) + overlap(terms, words(a.Body)); w > 0 {
			hits = append(hits, hit{i, w})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.weight, a.weight) })
	found := make([]scenarios.Article, min(len(hits), maxFound))
	for i := range found {
		found[i] = articles[hits[i].article]
	}
	return found
}

func words(text string) map[string]struct{} {
	set := map[string]struct{}{}
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(w) >= minTerm {
			set[w] = struct{}{}
		}
	}
	return set
}

func overlap(terms, text map[string]struct{}) int {
	n := 0
	for w := range terms {
		if _, ok := text[w]; ok {
			n++
		}
	}
	return n
}
