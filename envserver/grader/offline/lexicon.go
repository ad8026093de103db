package offline

import (
	"embed"
	"strconv"
	"strings"
	"time"
)

// lexicons hold the words of the judge's languages, one file per language, so that a language can
// be added or corrected without touching a matcher.
//
//go:embed lexicon/*.txt
var lexicons embed.FS

// wordSet is a set of folded words.
type wordSet map[string]struct{}

func (s wordSet) has(w string) bool {
	_, ok := s[w]
	return ok
}

// lexicon is what the judge knows of a language. It is immutable after loadLexicon.
type lexicon struct {
	language string
	// decimal is the mark before a number's fraction. Other marks between digits group thousands.
	decimal    byte
	monthFirst bool

	expansions map[string]string
	months     map[string]int64
	// fractions are the words for parts of a unit of time, in thousandths.
	fractions map[string]int64
	units     map[string]timeUnit
	irregular map[string]string

	// words are what is known of single words, roots what is known of stems.
	words map[string]*word
	roots map[string]*root

	stopwords, conjunctions, abbreviations, currencies, percents, ordinals, articles, within, business, numberJoins wordClass
	negators, idioms, untils, losses, lasting, narrow, conditions, times, either, hedges                            wordClass
	aux, skip, firstPerson, secondPerson, enablers                                                                  wordClass
	// grounds begin phrases that give the reason for a promise, calendar words say when, abilities
	// say that somebody can, doing that it is to do something.
	grounds, calendar, abilities, doing wordClass
	back, determiners                   wordClass
	// relatives begin clauses that describe a noun.
	relatives wordClass
	// deciding words tell that somebody has to find something out or to agree first; simple ones
	// begin a condition without it.
	deciding, simple wordClass
	// guesses make what follows them a guess.
	guesses wordClass
	// extra words may stand between a number and its unit: "three more days".
	extra wordClass
	// demands are words for what a customer asks for, toward those before whom something goes to.
	demands, toward wordClass
	// identify are the words by which each language is recognised, in the order of languages.
	identify [4]wordClass
	// weekdays are the names of days from Monday on.
	weekdays []string
	// endings are those of verbs that say "we" by themselves.
	endings []string

	finite, courtesy, givers, completions, money, returns, apology, empathy, thanks, teams, handover stemClass
	// These are phrases: runs of words.
	emptyConditions, openPhrases, recognise, blame, beyond, duties, please, senses, pronouns, handed phraseSet
	// imperatives begin sentences that ask the customer for something, as please does anywhere in
	// them.
	imperatives wordClass
	// commits are the patterns of commitments by the word that they begin with.
	commits map[string][]*commitPattern
	// aimed are the patterns of what is said to whoever grades, in any language.
	aimed *aimedIndex
}

// languages are those that the judge can read, in the order in which they are tried.
func languages() []string {
	return []string{"en", "de", "es", "fr"}
}

// loadLexicons reads the lexicons of all languages.
func loadLexicons() map[string]*lexicon {
	all := map[string]*lexicon{}
	aimed := loadAimed()
	for _, language := range languages() {
		all[language] = loadLexicon(language)
		all[language].aimed = aimed
	}
	return all
}

// lexiconLines reads a language's file: the words of each key, those of a repeated key as one line
// each.
func lexiconLines(language string) map[string][]string {
	lines := map[string][]string{}
	for line := range strings.Lines(lexiconText(language)) {
		if key, words, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(key, "#") {
			lines[key] = append(lines[key], words)
		}
	}
	return lines
}

// lexiconText reads one of the files.
func lexiconText(name string) string {
	text, err := lexicons.ReadFile("lexicon/" + name + ".txt")
	if err != nil {
		panic(err) // The file is part of the binary.
	}
	return string(text)
}

func loadLexicon(language string) *lexicon {
	lines := lexiconLines(language)
	lex := &lexicon{
		language: language, decimal: ',', words: map[string]*word{}, roots: map[string]*root{},
		expansions: pairs(lines["expand"]), irregular: pairs(lines["irregular"]), months: numbers(lines["months"]),
		fractions: numbers(lines["fractions"]),
		endings:   fields(lines["endings"]), weekdays: fields(lines["calendar"])[:7],
		commits: loadCommits(lines["commit"]),
	}
	if language == "en" {
		lex.decimal, lex.monthFirst = '.', true
	}
	lex.units = map[string]timeUnit{}
	for name, length := range numbers(lines["seconds"]) {
		lex.units[name] = timeUnit{length, seconds}
	}
	for name, length := range numbers(lines["months_of"]) {
		lex.units[name] = timeUnit{length, months}
	}
	lex.loadStems(lines)
	lex.loadWords(lines)
	return lex
}

