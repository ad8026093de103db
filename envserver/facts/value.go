package facts

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/csenv/csenv/envserver/grader/text"
)

// value is a text that was read as a value of one type.
type value struct {
	of Name
	// cleaned is the folded text.
	cleaned string
	// readings are what the text may mean: more than one if languages read it differently, none if
	// it isn't one value of the type.
	readings []reading
	// key is an enum's value, an id's letters and digits, or a text's words.
	key string
}

// nothing are texts of values that say that there is none. Models fill lists with them.
var nothing = []string{"", "none", "unknown", "n/a", "na", "null", "nil", "-", "no", "not specified", "not stated",
	"not applicable", "unspecified", "undefined", "not given", "not known", "no value", "tbd", "empty", "false",
	"keine angabe", "nicht angegeben", "unbekannt", "ninguno", "no aplica", "desconocido", "no especificado", "aucun",
	"inconnu", "non precise", "sans objet"}

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
		v.key = lettersAndDigits(v.cleaned)
	case Text:
		v.key = strings.Join(significantWords(v.cleaned), " ")
	case Amount, When, Duration, Number:
	}
	for _, lex := range c.lexicons {
		one, ok := c.readOne(of.Type, whole, lex)
		if article, unit, found := strings.Cut(v.cleaned, " "); len(one) == 0 && found &&
			slices.Contains(sayingsOf[lex.Language].one, article) { // "a day"
			one, ok = c.readOne(of.Type, "1 "+unit, lex)
		}
		if ok {
			v.readings = append(v.readings, one...)
		}
	}
	return v
}

// readOne reads the one value of a type that a text has: several readings if they are forms of the
// same moment.
func (c *Context) readOne(of Type, cleaned string, lex *text.Lexicon) ([]reading, bool) {
	p := c.parse(cleaned, lex)
	words := sayingsOf[lex.Language]
	for i := range p.doc.Tokens {
		if p.doc.Tokens[i].IsWord(words.or...) && p.doc.ValueAt(i) == nil {
			return nil, false
		}
	}
	found := slices.DeleteFunc(p.readings, func(r reading) bool { return !isOf(of, r) })
	found = dropBeside(found)
	isZero := slices.Contains(words.zero, strings.Trim(cleaned, " .,;"))
	if of == Amount && len(found) == 0 && (isZero || isFree(p.doc)) {
		found = append(found, reading{Value: text.Value{Kind: text.MoneyValue}})
	}
	found = upperEnds(found, p.doc, words)
	for i := 1; i < len(found); i++ {
		a, b := found[0], found[i]
		moment := a.Kind != b.Kind && len(found) == 2 && (a.Kind == text.DateValue || b.Kind == text.DateValue) &&
			(a.Kind == text.ClockValue || b.Kind == text.ClockValue) // a day and its time
		if !moment && !c.same(a, b) {
			return nil, false
		}
	}
	return found, len(found) > 0
}

