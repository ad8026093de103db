package offline

import lru "github.com/hashicorp/golang-lru/v2"

// maxTexts is the number of texts that a library remembers.
const maxTexts = 4096

// library reads a language's texts. It remembers what it read of those that the instances of a
// scenario share (articles, context words, phrasings), so that a new instance costs only what its
// seed changes.
type library struct {
	*lexicon
	aimed   *aimedIndex
	commits map[string][]*commitPattern
	texts   *lru.Cache[string, *extract]
	forms   *lru.Cache[string, form]
}

func newLibrary(lex *lexicon, aimed *aimedIndex) *library {
	return &library{lexicon: lex, aimed: aimed, commits: loadCommits(lex.commits), texts: newCache[string, *extract](maxTexts), forms: newCache[string, form](maxTexts)}
}

// newLibraries makes a library for each language.
func newLibraries() map[string]*library {
	all, aimed := map[string]*library{}, loadAimed()
	for language, lex := range loadLexicons() {
		all[language] = newLibrary(lex, aimed)
	}
	return all
}

// extract is what the judge keeps of a trusted text.
type extract struct {
	claims []claim
	grams  gramSet
	// hashes are those of the words in order, without values.
	hashes []uint64
	// keys are the words and values that tell what the text is about.
	keys []string
	term term
}

// extract returns what there is in a text.
func (l *library) extract(text string) *extract {
	return cached(l.texts, text, l.newExtract)
}

func (l *library) newExtract(text string) *extract {
	d := l.read(text)
	e := &extract{claims: appendNew(nil, d.claims), grams: gramSet{}, term: termOf(d.tokens)}
	e.grams.add(d.tokens)
	for i := range d.tokens {
		t := &d.tokens[i]
		if t.kind == wordToken {
			e.hashes = append(e.hashes, t.hash)
		}
		if t.kind != punctToken && t.kind != currencyToken && !t.is(Stopwords) {
			e.keys = append(e.keys, t.key())
		}
	}
	return e
}

// read parses a trusted text of any length.
func (l *library) read(text string) *document {
	return parse(fold(normalise(text)), l.lexicon)
}

// terms returns one term for each text that holds a word.
func (l *library) terms(texts []string) []term {
	out := make([]term, 0, len(texts)+2)
	for _, text := range texts {
		if t := l.extract(text).term; len(t.stems) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// form returns a value as a reply would state it.
func (l *library) form(text string) form {
	return cached(l.forms, text, l.newForm)
}

// promiseReader returns what finds the promises of a document in the library's language.
func (l *library) promiseReader(d *document) *promiseReader {
	return &promiseReader{d, l.commits}
}

// newCache makes a cache of the most recently used entries.
func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // The size is a positive constant.
	}
	return c
}

// cached returns the key's entry, a new one for a new key. Two callers may compute it at once.
func cached[K comparable, V any](c *lru.Cache[K, V], key K, compute func(K) V) V {
	if v, ok := c.Get(key); ok {
		return v
	}
	v := compute(key)
	c.Add(key, v)
	return v
}
