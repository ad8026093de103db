package offline

// library reads a language's texts. It remembers what it read of those that the instances of a
// scenario share (articles, context words, phrasings), so that a new instance costs only what its
// seed changes.
type library struct {
	*lexicon
	aimed   *aimedIndex
	commits map[string][]*commitPattern
	texts   *memo[string, *extract]
	forms   *memo[string, form]
}

func newLibrary(lex *lexicon, aimed *aimedIndex) *library {
	return &library{lexicon: lex, aimed: aimed, commits: loadCommits(lex.commits), texts: newMemo[string, *extract](), forms: newMemo[string, form]()}
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
	return l.texts.get(text, l.newExtract)
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
	return l.forms.get(text, l.newForm)
}

// promiseReader returns what finds the promises of a document in the library's language.
func (l *library) promiseReader(d *document) *promiseReader {
	return &promiseReader{d, l.commits}
}