// loadStems fills the classes of stems and what else is known of them.
func (lex *lexicon) loadStems(lines map[string][]string) {
	bit := stemClass(1)
	for _, c := range []struct {
		key   string
		class *stemClass
	}{
		{"finite", &lex.finite}, {"courtesy", &lex.courtesy}, {"givers", &lex.givers},
		{"completions", &lex.completions}, {"money", &lex.money}, {"returns", &lex.returns},
		{"apology", &lex.apology}, {"empathy", &lex.empathy}, {"thanks", &lex.thanks}, {"teams", &lex.teams},
		{"handover", &lex.handover},
	} {
		*c.class = bit
		for _, w := range fields(lines[c.key]) {
			lex.rootOf(w).classes |= bit
		}
		bit <<= 1
	}
	for word, remedy := range pairs(lines["remedy"]) {
		lex.rootOf(word).remedy = remedy
	}
	for group, words := range lines["same"] {
		for w := range strings.FieldsSeq(words) {
			lex.rootOf(w).groups |= 1 << group
		}
	}
}

// loadWords fills the classes of words and what else is known of them. Stems come first.
func (lex *lexicon) loadWords(lines map[string][]string) {
	bit := wordClass(1)
	add := func(class *wordClass, words []string) {
		*class = bit
		for _, w := range words {
			lex.wordOf(w).classes |= bit
		}
		bit <<= 1
	}
	for _, c := range []struct {
		key   string
		class *wordClass
	}{
		{"stopwords", &lex.stopwords}, {"conjunctions", &lex.conjunctions}, {"abbreviations", &lex.abbreviations},
		{"currencies", &lex.currencies}, {"percents", &lex.percents},
		{"ordinals", &lex.ordinals}, {"articles", &lex.articles}, {"within", &lex.within}, {"business", &lex.business},
		{"joins", &lex.numberJoins}, {"negators", &lex.negators},
		{"idioms", &lex.idioms}, {"untils", &lex.untils}, {"losses", &lex.losses}, {"lasting", &lex.lasting},
		{"narrow", &lex.narrow}, {"conditions", &lex.conditions},
		{"times", &lex.times}, {"either", &lex.either}, {"hedges", &lex.hedges}, {"aux", &lex.aux}, {"skip", &lex.skip},
		{"first_person", &lex.firstPerson},
		{"second_person", &lex.secondPerson}, {"enablers", &lex.enablers}, {"grounds", &lex.grounds},
		{"calendar", &lex.calendar}, {"abilities", &lex.abilities},
		{"doing", &lex.doing}, {"back", &lex.back}, {"determiners", &lex.determiners},
		{"imperatives", &lex.imperatives}, {"demands", &lex.demands}, {"toward", &lex.toward},
		{"relatives", &lex.relatives}, {"deciding", &lex.deciding}, {"simple", &lex.simple}, {"guesses", &lex.guesses},
		{"extra", &lex.extra},
	} {
		add(c.class, fields(lines[c.key]))
	}
	for i, language := range languages() {
		add(&lex.identify[i], fields(lexiconLines(language)["identify"]))
	}
	for _, c := range []struct {
		key string
		set *phraseSet
	}{
		{"empty_conditions", &lex.emptyConditions}, {"open_phrases", &lex.openPhrases}, {"recognise", &lex.recognise},
		{"blame", &lex.blame}, {"beyond", &lex.beyond},
		{"duties", &lex.duties}, {"please", &lex.please}, {"senses", &lex.senses}, {"pronouns", &lex.pronouns},
		{"handed", &lex.handed},
	} {
		c.set.phrases = phrases(lines[c.key])
		heads := make([]string, 0, len(c.set.phrases))
		for _, p := range c.set.phrases {
			heads = append(heads, p[0])
		}
		add(&c.set.heads, heads)
	}
	for w, n := range numbers(lines["numbers"]) {
		lex.wordOf(w).value = n * 1000
	}
	if lex.language == "de" {
		lex.loadCompounds()
	}
}

// loadCompounds adds the German numbers to 199, which are words of their own: "siebenunddreissig",
// "einhundertsiebenunddreissig".
func (lex *lexicon) loadCompounds() {
	ones := strings.Fields("ein zwei drei vier funf sechs sieben acht neun")
	var below [100]string
	for w, n := range lex.words {
		if n.value > 0 && n.value < 100_000 {
			below[n.value/1000] = w
		}
	}
	for ten := 20; ten < 100; ten += 10 {
		for one, w := range ones {
			below[ten+one+1] = w + "und" + below[ten]
		}
	}
	for n, w := range below {
		if n > 0 {
			lex.wordOf(w).value = int64(n) * 1000
			lex.wordOf("hundert" + w).value = int64(n+100) * 1000
			lex.wordOf("einhundert" + w).value = int64(n+100) * 1000
		}
	}
	lex.wordOf("einhundert").value = 100_000
}

