package ticket

import (
	"cmp"
	"slices"
	"sync"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/words"
)

const (
	// maxFound bounds the articles that a search returns.
	maxFound = 3
	// minTerm is the minimum length of a search term, in bytes: shorter words are in every text.
	minTerm = 3
)

// maxPages bounds the pages of a library. They take a few MiB.
const maxPages = 1024

// library holds the pages of articles by their text, so that episodes with the same articles share
// them. The zero value is ready, and safe for concurrent use.
type library struct {
	mu    sync.RWMutex
	pages map[scenarios.Article]*page
}

// page is an article, with its JSON and the index of its words in lower case: 1 for a word of the
// body, 2 for one of the title, 3 for one of both.
type page struct {
	article Article
	weights map[string]int
}

func newPage(from scenarios.Article) *page {
	p := &page{Article{ID: from.ID, Title: from.Title, Body: from.Body}, map[string]int{}}
	p.article.Encoded = string(appendArticle(nil, p.article))
	for w := range words.SplitText(from.Body) {
		p.weights[w] = 1
	}
	for w := range words.SplitText(from.Title) {
		p.weights[w] |= 2
	}
	return p
}

// weight adds up the weights of different words.
func (p *page) weight(terms []string) (sum int) {
	for _, term := range terms {
		sum += p.weights[term]
	}
	return sum
}

// page returns the page of an article. A full library begins again, because articles with drawn
// values come and go.
func (l *library) page(of scenarios.Article) *page {
	l.mu.RLock()
	p := l.pages[of]
	l.mu.RUnlock()
	if p != nil {
		return p
	}
	p = newPage(of)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pages == nil || len(l.pages) == maxPages {
		l.pages = map[scenarios.Article]*page{}
	}
	l.pages[of] = p
	return p
}

// find ranks the articles by the number of different words of the query that they contain, a word
// of the title counting twice, and returns the best. Equal ones keep their order.
func (l *library) find(articles []scenarios.Article, query string) []Article {
	terms := splitTerms(query)
	type hit struct {
		page   *page
		weight int
	}
	var hits []hit
	for _, a := range articles {
		p := l.page(a)
		if w := p.weight(terms); w > 0 {
			hits = append(hits, hit{p, w})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.weight, a.weight) })
	found := make([]Article, min(len(hits), maxFound))
	for i := range found {
		found[i] = hits[i].page.article
	}
	return found
}

// splitTerms lists the different words of a query that are searched.
func splitTerms(query string) []string {
	var terms []string
	for w := range words.SplitText(query) {
		if len(w) >= minTerm && !slices.Contains(terms, w) {
			terms = append(terms, w)
		}
	}
	return terms
}
