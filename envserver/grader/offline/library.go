package offline

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/envserver/grader/text"
)

// maxTexts is the maximum number of texts in a library's cache.
const maxTexts = 4096

// library reads a language's texts. It caches those that the instances of a scenario share, so that
// a new instance costs only what its seed changes.
type library struct {
	*text.Lexicon
	injections *injectionIndex
	commits    map[string][]*commitPattern
	texts      *lru.Cache[string, *extract]
	forms      *lru.Cache[string, form]
	patterns   *lru.Cache[string, pattern]
}

func newLibrary(lex *text.Lexicon, aimed *injectionIndex) *library {
	return &library{Lexicon: lex, injections: aimed, commits: loadCommits(lex.Commitments),
		texts: newCache[string, *extract](maxTexts), forms: newCache[string, form](maxTexts),
		patterns: newCache[string, pattern](maxTexts)}
}

func newLibraries() map[string]*library {
	all, aimed := map[string]*library{}, newInjectionIndex()
	for language, lex := range text.Lexicons() {
		all[language] = newLibrary(lex, aimed)
	}
	return all
}

// extract is the part of a trusted text that the judge stores.
type extract struct {
	values []text.Value
	grams  gramSet
	hashes []uint64 // of the words in order, without values
	keys   []string // the words and values that characterise the text
	term   text.Term
}

func (l *library) extract(wording string) *extract { return cached(l.texts, wording, l.newExtract) }

func (l *library) newExtract(wording string) *extract {
	d := l.read(wording)
	e := &extract{values: text.AppendNew(nil, d.Values), grams: gramSet{}, term: text.NewTerm(d.Tokens)}
	e.grams.add(d.Tokens)
	for i := range d.Tokens {
		t := &d.Tokens[i]
		if t.Kind == text.WordToken {
			e.hashes = append(e.hashes, t.Hash())
		}
		if t.Kind != text.PunctToken && t.Kind != text.CurrencyToken && !t.Is(text.Stopwords) {
			e.keys = append(e.keys, t.Key())
		}
	}
	return e
}

// read parses a trusted text of any length.
func (l *library) read(wording string) *text.Document {
	return text.Parse(text.Fold(text.Normalise(wording)), l.Lexicon)
}

// terms returns one term for each text that holds a word.
func (l *library) terms(texts []string) []text.Term {
	out := make([]text.Term, 0, len(texts)+2)
	for _, wording := range texts {
		if t := l.extract(wording).term; len(t.Stems) > 0 {
			out = append(out, t)
		}
	}
	return out
}

func (l *library) form(wording string) form { return cached(l.forms, wording, l.newForm) }

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

// cached returns the key's entry, and computes a missing one. Two concurrent callers may both
// compute it.
func cached[K comparable, V any](c *lru.Cache[K, V], key K, compute func(K) V) V {
	if v, ok := c.Get(key); ok {
		return v
	}
	v := compute(key)
	c.Add(key, v)
	return v
}

type wordSet map[string]struct{}

func (s wordSet) has(w string) bool {
	_, ok := s[w]
	return ok
}
