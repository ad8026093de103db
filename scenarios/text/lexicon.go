package text

import (
	"embed"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lexicons contains the words of the languages that values are read in, one file each, and those of
// all languages.
//
//go:embed lexicon/*.txt
var lexicons embed.FS

// WordClass is a set of classes of words, one bit each.
type WordClass uint32

// The classes of words.
const (
	Abbreviations WordClass = 1 << iota // end in a full stop that ends no sentence
	Currencies
	Percents
	Ordinals
	Articles    // count as one
	Within      // come before a length of time
	Business    // make days business days
	NumberJoins // join the words of a number
	Extra       // may stand between a number and its unit: "three more days"
	Zero        // say that something costs nothing if they are the whole value
	Or          // stand between alternatives
	UpTo        // stand between the ends of a range
	From        // stand before the beginning of a duration
	// identify and the three bits above it mark the commonest words of each of Languages.
	identify
)

// wordKeys maps keys of a lexicon to classes of words.
var wordKeys = map[string]WordClass{"abbreviations": Abbreviations, "currencies": Currencies, "percents": Percents,
	"ordinals": Ordinals, "articles": Articles, "within": Within, "business": Business, "joins": NumberJoins,
	"extra": Extra, "zero": Zero, "or": Or, "up_to": UpTo, "from": From}

// Lexicon contains the words of a language. It is immutable.
type Lexicon struct {
	Language   string
	decimal    byte // the mark before a number's fraction; other marks between digits group thousands
	monthFirst bool

	expansions map[string]string
	months     map[string]int64
	fractions  map[string]int64  // the words for parts of a unit of time, in thousandths
	halves     map[string]string // the words for parts of the day: am, pm or night
	units      map[string]timeUnit
	words      map[string]*word // by text
	weekdays   []string         // the names of days from Monday on
	phrases    [256][]phrase    // by their first byte
	cues       [256][]phrase    // by their first byte
}

type word struct {
	classes WordClass
	value   int64 // in thousandths, for a word that writes a number
}

// phrase states a value without a number. "*" stands for any ending of a word.
type phrase struct {
	meaning string
	words   []string
}

// meanings are the keys of phrases.
var meanings = []string{"today", "tomorrow", "day_after_next", "this_day", "next_business_day", "this_hour", "noon",
	"midnight", "both", "dozen", "free"}

// Languages are the languages that the judge can read.
func Languages() []string { return []string{"en", "de", "es", "fr"} }

// linesOf reads the lines of each key of a file.
func linesOf(name string) map[string][]string {
	text, err := lexicons.ReadFile("lexicon/" + name + ".txt")
	if err != nil {
		panic(err) // It is part of the binary.
	}
	lines := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if key, words, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(key, "#") {
			lines[key] = append(lines[key], words)
		}
	}
	return lines
}

var shared = sync.OnceValue(func() map[string][]string { return linesOf("all") })

// SharedWords returns the words of all languages with a key. Phrases have spaces.
func SharedWords(key string) []string {
	words := splitFields(shared()[key])
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "_", " ")
	}
	return words
}

// SharedNames maps the words of all languages to what they name, from the keys "KIND NAME".
func SharedNames(kind string) map[string]string {
	names := map[string]string{}
	for key, lines := range shared() {
		if name, ok := strings.CutPrefix(key, kind+" "); ok {
			for _, w := range splitFields(lines) {
				names[w] = name
			}
		}
	}
	return names
}

