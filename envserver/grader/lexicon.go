package grader

import (
	"embed"
	"strconv"
	"strings"
)

// lexicons hold the words of the judge's languages, one file per language, so that a language can be added or corrected without touching a matcher.
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
	numbers    map[string]int64
	months     map[string]int64
	// fractions are the words for parts of a unit of time, in thousandths.
	fractions map[string]int64
	units     map[string]timeUnit
	irregular map[string]string

	stopwords, conjunctions, abbreviations, currencies, percents, ordinals, articles, within, business, numberJoins wordSet
	negators, idioms, untils, losses, lasting, narrow, conditions, times, either, hedges                            wordSet
	aux, skip, firstPerson, company, secondPerson, enablers                                                         wordSet
	// grounds begin phrases that give the reason for a promise, calendar words say when, abilities say that somebody can, doing that it is to do something.
	grounds, calendar, abilities, doing wordSet
	back, endings, determiners          wordSet
	// These hold stems.
	finite, courtesy, givers, completions, money, returns, apology, empathy, thanks, teams, handover wordSet
	// These are phrases: runs of words.
	emptyConditions, openPhrases, recognise, blame, beyond, duties [][]string
	// remedies name the remedy that a stem stands for: refund, credit, replace, waive, compensate, discount or guarantee.
	remedies map[string]string
	// synonyms hold a bit for each group of words of one meaning that a stem belongs to.
	synonyms map[string]uint64
	// identify are the words by which each language is recognised.
	identify map[string]wordSet
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
	identify := map[string]wordSet{}
	for _, language := range languages() {
		lines := lexiconLines(language)
		all[language] = loadLexicon(language, lines)
		identify[language] = newWordSet(lines["identify"])
	}
	aimed := loadAimed()
	for _, lex := range all {
		lex.identify, lex.aimed = identify, aimed
	}
	return all
}

// lexiconLines reads a language's file: the words of each key, those of a repeated key as one line each.
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

func loadLexicon(language string, lines map[string][]string) *lexicon {
	lex := &lexicon{
		language: language, decimal: ',',
		expansions: pairs(lines["expand"]), irregular: pairs(lines["irregular"]), numbers: numbers(lines["numbers"]), months: numbers(lines["months"]), fractions: numbers(lines["fractions"]),
		stopwords: newWordSet(lines["stopwords"]), conjunctions: newWordSet(lines["conjunctions"]), abbreviations: newWordSet(lines["abbreviations"]),
		currencies: newWordSet(lines["currencies"]), percents: newWordSet(lines["percents"]), ordinals: newWordSet(lines["ordinals"]),
		articles: newWordSet(lines["articles"]), within: newWordSet(lines["within"]), business: newWordSet(lines["business"]), numberJoins: newWordSet(lines["joins"]),
		negators: newWordSet(lines["negators"]), idioms: newWordSet(lines["idioms"]), untils: newWordSet(lines["untils"]), losses: newWordSet(lines["losses"]), lasting: newWordSet(lines["lasting"]), narrow: newWordSet(lines["narrow"]),
		conditions: newWordSet(lines["conditions"]), times: newWordSet(lines["times"]), either: newWordSet(lines["either"]), hedges: newWordSet(lines["hedges"]),
		aux: newWordSet(lines["aux"]), skip: newWordSet(lines["skip"]), firstPerson: newWordSet(lines["first_person"]), company: newWordSet(lines["company"]),
		secondPerson: newWordSet(lines["second_person"]), enablers: newWordSet(lines["enablers"]),
		grounds: newWordSet(lines["grounds"]), calendar: newWordSet(lines["calendar"]), abilities: newWordSet(lines["abilities"]), doing: newWordSet(lines["doing"]),
		endings: newWordSet(lines["endings"]), determiners: newWordSet(lines["determiners"]), back: newWordSet(lines["back"]),
		emptyConditions: phrases(lines["empty_conditions"]), openPhrases: phrases(lines["open_phrases"]), recognise: phrases(lines["recognise"]), blame: phrases(lines["blame"]),
		beyond: phrases(lines["beyond"]), duties: phrases(lines["duties"]),
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
	return lex
}

// loadStems fills the sets that hold stems.
func (lex *lexicon) loadStems(lines map[string][]string) {
	for key, set := range map[string]*wordSet{
		"finite": &lex.finite, "courtesy": &lex.courtesy, "givers": &lex.givers, "completions": &lex.completions, "money": &lex.money, "returns": &lex.returns, "apology": &lex.apology,
		"empathy": &lex.empathy, "thanks": &lex.thanks, "teams": &lex.teams, "handover": &lex.handover,
	} {
		*set = wordSet{}
		for w := range newWordSet(lines[key]) {
			(*set)[lex.stemOf(w)] = struct{}{}
		}
	}
	lex.remedies = map[string]string{}
	for word, remedy := range pairs(lines["remedy"]) {
		lex.remedies[lex.stemOf(word)] = remedy
	}
	lex.synonyms = map[string]uint64{}
	for group, words := range lines["same"] {
		for word := range strings.FieldsSeq(words) {
			lex.synonyms[lex.stemOf(word)] |= 1 << group
		}
	}
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

// readNumber reads the number that s starts with: the bytes it takes and its value in thousandths. Marks between digits group thousands or start
// the fraction, as the language has it; where a mark can only be the other thing, it is.
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

// groups tells whether a mark before three digits groups thousands, given the digits before it and the text after them.
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
