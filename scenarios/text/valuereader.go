package text

import (
	"strings"
	"sync"
)

// valueReader reads the values that the tokens of a text state.
type valueReader struct {
	tokens []Token
	lex    *Lexicon
}

// readAll reads the values of a text's tokens, in order and without overlap.
func (r *valueReader) readAll() []Value {
	var values []Value
	for i := 0; i < len(r.tokens); {
		c, ok := r.read(i)
		if !ok {
			i++
			continue
		}
		values = append(values, r.measure(c))
		i = c.At.Hi
	}
	return r.inheritUnits(values)
}

// measures are the units of bare numbers.
var measures = sync.OnceValue(func() map[string]string { return SharedNames("unit") })

// measure adds the number and the measure of a value.
func (r *valueReader) measure(c Value) Value {
	c.Number = c.Amount
	for i := c.At.Lo; i < c.At.Hi; i++ {
		if t := r.at(i); t.Kind == NumberToken || t.Kind == WordToken && t.Value > 0 {
			c.Number = t.Value
			break
		}
	}
	switch last := r.at(c.At.Hi - 1); {
	case c.Kind == NumberValue:
		c.Measure = measures()[r.at(c.At.Hi).Text]
	case c.Kind == ClockValue && last.Kind == IDToken, c.Timed() && last.IsWord("h", "horas", "heures"):
		c.Measure = HourMeasure
	}
	return c
}

var end = &Token{Kind: PunctToken}

// at returns token i, or end after the last one.
func (r *valueReader) at(i int) *Token {
	if i < len(r.tokens) {
		return &r.tokens[i]
	}
	return end
}

// read reads the value that starts at token i.
func (r *valueReader) read(i int) (Value, bool) {
	switch t := r.at(i); t.Kind {
	case IDToken:
		if c, ok := r.readHourID(t.Text, i); ok {
			return c, true
		}
		return Value{Kind: IDValue, ID: LettersAndDigits(t.Text), At: Span{i, i + 1}}, true
	case DateToken:
		loose := strings.Count(t.Text, "/") == 1
		return Value{Kind: DateValue, Amount: t.Value, Loose: loose, At: Span{i, i + 1}}, true
	case ClockToken:
		return r.readClock(i), true
	case CurrencyToken:
		return r.readPrefixedMoney(i)
	case NumberToken:
		return r.readNumber(i), true
	case WordToken:
		return r.readWord(i)
	case PunctToken:
	}
	return Value{}, false
}

// readPrefixedMoney reads "$1,482".
func (r *valueReader) readPrefixedMoney(i int) (Value, bool) {
	if r.at(i+1).Kind == NumberToken {
		return Value{Kind: MoneyValue, Amount: r.at(i + 1).Value, At: Span{i, i + 2}}, true
	}
	return Value{}, false
}

// readNumber reads the value of the number at token i, depending on the unit after it.
func (r *valueReader) readNumber(i int) Value {
	c := Value{Kind: NumberValue, Amount: r.at(i).Value, ID: r.at(i).Text, At: Span{i, i + 1}}
	if d, ok := r.readDayMonth(i); ok {
		return d
	}
	j := r.skipRepeated(r.skipHyphen(i+1), c.Amount)
	if t, ok := r.readDayPart(clockMinutes(c.Amount), i, j); ok {
		return t
	}
	next := r.at(j)
	switch {
	case next.Text == "¢", next.IsWord("cents", "centavos", "centimes"), next.Text == "cent" && r.lex.Language != "fr":
		c.Kind, c.Amount, c.At.Hi = MoneyValue, c.Amount/100, j+1
	case next.Kind == CurrencyToken && !r.ofNext(j), next.Kind == WordToken && next.Is(Currencies):
		c.Kind, c.At.Hi = MoneyValue, j+1
		r.addCents(&c)
	case next.Text == "%", next.Is(Percents):
		c.Kind, c.At.Hi = PercentValue, j+1
	case next.IsWord("por", "pour", "per") && r.at(j+1).IsWord("ciento", "cent"):
		c.Kind, c.At.Hi = PercentValue, j+2
	case next.IsWord("uhr"), next.IsWord("o") && r.at(j+1).IsWord("clock"):
		return r.readHourWord(i, j)
	default:
		if d, ok := r.readHour(i, j); ok {
			return d
		}
		if d, ok := r.readDuration(c, j); ok {
			return d
		}
	}
	return c
}