// LoadLexicon reads the lexicon of one of the languages.
func LoadLexicon(language string) *Lexicon {
	lines := linesOf(language)
	lex := &Lexicon{
		Language: language, decimal: ',', words: map[string]*word{}, expansions: parsePairs(lines["expand"]),
		months: parseNumbers(lines["months"]), fractions: parseNumbers(lines["fractions"]),
		halves: parsePairs(lines["halves"]),
		units:  map[string]timeUnit{}, weekdays: splitFields(lines["weekdays"]),
	}
	if language == "en" {
		lex.decimal, lex.monthFirst = '.', true
	}
	for name, length := range parseNumbers(lines["seconds"]) {
		lex.units[name] = timeUnit{length, Seconds}
	}
	for name, length := range parseNumbers(lines["months_of"]) {
		lex.units[name] = timeUnit{length, Months}
	}
	for _, meaning := range meanings {
		for _, p := range splitFields(lines[meaning]) {
			lex.phrases[p[0]] = append(lex.phrases[p[0]], phrase{meaning, strings.Split(p, "_")})
		}
	}
	lex.loadWords(lines)
	lex.loadCues(lines)
	return lex
}

// loadWords fills the classes and values of words.
func (lex *Lexicon) loadWords(lines map[string][]string) {
	for key, class := range wordKeys {
		for _, w := range splitFields(lines[key]) {
			lex.wordOf(w).classes |= class
		}
	}
	for i, language := range Languages() {
		for _, w := range splitFields(linesOf(language)["identify"]) {
			lex.wordOf(w).classes |= identify << i
		}
	}
	for w, n := range parseNumbers(lines["numbers"]) {
		lex.wordOf(w).value = n * 1000
	}
	if lex.Language == "de" {
		lex.loadCompounds()
	}
}

// loadCompounds adds the German numbers to 199, each a single word: "siebenunddreissig".
func (lex *Lexicon) loadCompounds() {
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

// wordOf returns a word's entry, a new one for a new word.
func (lex *Lexicon) wordOf(w string) *word {
	if lex.words[w] == nil {
		lex.words[w] = &word{}
	}
	return lex.words[w]
}

// parsePairs reads words of the form "key=value".
func parsePairs(lines []string) map[string]string {
	m := map[string]string{}
	for _, word := range splitFields(lines) {
		if k, v, ok := strings.Cut(word, "="); ok {
			m[k] = v
		}
	}
	return m
}

// parseNumbers reads words of the form "key=number".
func parseNumbers(lines []string) map[string]int64 {
	m := map[string]int64{}
	for k, v := range parsePairs(lines) {
		m[k], _ = strconv.ParseInt(v, 10, 64)
	}
	return m
}

func splitFields(lines []string) []string { return strings.Fields(strings.Join(lines, " ")) }

// readNumber reads the number that s starts with: its length in bytes and its value in thousandths.
// A mark between digits groups thousands or starts the fraction. The language decides where it may
// be either.
func (lex *Lexicon) readNumber(s string) (n int, thousandths int64) {
	n = countDigits(s)
	whole, fraction := s[:n], ""
	value := parseDigits(whole[:min(n, 9)]) // larger numbers could overflow
	for n+1 < len(s) && strings.IndexByte(".,' ", s[n]) >= 0 {
		group := countDigits(s[n+1:])
		if group == 3 && lex.groups(s[n], len(whole), s[n+4:]) {
			value = value*1000 + parseDigits(s[n+1:n+4])
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
	return n, value*1000 + parseDigits((fraction + "000")[:3])
}

// groups reports whether a mark before three digits groups thousands, given the number of digits
// before it and the text after them.
func (lex *Lexicon) groups(mark byte, before int, rest string) bool {
	switch {
	case before > 3:
		return false
	case mark == ' ':
		return lex.decimal == ',' && lex.Language != "de" ||
			len(rest) > 2 && (rest[0] == '.' || rest[0] == ',') && countDigits(rest[1:]) == 2 // "1 235.50"
	case mark != lex.decimal:
		return true
	}
	// "1,482.00" in a language that would write "1.482,00".
	return len(rest) > 1 && (rest[0] == '.' || rest[0] == ',') && rest[0] != mark && countDigits(rest[1:]) > 0
}

// Weekday returns the weekday of a name.
func (lex *Lexicon) Weekday(word string) (day time.Weekday, ok bool) {
	for i, name := range lex.weekdays {
		if name == word {
			return time.Weekday((i + 1) % 7), true
		}
	}
	return 0, false
}