// isOf reports whether a reading may be a value of the type.
func isOf(of Type, r reading) bool {
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
func upperEnds(found []reading, d *text.Document, words sayings) []reading {
	for i := 0; i+1 < len(found); i++ {
		a, b := found[i], found[i+1]
		if a.Kind != b.Kind || b.At.Lo != a.At.Hi+1 {
			continue
		}
		if between := &d.Tokens[a.At.Hi]; between.Text == "-" || between.IsWord(words.upTo...) {
			found = slices.Delete(found, i, i+1)
		}
	}
	return found
}

// dropBeside drops the days that complete another value: "Friday, May 8", "3 days from today".
func dropBeside(found []reading) []reading {
	has := func(kind text.ValueKind) bool {
		return slices.ContainsFunc(found, func(r reading) bool { return r.Kind == kind && !r.besideDay })
	}
	day, span := has(text.DateValue), has(text.DurationValue)
	return slices.DeleteFunc(found, func(r reading) bool { return r.besideDay && day || r.besideSpan && span })
}

// same reports whether two readings are the same value.
func (c *Context) same(a, b reading) bool {
	if a.Kind == b.Kind {
		if a.Kind == text.NumberValue {
			return a.Amount == b.Amount && (a.unit == b.unit || a.unit == "" || b.unit == "")
		}
		return a.Equal(b.Value)
	}
	if a.Kind > b.Kind {
		a, b = b, a
	}
	switch {
	case a.Kind == text.MoneyValue && b.Kind == text.NumberValue:
		return a.Amount == b.Amount && b.unit == ""
	case a.Kind == text.DateValue && b.Kind == text.DurationValue:
		end, ok := c.endOf(b.Value)
		return ok && a.Equal(text.DayValue(end))
	case a.Kind == text.DurationValue && b.Kind == text.ClockValue:
		m := a.Minutes()
		if (a.unit == hourUnit || b.unit == hourUnit) && m == b.Amount {
			return true
		}
		return m > 0 && text.ClocksMeet(b.Amount, int64(c.now.Hour()*60+c.now.Minute())+m, nearMinutes)
	case b.Kind == text.NumberValue: // a number whose unit is left out
		return a.number == b.number && b.unit == ""
	}
	return false
}

// nearMinutes is the maximum difference of a time of day from the end of a duration.
const nearMinutes = 2

// endOf returns the day on which a duration from now ends. A period of months ends on the same day
// of a month, or on the last day of a shorter one.
func (c *Context) endOf(d text.Value) (time.Time, bool) { return Shift(c.today, d, 1) }

// Shift moves a day by a duration of whole days, business days or months, forwards (sign 1) or
// backwards (-1). It fails for other values.
func Shift(from time.Time, d text.Value, sign int) (time.Time, bool) {
	end, ok := d.Shift(from, sign)
	if ok && d.Kind == text.DurationValue && d.Unit == text.Months && end.Day() != from.Day() {
		end = end.AddDate(0, 0, -end.Day())
	}
	return end, ok
}

// equal reports whether a value equals the required one, both read as values of the same name.
func (c *Context) equal(required, stated *value) bool {
	switch required.of.Type {
	case Enum:
		return required.key != "" && required.key == stated.key
	case ID:
		return slices.ContainsFunc(idKeys(stated.cleaned), func(key string) bool { return sameID(required.key, key) })
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
	for _, words := range sayingsOf {
		for _, or := range words.or {
			if len(or) > 1 && hasWords(stated.key, or) && !hasWords(required.key, or) {
				return false
			}
		}
	}
	return hasWords(stated.key, required.key)
}

// hasWords reports whether a text of words contains the words in a row.
func hasWords(s, words string) bool { return strings.Contains(" "+s+" ", " "+words+" ") }

// articles are words that a text may have or lack: "dock no. 11".
var articles = []string{"the", "a", "an", "our", "your", "der", "die", "das", "den", "dem", "el", "la", "los", "las",
	"le", "les", "l", "no", "nr", "number"}

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
	keys := []string{lettersAndDigits(cleaned)}
	for rest := cleaned; ; {
		word, after, more := strings.Cut(rest, " ")
		if !more || strings.ContainsFunc(word, unicode.IsDigit) {
			return keys
		}
		rest = after
		keys = append(keys, lettersAndDigits(rest))
	}
}

// sameID compares ids. A number of at least five digits may lack its prefix.
func sameID(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	digits := !strings.ContainsFunc(a, func(r rune) bool { return !unicode.IsDigit(r) })
	return a != "" && (a == b || len(a) >= 5 && digits && strings.HasSuffix(b, a))
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

var enumAliases = map[string]string{"true": "yes", "false": "no", "kept": "yes", "escalated": "handed_over",
	"handover": "handed_over", "refund": "refunded", "credit": "credited", "replacement": "replaced",
	"replace": "replaced", "denied": "refused", "declined": "refused", "rejected": "refused", "refuse": "refused",
	"refusal": "refused", "decline": "refused", "canceled": "cancelled", "cancel": "cancelled",
	"cancellation": "cancelled", "hand_over": "handed_over", "escalate": "handed_over", "escalation": "handed_over",
	"explain": "explained", "explanation": "explained", "informed": "explained", "change": "changed",
	"update": "changed", "updated": "changed", "send": "sent", "y": "yes", "n": "no"}

// teamWords are the beginnings of the words that name a team, in all languages.
var teamWords = map[string][]string{
	"disputes":             {"dispute", "chargeback", "ruckbuchung", "disputa", "litige", "contestation"},
	"documentation":        {"documentation", "docs", "dokumentation", "documentacion"},
	"emergency_disclosure": {"disclosure", "emergency"},
	"engineering":          {"engineer", "entwickl", "technik", "ingenier", "ingenieur"},
	"finance": {"financ", "finanz", "billing", "buchhalt", "rechnung", "facturac", "facturat", "contabil",
		"comptab", "accounts", "accounting"},
	"incident":  {"inciden", "storung"},
	"legal":     {"legal", "disclosure", "emergency", "brand", "recht", "juridi"},
	"logistics": {"logist", "shipping"},
	"privacy": {"privacy", "datenschutz", "privacidad", "confidentialit", "donnees", "datos", "data_protection",
		"vie_privee"},
	"safety":   {"safety", "produktsicherheit"},
	"security": {"securit", "sicherheit", "segurid", "fraud", "betrug"},
	"trade":    {"trade", "compliance", "customs", "aussenhandel"},
	"trust":    {"trust", "ownership", "vertrauen", "confianza", "confiance"},
}

// teamStarts are the beginnings of teamWords by their first byte.
var teamStarts = func() (by [256][]teamStart) {
	for team, starts := range teamWords {
		for _, start := range starts {
			by[start[0]] = append(by[start[0]], teamStart{start, team})
		}
	}
	return by
}()

type teamStart struct{ start, team string }

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
			if strings.HasPrefix(pair, t.start) {
				teams = append(teams, t.team)
			}
		}
	}
	return teams
}