// addCents reads what follows the word in "97 dollars 60" and "97 dollars and 60 cents".
func (r *valueReader) addCents(c *Value) {
	j := c.At.Hi
	if r.at(j-1).Kind != WordToken || c.Amount%1000 != 0 {
		return
	}
	joined := r.at(j).Is(NumberJoins) || r.at(j).IsWord("con")
	if joined {
		j++
	}
	cents, hi := r.at(j).Value, j+1
	if r.at(j).Kind == WordToken && cents > 0 {
		cents, hi = r.readNumberWords(j)
	}
	_, counted := r.lex.units[r.at(hi).Text]
	switch named := r.at(hi).IsWord("cent", "cents", "centavos", "centimes"); {
	case cents <= 0 || cents >= 100_000 || cents%1000 != 0:
	case named:
		c.Amount, c.At.Hi = c.Amount+cents/100, hi+1
	case !joined && cents >= 10_000 && !counted && !r.at(hi).Is(Currencies):
		c.Amount, c.At.Hi = c.Amount+cents/100, hi
	}
}

// ofNext reports whether the currency's sign at token j belongs to the number after it: "one of the
// two $82.00 charges".
func (r *valueReader) ofNext(j int) bool {
	return r.at(j+1).Kind == NumberToken && r.at(j+1).glued
}

// clockMinutes reads the hours before "pm" or "Uhr", with the minutes of "10.15" after the point.
func clockMinutes(thousandths int64) int64 { return thousandths/1000*60 + thousandths%1000/10 }

// skipHyphen steps over the hyphen of "30-day".
func (r *valueReader) skipHyphen(j int) int {
	if r.at(j).Text == "-" && r.at(j).glued {
		return j + 1
	}
	return j
}

// skipRepeated steps over a number that repeats the one before token j: "5 (five) business days".
func (r *valueReader) skipRepeated(j int, value int64) int {
	if r.at(j).Text == "(" && r.at(j+1).Value == value && r.at(j+2).Text == ")" {
		return j + 3
	}
	return j
}

// readDuration reads the unit of the number c at token j, and whether its days are business days.
func (r *valueReader) readDuration(c Value, j int) (Value, bool) {
	if r.at(j).Is(Extra) {
		j++
	}
	business := r.at(j).Is(Business)
	if business {
		// "Werktage" is also the unit.
		if _, whole := r.lex.units[r.at(j).Text]; !whole {
			j = r.skipHyphen(j + 1)
		}
	}
	u, ok := r.lex.units[r.at(j).Text]
	if !ok || r.at(j).Kind != WordToken {
		return Value{}, false
	}
	if j++; r.at(j).Is(Business) {
		business = true
		j++
	} else if r.at(j).Text == "(" && r.at(j+1).Is(Business) { // "5 days (business days)"
		for k := j + 2; k < j+4; k++ {
			if r.at(k).Text == ")" {
				business, j = true, k+1
			}
		}
	}
	if k := r.readHalf(j); k > j {
		c.Amount += 500
		j = k
	}
	c.Kind, c.At.Hi = DurationValue, j
	c.Amount, c.Unit = u.convert(c.Amount, business)
	if c.Unit == Seconds {
		r.addRest(&c, u.length)
	}
	return c, true
}

