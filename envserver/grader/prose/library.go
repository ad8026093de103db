package prose

import (
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/envserver/grader/text"
)

// The maximum number of texts in each of a library's caches, of lists of texts, and of whole
// articles.
const maxTexts, maxLists, maxArticles = 4096, 2048, 512

// library reads a language's texts. It caches those that the instances of a scenario share, so that
// a new instance costs only what its seed changes.
type library struct {
	*text.Lexicon
	injections *injectionIndex
	commits    map[string][]*commitPattern
	// documents are used again, because most of a document's memory is needed only while it is
	// read.
	documents sync.Pool
	texts     *lru.Cache[string, *extract]
	articles  *lru.Cache[string, *extract]
	sections  *lru.Cache[string, *extract] // paragraphs of articles
	phrases   *lru.Cache[string, text.Term]
	forms     *lru.Cache[string, form]
	patterns  *lru.Cache[string, pattern]
	// The lists spare a look-up of each of their texts.
	termLists *lru.Cache[string, []text.Term]
	formLists *lru.Cache[string, []form]
	keyLists  *lru.Cache[string, []uint64]
	rubrics   *lru.Cache[string, source]
}

func newLibrary(lex *text.Lexicon, aimed *injectionIndex) *library {
	return &library{Lexicon: lex, injections: aimed, commits: loadCommits(lex.Commitments),
		documents: sync.Pool{New: func() any { return &text.Document{} }},
		texts:     newCache[string, *extract](maxTexts),
		articles:  newCache[string, *extract](maxArticles), sections: newCache[string, *extract](maxTexts),
		phrases: newCache[string, text.Term](maxTexts),
		forms:   newCache[string, form](maxTexts), patterns: newCache[string, pattern](maxTexts),
		termLists: newCache[string, []text.Term](maxLists),
		formLists: newCache[string, []form](maxLists), keyLists: newCache[string, []uint64](maxLists),
		rubrics: newCache[string, source](maxLists)}
}

// extract is the part of a trusted text that the judge stores.
type extract struct {
	values []text.Value
	hashes []uint64 // of the words in order, without values
	keys   []uint64 // of the words and values that characterise the text
	// folded is the folded text, vocabulary contains the keys.
	folded     func() string
	source     func() source
	vocabulary func() hashSet
}

func (l *library) extract(wording string) *extract {
	return loadOrCompute(l.texts, wording, l.newExtract)
}

func (l *library) newExtract(wording string) *extract {
	e := &extract{}
	l.scan(wording, func(d *text.Document) {
		n := d.CountWords(d.Whole())
		e.values, e.hashes, e.keys = text.AppendNew(nil, d.Values), make([]uint64, 0, n), make([]uint64, 0, n)
		for i := range d.Tokens {
			t := &d.Tokens[i]
			if t.Kind == text.WordToken {
				e.hashes = append(e.hashes, t.Hash())
			}
			if isCharacteristic(t) {
				e.keys = append(e.keys, t.KeyHash())
			}
		}
	})
	return e.withSets(wording)
}

// article returns the extract of an article. The instances of a scenario share the paragraphs in
// which nothing depends on the seed.
func (l *library) article(wording string) *extract {
	return loadOrCompute(l.articles, wording, l.newArticle)
}

func (l *library) newArticle(wording string) *extract {
	e := &extract{}
	for paragraph := range strings.SplitSeq(wording, "\n\n") {
		part := loadOrCompute(l.sections, paragraph, l.newExtract)
		e.values = text.AppendNew(e.values, part.values)
		e.hashes, e.keys = append(e.hashes, part.hashes...), append(e.keys, part.keys...)
	}
	return e.withSets(wording)
}

// withSets adds the sets and the folded text, which are made when they are needed first.
func (e *extract) withSets(wording string) *extract {
	e.folded = sync.OnceValue(func() string { return text.Fold(wording) })
	e.source = sync.OnceValue(func() source {
		s := newSource(len(e.hashes))
		s.add(e.hashes)
		return s
	})
	e.vocabulary = sync.OnceValue(func() hashSet {
		words := newHashSet(len(e.keys))
		words.add(e.keys...)
		return words
	})
	return e
}

// isCharacteristic reports whether a token is one of the words and values that characterise its
// text.
func isCharacteristic(t *text.Token) bool {
	return t.Kind != text.PunctToken && t.Kind != text.CurrencyToken && !t.Is(text.Stopwords)
}

// read parses a trusted text of any length.
func (l *library) read(wording string) *text.Document {
	return text.Parse(foldWording(wording), l.Lexicon)
}

// scan parses a trusted text of any length. The document, except its values, is valid until f
// returns.
func (l *library) scan(wording string, f func(d *text.Document)) {
	d := l.document()
	defer l.documents.Put(d)
	d.Parse(foldWording(wording), l.Lexicon)
	f(d)
}

// document returns a document from the pool.
func (l *library) document() *text.Document { return l.documents.Get().(*text.Document) }

func foldWording(wording string) string { return text.Fold(text.Normalise(wording)) }

// terms returns one term for each text that holds a word.
func (l *library) terms(texts ...string) []text.Term {
	return loadList(l.termLists, texts, func(all []text.Term, wording string) []text.Term {
		if t := l.term(wording); len(t.Stems) > 0 {
			all = append(all, t)
		}
		return all
	})
}

func (l *library) term(wording string) text.Term { return loadOrCompute(l.phrases, wording, l.newTerm) }

func (l *library) newTerm(wording string) (t text.Term) {
	l.scan(wording, func(d *text.Document) { t = text.NewTerm(d.Tokens) })
	return t
}

// listForms returns the form of each text.
func (l *library) listForms(texts ...string) []form {
	return loadList(l.formLists, texts,
		func(all []form, wording string) []form { return append(all, l.form(wording)) })
}

func (l *library) form(wording string) form { return loadOrCompute(l.forms, wording, l.newForm) }

// newForm reads a value as a reply would state it.
func (l *library) newForm(wording string) form {
	var f form
	l.scan(wording, func(d *text.Document) {
		f.values = d.Values
		for i := range d.Tokens {
			switch t := &d.Tokens[i]; {
			case t.Kind == text.WordToken && t.Is(text.Negators):
				f.negated = true
			case !isCharacteristic(t), d.InValue(i):
			default:
				f.words = append(f.words, text.NewTerm(d.Tokens[i:i+1]))
			}
		}
	})
	return f
}

// promiseReader returns a reader of the promises of a document in the library's language.
func (l *library) promiseReader(d *text.Document) *promiseReader {
	return &promiseReader{d, l.commits}
}

func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // The size is a positive constant.
	}
	return c
}

// loadOrCompute returns the key's entry, and computes a missing one. Two concurrent callers may
// both compute it.
func loadOrCompute[K comparable, V any](c *lru.Cache[K, V], key K, compute func(K) V) V {
	if v, ok := c.Get(key); ok {
		return v
	}
	v := compute(key)
	c.Add(key, v)
	return v
}

// loadList is loadOrCompute for a list of texts, of which add adds one to the entry. The entry has
// no capacity left, so that callers can append to it.
func loadList[V any](c *lru.Cache[string, []V], texts []string, add func(entry []V, text string) []V) []V {
	return loadOrCompute(c, joinTexts(texts), func(string) (entry []V) {
		for _, t := range texts {
			entry = add(entry, t)
		}
		return slices.Clip(entry)
	})
}

// joinTexts returns the key of a list of texts.
func joinTexts(texts []string) string { return strings.Join(texts, "\x00") }

type wordSet map[string]struct{}

func (s wordSet) has(w string) bool {
	_, ok := s[w]
	return ok
}