// nearDay returns the weekday by which a day of the coming week is called, "" for any other day.
func (lex *lexicon) nearDay(now, day time.Time) string {
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	if n := day.Sub(today) / (24 * time.Hour); n < 1 || n >= 7 {
		return ""
	}
	return lex.weekdays[(int(day.Weekday())+6)%7]
}

// wordClass is a set of classes of words, stemClass one of classes of stems, a bit each.
type (
	wordClass uint64
	stemClass uint64
)

// word is what a lexicon knows of a word.
type word struct {
	classes wordClass
	// value is in thousandths, for a word that writes a number.
	value int64
	root  *root
}

// root is what a lexicon knows of the words of one stem.
type root struct {
	stem    string
	classes stemClass
	// groups are those of words of one meaning that the stem belongs to, a bit each.
	groups uint64
	// remedy is what the stem stands for: refund, credit, replace, waive, compensate, discount or
	// guarantee.
	remedy string
}

// wordOf returns a word's entry, a new one for a new word.
func (lex *lexicon) wordOf(w string) *word {
	if lex.words[w] == nil {
		stem := lex.stemOf(w)
		lex.words[w] = &word{root: lex.roots[stem]}
		if lex.words[w].root == nil {
			lex.words[w].root = &root{stem: stem}
		}
	}
	return lex.words[w]
}

// rootOf returns the entry of a word's stem, a new one for a new stem.
func (lex *lexicon) rootOf(w string) *root {
	stem := lex.stemOf(w)
	if lex.roots[stem] == nil {
		lex.roots[stem] = &root{stem: stem}
	}
	return lex.roots[stem]
}

// look fills in what the lexicon knows of a word.
func (lex *lexicon) look(t *token) {
	if w := lex.words[t.text]; w != nil {
		t.classes, t.value, t.root, t.stem = w.classes, w.value, w.root, w.root.stem
		return
	}
	t.stem = lex.stemOf(t.text)
	t.root = lex.roots[t.stem]
}

func newWordSet(lines []string) wordSet {
	set := wordSet{}
	for _, line := range lines {
		for word := range strings.FieldsSeq(line) {
			set[word] = struct{}{}
		}
	}
	return set
}

// pairs reads words of the form "key=value".
func pairs(lines []string) map[string]string {
	m := map[string]string{}
	for word := range newWordSet(lines) {
		if k, v, ok := strings.Cut(word, "="); ok {
			m[k] = v
		}
	}
	return m
}

// numbers reads words of the form "key=number".
func numbers(lines []string) map[string]int64 {
	m := map[string]int64{}
	for k, v := range pairs(lines) {
		m[k], _ = strconv.ParseInt(v, 10, 64)
	}
	return m
}

// fields reads the words of all lines.
func fields(lines []string) []string {
	return strings.Fields(strings.Join(lines, " "))
}

// phrases reads words joined by "_".
func phrases(lines []string) [][]string {
	var out [][]string
	for _, line := range lines {
		for word := range strings.FieldsSeq(line) {
			out = append(out, strings.Split(word, "_"))
		}
	}
	return out
}

// expand spells a contraction's ending out, so that "can't" holds "not".
func (lex *lexicon) expand(t token, glued bool) token {
	if full, ok := lex.expansions[t.text]; ok && glued {
		t.text = full
	}
	return t
}

// readNumber reads the number that s starts with: the bytes it takes and its value in thousandths.
// Marks between digits group thousands or start the fraction, as the language has it; where a mark
// can only be the other thing, it is.
func (lex *lexicon) readNumber(s string) (n int, thousandths int64) {
	n = digits(s)
	whole, fraction := s[:n], ""
	value := clip(whole)
	for n+1 < len(s) && strings.IndexByte(".,' ", s[n]) >= 0 {
		group := digits(s[n+1:])
		if group == 3 && lex.groups(s[n], len(whole), s[n+4:]) {
			value = value*1000 + atoi(s[n+1:n+4])
			n += 4
			whole = whole[:1]
			continue
		}
		if group > 0 && (s[n] == '.' || s[n] == ',') {
			fraction = s[n+1 : n+1+group]
			n += 1 + group
		}
		break
	}
	return n, value*1000 + atoi((fraction + "000")[:3])
}

// groups tells whether a mark before three digits groups thousands, given the digits before it and
// the text after them.
func (lex *lexicon) groups(mark byte, before int, rest string) bool {
	switch {
	case before > 3:
		return false
	case mark == ' ':
		return lex.decimal == ',' && lex.language != "de"
	case mark != lex.decimal:
		return true
	}
	// "1,482.00" in a language that would write "1.482,00".
	return len(rest) > 1 && (rest[0] == '.' || rest[0] == ',') && rest[0] != mark && digits(rest[1:]) > 0
}

// clip reads a whole number and keeps it small enough for arithmetic.
func clip(s string) int64 {
	return atoi(s[:min(len(s), 9)])
}