// addRest adds a smaller unit after a duration: "1 hour and 30 minutes".
func (r *valueReader) addRest(c *Value, length int64) {
	i := c.At.Hi
	if r.at(i).Is(NumberJoins) {
		i++
	}
	n, j := r.at(i).Value, i+1
	switch r.at(i).Kind {
	case NumberToken:
	case WordToken:
		if n > 0 {
			n, j = r.readNumberWords(i)
		}
	default:
		return
	}
	u := r.lex.units[r.at(j).Text]
	if length == 3600 && r.at(j).IsWord("m") {
		u = timeUnit{60, Seconds}
	}
	if n > 0 && u.unit == Seconds && u.length < length && !r.at(j+1).Is(Business) {
		amount, _ := u.convert(n, false)
		c.Amount, c.At.Hi = c.Amount+amount, j+1
	}
}

// readHalf returns the token after the "and a half" at token j, or j.
func (r *valueReader) readHalf(j int) int {
	k := j
	if !r.at(k).Is(NumberJoins) {
		return j
	}
	if k++; r.at(k).Is(Articles) {
		k++
	}
	if r.lex.fractions[r.at(k).Text] == 500 {
		return k + 1
	}
	return j
}

// timeUnit is the length of a named unit, in a unit of durations.
type timeUnit struct {
	length int64
	unit   Unit
}

// SecondsPerDay is the number of seconds of a day.
const SecondsPerDay = 24 * 60 * 60

// convert converts thousandths of the unit to the amount and the unit of a duration.
func (u timeUnit) convert(thousandths int64, business bool) (int64, Unit) {
	if business && u.length == SecondsPerDay {
		return thousandths, BusinessDays
	}
	return thousandths % 1_000_000_000 * u.length, u.unit
}

// readClock reads "23:59" or "5:30 pm".
func (r *valueReader) readClock(i int) Value {
	h, m, _ := strings.Cut(r.at(i).Text, ":")
	minutes, j := 60*parseDigits(h)+parseDigits(m), i+1
	if r.at(j).IsWord("uhr", "h") {
		j++
	}
	if c, ok := r.readDayPart(minutes, i, j); ok {
		return c
	}
	return Value{Kind: ClockValue, Amount: minutes, At: Span{i, i + 1}}
}

// newClockValue returns the time of day for the minutes since midnight, or since noon if the half
// is "pm".
func newClockValue(minutes int64, half string, at Span) Value {
	switch {
	case half == "pm" && minutes < 12*60:
		minutes += 12 * 60
	case half == "am" && minutes >= 12*60:
		minutes -= 12 * 60
	}
	return Value{Kind: ClockValue, Amount: minutes, At: at}
}

// dayAt returns the number at token i if it can be a day of a month, or 0.
func (r *valueReader) dayAt(i int) int64 {
	if day := r.at(i).Value; day%1000 == 0 && day <= 31_000 {
		return day / 1000
	}
	return 0
}

// readDayMonth reads "14 March 2026", "the 14th of March", "14. März", "14 de marzo de 2026", "1er
// avril", and in English "the 14th" of any month.
func (r *valueReader) readDayMonth(i int) (Value, bool) {
	day := r.dayAt(i)
	if day == 0 {
		return Value{}, false
	}
	j := i + 1
	for j < i+4 && (r.at(j).Is(Ordinals) || r.at(j).Text == "." && r.at(j).glued) {
		j++
	}
	month := r.lex.months[r.at(j).Text]
	if m := r.at(j); r.lex.Language == "de" && j == i+2 && m.Kind == NumberToken && m.Value%1000 == 0 &&
		m.Value <= 12_000 && r.at(j+1).Text == "." && r.at(j+1).glued &&
		r.at(j+2).Kind == NumberToken && len(r.at(j+2).Text) == 4 {
		month = m.Value / 1000 // "29. 09. 2026"
	}
	if month != 0 {
		year, hi := r.readYear(j + 1)
		return Value{Kind: DateValue, Amount: year*10000 + month*100 + day, At: Span{i, hi}}, true
	}
	if r.lex.Language != "en" || !r.at(i+1).glued || !r.at(i+1).IsWord("st", "nd", "rd", "th") {
		return Value{}, false
	}
	return Value{Kind: DateValue, Amount: day, Loose: true, At: Span{i, i + 2}}, true
}

