package facts

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader/text"
)

// meaning is what a phrase without a number states.
type meaning uint8

// The meanings: the first three are days, counted from today.
const (
	today meaning = iota
	tomorrow
	dayAfterNext
	// thisDay is today as well, unless another day stands beside it: "the end of the day on May 4".
	thisDay
	nextBusinessDay
	thisHour
	noon
	midnight
	both
	dozen
)

// sayings are the phrases of a language that state a value without a number. They are folded, and
// "*" stands for any ending.
type sayings struct {
	states map[meaning][]string
	// free are phrases that say that something costs nothing. Those of zero do so if they are the
	// whole value.
	free, zero []string
	// or are the words between alternatives, and upTo those between the ends of a range. An article
	// of one counts the unit after it. Today is where a duration begins if it stands after from.
	or, upTo, one, from []string
}

// negations are words of all languages that negate what follows.
var negations = []string{"not", "isn", "nicht", "no", "pas"}

var sayingsOf = map[string]sayings{
	"en": {
		states: map[meaning][]string{
			today: {"today", "tonight"}, tomorrow: {"tomorrow", "next day", "following day"},
			dayAfterNext: {"day after tomorrow"},
			thisDay: {"same day", "end of day", "end of the day", "eod", "close of business", "this morning",
				"this afternoon", "this evening"},
			nextBusinessDay: {"next business day", "next working day", "next workday", "next weekday",
				"following business day", "following working day"},
			thisHour: {"the hour", "this hour"}, noon: {"noon", "midday"}, midnight: {"midnight"},
			both: {"both", "pair", "twice"}, dozen: {"dozen"},
		},
		free: []string{"free", "gratis", "no charge*", "no extra charge*", "no additional charge*", "without charge",
			"without any charge*", "no cost*", "no extra cost*", "no additional cost*", "without cost",
			"at our expense", "cost* nothing", "cost* you nothing", "nothing to pay", "no fee*", "no extra fee*",
			"no additional fee*", "without a fee", "without any fee*", "pay nothing", "charge you nothing",
			"not charge*", "not be charged", "zero", "complimentary", "on us", "on the house", "waive*", "we cover",
			"covered by us"},
		zero: []string{"nothing"}, or: []string{"or"}, upTo: []string{"to", "until", "till", "through"},
		one: []string{"a", "an"}, from: []string{"from", "of"}},
	"de": {
		states: map[meaning][]string{
			today: {"heute"}, tomorrow: {"morgen", "nachsten tag", "nachster tag", "folgenden tag", "folgetag"},
			dayAfterNext: {"ubermorgen"}, thisDay: {"selben tag", "gleichen tag", "ende des tages", "tagesende"},
			nextBusinessDay: {"nachste* werktag*", "nachste* arbeitstag*", "nachste* geschaftstag*",
				"folgende* werktag*", "folgende* arbeitstag*"},
			thisHour: {"der nachsten stunde", "dieser stunde"}, noon: {"mittag", "mittags"},
			midnight: {"mitternacht"}, both: {"beide", "beiden", "beides", "zweimal"}, dozen: {"dutzend"},
		},
		free: []string{"kostenlos*", "kostenfrei*", "gebuhrenfrei*", "gratis", "umsonst", "unentgeltlich*",
			"ohne gebuhr*", "ohne * gebuhr*", "ohne kosten", "ohne * kosten", "ohne aufpreis", "ohne mehrkosten",
			"ohne zusatzkosten", "ohne aufschlag", "keine kosten", "keine * kosten", "keine gebuhr*",
			"keine * gebuhr*", "keinerlei kosten", "kostet nichts", "kostet sie nichts", "nichts bezahlen",
			"nichts zahlen", "nichts zu zahlen", "null", "ubernehmen wir", "auf unsere kosten", "geht auf uns"},
		zero: []string{"nichts", "keine"}, or: []string{"oder"}, upTo: []string{"bis"},
		one: []string{"ein", "eine", "einen", "einem", "einer"}, from: []string{"ab", "von"}},
	"es": {
		states: map[meaning][]string{
			today: {"hoy"}, tomorrow: {"manana", "dia siguiente", "proximo dia", "siguiente dia"},
			dayAfterNext: {"pasado manana"}, thisDay: {"mismo dia", "final del dia", "fin del dia"},
			nextBusinessDay: {"proximo dia habil", "proximo dia laborable", "siguiente dia habil",
				"siguiente dia laborable", "dia habil siguiente", "dia laborable siguiente"},
			thisHour: {"la proxima hora"}, noon: {"mediodia"}, midnight: {"medianoche"},
			both: {"ambos", "ambas"}, dozen: {"docena"},
		},
		free: []string{"gratis", "gratuit*", "sin coste*", "sin costo*", "sin cargo*", "sin gasto*", "sin recargo*",
			"sin comision*", "sin ningun coste", "sin ningun costo", "sin ningun cargo", "no * cuesta nada",
			"no cuesta nada", "no * costara nada", "no cobramos nada", "no se le cobra nada", "no se le cobrara nada",
			"no paga nada", "no tiene que pagar nada", "ningun coste", "ningun costo", "ningun cargo",
			"libre de cargo*", "libre de gastos", "cero", "de nuestra cuenta", "por nuestra cuenta", "a nuestro cargo"},
		zero: []string{"nada", "ninguno"}, or: []string{"o", "u"}, upTo: []string{"a", "hasta"},
		one: []string{"un", "una"}, from: []string{"desde", "de", "partir"}},
	"fr": {
		states: map[meaning][]string{
			today: {"aujourd"}, tomorrow: {"demain", "lendemain", "jour suivant"},
			dayAfterNext:    {"apres - demain", "surlendemain"},
			thisDay:         {"jour meme", "meme jour", "fin de journee", "fin de la journee"},
			nextBusinessDay: {"prochain jour ouvr*", "jour ouvre suivant", "jour ouvrable suivant"},
			thisHour:        {"l heure", "la prochaine heure"}, noon: {"midi"}, midnight: {"minuit"},
			both: {"paire"}, dozen: {"douzaine"},
		},
		free: []string{"gratuit*", "gratis", "sans frais", "sans aucun frais", "aucuns frais", "aucun frais",
			"pas de frais", "sans cout*", "sans aucun cout", "aucun cout", "sans supplement", "aucun supplement",
			"sans surcout", "ne coute* rien", "ne vous coute* rien", "rien a payer", "ne paye* rien", "ne paie* rien",
			"offert*", "zero", "titre gracieux", "gracieusement", "a notre charge", "a nos frais"},
		zero: []string{"rien", "aucun"}, or: []string{"ou"}, upTo: []string{"a", "au", "jusqu"},
		one: []string{"un", "une"}, from: []string{"des", "d", "de", "compter", "partir"}},
}

