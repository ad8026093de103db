package ticket

import (
	"cmp"
	"slices"
	"strings"
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

// maxPages bounds the pages of a library. They take about 10 MiB, and their terms at most as much.
const maxPages = 4096

// library holds the pages of articles by their text, so that episodes with the same articles share
// them. The zero value is ready, and safe for concurrent use.
type library struct {
	mu    sync.RWMutex
	pages map[scenarios.Article]*page
}

// The terms whose weights a page keeps, at most, and their length in bytes.
const (
	maxTerms = 32
	maxTerm  = 32
)

// page is an article, with its JSON and the weights of the terms that were searched. It has no
// index of its words: articles have drawn values, so that many pages are searched only a few times.
type page struct {
	article scenarios.Article
	// shown is the article with its JSON. It is made when a search first finds the page.
	shown func() Article

	mu      sync.Mutex
	weights map[string]int
}

func newPage(from scenarios.Article) *page {
	return &page{article: from, shown: sync.OnceValue(func() Article {
		a := Article{ID: from.ID, Title: from.Title, Body: from.Body}
		a.Encoded = string(appendArticle(make([]byte, 0, len(from.Body)+len(from.Title)+64), a))
		return a
	})}
}

// weight counts the terms that are words of the body, and twice those that are words of the title.
func (p *page) weight(terms []string) (sum int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, term := range terms {
		weight, known := p.weights[term]
		if !known {
			weight = p.weigh(term)
		}
		sum += weight
	}
	return sum
}

// weigh finds the weight of a term, and keeps the weight of a short one. Full weights begin again.
func (p *page) weigh(term string) (weight int) {
	if words.ContainsFold(p.article.Body, term) {
		weight++
	}
	if words.ContainsFold(p.article.Title, term) {
		weight += 2
	}
	if p.weights == nil || len(p.weights) == maxTerms {
		p.weights = map[string]int{}
	}
	if len(term) <= maxTerm {
		p.weights[strings.Clone(term)] = weight
	}
	return weight
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

// listPages returns the pages of articles in their order.
func (l *library) listPages(articles []scenarios.Article) []*page {
	pages := make([]*page, len(articles))
	for i, a := range articles {
		pages[i] = l.page(a)
	}
	return pages
}

// findArticles ranks the pages by the number of different words of the query that they contain, a
// word of the title counting twice, and returns the best. Equal ones keep their order.
func findArticles(pages []*page, query string) []Article {
	terms := splitTerms(query)
	type hit struct {
		page   *page
		weight int
	}
	hits := make([]hit, 0, len(pages))
	for _, p := range pages {
		if w := p.weight(terms); w > 0 {
			hits = append(hits, hit{p, w})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.weight, a.weight) })
	found := make([]Article, min(len(hits), maxFound))
	for i := range found {
		found[i] = hits[i].page.shown()
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
