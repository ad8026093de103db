package facts

import (
	"slices"
	"strings"
	"unicode"

	"github.com/csenv/csenv/scenarios/text"
)

// value is a text that was read as a value of one type.
type value struct {
	of Name
	// cleaned is the folded text.
	cleaned string
	// readings are what the text may mean: more than one if languages read it differently, none if
	// it isn't one value of the type.
	readings []text.Value
	// key is an enum's value, an id's letters and digits, or a text's words.
	key string
}

// nothing are texts of values that say that there is none. Models fill lists with them.
var nothing = append(text.SharedWords("nothing"), "")

// IsStated reports whether a fact states something. A fact with an empty value, "none" or
// "unknown", or with a sum or number of 0 that isn't a price, counts as not stated.
func (f Fact) IsStated() bool {
	name, known := Find(f.What)
	if !known {
		return true
	}
	cleaned := strings.Trim(clean(f.Value), " .\"'()[]")
	if slices.Contains(nothing, cleaned) {
		return name.Type == Enum && slices.Contains(name.Values, enumKey(name, cleaned))
	}
	if f.What == "price" || name.Type == Text || name.Type == ID || name.Type == Enum {
		return true
	}
	zero := strings.Trim(cleaned, "$€ .,0") == "" && strings.Contains(cleaned, "0")
	return !zero
}

// read reads a value of the name's type.
func (c *Context) read(of Name, s string) value {
	whole := clean(s)
	v := value{of: of, cleaned: strings.Trim(whole, " .;,\"'")}
	switch of.Type {
	case Enum:
		v.key = enumKey(of, v.cleaned)
		return v
	case ID:
		v.key = text.LettersAndDigits(v.cleaned)
	case Text:
		v.key = strings.Join(significantWords(v.cleaned), " ")
	case Amount, When, Duration, Number:
	}
	for _, lex := range c.lexicons {
		v.readings = append(v.readings, c.readOne(of.Type, whole, lex)...)
	}
	return v
}

// readOne reads the one value of a type that a text has: several readings if they are forms of the
// same moment, none if it has several values.
func (c *Context) readOne(of Type, cleaned string, lex *text.Lexicon) []text.Value {
	d, found := c.parse(cleaned, lex)
	for i := range d.Tokens {
		if d.Tokens[i].Is(text.Or) && !slices.ContainsFunc(d.Values,
			func(v text.Value) bool { return v.At.Lo <= i && i < v.At.Hi }) {
			return nil
		}
	}
	found = slices.DeleteFunc(found, func(v text.Value) bool { return !isOf(of, v) })
	if len(found) == 0 && len(d.Tokens) > 1 && d.Tokens[0].Is(text.Articles) { // "a day"
		return c.readOne(of, "1 "+d.Quote(text.Span{Lo: 1, Hi: len(d.Tokens)}), lex)
	}
	found = dropCompletions(found)
	if of == Amount && len(found) == 0 && len(d.Tokens) > 0 && d.Tokens[0].Is(text.Zero) {
		found = append(found, text.Value{Kind: text.MoneyValue})
	}
	found = upperEnds(found, d)
	for i := 1; i < len(found); i++ {
		a, b := found[0], found[i]
		moment := a.Kind != b.Kind && len(found) == 2 && (a.Kind == text.DateValue || b.Kind == text.DateValue) &&
			(a.Kind == text.ClockValue || b.Kind == text.ClockValue) // a day and its time
		if !moment && !c.same(a, b) {
			return nil
		}
	}
	return found
}

// isOf reports whether a reading may be a value of the type.
func isOf(of Type, r text.Value) bool {
	switch of {
	case Amount:
		return r.Kind == text.MoneyValue || r.Kind == text.NumberValue
	case When, Duration:
		return r.Timed()
	case Number, Text:
		return r.Kind != text.DateValue && r.Kind != text.IDValue && r.Kind != text.ClockValue
	case Enum, ID:
	}
	return false
}

// upperEnds drops the lower end of each range: "3 to 5 business days".
func upperEnds(found []text.Value, d *text.Document) []text.Value {
	for i := 0; i+1 < len(found); i++ {
		a, b := found[i], found[i+1]
		if a.Kind != b.Kind || b.At.Lo != a.At.Hi+1 {
			continue
		}
		if between := &d.Tokens[a.At.Hi]; between.Text == "-" || between.Is(text.UpTo) {
			found = slices.Delete(found, i, i+1)
		}
	}
	return found
}

// dropCompletions drops the values that complete another one: "Friday, May 8", "3 days from today".
func dropCompletions(found []text.Value) []text.Value {
	var completed [text.CompletesSum + 1]bool
	for _, v := range found {
		if v.Completes == text.CompletesDay || v.Completes == text.CompletesSum {
			continue
		}
		switch v.Kind {
		case text.DateValue:
			completed[text.CompletesDay] = true
		case text.DurationValue:
			completed[text.CompletesSpan] = true
		case text.MoneyValue, text.NumberValue:
			completed[text.CompletesSum] = true
		case text.ClockValue, text.PercentValue, text.IDValue:
		}
	}
	return slices.DeleteFunc(found, func(v text.Value) bool { return completed[v.Completes] })
}