// readWords reads the values that words without a number state: "today", "Friday", "noon", "both".
func (c *Context) readWords(d *text.Document) (found []reading) {
	states := sayingsOf[d.Lexicon.Language].states
	for i := 0; i < len(d.Tokens); {
		if v := d.ValueAt(i); v != nil { // "8 de la mañana" isn't tomorrow
			i = v.At.Hi
			continue
		}
		r, n := reading{}, 0
		if weekday, ok := d.Lexicon.Weekday(d.Tokens[i].Text); ok {
			ahead := (int(weekday)-int(c.today.Weekday())+6)%7 + 1
			if ahead == 7 { // today's name is ambiguous
				i++
				continue
			}
			r, n = reading{Value: text.DayValue(c.today.AddDate(0, 0, ahead)), besideDay: true}, 1
		} else {
			for m, phrases := range states {
				for _, phrase := range phrases {
					if length := matchPhrase(d, i, phrase); length > n {
						r, n = c.stateOf(m, d, i), length
					}
				}
			}
		}
		if n > 0 {
			r.At = text.NewSpan(i, i+n)
			found = append(found, r)
		}
		i += max(n, 1)
	}
	return found
}

// stateOf returns what a phrase at token i states.
func (c *Context) stateOf(m meaning, d *text.Document, i int) reading {
	number := func(n int64) reading {
		return reading{Value: text.Value{Kind: text.NumberValue, Amount: n * 1000}, number: n * 1000}
	}
	clock := func(minutes int64) reading { return reading{Value: text.Value{Kind: text.ClockValue, Amount: minutes}} }
	switch m {
	case today, tomorrow, dayAfterNext, thisDay:
		r := reading{Value: text.DayValue(c.today), besideDay: m == thisDay}
		if m == today {
			r.besideSpan = i > 0 && d.Tokens[i-1].IsWord(sayingsOf[d.Lexicon.Language].from...)
		} else if m != thisDay {
			r.Value = text.DayValue(c.today.AddDate(0, 0, int(m)))
		}
		return r
	case nextBusinessDay:
		next, _ := text.Value{Kind: text.DurationValue, Unit: text.BusinessDays, Amount: 1000}.Shift(c.today, 1)
		return reading{Value: text.DayValue(next)}
	case thisHour:
		hour := text.Value{Kind: text.DurationValue, Unit: text.Seconds, Amount: 3600 * 1000}
		return reading{Value: hour, number: 1000}
	case noon:
		return clock(12 * 60)
	case midnight:
		return clock(0)
	case both:
		return number(2)
	case dozen:
		return number(12)
	}
	return reading{}
}

// isFree reports whether a text says that something costs nothing.
func isFree(d *text.Document) bool {
	for i := range d.Tokens {
		for _, phrase := range sayingsOf[d.Lexicon.Language].free {
			if matchPhrase(d, i, phrase) > 0 && !slices.ContainsFunc(d.Tokens[max(0, i-2):i],
				func(t text.Token) bool { return t.IsWord(negations...) }) {
				return true
			}
		}
	}
	return false
}

// matchPhrase returns the number of tokens of the phrase if it stands at token i, else 0.
func matchPhrase(d *text.Document, i int, phrase string) int {
	if t := d.Tokens[i].Text; t == "" || t[0] != phrase[0] { // as most do
		return 0
	}
	n := 0
	for word := range strings.FieldsSeq(phrase) {
		if i+n >= len(d.Tokens) {
			return 0
		}
		if start, open := strings.CutSuffix(word, "*"); !open && d.Tokens[i+n].Text != word ||
			!strings.HasPrefix(d.Tokens[i+n].Text, start) {
			return 0
		}
		n++
	}
	return n
}