// readYear reads the year that follows a day and a month, or 0. It returns the token after it.
func (r *valueReader) readYear(j int) (year int64, hi int) {
	k := j
	for k < j+2 && (r.at(k).Text == "," || r.at(k).Text == "." && r.at(k).glued || r.at(k).IsWord("de", "del")) {
		k++
	}
	if t := r.at(k); t.Kind == NumberToken && countDigits(t.Text) == 4 && len(t.Text) == 4 {
		return t.Value / 1000, k + 1
	}
	return 0, j
}

// readWord reads a value that starts with a word: a month's name, a written number, or the
// article of "within an hour".
func (r *valueReader) readWord(i int) (Value, bool) {
	t := r.at(i)
	if month := r.lex.months[t.Text]; month != 0 {
		if c, ok := r.readMonthDay(i, month); ok || t.Value == 0 { // in French, "sept" is seven as well
			return c, ok
		}
	}
	if c, ok := r.readSpokenTime(i); ok {
		return c, true
	}
	if part := r.lex.fractions[t.Text]; part > 0 {
		return r.readPart(i, part)
	}
	switch {
	case t.IsWord("premier", "primero"):
		first := append([]Token{{Kind: NumberToken, Value: 1000}}, r.tokens[i+1:min(i+6, len(r.tokens))]...)
		c, ok := (&valueReader{first, r.lex}).readDayMonth(0)
		c.At = Span{i, c.At.Hi + i}
		return c, ok
	case t.Text == "usd", t.Text == "eur":
		return r.readPrefixedMoney(i)
	case t.Is(Articles) && (t.Value == 0 || r.readHalf(i+1) == i+1):
		return r.readArticle(i)
	case t.Value == 0:
		return Value{}, false
	}
	value, hi := r.readNumberWords(i)
	// "three quarters of an hour"
	if j := r.skipHyphen(hi); r.lex.fractions[r.at(j).Text] > 0 {
		c, ok := r.readPart(j, value/1000*r.lex.fractions[r.at(j).Text])
		c.At.Lo = i
		return c, ok
	}
	if c, ok := r.readDayPart(value/1000*60, i, hi); ok {
		return c, ok
	}
	if k := r.readHalf(hi); k > hi {
		value, hi = value+500, k
	}
	written := append([]Token{{Kind: NumberToken, Value: value}}, r.tokens[hi:min(hi+9, len(r.tokens))]...)
	c := (&valueReader{written, r.lex}).readNumber(0)
	c.At = Span{i, c.At.Hi + hi - 1}
	return c, true
}

// readArticle reads the one unit of "within an hour", "one day" and "an hour and a half".
func (r *valueReader) readArticle(i int) (Value, bool) {
	c, ok := r.readDuration(Value{Amount: 1000, At: Span{i, i + 1}}, r.skipHyphen(i+1))
	if r.at(i).Value > 0 || ok && c.At.Hi > i+3 && r.lex.fractions[r.at(c.At.Hi-1).Text] == 500 {
		return c, ok
	}
	return c, ok && !r.idle(i)
}

// idle reports whether the article at token i begins a figure of speech, "it takes a minute", or
// counts something: "a second parcel", "on such a day".
func (r *valueReader) idle(i int) bool {
	if r.at(i + 1).Is(Business) {
		return false
	}
	if i > 0 && r.at(i-1).Is(Within) {
		return r.at(i-1).IsWord("in") && r.at(i+1).IsWord("minute", "min", "second", "sec")
	}
	u := r.lex.units[r.at(i+1).Text]
	return u.unit == Seconds && (u.length < 3600 || u.length == SecondsPerDay)
}