// same reports whether two readings are the same value.
func (c *Context) same(a, b text.Value) bool {
	if a.Kind == b.Kind {
		if a.Kind == text.NumberValue {
			return a.Amount == b.Amount && (a.Measure == b.Measure || a.Measure == "" || b.Measure == "")
		}
		return a.Equal(b)
	}
	if a.Kind > b.Kind {
		a, b = b, a
	}
	switch {
	case a.Kind == text.MoneyValue && b.Kind == text.NumberValue:
		return a.Amount == b.Amount && b.Measure == ""
	case a.Kind == text.DateValue && b.Kind == text.DurationValue:
		end, ok := b.Shift(c.today, 1)
		return ok && a.Equal(text.DayValue(end))
	case a.Kind == text.DurationValue && b.Kind == text.ClockValue:
		m := a.Minutes()
		if (a.Measure == text.HourMeasure || b.Measure == text.HourMeasure) && m == b.Amount {
			return true
		}
		return m > 0 && text.ClocksMeet(b.Amount, int64(c.now.Hour()*60+c.now.Minute())+m, nearMinutes)
	case b.Kind == text.NumberValue: // a number whose unit is left out
		return a.Number == b.Number && b.Measure == ""
	}
	return false
}

// nearMinutes is the maximum difference of a time of day from the end of a duration.
const nearMinutes = 2

// equal reports whether a value equals the required one, both read as values of the same name.
func (c *Context) equal(required, stated *value) bool {
	switch required.of.Type {
	case Enum:
		return required.key != "" && required.key == stated.key
	case ID:
		return slices.ContainsFunc(idKeys(stated.cleaned),
			func(key string) bool { return text.SameID(required.key, key) })
	case Text:
		if sameText(required, stated) {
			return true
		}
		if required.of.What != "property" {
			return false
		}
	case Amount, When, Duration, Number:
	}
	for _, a := range required.readings {
		for _, b := range stated.readings {
			if c.same(a, b) {
				return true
			}
		}
	}
	return false
}

// maxWords is the maximum number of words of a stated text that holds the required one.
const maxWords = 6

// sameText reports whether the stated text is the required one, or contains it and is short.
func sameText(required, stated *value) bool {
	if required.key == "" || stated.key == "" {
		return false
	}
	if required.key == stated.key {
		return true
	}
	if strings.Count(stated.key, " ") >= maxWords || strings.ContainsAny(stated.cleaned, ";|") {
		return false
	}
	for _, or := range []string{"or", "oder", "ou"} {
		if hasWords(stated.key, or) && !hasWords(required.key, or) {
			return false
		}
	}
	return hasWords(stated.key, required.key)
}

// hasWords reports whether a text of words contains the words in a row.
func hasWords(s, words string) bool { return strings.Contains(" "+s+" ", " "+words+" ") }

// significantWords returns the words and numbers of a cleaned text without articles.
func significantWords(cleaned string) []string {
	words := strings.FieldsFunc(cleaned, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' && r != ','
	})
	out := words[:0]
	for _, w := range words {
		if w = strings.Trim(w, ".,"); w != "" && !slices.Contains(articles, w) {
			out = append(out, w)
		}
	}
	return out
}

// idKeys returns the letters and digits of an id, with and without the words before it.
func idKeys(cleaned string) []string {
	keys := []string{text.LettersAndDigits(cleaned)}
	for rest := cleaned; ; {
		word, after, more := strings.Cut(rest, " ")
		if !more || strings.ContainsFunc(word, unicode.IsDigit) {
			return keys
		}
		rest = after
		keys = append(keys, text.LettersAndDigits(rest))
	}
}

// enumKey returns the value of an enum that a cleaned text names, or "".
func enumKey(of Name, cleaned string) string {
	if of.What == "team" {
		return TeamOf(cleaned)
	}
	key := strings.Join(strings.FieldsFunc(cleaned, func(r rune) bool { return !unicode.IsLetter(r) }), "_")
	if other, ok := enumAliases[key]; ok {
		key = other
	}
	if slices.Contains(of.Values, key) {
		return key
	}
	return ""
}

// enumAliases are other names of values.
var enumAliases = text.SharedNames("value")

// teamStarts are the beginnings of the words that name a team, by their first byte.
var teamStarts = func() (by [256][][2]string) {
	for _, team := range teams {
		for _, start := range text.SharedWords("team " + team) {
			start = strings.ReplaceAll(start, " ", "_")
			by[start[0]] = append(by[start[0]], [2]string{start, team})
		}
	}
	return by
}()

// TeamOf returns the team that a text names, by any of its usual names and case, "" for none or for
// several.
func TeamOf(s string) string {
	found := ""
	teams := teamsIn(clean(s))
	if slices.Contains(teams, "emergency_disclosure") { // a desk of the legal team
		teams = slices.DeleteFunc(teams, func(t string) bool { return t == "legal" })
	}
	for _, w := range teams {
		if found != "" && w != found {
			return ""
		}
		found = w
	}
	return found
}

// teamsIn lists the teams that a cleaned text names, in order.
func teamsIn(cleaned string) (teams []string) {
	words := strings.FieldsFunc(cleaned, func(r rune) bool { return !unicode.IsLetter(r) })
	for i, w := range words {
		pair := w
		if i+1 < len(words) {
			pair += "_" + words[i+1]
		}
		for _, t := range teamStarts[w[0]] {
			if strings.HasPrefix(pair, t[0]) {
				teams = append(teams, t[1])
			}
		}
	}
	return teams
}
