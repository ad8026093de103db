package facts

import (
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/grader/text"
)

// Context is what values and messages are read with. It is immutable.
type Context struct {
	// now is the moment from which durations count, today its day.
	now, today time.Time
	// lexicons belong to the customer's language and to English.
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

// Now is the present moment.
func (c *Context) Now() time.Time { return c.now }

func startOfDay(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// clean normalises and folds an untrusted text, without marks of Markdown.
func clean(s string) string {
	plain, _ := text.NormaliseReply(vulgar.Replace(s))
	return text.Fold(stripMarkdown(plain))
}

// vulgar writes the fractions of one character as decimals: "1½ hours".
var vulgar = strings.NewReplacer(" ½", ".5", "½", ".5", " ¼", ".25", "¼", ".25", " ¾", ".75", "¾", ".75")

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
	// number is the number before the unit, in thousandths. unit is the unit of a bare number, or
	// hourUnit of a value that may be a time of day or a number of hours: "20 h".
	number int64
	unit   string
	// A day that only completes another one doesn't count besideDay, nor besideSpan, a duration.
	besideDay, besideSpan bool
}

const hourUnit = "h"

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
		if hours := d.Tokens[v.At.Hi-1]; v.Kind == text.ClockValue && hours.Kind == text.IDToken ||
			v.Timed() && hours.IsWord("h", "horas", "heures") {
			r.unit = hourUnit
		}
		p.readings = append(p.readings, r)
	}
	p.readings = append(p.readings, c.readWords(d)...)
	return p
}

// units are the names of the units that numbers of the vocabulary have.
var units = unitsOf(map[string]string{
	"kg": "kg kgs kilo kilos kilogram kilograms kilogramm kilogrammes kilogramme kilogramo kilogramos",
	"g":  "g gram grams gramm gramme grammes gramo gramos", "lb": "lb lbs pound pounds", "oz": "oz ounce ounces",
	"m":  "m metre metres meter meters metern metro metros",
	"km": "km kilometre kilometres kilometer kilometers kilometros",
	"cm": "cm centimetre centimetres centimeter centimeters centimetro centimetros zentimeter", "mm": "mm",
	"t": "t ton tons tonne tonnes", "in": "inch inches", "ft": "ft foot feet",
	"ghz": "ghz gigahertz", "mhz": "mhz megahertz",
	"gb": "gb gigabyte gigabytes", "mb": "mb megabyte megabytes", "tb": "tb terabyte terabytes",
	"v": "v volt volts voltios", "w": "w watt watts", "a": "amp amps ampere amperes",
})

func unitsOf(names map[string]string) map[string]string {
	all := map[string]string{}
	for unit, words := range names {
		for word := range strings.FieldsSeq(words) {
			all[word] = unit
		}
	}
	return all
}
