package facts

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/grader/text"
)

// Context is what values and messages are read with. It is immutable.
type Context struct {
	// now is the moment from which durations count, today its day.
	now, today time.Time
	// lexicons are those of the customer's language and of English.
	lexicons []*text.Lexicon
}

// lexicons load those of the languages when they are first needed.
var lexicons = func() map[string]func() *text.Lexicon {
	all := map[string]func() *text.Lexicon{}
	for _, language := range text.Languages() {
		all[language] = sync.OnceValue(func() *text.Lexicon { return text.LoadLexicon(language) })
	}
	return all
}()

// LexiconOf returns the lexicon of a BCP-47 tag's language, or the English one.
func LexiconOf(tag string) *text.Lexicon {
	language, _, _ := strings.Cut(strings.ToLower(tag), "-")
	if load, ok := lexicons[language]; ok {
		return load()
	}
	return lexicons["en"]()
}

// NewContext returns a context for a customer's language, a BCP-47 tag, and a present moment.
func NewContext(language string, now time.Time) *Context {
	c := &Context{now: now, today: startOfDay(now), lexicons: []*text.Lexicon{LexiconOf(language)}}
	if english := LexiconOf("en"); c.lexicons[0] != english {
		c.lexicons = append(c.lexicons, english)
	}
	return c
}

// Today is the day of the present moment.
func (c *Context) Today() time.Time { return c.today }

// Now is the present moment.
func (c *Context) Now() time.Time { return c.now }

