package facts

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/scenarios/text"
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
	c := &Context{now: now, today: text.StartOfDay(now), lexicons: []*text.Lexicon{LexiconOf(language)}}
	if english := LexiconOf("en"); c.lexicons[0] != english {
		c.lexicons = append(c.lexicons, english)
	}
	return c
}

// Now is the present moment.
func (c *Context) Now() time.Time { return c.now }

// clean normalises and folds an untrusted text, without marks of Markdown.
func clean(s string) string {
	if strings.IndexByte(s, "½"[0]) >= 0 {
		s = vulgar.Replace(s)
	}
	return text.Fold(stripMarkdown(text.NormaliseReply(s)))
}

// vulgar writes the fractions of one character as decimals: "1½ hours". All begin with the same
// byte.
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

// parse reads a cleaned text, and the values that words without a number state: "today", "Friday",
// "noon", "both", "free".
func (c *Context) parse(cleaned string, lex *text.Lexicon) (d *text.Document, values []text.Value) {
	d = text.Parse(cleaned, lex)
	values = slices.Grow(slices.Clone(d.Values), 2)
	numbers := d.Values
	for i := 0; i < len(d.Tokens); {
		for len(numbers) > 0 && numbers[0].At.Hi <= i {
			numbers = numbers[1:]
		}
		if len(numbers) > 0 && numbers[0].At.Lo <= i { // "8 de la mañana" isn't tomorrow
			i = numbers[0].At.Hi
			continue
		}
		v, n := c.readWords(d, i)
		if n > 0 {
			v.At = text.Span{Lo: i, Hi: i + n}
			values = append(values, v)
		}
		i += max(n, 1)
	}
	return d, values
}

// readWords reads the value that words state at token i, and returns the number of the words.
func (c *Context) readWords(d *text.Document, i int) (v text.Value, n int) {
	if weekday, ok := d.Lexicon.Weekday(d.Tokens[i].Text); ok {
		ahead := (int(weekday)-int(c.today.Weekday())+6)%7 + 1
		if ahead == 7 { // today's name is ambiguous
			return v, 0
		}
		v = c.dayAhead(ahead)
		v.Completes = text.CompletesDay
		return v, 1
	}
	meaning, n := d.PhraseAt(i)
	switch meaning {
	case "today":
		v = c.dayAhead(0)
		if i > 0 && d.Tokens[i-1].Is(text.From) {
			v.Completes = text.CompletesSpan
		}
	case "this_day": // unless another day stands beside it: "the end of the day on May 4"
		v = c.dayAhead(0)
		v.Completes = text.CompletesDay
	case "tomorrow":
		v = c.dayAhead(1)
	case "day_after_next":
		v = c.dayAhead(2)
	case "next_business_day":
		next, _ := text.Value{Kind: text.DurationValue, Unit: text.BusinessDays, Amount: 1000}.Shift(c.today, 1)
		v = text.DayValue(next)
	case "this_hour":
		v = text.Value{Kind: text.DurationValue, Unit: text.Seconds, Amount: 3600 * 1000, Number: 1000}
	case "noon":
		v = text.Value{Kind: text.ClockValue, Amount: 12 * 60}
	case "midnight":
		v = text.Value{Kind: text.ClockValue}
	case "both":
		v = text.Value{Kind: text.NumberValue, Amount: 2000, Number: 2000}
	case "dozen":
		v = text.Value{Kind: text.NumberValue, Amount: 12_000, Number: 12_000}
	case "free":
		v = text.Value{Kind: text.MoneyValue, Completes: text.CompletesSum}
		if slices.ContainsFunc(d.Tokens[max(0, i-2):i], func(t text.Token) bool { return t.IsWord(negations...) }) {
			return v, 0
		}
	}
	return v, n
}

func (c *Context) dayAhead(days int) text.Value { return text.DayValue(c.today.AddDate(0, 0, days)) }

// negations negate what follows, and articles are words that a text may have or lack: "dock no.
// 11".
var negations, articles = text.SharedWords("negations"), text.SharedWords("articles")