// readPart reads "half an hour", "a quarter of an hour", "demi-heure".
func (r *valueReader) readPart(i int, part int64) (Value, bool) {
	j := i + 1
	for j < i+4 && (r.at(j).Is(Articles) || r.at(j).IsWord("of", "de", "d") || r.at(j).Text == "-") {
		j++
	}
	return r.readDuration(Value{Amount: part, At: Span{i, i + 1}}, j)
}

// readMonthDay reads "March 14", "March 14th, 2026".
func (r *valueReader) readMonthDay(i int, month int64) (Value, bool) {
	j := i + 1
	if r.at(j).Text == "the" || r.at(j).Text == "." {
		j++
	}
	day := r.dayAt(j)
	if r.at(j).Kind != NumberToken || day == 0 {
		return Value{}, false
	}
	j++
	if r.at(j).glued && r.at(j).Is(Ordinals) {
		j++
	}
	year, hi := r.readYear(j)
	return Value{Kind: DateValue, Amount: year*10000 + month*100 + day, At: Span{i, hi}}, true
}

// readNumberWords adds up "forty-eight", "one hundred and thirty-seven", "vingt et un". It returns
// the value in thousandths and the token after it.
func (r *valueReader) readNumberWords(i int) (value int64, hi int) {
	value, hi = r.at(i).Value, i+1
	for {
		j := hi
		for j < hi+1 && (r.at(j).Text == "-" || r.at(j).Is(NumberJoins)) {
			j++
		}
		next := r.at(j).Value
		if r.lex.Language == "es" && r.at(j).IsWord("un", "una") {
			next = 1000 // "treinta y un días"; alone it is an article
		}
		if r.at(j).Kind != WordToken || next == 0 {
			break
		}
		sum := r.joinNumbers(value, next)
		if sum == 0 {
			break
		}
		value, hi = sum, j+1
	}
	return value, hi
}

// joinNumbers returns the number of two adjacent number words, or 0.
func (r *valueReader) joinNumbers(value, next int64) int64 {
	tail := value % 100_000
	french := r.lex.Language == "fr"
	switch {
	case next == 100_000 && value < 10_000:
		return value * 100
	case french && tail == 4_000 && next == 20_000:
		return value - tail + 80_000
	case tail == 0 && next < 100_000, tail >= 20_000 && tail%10_000 == 0 && next < 10_000,
		french && (tail == 60_000 || tail == 80_000) && next < 20_000,
		french && tail == 10_000 && next >= 7_000 && next < 10_000: // "dix-sept"
		return value + next
	}
	return 0
}

// inheritUnits gives the first number of a range the unit of the second: "3 to 5 business days",
// "3-5 days".
func (r *valueReader) inheritUnits(claims []Value) []Value {
	for i := 0; i+1 < len(claims); i++ {
		a, b := &claims[i], claims[i+1]
		gap := b.At.Lo - a.At.Hi
		if a.Kind != NumberValue || gap != 1 || b.Kind != DurationValue && b.Kind != PercentValue ||
			!r.at(a.At.Hi).IsWord("to", "or", "bis", "a", "o", "oder", "ou") && r.at(a.At.Hi).Text != "-" {
			continue
		}
		per := r.at(b.At.Lo).Value
		if r.at(b.At.Lo).Kind == WordToken {
			per, _ = r.readNumberWords(b.At.Lo)
		}
		if per != 0 {
			a.Kind, a.Unit, a.Amount = b.Kind, b.Unit, scaleValue(a.Amount, b.Amount, per)
		}
	}
	return claims
}

// scaleValue computes value·total/per, or returns the value if that could overflow.
func scaleValue(value, total, per int64) int64 {
	const bound = 1 << 31
	if value > bound || total/per > bound {
		return value
	}
	return value * (total / per)
}
