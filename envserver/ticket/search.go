package ticket

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/words"
)

const (
	// maxFound bounds the articles that a search returns.
	maxFound = 3
	// minTerm is the minimum length of a search term, in bytes: shorter words are in every text.
	minTerm = 3
)

// findArticles ranks the articles by the number of different words of the query that they contain,
// a word of the title counting twice, and returns the best. Equal ones keep their order.
func findArticles(articles []scenarios.Article, query string) []Article {
	terms := terms(query)
	type hit struct{ article, weight int }
	var hits []hit
	for i, a := range articles {
		if w := 2*overlap(terms, a.Title) + overlap(terms, a.Body); w > 0 {
			hits = append(hits, hit{i, w})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.weight, a.weight) })
	found := make([]Article, min(len(hits), maxFound))
	for i := range found {
		found[i] = Article(articles[hits[i].article])
	}
	return found
}

// terms lists the different words of a query that are searched, in lower case.
func terms(query string) []string {
	var terms []string
	for w := range strings.FieldsFuncSeq(strings.ToLower(query), isGap) {
		if len(w) >= minTerm && !slices.Contains(terms, w) {
			terms = append(terms, w)
		}
	}
	return terms
}

func isGap(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// overlap counts the terms that a text contains as words. There is no index, because the articles
// are rendered for each episode and searched once or twice.
func overlap(terms []string, text string) int {
	text = strings.ToLower(text)
	n := 0
	for _, term := range terms {
		if words.Contains(text, term) {
			n++
		}
	}
	return n
}