func startOfDay(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// clean normalises and folds an untrusted text, without marks of Markdown.
func clean(s string) string {
	plain, _ := text.NormaliseReply(s)
	return text.Fold(stripMarkdown(plain))
}

// stripMarkdown removes marks of emphasis and code, which may stand inside a value: "**5** business
// days". An underscore within a word or an id stays.
func stripMarkdown(s string) string {
	if !strings.ContainsAny(s, "*`_") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case c == '*', c == '`':
		case c == '_' && (i == 0 || !isWordByte(s[i-1]) || i+1 == len(s) || !isWordByte(s[i+1])):
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isWordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// reading is a value that a text states in one language.
type reading struct {
	text.Value
	// number is the number before the unit, in thousandths, and unit the word after a bare one.
	number int64
	unit   string
}

// parsed is a text that was read in one language.
type parsed struct {
	doc      *text.Document
	readings []reading
}

// parse reads a cleaned text.
func (c *Context) parse(cleaned string, lex *text.Lexicon) parsed {
	d := text.Parse(cleaned, lex)
	p := parsed{doc: d, readings: make([]reading, 0, len(d.Values)+2)}
	for _, v := range d.Values {
		r := reading{Value: v, number: v.Amount}
		for i := v.At.Lo; i < v.At.Hi; i++ {
			if t := &d.Tokens[i]; t.Kind == text.NumberToken || t.Kind == text.WordToken && t.Value > 0 {
				r.number = t.Value
				break
			}
		}
		if v.Kind == text.NumberValue && v.At.Hi < len(d.Tokens) {
			r.unit = units[d.Tokens[v.At.Hi].Text]
		}
		p.readings = append(p.readings, r)
	}
	p.readings = append(p.readings, c.readWords(d)...)
	return p
}

// units are the names of the units that numbers of the vocabulary have.
var units = map[string]string{
	"kg": "kg", "kilo": "kg", "kilos": "kg", "kilogram": "kg", "kilograms": "kg", "kilogramm": "kg",
	"kilogrammes": "kg", "kilogramos": "kg", "m": "m", "metre": "m", "metres": "m", "meter": "m", "meters": "m",
	"metern": "m", "metro": "m", "metros": "m", "cm": "cm", "centimetres": "cm", "centimeters": "cm",
	"centimetros": "cm", "zentimeter": "cm", "ghz": "ghz", "gigahertz": "ghz", "mhz": "mhz", "megahertz": "mhz",
	"gb": "gb", "gigabytes": "gb", "mb": "mb", "megabytes": "mb", "lb": "lb", "lbs": "lb", "pounds": "lb",
	"feet": "ft", "ft": "ft", "volt": "v", "volts": "v", "v": "v",
}

// dayWords are the words for days and times that a language has, beside the names of weekdays.
type dayWords struct {
	today, tomorrow []string
	// nextBusinessDay and withinHour are phrases, free those that say that something costs nothing;
	// or has the words between alternatives, upTo those between the ends of a range.
	nextBusinessDay, withinHour, free []string
	or, upTo                          []string
}

var dayWordsOf = map[string]dayWords{
	"en": {today: []string{"today", "tonight"}, tomorrow: []string{"tomorrow"},
		nextBusinessDay: []string{"next business day", "next working day", "next workday", "following business day"},
		withinHour:      []string{"the hour", "this hour"},
		free: []string{"free", "no charge", "no extra charge", "no additional charge", "without charge", "no cost",
			"no extra cost", "at our expense", "costs nothing", "cost nothing", "nothing to pay", "no fee",
			"without a fee", "pay nothing", "charge you nothing", "not charge"},
		or: []string{"or"}, upTo: []string{"to", "until", "till", "through"}},
	"de": {today: []string{"heute"}, tomorrow: []string{"morgen"},
		nextBusinessDay: []string{"nachsten werktag", "nachster werktag", "nachsten arbeitstag", "nachster arbeitstag",
			"nachsten geschaftstag", "folgenden werktag"},
		withinHour: []string{"der nachsten stunde", "dieser stunde"},
		free: []string{"kostenlos", "kostenfrei", "gebuhrenfrei", "gratis", "ohne gebuhr", "ohne kosten",
			"keine kosten", "keine gebuhr", "kostet nichts", "kostet sie nichts"},
		or: []string{"oder"}, upTo: []string{"bis"}},
	"es": {today: []string{"hoy"}, tomorrow: []string{"manana"},
		nextBusinessDay: []string{"proximo dia habil", "proximo dia laborable", "siguiente dia habil",
			"siguiente dia laborable", "dia habil siguiente", "dia laborable siguiente"},
		withinHour: []string{"la proxima hora"},
		free: []string{"gratis", "gratuito", "gratuita", "gratuitamente", "sin coste", "sin costo", "sin cargo",
			"no cuesta nada", "ningun coste"},
		or: []string{"o", "u"}, upTo: []string{"a", "hasta"}},
	"fr": {today: []string{"aujourd"}, tomorrow: []string{"demain"},
		nextBusinessDay: []string{"prochain jour ouvre", "jour ouvre suivant", "prochain jour ouvrable",
			"jour ouvrable suivant"},
		withinHour: []string{"l heure", "la prochaine heure"},
		free: []string{"gratuit", "gratuite", "gratuitement", "sans frais", "aucuns frais", "aucun frais",
			"ne coute rien", "ne vous coute rien", "offert", "offerte"},
		or: []string{"ou"}, upTo: []string{"a", "au", "jusqu"}},
}

// readWords reads the words for days: today, tomorrow, weekdays, "next business day".
func (c *Context) readWords(d *text.Document) (found []reading) {
	words := dayWordsOf[d.Lexicon.Language]
	day := func(t time.Time, lo, hi int) {
		found = append(found, reading{Value: dayValue(t, text.NewSpan(lo, hi))})
	}
	for i := range d.Tokens {
		t := &d.Tokens[i]
		if t.Kind != text.WordToken {
			continue
		}
		weekday, ok := d.Lexicon.Weekday(t.Text)
		switch {
		case ok:
			ahead := (int(weekday)-int(c.today.Weekday())+6)%7 + 1
			if ahead < 7 {
				day(c.today.AddDate(0, 0, ahead), i, i+1)
			}
		case slices.Contains(words.today, t.Text):
			day(c.today, i, i+1)
		case slices.Contains(words.tomorrow, t.Text):
			day(c.today.AddDate(0, 0, 1), i, i+1)
		}
	}
	for _, phrase := range words.nextBusinessDay {
		if at, n := findPhrase(d, phrase); at >= 0 {
			next, _ := text.Value{Kind: text.DurationValue, Unit: text.BusinessDays, Amount: 1000}.Shift(c.today, 1)
			day(next, at, at+n)
		}
	}
	for _, phrase := range words.withinHour {
		if at, n := findPhrase(d, phrase); at >= 0 {
			found = append(found, reading{Value: text.Value{Kind: text.DurationValue, Unit: text.Seconds,
				Amount: 3600 * 1000, At: text.NewSpan(at, at+n)}, number: 1000})
		}
	}
	return found
}

func dayValue(t time.Time, at text.Span) text.Value {
	v := text.DayValue(t)
	v.At = at
	return v
}

// findPhrase returns the first token of a phrase in the text and the number of its tokens, or -1.
func findPhrase(d *text.Document, phrase string) (at, n int) {
	words := strings.Fields(phrase)
	for i := 0; i+len(words) <= len(d.Tokens); i++ {
		same := true
		for k, w := range words {
			same = same && d.Tokens[i+k].Text == w
		}
		if same {
			return i, len(words)
		}
	}
	return -1, 0
}
